import { HeaderLines } from "./header-lines.ts";

/**
 * Parses the heads of the messages of one connection, and caches the last one. Successive heads resemble each other, so a line
 * that equals the one at the same position in the cached head is not decoded again. The first head of a connection is not
 * cached, because a connection with one long response often carries no second one. Credentials are never cached.
 */
export class HeaderCache {
  private known: CachedHead | null = null;
  private heads = 0;

  constructor(
    readonly headersMax: number,
    /**
     * Whether repeated, equal Content-Length values count as one ("same_length") or as an invalid list ("one_length"). RFC 9112,
     * 6.3 allows both.
     */
    private readonly lengths: "same_length" | "one_length" = "same_length",
  ) {}

  /** Parses the head between two positions, including the blank line that ends it. Returns what is wrong as a text. */
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

/**
 * Takes the number of heads that missed the cache. Where several kinds of head alternate, caching each of them would cost more
 * than it saves.
 */
function isWorthKnowing(heads: number): boolean {
  return heads > 1 && (heads <= 8 || heads % 16 === 0);
}

/**
 * Reads a head that has the same names in the same order as the cached one; null if it has not. If every byte is equal, the
 * cached object is reused.
 */
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

/** Returns where the value of a line with this name begins, ignoring case; 0 if the line has another name. */
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

/** The text before a line end; null if the line does not end with CR LF, or contains CR or NUL (RFC 9110, 5.5). */
function textIn(bytes: Buffer, from: number, end: number): string | null {
  if (bytes[end] !== carriageReturn) return null;
  for (let at = from; at < end; at++) if (bytes[at] === carriageReturn || bytes[at] === 0) return null;
  return bytes.toString("latin1", from, end);
}

export const tooManyHeaders = "there are too many headers";
export const malformedLine = "a header line is malformed";

interface CachedHead {
  readonly bytes: Buffer;
  readonly lines: readonly ParsedLine[];
  /** The values of all lines but the first, without secrets. */
  readonly values: readonly string[];
  /** The parsed head. If it contains a secret, it is never reused as a whole. */
  readonly head: HeaderLines;
  /** No name occurs twice. */
  readonly distinct: boolean;
}

interface ParsedLine {
  /** In lower case; empty for the first line, which is not a header. */
  readonly name: string;
  readonly value: string;
  /** Including the line end. */
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
  // RFC 9112, 5.1 forbids a space before the colon. Folded lines (5.2) are rejected too: parsers disagree on both, which allows
  // smuggling.
  const name = colon < 1 ? null : lowerName(text.slice(0, colon));
  return name === null ? null : { name, value: withoutBlanks(text, colon + 1), length, secret: secrets.has(name) };
}

/**
 * Whether a line, without its end, is a valid trailer: a header that does not affect framing or the connection (RFC 9110,
 * 6.5.1).
 */
export function isTrailer(bytes: Buffer, from: number, end: number): boolean {
  const text = bytes.toString("latin1", from, end);
  const line = lineOf(text, 0, false);
  return line !== null && !controls.test(text) && !ends.has(line.name);
}

/** Some parsers obey these fields even in a trailer. */
const ends: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "connection", "proxy-connection", "upgrade"]);

/** Values that must not stay in memory after they were used. */
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
    else if (values[before] !== value) return "it has two different Content-Length values";
  }
  return new HeaderLines(lines[0]?.value ?? "", names, values);
}

/** Peers repeat the same names, so a name that was validated is remembered in the spelling it came in. */
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
/** Some parsers take any of these for the end of a line (RFC 9110, 5.5). */
const unprintable = /[\0\r\n]/;

/**
 * Trims spaces and tabs only (OWS, RFC 9110, 5.6.3). JavaScript's `trim` would remove other characters that are part of the
 * value.
 */
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
