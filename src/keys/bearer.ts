/** What an `Authorization` header says. Only `token` carries anything on; the others are refused, each in its way. */
export type Bearer =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "missing" }
  /** More than one credential: servers join repeated headers with a comma, and choosing one would be a guess. */
  | { readonly kind: "ambiguous" }
  | { readonly kind: "malformed" };

/** Longer than any key; a header beyond it is not worth hashing. */
export const bearerCharactersMax = 512;

const scheme = "bearer ";

/** Reads the header's value: one scheme, in any case, and one token. */
export function parseBearer(header: string | null): Bearer {
  if (header === null || header === "") return { kind: "missing" };
  if (header.length > bearerCharactersMax) return { kind: "malformed" };
  if (header.includes(",")) return { kind: "ambiguous" };
  if (!hasScheme(header)) return { kind: "malformed" };
  const token = trimSpaces(header.slice(scheme.length));
  return isBearerToken(token) ? { kind: "token", token } : { kind: "malformed" };
}

/** Whether a text can travel as a token: visible ASCII without a comma, and short enough. */
export function isBearerToken(text: string): boolean {
  if (text.length === 0 || text.length > bearerCharactersMax - scheme.length) return false;
  for (let at = 0; at < text.length; at++) {
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

function trimSpaces(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text[start] === " ") start++;
  while (end > start && text[end - 1] === " ") end--;
  return text.slice(start, end);
}
