import { isJsonObject, type JsonObject } from "../../operations/json.ts";

/**
 * Puts together the arguments of a call that arrive in pieces, each with the path of its value (`$.items[0].name`). The pieces of a string
 * follow one another. Whatever is not understood makes the whole unreadable: arguments with a hole in them must not be acted upon.
 */
export class PartialArguments {
  private readonly root: ArgumentNode = { kind: "object", members: new Map() };
  private count = 0;
  private broken = false;
  private whole: JsonObject | null = null;

  /** The arguments came whole after all. */
  replace(args: JsonObject): void {
    this.whole = args;
  }

  push(pieces: unknown): void {
    if (!Array.isArray(pieces)) return;
    for (const piece of pieces as readonly unknown[]) {
      if (!isJsonObject(piece) || !this.put(piece)) this.broken = true;
    }
  }

  /** Null where a piece could not be placed. */
  json(): string | null {
    if (this.whole !== null) return JSON.stringify(this.whole);
    return this.broken ? null : write(this.root);
  }

  private put(piece: JsonObject): boolean {
    const steps = stepsOf(piece["jsonPath"]);
    if (steps === null || steps.length === 0 || ++this.count > piecesMax) return false;
    let node: ArgumentNode | null = this.root;
    for (const [at, step] of steps.slice(0, -1).entries()) {
      node = child(node, step, typeof steps[at + 1] === "number" ? "array" : "object");
      if (node === null) return false;
    }
    return set(node, steps.at(-1) ?? "", valueOf(piece));
  }
}

/** Far more than any call has. */
const piecesMax = 50_000;
const depthMax = 64;
const itemsMax = 10_000;

type ArgumentNode =
  | { readonly kind: "object"; readonly members: Map<string, ArgumentNode> }
  | { readonly kind: "array"; readonly items: ArgumentNode[] }
  | { readonly kind: "text"; text: string }
  | { readonly kind: "json"; readonly json: string };

/** `$.a.b[0]['c d']`; null where it is none of these. */
function stepsOf(path: unknown): readonly (string | number)[] | null {
  if (typeof path !== "string" || !path.startsWith("$")) return null;
  const steps: (string | number)[] = [];
  const step = /\.([^.[\]]+)|\[(\d{1,5})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/y;
  step.lastIndex = 1;
  while (step.lastIndex < path.length) {
    const found = step.exec(path);
    if (found === null || steps.length >= depthMax) return null;
    const [, name, index, single, double] = found;
    steps.push(index === undefined ? (name ?? (single ?? double ?? "").replace(/\\(.)/g, "$1")) : Number(index));
  }
  return steps;
}

function valueOf(piece: JsonObject): ArgumentNode {
  if (typeof piece["stringValue"] === "string") return { kind: "text", text: piece["stringValue"] };
  for (const key of ["numberValue", "boolValue"]) {
    if (piece[key] !== undefined) return { kind: "json", json: JSON.stringify(piece[key]) };
  }
  return { kind: "json", json: "null" };
}

function child(node: ArgumentNode, step: string | number, kind: "object" | "array"): ArgumentNode | null {
  const made: ArgumentNode = kind === "array" ? { kind, items: [] } : { kind, members: new Map() };
  if (node.kind === "object" && typeof step === "string") {
    const found = node.members.get(step) ?? made;
    node.members.set(step, found);
    return found;
  }
  if (node.kind !== "array" || typeof step !== "number" || step > node.items.length || step >= itemsMax) return null;
  return (node.items[step] ??= made);
}

function set(node: ArgumentNode, step: string | number, value: ArgumentNode): boolean {
  const before =
    node.kind === "object" && typeof step === "string"
      ? node.members.get(step)
      : node.kind === "array" && typeof step === "number" && step <= node.items.length && step < itemsMax
        ? node.items[step]
        : null;
  if (before === null) return false;
  if (before?.kind === "text" && value.kind === "text") {
    before.text += value.text;
    return true;
  }
  if (node.kind === "object" && typeof step === "string") node.members.set(step, value);
  else if (node.kind === "array" && typeof step === "number") node.items[step] = value;
  return true;
}

function write(node: ArgumentNode): string {
  switch (node.kind) {
    case "object":
      return `{${[...node.members].map(([key, value]) => `${JSON.stringify(key)}:${write(value)}`).join(",")}}`;
    case "array":
      return `[${node.items.map(write).join(",")}]`;
    case "text":
      return JSON.stringify(node.text);
    case "json":
      return node.json;
  }
}
