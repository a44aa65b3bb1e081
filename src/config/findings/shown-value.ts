/**
 * A value as a message may quote it, or null if it must not be quoted. Any value may be a secret that ended up in the wrong place, so only
 * short values that look like a word, a number or an address are shown.
 */
export function shownValue(value: unknown): string | null {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "string" || value === "" || value.length > charactersMax) return null;
  return plain.test(value) && !secretive.test(value) ? JSON.stringify(value) : null;
}

/** The subject of a sentence about a value. */
export function subject(value: unknown): string {
  return shownValue(value) ?? "this";
}

const charactersMax = 48;
const plain = /^[\w .,:;/+*()[\]<>!-]+$/;
/** A long run of letters and digits, a shorter one that mixes both, or the beginning of what is known to be a key. */
const secretive =
  /[\w+-]{16}|(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]{8}|^(?:[a-z]{2,3}[-_]|(?:key|bearer|basic|token)(?![a-z]))|secret|passw/i;
