import { type JsonKind, type JsonMember, pastSpace } from "./json.ts";

/**
 * The members of a JSON object, found by its brackets and strings alone: numbers and names are not looked at, and which bracket closes
 * which is not checked. This takes a tenth of the time of a scan, for answers with millions of numbers that are passed on and not used.
 * Returns null if the document is no object, is not complete, or has far more members than any answer.
 */
export function skimObject(bytes: Uint8Array): readonly JsonMember[] | null {
  const open = pastSpace(bytes, 0);
  if (bytes[open] !== brace) return null;
  const members: JsonMember[] = [];
  let depth = 0;
  let key: { readonly text: string; readonly keyStart: number; readonly start: number } | null = null;
  for (let at = open; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte < bracket && byte !== quote && (byte !== comma || depth > 1)) continue;
    if (byte === quote) {
      const end = stringEnd(bytes, at);
      if (end < 0) return null;
      const colonAt: number = depth === 1 && key === null ? pastSpace(bytes, end) : -1;
      if (colonAt >= 0 && bytes[colonAt] === colon) {
        const text = textOf(bytes.subarray(at, end));
        if (text === null) return null;
        key = { text, keyStart: at, start: pastSpace(bytes, colonAt + 1) };
        at = colonAt;
      } else {
        at = end - 1;
      }
    } else if (byte === brace || byte === bracket) {
      depth++;
    } else if (byte === comma || byte === braceEnd || byte === bracketEnd) {
      if (depth === 1 && key !== null) {
        const member = memberOf(bytes, key, at);
        if (member === null) return null;
        members.push(member);
        if (members.length > membersMax) return null;
        key = null;
      }
      if (byte !== comma) depth--;
      if (depth === 0) return byte === braceEnd && pastSpace(bytes, at + 1) === bytes.length ? members : null;
    }
  }
  return null;
}

const membersMax = 1000;

/** The number of elements of an array in a document that was scanned or skimmed before. */
export function countElements(bytes: Uint8Array, { start, end, empty }: JsonMember): number {
  let depth = 0;
  let commas = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === quote) at = stringEnd(bytes, at) - 1;
    else if (byte === brace || byte === bracket) depth++;
    else if (byte === braceEnd || byte === bracketEnd) depth--;
    else if (byte === comma && depth === 1) commas++;
  }
  return empty ? 0 : commas + 1;
}

/** The offset past the closing quote; -1 if there is none. */
function stringEnd(bytes: Uint8Array, open: number): number {
  for (let at = bytes.indexOf(quote, open + 1); at >= 0; at = bytes.indexOf(quote, at + 1)) {
    let backslashes = 0;
    while (bytes[at - 1 - backslashes] === backslash) backslashes++;
    if (backslashes % 2 === 0) return at + 1;
  }
  return -1;
}

function memberOf(
  bytes: Uint8Array,
  { text, keyStart, start }: { readonly text: string; readonly keyStart: number; readonly start: number },
  limit: number,
): JsonMember | null {
  let end = limit;
  while (end > start && isSpace(bytes[end - 1]!)) end--;
  if (end === start) return null;
  const kind = kindOf(bytes[start]!);
  const empty = (kind === "object" || kind === "array") && pastSpace(bytes, start + 1) === end - 1;
  return { key: text, keyStart, start, end, kind, empty };
}

function kindOf(byte: number): JsonKind {
  return byNames[String.fromCharCode(byte)] ?? "number";
}

const byNames: Readonly<Record<string, JsonKind>> = { "{": "object", "[": "array", '"': "string", t: "true", f: "false", n: "null" };

function textOf(json: Uint8Array): string | null {
  try {
    return JSON.parse(decoder.decode(json)) as string;
  } catch {
    return null;
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

const decoder = new TextDecoder();
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const bracket = 0x5b;
const backslash = 0x5c;
const bracketEnd = 0x5d;
const brace = 0x7b;
const braceEnd = 0x7d;
