import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import {
  Composer,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  Parser,
  YAMLParseError,
  type CST,
  type Document as YamlDocument,
  type ErrorCode,
} from "yaml";
import { interpolate, type Environment } from "./interpolate.ts";
import { isGroup } from "./kinds.ts";
import type { Path, Problem } from "./findings/problem.ts";
import { fileSchema } from "./schema.ts";
import { shownPath } from "./findings/shown-path.ts";
import { findSyntaxProblem } from "./findings/syntax-problem.ts";
import { keyOf, lineAt, offsetOf, variablesAt, type AliasTargets } from "./yaml-tree.ts";

/** A configuration as plain values, with variables replaced, that still knows on which line each value is. */
export interface Document {
  readonly value: unknown;
  /** The same with the names of variables, as they are written. */
  readonly unresolved: unknown;
  /** The line of a setting, or of the group around it if the setting is absent. */
  readonly lineOf: (path: Path) => number | null;
  /** The names of the variables that a setting is made of. */
  readonly variablesOf: (path: Path) => readonly string[];
}

/** The settings nest five deep; an alias that refers to itself nests without end. */
const depthMax = 32;
/** Aliases can make a small file expand into a huge one. */
const nodesMax = 1_000_000;
const charactersMax = 16 * 1024 * 1024;
/** An ordinary file of 1 MiB has 450,000. One with more consists of punctuation, and would keep the parser busy for seconds. */
const lexemesMax = 750_000;
/** Enough to see what is wrong; a wrong file should not fill the screen. */
const problemsMax = 20;
/** How long the parser works before it yields to the event loop. */
const sliceMs = 4;

/** Reads a text as YAML, and says what is wrong with it and where. */
export async function readDocument(text: string, environment: Environment): Promise<Document | { readonly problems: readonly Problem[] }> {
  const lines = new LineCounter();
  const lineOf = (offset: number): number => Math.max(1, lines.linePos(offset).line);
  const tokens = await parse(text, lines);
  if (tokens === null) return { problems: [{ line: null, path: "", ...tooManyTokens }] };
  const yaml = compose(text, tokens);
  await yieldToEventLoop();
  if (yaml.errors.length > 0) {
    const bare = yaml.errors.filter(({ pos }) => text.slice(pos[0] - 1, pos[0] + 1) === "${");
    if (bare.length > 0) {
      const faults = bare.map(({ pos }) => ({ line: lineOf(pos[0]), path: "", ...bareVariable }));
      return { problems: distinct(faults).slice(0, problemsMax) };
    }
    return { problems: [{ path: "", ...syntaxProblem(text, yaml.errors, lineOf) }] };
  }

  const problems: Problem[] = [];
  const report = (offset: number | undefined, path: Path, reason: string, fix: string): undefined => {
    const line = offset === undefined ? null : lineOf(offset);
    if (problems.length < problemsMax) problems.push({ line, path: shownPath(fileSchema, path), reason, fix });
    return undefined;
  };
  let nodes = 0;
  let characters = 0;
  const anchors = new Map<string, unknown>();
  /** The texts with variables, by the paths of their values. */
  const templates = new Map<string, string>();
  const targets: AliasTargets = new Map();

  /** An alias refers to the last anchor before it in the file, so anchors are recorded where they are written, not where they expand. */
  const plain = (node: unknown, path: Path, depth: number, expanding: boolean): unknown => {
    if (problems.length >= problemsMax) return undefined;
    const offset = offsetOf(node);
    if (++nodes > nodesMax) return report(offset, [], tooManyValues.reason, tooManyValues.fix);
    if (depth > depthMax) return report(offset, [], "settings are nested too deeply", "check the indentation and the aliases");
    if (isAlias(node)) {
      const target = targets.get(node) ?? anchors.get(node.source);
      if (target === undefined) return report(offset, path, "this alias refers to an anchor that does not exist", aliasFix);
      targets.set(node, target);
      return plain(target, path, depth + 1, true);
    }
    if (!expanding && isNode(node) && node.anchor !== undefined) anchors.set(node.anchor, node);
    if (hasForeignTag(node))
      return report(offset, path, "tags other than YAML's own are not allowed", "remove the word that begins with !");
    if (isScalar(node)) {
      if (typeof node.value !== "string") return node.value;
      characters += node.value.length;
      if (characters > charactersMax) return report(offset, [], tooManyValues.reason, tooManyValues.fix);
      const value = interpolate(node.value, environment);
      if (typeof value !== "string") return report(offset, path, value.reason, value.fix);
      if (value !== node.value) templates.set(JSON.stringify(path), node.value);
      return value;
    }
    if (isSeq(node)) return node.items.map((item, at) => plain(item, [...path, at], depth + 1, expanding));
    if (isMap(node)) {
      const members: Record<string, unknown> = {};
      for (const pair of node.items) {
        const key = keyOf(pair.key);
        const keyOffset = offsetOf(pair.key) ?? offset;
        if (key === null) report(keyOffset, path, "a setting's name must be plain text", "write name: value");
        else if (Object.hasOwn(members, key)) report(keyOffset, [...path, key], "this is set twice", "remove one of the two");
        else members[key] = plain(pair.value, [...path, key], depth + 1, expanding);
      }
      return members;
    }
    return null;
  };

  const value = yaml.contents === null ? {} : plain(yaml.contents, [], 0, false);
  if (problems.length > 0) return { problems: distinct(problems) };
  return {
    value,
    unresolved: templates.size === 0 ? value : withTemplates(value, templates),
    lineOf: (path) => lineAt(yaml.contents, targets, path, lineOf),
    variablesOf: (path) => variablesAt(yaml.contents, targets, path),
  };
}

