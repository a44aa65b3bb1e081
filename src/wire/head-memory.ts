import { HeaderLines } from "./header-lines.ts";

/** A head that was read. */
export interface Head {
  /** Without its line end. */
  readonly first: string;
  readonly headers: HeaderLines;
}

/**
 * Reads the heads of the messages of one connection. They resemble each other: what stands where it stood the last time
 * is known, and only the lines that differ are made into text. The first message is not remembered, since most
 * connections that carry one long answer carry no second.
 */
export class HeadMemory {
  private known: Known | null = null;
  private heads = 0;

  constructor(private readonly headersMax: number) {}

  /** The head between two places, with the blank line that ends it; or what is wrong with it. */
  read(bytes: Buffer, start: number, end: number): Head | string {
    const { known } = this;
    if (known !== null && known.bytes.length === end - start && bytes.compare(known.bytes, 0, known.bytes.length, start, end) === 0)
      return known.head;
    const lines = this.linesOf(bytes, start, end - 2);
    if (typeof lines === "string") return lines;
    const head = headOf(lines);
    if (typeof head === "string") return head;
    this.heads++;
    if (this.heads > 1 && end - start <= knownBytesMax) this.known = { bytes: Buffer.from(bytes.subarray(start, end)), lines, head };
    return head;
  }

  private linesOf(bytes: Buffer, start: number, end: number): readonly Line[] | string {
    const lines: Line[] = [];
    let knownAt = 0;
    for (let at = start; at < end;) {
      const known = this.known?.lines[lines.length];
      if (known !== undefined && isSame(bytes, at, end, this.known!.bytes, knownAt, known.length)) {
        lines.push(known);
        at += known.length;
        knownAt += known.length;
        continue;
      }
      if (lines.length > this.headersMax) return tooManyHeaders;
      knownAt += known?.length ?? 0;
      const feed = bytes.indexOf(lineFeed, at);
      const line = lineOf(bytes.toString("latin1", at, feed - 1), feed + 1 - at, lines.length === 0);
      if (line === null || bytes[feed - 1] !== carriageReturn) return malformedLine;
      lines.push(line);
      at = feed + 1;
    }
    return lines;
  }
}

export const tooManyHeaders = "there are too many headers";
export const malformedLine = "a line of the head is malformed";

interface Known {
  readonly bytes: Buffer;
  readonly lines: readonly Line[];
  readonly head: Head;
}

interface Line {
  /** In lower case; empty for the first line, which is not a header. */
  readonly name: string;
  readonly value: string;
  /** With its line end. */
  readonly length: number;
}

function isSame(bytes: Buffer, at: number, end: number, known: Buffer, knownAt: number, length: number): boolean {
  if (at + length > end) return false;
  for (let index = 0; index < length; index++) if (bytes[at + index] !== known[knownAt + index]) return false;
  return true;
}

function lineOf(text: string, length: number, isFirst: boolean): Line | null {
  if (unprintable.test(text)) return null;
  if (isFirst) return { name: "", value: text, length };
  const colon = text.indexOf(":");
  // A folded line or a space before the colon could hide a header from one reader or the other.
  const name = colon < 1 ? null : lowerName(text.slice(0, colon));
  return name === null ? null : { name, value: withoutBlanks(text, colon + 1), length };
}

function headOf(lines: readonly Line[]): Head | string {
  const names: string[] = [];
  const values: string[] = [];
  for (let at = 1; at < lines.length; at++) {
    const { name, value } = lines[at]!;
    const before = names.indexOf(name);
    if (before < 0) {
      names.push(name);
      values.push(value);
    } else if (name !== "content-length") values[before] = `${values[before]!}, ${value}`;
    else if (values[before] !== value) return "there are two lengths";
  }
  return { first: lines[0]?.value ?? "", headers: new HeaderLines(names, values) };
}

/** Peers send the same names over and over: one that was checked is known, in the spelling it came in. */
const knownNames = new Map<string, string>();
const knownNamesMax = 1024;

function lowerName(given: string): string | null {
  const known = knownNames.get(given);
  if (known !== undefined) return known;
  if (!token.test(given)) return null;
  const name = given.toLowerCase();
  if (knownNames.size < knownNamesMax && given.length <= knownNameLengthMax) knownNames.set(given, name);
  return name;
}

const knownNameLengthMax = 64;
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What one reader or the other could take for the end of a line. */
const unprintable = /[\0\r\n]/;

/** Spaces and tabs only: whatever else the language takes for blank is part of the value. */
function withoutBlanks(line: string, from: number): string {
  let start = from;
  let end = line.length;
  while (start < end && isBlank(line.charCodeAt(start))) start++;
  while (end > start && isBlank(line.charCodeAt(end - 1))) end--;
  return line.slice(start, end);
}

export function isBlank(code: number | undefined): boolean {
  return code === 0x20 || code === 0x09;
}

const lineFeed = 10;
const carriageReturn = 13;
const knownBytesMax = 4096;
