import { createHash } from "node:crypto";
import { parse, stringify } from "yaml";

/**
 * Renders Go templates, as far as the templates of our chart go, with the functions of Helm that they use. Anything else is an error.
 * Machines that have Helm check the chart with that as well.
 */
export function renderTemplates(
  sources: Readonly<Record<string, string>>,
  data: Readonly<Record<string, unknown>>,
): Readonly<Record<string, string>> {
  const defined = new Map<string, readonly TemplateNode[]>();
  const bodies = Object.entries(sources).map(([name, text]) => [name, parseTemplate(name, text, defined)] as const);
  const include = (name: string, dot: unknown): string => {
    const body = defined.get(name);
    if (body === undefined) throw new Error(`there is no template ${name}`);
    return write(body, { dot, variables: new Map([["$", dot]]), include });
  };
  return Object.fromEntries(
    bodies
      .filter(([name]) => !name.startsWith("_"))
      .map(([name, body]) => [name, write(body, { dot: data, variables: new Map([["$", data]]), include })]),
  );
}

type TemplateNode =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "print"; readonly words: readonly string[] }
  | { readonly kind: "assign"; readonly variable: string; readonly words: readonly string[] }
  | {
      readonly kind: "if" | "with" | "range";
      readonly words: readonly string[];
      readonly body: TemplateNode[];
      readonly otherwise: TemplateNode[];
    };

interface Scope {
  readonly dot: unknown;
  readonly variables: Map<string, unknown>;
  readonly include: (name: string, dot: unknown) => string;
}

interface OpenBlock {
  readonly nodes: TemplateNode[];
  /** How many `end` it takes: `else if` opens a block of its own. */
  readonly ends: boolean;
  readonly otherwise: TemplateNode[] | null;
}

function parseTemplate(file: string, source: string, defined: Map<string, readonly TemplateNode[]>): readonly TemplateNode[] {
  const body: TemplateNode[] = [];
  const open: OpenBlock[] = [{ nodes: body, ends: false, otherwise: null }];
  const top = (): OpenBlock => open.at(-1) ?? fail(`${file}: an end too many`);
  const begin = (kind: "if" | "with" | "range", words: readonly string[], ends: boolean): void => {
    const node = { kind, words, body: [], otherwise: [] };
    top().nodes.push(node);
    open.push({ nodes: node.body, ends, otherwise: node.otherwise });
  };
  // Text and actions in turn; a dash takes the white space on its side away.
  const pieces = source
    .replaceAll(/\s*\{\{-\s/g, "{{ ")
    .replaceAll(/\s-\}\}\s*/g, " }}")
    .split(/\{\{(.*?)\}\}/s);
  pieces.forEach((piece, at) => {
    if (at % 2 === 0) {
      if (piece !== "") top().nodes.push({ kind: "text", text: piece });
      return;
    }
    const action = piece.trim();
    if (action.startsWith("/*")) return;
    const [first = "", ...rest] = wordsOf(action);
    if (first === "if" || first === "with" || first === "range") return begin(first, rest, true);
    if (first === "define") {
      const nodes: TemplateNode[] = [];
      defined.set(JSON.parse(rest[0] ?? "") as string, nodes);
      open.push({ nodes, ends: true, otherwise: null });
      return;
    }
    if (first === "else") {
      const { otherwise, ends } = open.pop() ?? fail(`${file}: else without if`);
      open.push({ nodes: otherwise ?? fail(`${file}: a second else`), ends, otherwise: null });
      if (rest[0] === "if") begin("if", rest.slice(1), false);
      return;
    }
    if (first === "end") {
      while (!top().ends) open.pop();
      open.pop();
      return;
    }
    if (rest[0] === ":=" || rest[0] === "=") top().nodes.push({ kind: "assign", variable: first, words: rest.slice(1) });
    else top().nodes.push({ kind: "print", words: [first, ...rest] });
  });
  if (open.length !== 1) throw new Error(`${file}: an end is missing`);
  return body;
}

function wordsOf(action: string): readonly string[] {
  const words = action.match(/"(?:[^"\\]|\\.)*"|:=|[=|()]|\$?[\w.]+|\$|[^\s\w]/g) ?? [];
  return words;
}

function write(nodes: readonly TemplateNode[], scope: Scope): string {
  let out = "";
  for (const node of nodes) {
    if (node.kind === "text") out += node.text;
    else if (node.kind === "print") out += printed(pipeline([...node.words], scope));
    else if (node.kind === "assign") scope.variables.set(node.variable, pipeline([...node.words], scope));
    else {
      const value = pipeline([...node.words], scope);
      if (!isTrue(value)) out += write(node.otherwise, scope);
      else if (node.kind === "range") for (const dot of value as readonly unknown[]) out += write(node.body, { ...scope, dot });
      else out += write(node.body, node.kind === "with" ? { ...scope, dot: value } : scope);
    }
  }
  return out;
}

