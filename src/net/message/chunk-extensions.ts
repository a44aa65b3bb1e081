import { isWhitespace } from "./head-parser.ts";

/**
 * Whether the bytes after a chunk's size are valid extensions: any number of `;name`, `;name=value` or `;name="value"` (RFC
 * 9112, 7.1.1).
 */
export function areChunkExtensions(bytes: Uint8Array, from: number, end: number, allowsWhitespace: boolean): boolean {
  const skip = (at: number): number => (allowsWhitespace ? skipWhitespace(bytes, at, end) : at);
  let at = skip(from);
  while (at < end) {
    if (bytes[at] !== semicolon) return false;
    const name = skip(at + 1);
    at = skipToken(bytes, name, end);
    if (at === name) return false;
    at = skip(at);
    if (at === end || bytes[at] !== equals) continue;
    const value = skip(at + 1);
    at = bytes[value] === quote ? skipQuotedString(bytes, value, end) : skipToken(bytes, value, end);
    if (at <= value) return false;
    at = skip(at);
  }
  return true;
}

export function skipWhitespace(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && isWhitespace(bytes[at])) at++;
  return at;
}

function skipToken(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && tokenBytes.has(bytes[at]!)) at++;
  return at;
}

/** Returns 0 if the quoted string is not closed, or holds a character that is not allowed in one (RFC 9110, 5.6.4). */
function skipQuotedString(bytes: Uint8Array, open: number, end: number): number {
  for (let at = open + 1; at < end; at++) {
    if (bytes[at] === quote) return at + 1;
    if (bytes[at] === backslash) at++;
    if (at < end && !isTextByte(bytes[at]!)) return 0;
  }
  return 0;
}

function isTextByte(byte: number): boolean {
  return byte === tab || (byte >= 0x20 && byte !== 0x7f);
}

const tokenBytes: ReadonlySet<number> = new Set(
  Buffer.from("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
);
const [tab, quote, semicolon, equals, backslash] = [0x09, 0x22, 0x3b, 0x3d, 0x5c];
