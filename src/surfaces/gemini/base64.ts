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
    return decoder.decode(Uint8Array.fromBase64(base64, { alphabet: /[-_]/.test(base64) ? "base64url" : "base64" }));
  } catch {
    return null;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
