/**
 * The headers of the two formats that are nothing but frames, one after another: MPEG audio layer III, which is mp3, and
 * ADTS, which AAC is carried in. Both begin with the same eleven bits, and both say how long their frame is.
 */
export interface FrameHeader {
  readonly format: "mp3" | "aac";
  readonly lengthBytes: number;
  /** What every frame of one stream has in common. */
  readonly signature: number;
}

/** The header at an offset; `more` where its bytes have not all come, `no` where there is none. */
export function frameHeaderAt(bytes: Uint8Array, at: number): FrameHeader | "more" | "no" {
  const [sync, kind, rates, rest] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
  if (sync === undefined) return "more";
  if (sync !== 0xff) return "no";
  if (kind === undefined) return "more";
  if ((kind & 0xf6) === 0xf0) return adtsHeader(bytes, at);
  const layer = (kind >> 1) & 3;
  if ((kind & 0xe0) !== 0xe0 || layer !== layerThree) return "no";
  if (rates === undefined || rest === undefined) return "more";
  return layerThreeHeader(kind, rates, rest);
}

const layerThree = 1;
const mpegOne = 3;
const reservedVersion = 1;
const reservedEmphasis = 2;

function layerThreeHeader(kind: number, rates: number, rest: number): FrameHeader | "no" {
  const version = (kind >> 3) & 3;
  const rateIndex = (rates >> 2) & 3;
  const sampleRate = sampleRates[rateIndex];
  const bitrate = (version === mpegOne ? bitrates : lowerBitrates)[rates >> 4];
  if (version === reservedVersion || sampleRate === undefined || bitrate === undefined || bitrate === 0) return "no";
  if ((rest & 3) === reservedEmphasis) return "no";
  const padding = (rates >> 1) & 1;
  // A frame holds 1152 samples, and half of that at the lower rates.
  const lengthBytes = Math.floor(((version === mpegOne ? 144_000 : 72_000) * bitrate) / (sampleRate / rateDivisors[version]!)) + padding;
  return { format: "mp3", lengthBytes, signature: (version << 2) | rateIndex };
}

/** By version: 2.5, none, 2 and 1. */
const rateDivisors = [4, 1, 2, 1];
const sampleRates = [44_100, 48_000, 32_000];
/** In kilobits. The first would leave the length of a frame unsaid, so it is not recognised. */
const bitrates = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const lowerBitrates = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];

const adtsHeaderBytes = 7;
const adtsRates = 13;

function adtsHeader(bytes: Uint8Array, at: number): FrameHeader | "more" | "no" {
  if (bytes.length - at < adtsHeaderBytes) return "more";
  const profileAndRate = bytes[at + 2]!;
  const rateIndex = (profileAndRate >> 2) & 15;
  const lengthBytes = ((bytes[at + 3]! & 3) << 11) | (bytes[at + 4]! << 3) | (bytes[at + 5]! >> 5);
  if (rateIndex >= adtsRates || lengthBytes <= adtsHeaderBytes) return "no";
  const channels = ((profileAndRate & 1) << 2) | (bytes[at + 3]! >> 6);
  return { format: "aac", lengthBytes, signature: ((profileAndRate >> 2) << 3) | channels };
}
