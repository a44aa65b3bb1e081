/** The header of a FLAC frame, as far as it says which samples the frame holds. */
export interface FlacHeader {
  /** Of the frame, or of its first sample where blocks vary in size. */
  readonly number: number;
  readonly blockSamples: number;
  readonly varies: boolean;
}

/** The header of the frame at an offset, which carries a checksum, with something behind it; `more` where it has not all come. */
export function flacHeaderAt(bytes: Uint8Array, at: number): FlacHeader | "no" | "more" {
  const [sync, second, rates, shape, first] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4]];
  if (sync !== undefined && sync !== 0xff) return "no";
  if (second !== undefined && (second & 0xfe) !== 0xf8) return "no";
  if (second === undefined || rates === undefined || shape === undefined || first === undefined) return "more";
  const numberBytes = Math.max(Math.clz32(~(first << 24)), 1);
  const isReserved = rates >> 4 === 0 || (rates & 15) === 15 || (shape & 1) !== 0 || numberBytes > 7;
  if (isReserved) return "no";
  const sizeAt = at + 4 + numberBytes;
  const checksumAt = sizeAt + blockSizeBytes(rates >> 4) + sampleRateBytes(rates & 15);
  if (bytes.length <= checksumAt + 1) return "more";
  if (checksum(bytes, at, checksumAt) !== bytes[checksumAt]) return "no";
  return {
    number: numberOf(bytes, at + 4, numberBytes),
    blockSamples: blockSamples(rates >> 4, bytes, sizeAt),
    varies: (second & 1) !== 0,
  };
}

/** Where the frames begin behind the facts of the stream, and how many samples those announce; 0 where they do not know. */
export interface FlacBody {
  readonly start: number;
  readonly totalSamples: number;
}

/** The body of what begins with `fLaC`. */
export function flacBody(bytes: Uint8Array): FlacBody | "more" | "no" {
  let at = 4;
  for (let isFirst = true; ; isFirst = false) {
    if (bytes.length - at < 4) return "more";
    const head = bytes[at]!;
    const length = (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    if (isFirst && ((head & 0x7f) !== 0 || length !== factsBytes)) return "no";
    at += 4 + length;
    if (head >= 0x80) break;
  }
  if (bytes.length < totalAt + 5) return "more";
  const low = new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getUint32(totalAt + 1);
  return { start: at, totalSamples: (bytes[totalAt]! & 15) * 2 ** 32 + low };
}

const factsBytes = 34;
/** Behind the mark, the head of the facts, and what they say of blocks, frames, rate and shape. */
const totalAt = 4 + 4 + 13;

/** Written in the way of UTF-8, with up to 36 bits. */
function numberOf(bytes: Uint8Array, at: number, length: number): number {
  let number = length === 1 ? bytes[at]! : bytes[at]! & (0x7f >> length);
  for (let index = 1; index < length; index++) number = number * 64 + (bytes[at + index]! & 0x3f);
  return number;
}

function blockSamples(code: number, bytes: Uint8Array, at: number): number {
  if (code === 1) return 192;
  if (code < 6) return 144 << code;
  if (code === 6) return bytes[at]! + 1;
  if (code === 7) return bytes[at]! * 256 + bytes[at + 1]! + 1;
  return 1 << code;
}

/** How many bytes of the header say what a code of four bits cannot. */
function blockSizeBytes(code: number): number {
  if (code === 6) return 1;
  return code === 7 ? 2 : 0;
}

function sampleRateBytes(code: number): number {
  if (code === 12) return 1;
  return code === 13 || code === 14 ? 2 : 0;
}

function checksum(bytes: Uint8Array, from: number, to: number): number {
  let rest = 0;
  for (let at = from; at < to; at++) {
    rest ^= bytes[at]!;
    for (let bit = 0; bit < 8; bit++) rest = ((rest << 1) ^ (rest & 0x80 ? 0x07 : 0)) & 0xff;
  }
  return rest;
}