function withTemplates(value: unknown, templates: ReadonlyMap<string, string>, path: Path = []): unknown {
  if (Array.isArray(value)) return value.map((item, at) => withTemplates(item, templates, [...path, at]));
  if (!isGroup(value)) return templates.get(JSON.stringify(path)) ?? value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withTemplates(item, templates, [...path, name])]));
}

/**
 * Does what `parseDocument` of the yaml package does, but yields to the event loop: lexing and parsing take most of the time of reading a
 * file. Returns null if there are too many lexemes.
 */
async function parse(text: string, lines: LineCounter): Promise<CST.Token[] | null> {
  const parser = new Parser(lines.addNewLine);
  const tokens: CST.Token[] = [];
  let lexemes = 0;
  let sliceEndsMs = performance.now() + sliceMs;
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) tokens.push(token);
    lexemes += 1;
    if (lexemes > lexemesMax) return null;
    if (lexemes % lexemesPerCheck === 0 && performance.now() > sliceEndsMs) {
      await yieldToEventLoop();
      sliceEndsMs = performance.now() + sliceMs;
    }
  }
  tokens.push(...parser.end());
  await yieldToEventLoop();
  return tokens;
}

const lexemesPerCheck = 256;

function compose(text: string, tokens: readonly CST.Token[]): YamlDocument.Parsed {
  // Pretty errors would quote the file, including secrets. `readDocument` checks for unique keys itself, in linear time.
  const composer = new Composer({ prettyErrors: false, uniqueKeys: false, logLevel: "error" });
  const [yaml, second] = composer.compose(tokens, true, text.length);
  if (yaml === undefined) throw new Error("the parser made no document");
  if (second !== undefined) yaml.errors.push(new YAMLParseError([second.range[0], second.range[1]], "MULTIPLE_DOCS", ""));
  return yaml;
}

/** After a syntax error everything that follows looks wrong as well, so only the first is reported. */
function syntaxProblem(text: string, errors: readonly YAMLParseError[], lineOf: (offset: number) => number): Omit<Problem, "path"> {
  const first = errors.reduce((one, other) => (other.pos[0] < one.pos[0] ? other : one));
  const line = lineOf(first.pos[0]);
  const found = findSyntaxProblem(text);
  // An error far below the line where the parser stopped is not what stopped it.
  if (found !== null && found.line <= line + linesBelowMax) return found;
  return { line, ...syntaxFaults[first.code] };
}

