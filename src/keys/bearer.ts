/**
 * Why an `Authorization` header has no usable token. `ambiguous`: it has more than one credential, because servers join repeated
 * headers with a comma, and choosing one would be a guess.
 */
export interface BearerProblem {
  readonly kind: "missing" | "ambiguous" | "malformed";
}

/** No key is longer, so that a longer header is rejected without hashing it. */
export const bearerCharactersMax = 512;

const scheme = "bearer ";

/** Reads the token of a header such as `Bearer …`. The scheme is case-insensitive (RFC 9110, 11.1). */
export function parseBearer(header: string | null, charactersMax = bearerCharactersMax): string | BearerProblem {
  if (header === null || header === "") return missing;
  if (header.length > charactersMax) return malformed;
  if (header.includes(",")) return ambiguous;
  if (!hasScheme(header)) return malformed;
  let start = scheme.length;
  let end = header.length;
  while (start < end && header.charCodeAt(start) === space) start++;
  while (end > start && header.charCodeAt(end - 1) === space) end--;
  return isTokenIn(header, start, end, charactersMax) ? header.slice(start, end) : malformed;
}

const missing: BearerProblem = { kind: "missing" };
const ambiguous: BearerProblem = { kind: "ambiguous" };
const malformed: BearerProblem = { kind: "malformed" };
const space = 0x20;

/** Whether a text can be sent as a token: visible ASCII without a comma, and short enough. */
export function isBearerToken(text: string): boolean {
  return isTokenIn(text, 0, text.length, bearerCharactersMax);
}

function isTokenIn(text: string, start: number, end: number, charactersMax: number): boolean {
  if (start === end || end - start > charactersMax - scheme.length) return false;
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f || code === 0x2c) return false;
  }
  return true;
}

/** Compares without allocating a lower-case copy, because every request has this header. */
function hasScheme(header: string): boolean {
  for (let at = 0; at < scheme.length; at++) {
    const code = header.charCodeAt(at);
    const lower = code >= 0x41 && code <= 0x5a ? code | 0x20 : code;
    if (lower !== scheme.charCodeAt(at)) return false;
  }
  return true;
}
