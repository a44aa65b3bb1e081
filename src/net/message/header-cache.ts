import { isWhitespace, joinHeaders, parseHeadLines, trimWhitespace, type ParsedLine, type RepeatedLengths } from "./head-parser.ts";
import { HeaderLines } from "./header-lines.ts";

/**
 * Parses the heads of the messages of one connection, and caches the last one. Successive heads resemble each other, so a line
 * that equals the one at the same position in the cached head is not decoded again. The first head of a connection is not
 * cached, because a connection with one long response often carries no second one. Credentials are never cached.
 *
 * It saves 3.2 us of a request and 2.0 us of a response, of some 55 us of CPU for a whole JSON call (see docs/decisions/performance.md).
 */
export class HeaderCache {
  private cached: CachedHead | null = null;
  private misses = 0;

  constructor(
    readonly headersMax: number,
    private readonly repeatedLengths: RepeatedLengths = "same_length",
  ) {}

  /** Parses the head between two positions, including the blank line that ends it. Returns what is wrong as a text. */
  parse(bytes: Buffer, start: number, end: number): HeaderLines | string {
    const hit = this.cached === null ? null : parseLikeCached(this.cached, bytes, start, end);
    if (hit !== null) return hit;
    const lines = parseHeadLines(bytes, start, end, this.headersMax);
    if (typeof lines === "string") return lines;
    this.misses++;
    const head = joinHeaders(lines, this.repeatedLengths);
    if (typeof head !== "string" && isWorthCaching(this.misses) && end - start <= cachedBytesMax)
      this.cached = cacheEntry(bytes, start, end, lines);
    return head;
  }
}

/** Where several kinds of head alternate, caching each of them would cost more than it saves. */
function isWorthCaching(misses: number): boolean {
  return misses > 1 && (misses <= 8 || misses % 16 === 0);
}

/**
 * Parses a head that has the same names in the same order as the cached one; returns null if it has not. If every byte is equal,
 * the cached object is reused.
 */
function parseLikeCached(cached: CachedHead, bytes: Buffer, start: number, end: number): HeaderLines | null {
  const { lines, head, isDistinct } = cached;
  if (!isDistinct) return null;
  const { value: cachedFirst, length: firstLength } = lines[0]!;
  const isSameFirst = areEqual(bytes, start, end, cached.bytes, 0, firstLength);
  const firstEnd = isSameFirst ? start + firstLength : bytes.indexOf(lineFeed, start) + 1;
  const first = isSameFirst ? cachedFirst : decodeLine(bytes, start, firstEnd - 2);
  if (first === null) return null;
  let values: string[] | null = null;
  let at = firstEnd;
  let cachedAt = firstLength;
  for (let index = 1; index < lines.length; index++) {
    const line = lines[index]!;
    if (!line.isCredential && areEqual(bytes, at, end, cached.bytes, cachedAt, line.length)) {
      values?.push(line.value);
      at += line.length;
    } else {
      const from = valueStart(bytes, at, line.name);
      const feed = from === 0 ? -1 : bytes.indexOf(lineFeed, from);
      const value = feed < 0 || feed >= end ? null : decodeLine(bytes, from, feed - 1);
      if (value === null) return null;
      values ??= cached.values.slice(0, index - 1);
      values.push(trimWhitespace(value, 0));
      at = feed + 1;
    }
    cachedAt += line.length;
  }
  if (at !== end - 2) return null;
  return isSameFirst && values === null ? head : new HeaderLines(first, head.names, values ?? cached.values);
}

/** Returns where the value of a line with this name begins, ignoring case; 0 if the line has another name. */
function valueStart(bytes: Buffer, at: number, name: string): number {
  for (let index = 0; index < name.length; index++) {
    const byte = bytes[at + index]!;
    const lower = byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte;
    if (lower !== name.charCodeAt(index)) return 0;
  }
  const end = at + name.length;
  if (bytes[end] !== colon) return 0;
  return isWhitespace(bytes[end + 1]) ? end + 2 : end + 1;
}

/** The text before a line end; null if the line does not end with CR LF, or contains CR or NUL (RFC 9110, 5.5). */
function decodeLine(bytes: Buffer, from: number, end: number): string | null {
  if (bytes[end] !== carriageReturn) return null;
  for (let at = from; at < end; at++) if (bytes[at] === carriageReturn || bytes[at] === 0) return null;
  return bytes.toString("latin1", from, end);
}

interface CachedHead {
  readonly bytes: Buffer;
  readonly lines: readonly CachedLine[];
  /** The values of all lines but the first, without credentials. */
  readonly values: readonly string[];
  /** The parsed head. If it contains a credential, it is never reused as a whole. */
  readonly head: HeaderLines;
  /** No name occurs twice. */
  readonly isDistinct: boolean;
}

interface CachedLine extends ParsedLine {
  /** Its value is not cached. */
  readonly isCredential: boolean;
}

function cacheEntry(bytes: Buffer, start: number, end: number, parsed: readonly ParsedLine[]): CachedHead {
  const copy = Buffer.from(bytes.subarray(start, end));
  let at = 0;
  const lines = parsed.map((line) => {
    const isCredential = credentialFields.has(line.name);
    if (isCredential) copy.fill(0, at, at + line.length);
    at += line.length;
    return { ...line, value: isCredential ? "" : line.value, isCredential };
  });
  const headers = lines.slice(1);
  const names = headers.map(({ name }) => name);
  const values = headers.map(({ value }) => value);
  const head = new HeaderLines(lines[0]!.value, names, values);
  return { bytes: copy, lines, values, head, isDistinct: new Set(names).size === names.length };
}

/** Values that must not stay in memory after they were used. */
const credentialFields: ReadonlySet<string> = new Set([
  "authorization",
  "x-api-key",
  "api-key",
  "x-goog-api-key",
  "cookie",
  "set-cookie",
  "proxy-authorization",
]);

function areEqual(bytes: Buffer, at: number, end: number, cached: Buffer, cachedAt: number, length: number): boolean {
  if (at + length > end) return false;
  for (let index = 0; index < length; index++) if (bytes[at + index] !== cached[cachedAt + index]) return false;
  return true;
}

const lineFeed = 10;
const carriageReturn = 13;
const colon = 0x3a;
const cachedBytesMax = 4096;
