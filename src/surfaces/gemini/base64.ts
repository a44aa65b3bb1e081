/**
 * Bytes are base64 in this API, and the official clients decode them: one that does not get base64 refuses the whole answer. They write
 * either alphabet, that for Python the one of URLs, and leave padding out or not.
 */
export function textToBase64(text: string): string {
  return encoder.encode(text).toBase64();
}

/** Null where it is no base64. */
export function base64ToText(base64: string): string | null {
  try {
    return decoder.decode(Uint8Array.fromBase64(standardBase64(base64)));
  } catch {
    return null;
  }
}

/**
 * The same bytes in the alphabet that all other APIs take, padded. What is no base64 stays as it is, for the upstream to refuse. To decode
 * and encode megabytes is faster than to replace characters of theirs.
 */
export function standardBase64(base64: string): string {
  if (!urlCharacters.test(base64)) return base64;
  try {
    return Uint8Array.fromBase64(base64, { alphabet: "base64url" }).toBase64();
  } catch {
    return base64;
  }
}

/** The two that the alphabets do not share. */
const urlCharacters = /[-_]/;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