/** The parser blames a value over several lines on its first line. */
const linesBelowMax = 3;

/** One error is often reported at several levels. */
function distinct(problems: readonly Problem[]): Problem[] {
  return [...new Map(problems.map((problem) => [`${problem.line} ${problem.path} ${problem.reason}`, problem])).values()];
}

function hasForeignTag(node: unknown): boolean {
  if (typeof node !== "object" || node === null || !("tag" in node)) return false;
  return typeof node.tag === "string" && !/^tag:yaml\.org,2002:(str|int|float|bool|null|map|seq)$/.test(node.tag);
}

const aliasFix = 'give the name of an anchor (&name) above it; for a literal star write "*" in quotes';

const tooManyValues = { reason: "the aliases of this file expand into too many values", fix: "use fewer aliases" };

const tooManyTokens = {
  reason: "the file has more values and punctuation than can be checked",
  fix: "check that it is the right file; keep large numbers of keys and channels in the store",
};

type SyntaxFault = Pick<Problem, "reason" | "fix">;

const indentation: SyntaxFault = {
  reason: "the indentation is wrong, or a bracket is not closed",
  fix: "indent with spaces, the settings of one group equally far, and close every [ and {",
};
const misplaced: SyntaxFault = {
  reason: "this is not YAML",
  fix: "write name: value with a space after the colon, and quote values that contain a colon, # or a bracket",
};
/** Inside [ ] and { } YAML takes the brace of a variable for its own, and everything after it looks wrong. */
const bareVariable: SyntaxFault = {
  reason: "a variable inside [ ] or { } needs quotes",
  fix: 'write it as in ["${NAME}"] or { name: "${NAME}" }',
};
const tags: SyntaxFault = {
  reason: "tags and anchors are misplaced here",
  fix: "remove the words that begin with ! or &",
};

/** Our own message for each error of the parser, because its messages may quote the file. */
const syntaxFaults: { readonly [C in ErrorCode]: SyntaxFault } = {
  ALIAS_PROPS: tags,
  BAD_ALIAS: { reason: "this alias refers to an anchor that does not exist", fix: aliasFix },
  BAD_COLLECTION_TYPE: tags,
  BAD_DIRECTIVE: { reason: "a line that begins with % is not allowed here", fix: "remove it, or quote the value" },
  BAD_DQ_ESCAPE: {
    reason: "a backslash in double quotes is followed by something it cannot escape",
    fix: "use single quotes, or write \\\\ for a backslash",
  },
  BAD_INDENT: indentation,
  BAD_PROP_ORDER: tags,
  BAD_SCALAR_START: { reason: "a value cannot begin with @, ` or %", fix: "put the value in quotes" },
  BLOCK_AS_IMPLICIT_KEY: misplaced,
  BLOCK_IN_FLOW: indentation,
  DUPLICATE_KEY: { reason: "this is set twice", fix: "remove one of the two" },
  IMPOSSIBLE: misplaced,
  KEY_OVER_1024_CHARS: {
    reason: "a setting's name is too long",
    fix: "write name: value with a space after the colon",
  },
  MISSING_CHAR: {
    reason: "something is missing: a colon, a comma, a closing bracket or a closing quote",
    fix: "write name: value with a space after the colon, and close every bracket and quote",
  },
  MULTILINE_IMPLICIT_KEY: misplaced,
  MULTIPLE_ANCHORS: tags,
  MULTIPLE_DOCS: { reason: "the file contains more than one document", fix: "remove the line that reads ---" },
  MULTIPLE_TAGS: tags,
  NON_STRING_KEY: { reason: "a setting's name must be plain text", fix: "write name: value" },
  RESOURCE_EXHAUSTION: { reason: "settings are nested too deeply", fix: "check the brackets and the indentation" },
  TAB_AS_INDENT: { reason: "a tab is used for indentation", fix: "indent with spaces" },
  TAG_RESOLVE_FAILED: tags,
  UNEXPECTED_TOKEN: misplaced,
};
