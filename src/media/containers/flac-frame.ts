/** The header of a FLAC frame (RFC 9639, section 9.1). */
export interface FlacHeader {
  readonly lengthBytes: number;
  /** Of the frame, or of its first sample where blocks vary in size. */
  readonly number: number;
  readonly blockSamples: number;
  readonly varies: boolean;
  /** How the channels are written: up to 7 as they are, one less than their number; 8, 9 and 10 as a pair of which one is a difference. */
  readonly channelCode: number;
  /** Of a sample; 0 where the frame leaves that to the head of the stream. */
  readonly bits: number;
}

/** The header of the frame at an offset, which carries a checksum, with something behind it; `more` where it has not all come. */
export function flacHeaderAt(bytes: Uint8Array, at: number): FlacHeader | "no" | "more" {
  const [sync, second, rates, shape, first] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4]];
  if (sync !== undefined && sync !== 0xff) return "no";
  if (second !== undefined && (second & 0xfe) !== 0xf8) return "no";
  if (second === undefined || rates === undefined || shape === undefined || first === undefined) return "more";
  const [sizeCode, rateCode, channelCode, bits] = [rates >> 4, rates & 15, shape >> 4, sampleBits[(shape >> 1) & 7]];
  const numberBytes = first < 0x80 ? 1 : Math.clz32(~(first << 24));
  const isReserved = sizeCode === 0 || rateCode === 15 || channelCode > 10 || bits === undefined || (shape & 1) !== 0;
  if (isReserved || (first >= 0x80 && first < 0xc0) || numberBytes > 7) return "no";
  const sizeAt = at + 4 + numberBytes;
  const checksumAt = sizeAt + blockSizeBytes(sizeCode) + sampleRateBytes(rateCode);
  if (bytes.length <= checksumAt + 1) return "more";
  const number = numberOf(bytes, at + 4, numberBytes);
  if (number === null || checksum(bytes, at, checksumAt) !== bytes[checksumAt]) return "no";
  return {
    lengthBytes: checksumAt + 1 - at,
    number,
    blockSamples: blockSamples(sizeCode, bytes, sizeAt),
    varies: (second & 1) !== 0,
    channelCode,
    bits,
  };
}

/** By the three bits of a header, of which the fourth value is reserved. */
const sampleBits: readonly (number | undefined)[] = [0, 8, 12, undefined, 16, 20, 24, 32];

/** Written in the way of UTF-8, with up to 36 bits; null where it is not. */
function numberOf(bytes: Uint8Array, at: number, length: number): number | null {
  let number = length === 1 ? bytes[at]! : bytes[at]! & (0x7f >> length);
  for (let index = 1; index < length; index++) {
    if (bytes[at + index]! >> 6 !== 2) return null;
    number = number * 64 + (bytes[at + index]! & 0x3f);
  }
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
  let sum = 0;
  for (let at = from; at < to; at++) sum = checksums[sum ^ bytes[at]!]!;
  return sum;
}

/** Of each byte: eight bits, polynomial 07. */
const checksums = Uint8Array.from({ length: 256 }, (_, index) => {
  let sum = index;
  for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ ((sum & 0x80) === 0 ? 0 : 0x107);
  return sum;
});
