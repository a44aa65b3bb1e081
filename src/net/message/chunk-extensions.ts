import { isBlank } from "./header-cache.ts";

/**
 * Whether the bytes after a chunk's size are valid extensions: any number of `;name`, `;name=value` or `;name="value"` (RFC
 * 9112, 7.1.1).
 */
export function areExtensions(bytes: Uint8Array, from: number, end: number, allowsBlanks: boolean): boolean {
  const past = (at: number): number => (allowsBlanks ? pastBlanks(bytes, at, end) : at);
  let at = past(from);
  while (at < end) {
    if (bytes[at] !== semicolon) return false;
    const name = past(at + 1);
    at = pastToken(bytes, name, end);
    if (at === name) return false;
    at = past(at);
    if (at === end || bytes[at] !== equals) continue;
    const value = past(at + 1);
    at = bytes[value] === quote ? pastQuoted(bytes, value, end) : pastToken(bytes, value, end);
    if (at <= value) return false;
    at = past(at);
  }
  return true;
}

export function pastBlanks(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && isBlank(bytes[at])) at++;
  return at;
}

function pastToken(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && tokenBytes.has(bytes[at]!)) at++;
  return at;
}

/** Returns 0 if the quoted string is not closed, or holds a character that is not allowed in one (RFC 9110, 5.6.4). */
function pastQuoted(bytes: Uint8Array, open: number, end: number): number {
  for (let at = open + 1; at < end; at++) {
    if (bytes[at] === quote) return at + 1;
    if (bytes[at] === backslash) at++;
    if (at < end && !isText(bytes[at]!)) return 0;
  }
  return 0;
}

function isText(byte: number): boolean {
  return byte === tab || (byte >= 0x20 && byte !== 0x7f);
}

const tokenBytes: ReadonlySet<number> = new Set(
  Buffer.from("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
);
const [tab, quote, semicolon, equals, backslash] = [0x09, 0x22, 0x3b, 0x3d, 0x5c];