/** Reads words up to the end or a closing parenthesis, which it takes away. */
function pipeline(words: string[], scope: Scope): unknown {
  let piped: readonly unknown[] = [];
  for (;;) {
    const word = words.shift() ?? fail("a value is missing");
    const called = functions.get(word);
    const args: unknown[] = called === undefined ? [operand(word, words, scope)] : [];
    while (words.length > 0 && words[0] !== "|" && words[0] !== ")") args.push(operand(words.shift()!, words, scope));
    if (called === undefined && args.length + piped.length > 1) throw new Error(`${word} is not a function that is known here`);
    piped = [called === undefined ? args[0] : called([...args, ...piped], scope)];
    if (words.shift() !== "|") return piped[0];
  }
}

function operand(word: string, words: string[], scope: Scope): unknown {
  if (word === "(") return pipeline(words, scope);
  if (word.startsWith('"')) return JSON.parse(word);
  if (/^\d+$/.test(word)) return Number(word);
  if (word === "true" || word === "false") return word === "true";
  const [, start = "", path = ""] = /^(\$\w*)?((?:\.\w+)*|\.)$/.exec(word) ?? [];
  if (start === "" && path === "") throw new Error(`${word} is not known here`);
  if (start !== "" && !scope.variables.has(start)) throw new Error(`the variable ${start} is not set`);
  let value = start === "" ? scope.dot : scope.variables.get(start);
  for (const name of path.split(".").filter((part) => part !== "")) {
    if (value === undefined || value === null) throw new Error(`nothing has the field ${name} in ${word}`);
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

type TemplateFunction = (args: readonly unknown[], scope: Scope) => unknown;
type Group = Record<string, unknown>;

const functions: ReadonlyMap<string, TemplateFunction> = new Map<string, TemplateFunction>([
  ["include", ([name, dot], { include }) => include(String(name), dot)],
  ["fail", ([text]) => fail(String(text))],
  ["and", (values) => values.find((value) => !isTrue(value)) ?? values.at(-1)],
  ["or", (values) => values.find(isTrue) ?? values.at(-1)],
  ["not", ([value]) => !isTrue(value)],
  ["eq", ([one, other]) => one === other],
  ["gt", ([one, other]) => Number(one) > Number(other)],
  ["printf", ([format, ...values]) => String(format).replaceAll(/%[sd]/g, () => printed(values.shift()))],
  ["default", ([fallback, value]) => (isTrue(value) ? value : fallback)],
  ["trunc", ([most, text]) => String(text).slice(0, Number(most))],
  ["trimSuffix", ([end, text]) => (String(text).endsWith(String(end)) ? String(text).slice(0, -String(end).length) : text)],
  ["contains", ([part, text]) => String(text).includes(String(part))],
  ["replace", ([from, to, text]) => String(text).replaceAll(String(from), String(to))],
  ["toString", ([value]) => printed(value)],
  ["upper", ([text]) => printed(text).toUpperCase()],
  ["quote", ([value]) => JSON.stringify(printed(value))],
  ["int", ([value]) => Math.trunc(Number(value))],
  ["add", (values) => values.reduce<number>((sum, value) => sum + Number(value), 0)],
  ["dict", (pairs) => Object.fromEntries(pairs.flatMap((key, at) => (at % 2 === 0 ? [[String(key), pairs[at + 1]]] : [])))],
  ["hasKey", ([group, key]) => Object.hasOwn(group as Group, String(key))],
  ["set", ([group, key, value]) => Object.assign(group as Group, { [String(key)]: value })],
  ["pick", ([group, ...keys]) => Object.fromEntries(Object.entries(group as Group).filter(([key]) => keys.includes(key)))],
  ["deepCopy", ([value]) => structuredClone(value)],
  ["mergeOverwrite", ([target, source]) => merged(target as Group, source as Group)],
  ["sha256sum", ([text]) => createHash("sha256").update(String(text)).digest("hex")],
  ["nindent", ([by, text]) => `\n${String(text)}`.replaceAll("\n", `\n${" ".repeat(Number(by))}`)],
  ["fromYaml", ([text]) => parse(String(text), { version: "1.1" }) as unknown],
  ["toYaml", ([value]) => stringify(value, { lineWidth: 0, version: "1.1" }).trimEnd()],
]);

function merged(target: Group, source: Group): Group {
  for (const [name, value] of Object.entries(source)) {
    const before = target[name];
    target[name] = isGroup(before) && isGroup(value) ? merged(before, value) : value;
  }
  return target;
}

function isGroup(value: unknown): value is Group {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What Go's templates take for true. */
function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return isGroup(value) ? Object.keys(value).length > 0 : Boolean(value);
}

function printed(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return String(value);
  throw new Error("a group or a list has no text of its own: use toYaml");
}

function fail(text: string): never {
  throw new Error(text);
}
