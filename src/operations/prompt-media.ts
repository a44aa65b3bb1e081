/** A string of a document, from its opening quote to its closing one, that holds base64. */
export interface Base64String {
  readonly open: number;
  readonly close: number;
}

/**
 * The long strings of base64 in a part of a document: images, files and sound, whose bytes say little about tokens. To look for them by
 * their structure would take several passes over what is mostly one image. A few bytes here and there tell as well: hardly any text goes on
 * for long without a space or a quote.
 */
export function base64In(body: Uint8Array, start: number, end: number): readonly Base64String[] {
  // Most prompts are shorter than anything that is looked for.
  if (start + stepBytes + sampleBytes >= end) return none;
  const found: Base64String[] = [];
  for (let at = start + stepBytes; at + sampleBytes < end; at += stepBytes) {
    if (!isBase64(body, at)) continue;
    const open = body.lastIndexOf(quote, at);
    const close = body.indexOf(quote, at);
    // The digits of a number look the same, and no quote need follow them.
    if (close === -1 || close >= end) break;
    found.push({ open, close });
    at = close;
  }
  return found;
}

function isBase64(body: Uint8Array, from: number): boolean {
  for (let at = from; at < from + sampleBytes; at++) if (base64[body[at]!] !== 1) return false;
  return true;
}

/** What a large image costs at most; larger ones are scaled down to that. */
export const imageTokens = 1600;
/** A page of a PDF has some 2,000 tokens, and some 60 KiB. */
export const fileBytesPerToken = 32;

const none: readonly Base64String[] = [];
/** Whatever is longer than two steps is found. */
const stepBytes = 2048;
const sampleBytes = 64;
const quote = 0x22;

/** With the backslash, because some languages escape slashes in JSON. */
const base64 = new Uint8Array(256);
for (const character of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\") base64[character.charCodeAt(0)] = 1;
