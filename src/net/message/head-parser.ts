import { HeaderLines } from "./header-lines.ts";

/** One line of a head. */
export interface ParsedLine {
  /** In lower case; empty for the first line, which is not a header. */
  readonly name: string;
  readonly value: string;
  /** Including the line end. */
  readonly length: number;
}

/** Parses the lines of a head, up to and including the blank line that ends it. Returns what is wrong as a text. */
export function parseHeadLines(bytes: Buffer, start: number, end: number, headersMax: number): readonly ParsedLine[] | string {
  const lines: ParsedLine[] = [];
  for (let at = start; at < end - 2;) {
    if (lines.length > headersMax) return tooManyHeaders;
    const feed = bytes.indexOf(lineFeed, at);
    const line = parseLine(bytes.toString("latin1", at, feed - 1), feed + 1 - at, lines.length === 0);
    if (line === null || bytes[feed - 1] !== carriageReturn) return malformedLine;
    lines.push(line);
    at = feed + 1;
  }
  return lines;
}

/**
 * Whether repeated, equal Content-Length values count as one ("same_length") or as an invalid list ("one_length"). RFC 9112, 6.3
 * allows both.
 */
export type RepeatedLengths = "same_length" | "one_length";

/** Joins the values of repeated headers. Returns what is wrong as a text. */
export function joinHeaders(lines: readonly ParsedLine[], repeatedLengths: RepeatedLengths): HeaderLines | string {
  const names: string[] = [];
  const values: string[] = [];
  for (let at = 1; at < lines.length; at++) {
    const { name, value } = lines[at]!;
    const before = names.indexOf(name);
    if (before < 0) {
      names.push(name);
      values.push(value);
    } else if (name !== "content-length" || repeatedLengths === "one_length") values[before] = `${values[before]!}, ${value}`;
    else if (values[before] !== value) return "it has two different Content-Length values";
  }
  return new HeaderLines(lines[0]?.value ?? "", names, values);
}

/**
 * Whether a line, without its end, is a valid trailer: a header that does not affect framing or the connection (RFC 9110,
 * 6.5.1).
 */
export function isTrailer(bytes: Buffer, from: number, end: number): boolean {
  const text = bytes.toString("latin1", from, end);
  const line = parseLine(text, 0, false);
  return line !== null && !controls.test(text) && !framingFields.has(line.name);
}

/** Some parsers obey these fields even in a trailer. */
const framingFields: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "connection", "proxy-connection", "upgrade"]);

function parseLine(text: string, length: number, isFirst: boolean): ParsedLine | null {
  if (lineBreaks.test(text)) return null;
  if (isFirst) return { name: "", value: text, length };
  const colon = text.indexOf(":");
  // RFC 9112, 5.1 forbids a space before the colon. Folded lines (5.2) are rejected too: parsers disagree on both, which allows
  // smuggling.
  const name = colon < 1 ? "" : text.slice(0, colon);
  return token.test(name) ? { name: name.toLowerCase(), value: trimWhitespace(text, colon + 1), length } : null;
}

/**
 * Trims spaces and tabs only (OWS, RFC 9110, 5.6.3). JavaScript's `trim` would remove other characters that are part of the
 * value.
 */
export function trimWhitespace(line: string, from: number): string {
  let start = from;
  let end = line.length;
  while (start < end && isWhitespace(line.charCodeAt(start))) start++;
  while (end > start && isWhitespace(line.charCodeAt(end - 1))) end--;
  return line.slice(start, end);
}

export function isWhitespace(code: number | undefined): boolean {
  return code === 0x20 || code === 0x09;
}

export const tooManyHeaders = "there are too many headers";
export const malformedLine = "a header line is malformed";

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const controls = /[^\t\x20-\x7e\x80-\xff]/;
/** Some parsers take any of these for the end of a line (RFC 9110, 5.5). */
const lineBreaks = /[\0\r\n]/;
const lineFeed = 10;
const carriageReturn = 13;
