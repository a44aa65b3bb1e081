import { HeaderLines } from "./header-lines.ts";

/**
 * Reads the heads of the messages of one connection. They resemble each other: a line that stands where it stood before
 * is known, and only what differs is made into text. The first message is not remembered, since a connection that
 * carries one long answer often carries no second; nor is any credential.
 */
export class HeaderCache {
  private known: CachedHead | null = null;
  private heads = 0;

  constructor(
    readonly headersMax: number,
    /** A length that is said twice, in the same words, is one; or else it is a list, and no length at all. */
    private readonly lengths: "same_length" | "one_length" = "same_length",
  ) {}

  /** The head between two places, with the blank line that ends it; or what is wrong with it. */
  read(bytes: Buffer, start: number, end: number): HeaderLines | string {
    const familiar = this.known === null ? null : likeKnown(this.known, bytes, start, end);
    if (familiar !== null) return familiar;
    const lines: ParsedLine[] = [];
    for (let at = start; at < end - 2;) {
      if (lines.length > this.headersMax) return tooManyHeaders;
      const feed = bytes.indexOf(lineFeed, at);
      const line = lineOf(bytes.toString("latin1", at, feed - 1), feed + 1 - at, lines.length === 0);
      if (line === null || bytes[feed - 1] !== carriageReturn) return malformedLine;
      lines.push(line);
      at = feed + 1;
    }
    this.heads++;
    const head = headOf(lines, this.lengths === "same_length");
    if (typeof head !== "string" && isWorthKnowing(this.heads) && end - start <= knownBytesMax)
      this.known = remembered(bytes, start, end, lines);
    return head;
  }
}

/** Of those that were like no other. Where several kinds take turns, remembering each would cost more than it saves. */
function isWorthKnowing(heads: number): boolean {
  return heads > 1 && (heads <= 8 || heads % 16 === 0);
}

/** A head that has the names of the known one, in the same order; null where it has not. One that is the same in every byte is not made again. */
function likeKnown(
  { lines, head, values: knownValues, bytes: knownBytes, distinct }: CachedHead,
  bytes: Buffer,
  start: number,
  end: number,
): HeaderLines | null {
  if (!distinct) return null;
  const { value: knownFirst, length: firstLength } = lines[0]!;
  const isKnown = isSame(bytes, start, end, knownBytes, 0, firstLength);
  const firstEnd = isKnown ? start + firstLength : bytes.indexOf(lineFeed, start) + 1;
  const first = isKnown ? knownFirst : textIn(bytes, start, firstEnd - 2);
  if (first === null) return null;
  let values: string[] | null = null;
  let at = firstEnd;
  let knownAt = firstLength;
  for (let index = 1; index < lines.length; index++) {
    const before = lines[index]!;
    if (!before.secret && isSame(bytes, at, end, knownBytes, knownAt, before.length)) {
      values?.push(before.value);
      at += before.length;
    } else {
      const from = pastName(bytes, at, before.name);
      const feed = from === 0 ? -1 : bytes.indexOf(lineFeed, from);
      const value = feed < 0 || feed >= end ? null : textIn(bytes, from, feed - 1);
      if (value === null) return null;
      values ??= knownValues.slice(0, index - 1);
      values.push(withoutBlanks(value, 0));
      at = feed + 1;
    }
    knownAt += before.length;
  }
  if (at !== end - 2) return null;
  return isKnown && values === null ? head : new HeaderLines(first, head.names, values ?? knownValues);
}

/** Where the value begins of a line with this name, in whatever case; 0 where it has another name. */
function pastName(bytes: Buffer, at: number, name: string): number {
  for (let index = 0; index < name.length; index++) {
    const byte = bytes[at + index]!;
    const lower = byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte;
    if (lower !== name.charCodeAt(index)) return 0;
  }
  const end = at + name.length;
  if (bytes[end] !== colon) return 0;
  return isBlank(bytes[end + 1]) ? end + 2 : end + 1;
}

