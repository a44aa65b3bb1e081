/**
 * The format of client keys: `sk-gw_<12 public id>_<43 secret><6 checksum>`, all base62. The prefix lets secret scanners find a
 * leaked key, the public id names it without revealing it, 43 characters hold 256 bits, and the checksum tells a mistyped key from
 * an unknown one without a lookup.
 */
export const tokenPrefix = "sk-gw_";

/** Tokens for the admin API have the same format with another prefix, so that neither API accepts a token of the other. */
export const adminTokenPrefix = "sk-gwa_";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const idLength = 12;
const secretLength = 43;
const checksumLength = 6;
const unprefixedLength = idLength + 1 + secretLength + checksumLength;

export function makeToken(
  randomBytes: (count: number) => Uint8Array,
  prefix = tokenPrefix,
): {
  readonly token: string;
  readonly publicId: string;
} {
  const publicId = randomText(idLength, randomBytes);
  const body = `${prefix}${publicId}_${randomText(secretLength, randomBytes)}`;
  return { token: body + checksum(body), publicId };
}

/** `foreign`: the token was not made by Sluice, but may be an imported key. `damaged`: it was made by Sluice and has a typing error. */
export function parseToken(text: string, prefix = tokenPrefix): { readonly publicId: string } | "foreign" | "damaged" {
  if (!text.startsWith(prefix)) return "foreign";
  if (text.length !== prefix.length + unprefixedLength) return "damaged";
  const idEnd = prefix.length + idLength;
  const publicId = text.slice(prefix.length, idEnd);
  if (text[idEnd] !== "_" || !isBase62(publicId) || !isBase62(text.slice(idEnd + 1))) return "damaged";
  const body = text.slice(0, -checksumLength);
  return checksum(body) === text.slice(-checksumLength) ? { publicId } : "damaged";
}

/** No working source of randomness needs more rounds. */
const roundsMax = 100;

/** Bytes of 248 and more are discarded, because 62 does not divide 256 and the result would not be uniform. */
function randomText(length: number, randomBytes: (count: number) => Uint8Array): string {
  let text = "";
  for (let round = 0; round < roundsMax && text.length < length; round++) {
    for (const byte of randomBytes(length - text.length)) {
      if (byte < 4 * alphabet.length) text += alphabet.charAt(byte % alphabet.length);
    }
  }
  if (text.length < length) throw new Error("The source of random bytes is not random.");
  return text.slice(0, length);
}

function isBase62(text: string): boolean {
  for (const character of text) if (!alphabet.includes(character)) return false;
  return true;
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let digit = 0; digit < checksumLength; digit++) {
    digits = alphabet.charAt(rest % alphabet.length) + digits;
    rest = Math.floor(rest / alphabet.length);
  }
  return digits;
}

/** CRC-32 as in zip and PNG. The text is ASCII, so a character is a byte. */
function crc32(text: string): number {
  let crc = 0xffffffff;
  for (let at = 0; at < text.length; at++) {
    crc ^= text.charCodeAt(at) & 0xff;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}
