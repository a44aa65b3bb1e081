/**
 * Why an `Authorization` header carries no token; each is refused in its way. Ambiguous is more than one credential: servers
 * join repeated headers with a comma, and choosing one would be a guess.
 */
export interface NoToken {
  readonly kind: "missing" | "ambiguous" | "malformed";
}

/** Longer than any key; a header beyond it is not worth hashing. */
export const bearerCharactersMax = 512;

const scheme = "bearer ";

/** The token in the header's value: one scheme, in any case, and one token. */
export function parseBearer(header: string | null): string | NoToken {
  if (header === null || header === "") return missing;
  if (header.length > bearerCharactersMax) return malformed;
  if (header.includes(",")) return ambiguous;
  if (!hasScheme(header)) return malformed;
  let start = scheme.length;
  let end = header.length;
  while (start < end && header.charCodeAt(start) === space) start++;
  while (end > start && header.charCodeAt(end - 1) === space) end--;
  return isTokenIn(header, start, end) ? header.slice(start, end) : malformed;
}

const missing: NoToken = { kind: "missing" };
const ambiguous: NoToken = { kind: "ambiguous" };
const malformed: NoToken = { kind: "malformed" };
const space = 0x20;

/** Whether a text can travel as a token: visible ASCII without a comma, and short enough. */
export function isBearerToken(text: string): boolean {
  return isTokenIn(text, 0, text.length);
}

function isTokenIn(text: string, start: number, end: number): boolean {
  if (start === end || end - start > bearerCharactersMax - scheme.length) return false;
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code >= 0x7f || code === 0x2c) return false;
  }
  return true;
}

/** In whatever case, and without a text for it: every request has one. */
function hasScheme(header: string): boolean {
  for (let at = 0; at < scheme.length; at++) {
    const code = header.charCodeAt(at);
    const lower = code >= 0x41 && code <= 0x5a ? code | 0x20 : code;
    if (lower !== scheme.charCodeAt(at)) return false;
  }
  return true;
}