/** What stands before the end of a line; null where that is not how a line ends, or where it could be taken for two. */
function textIn(bytes: Buffer, from: number, end: number): string | null {
  if (bytes[end] !== carriageReturn) return null;
  for (let at = from; at < end; at++) if (bytes[at] === carriageReturn || bytes[at] === 0) return null;
  return bytes.toString("latin1", from, end);
}

export const tooManyHeaders = "there are too many headers";
export const malformedLine = "a line of the head is malformed";

interface CachedHead {
  readonly bytes: Buffer;
  readonly lines: readonly ParsedLine[];
  /** Of all lines but the first; without what is secret. */
  readonly values: readonly string[];
  /** What was read in them. Where something is secret, no other head is the same. */
  readonly head: HeaderLines;
  /** No name stands there twice. */
  readonly distinct: boolean;
}

interface ParsedLine {
  /** In lower case; empty for the first line, which is not a header. */
  readonly name: string;
  readonly value: string;
  /** With its line end. */
  readonly length: number;
  readonly secret: boolean;
}

function remembered(bytes: Buffer, start: number, end: number, lines: readonly ParsedLine[]): CachedHead {
  const kept = Buffer.from(bytes.subarray(start, end));
  let at = 0;
  const known = lines.map((line) => {
    if (line.secret) kept.fill(0, at, at + line.length);
    at += line.length;
    return line.secret ? { ...line, value: "" } : line;
  });
  const headers = known.slice(1);
  const names = headers.map(({ name }) => name);
  const values = headers.map(({ value }) => value);
  const head = new HeaderLines(known[0]!.value, names, values);
  return { bytes: kept, lines: known, values, head, distinct: new Set(names).size === names.length };
}

function isSame(bytes: Buffer, at: number, end: number, known: Buffer, knownAt: number, length: number): boolean {
  if (at + length > end) return false;
  for (let index = 0; index < length; index++) if (bytes[at + index] !== known[knownAt + index]) return false;
  return true;
}

function lineOf(text: string, length: number, isFirst: boolean): ParsedLine | null {
  if (unprintable.test(text)) return null;
  if (isFirst) return { name: "", value: text, length, secret: false };
  const colon = text.indexOf(":");
  // A folded line or a space before the colon could hide a header from one reader or the other.
  const name = colon < 1 ? null : lowerName(text.slice(0, colon));
  return name === null ? null : { name, value: withoutBlanks(text, colon + 1), length, secret: secrets.has(name) };
}

/** Whether a line, without its end, may stand behind a body: a header, and none that says where the message or the connection ends. */
export function isTrailer(bytes: Buffer, from: number, end: number): boolean {
  const text = bytes.toString("latin1", from, end);
  const line = lineOf(text, 0, false);
  return line !== null && !controls.test(text) && !ends.has(line.name);
}

/** Some readers obey them wherever they stand. */
const ends: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "connection", "proxy-connection", "upgrade"]);

/** What is forgotten as soon as it was used. */
const secrets: ReadonlySet<string> = new Set(["authorization", "x-api-key", "cookie", "set-cookie", "proxy-authorization"]);

function headOf(lines: readonly ParsedLine[], joinsLengths: boolean): HeaderLines | string {
  const names: string[] = [];
  const values: string[] = [];
  for (let at = 1; at < lines.length; at++) {
    const { name, value } = lines[at]!;
    const before = names.indexOf(name);
    if (before < 0) {
      names.push(name);
      values.push(value);
    } else if (name !== "content-length" || !joinsLengths) values[before] = `${values[before]!}, ${value}`;
    else if (values[before] !== value) return "there are two lengths";
  }
  return new HeaderLines(lines[0]?.value ?? "", names, values);
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
const controls = /[^\t\x20-\x7e\x80-\xff]/;
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
const colon = 0x3a;
const knownBytesMax = 4096;
