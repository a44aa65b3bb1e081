import { adtsHeaderAt, type AdtsHeader } from "./adts.ts";

/** The header of a frame of MPEG audio (ISO 11172-3 and 13818-3), of which layer III is mp3. */
export interface MpegHeader {
  readonly format: "mp3";
  readonly isMpegOne: boolean;
  readonly layer: 1 | 2 | 3;
  readonly lengthBytes: number;
  readonly sampleRate: number;
  /** How many samples of each channel the frame holds. */
  readonly samples: number;
  readonly isMono: boolean;
  readonly hasReservedEmphasis: boolean;
  /** What every frame of one stream has in common: version, layer and sample rate. */
  readonly signature: number;
}

/** The header at an offset; `more` where its bytes have not all come, `no` where there is none. */
export function mpegHeaderAt(bytes: Uint8Array, at: number): MpegHeader | "more" | "no" {
  const [sync, kind, rates, rest] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
  if (sync !== undefined && sync !== 0xff) return "no";
  if (kind !== undefined && ((kind & 0xe0) !== 0xe0 || layers[(kind >> 1) & 3] === null)) return "no";
  if (kind === undefined || rates === undefined || rest === undefined) return "more";
  const version = (kind >> 3) & 3;
  const layer = layers[(kind >> 1) & 3] ?? 3;
  const isMpegOne = version === 3;
  const sampleRate = sampleRates[version]?.[(rates >> 2) & 3];
  const bitrate = (isMpegOne ? bitrates : lowerBitrates)[layer - 1]![rates >> 4] ?? 0;
  if (sampleRate === undefined || bitrate === 0) return "no";
  const padding = (rates >> 1) & 1;
  const samples = layer === 1 ? 384 : layer === 3 && !isMpegOne ? 576 : 1152;
  // The unit is a slot, which has four bytes in layer I and one in the others.
  const slotBytes = layer === 1 ? 4 : 1;
  return {
    format: "mp3",
    isMpegOne,
    layer,
    lengthBytes: slotBytes * (Math.floor(((samples / 8 / slotBytes) * 1000 * bitrate) / sampleRate) + padding),
    sampleRate,
    samples,
    isMono: rest >> 6 === 3,
    hasReservedEmphasis: (rest & 3) === 2,
    signature: ((kind & 0x1e) << 1) | ((rates >> 2) & 3),
  };
}

/** By the two bits of a header, of which none stands for ADTS. */
const layers = [null, 3, 2, 1] as const;

/** By version: 2.5, which is unofficial, then one that is reserved, 2 and 1. */
const sampleRates: readonly (readonly number[])[] = [[11_025, 12_000, 8000], [], [22_050, 24_000, 16_000], [44_100, 48_000, 32_000]];

/** In kilobits by layer. The first would leave the length of a frame unsaid, so it is not recognised. */
const bitrates: readonly (readonly number[])[] = [
  [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
];
/** The same for the lower sample rates of versions 2 and 2.5. */
const lowBitrates = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
const lowerBitrates = [[0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256], lowBitrates, lowBitrates];

/** The two formats that are nothing but frames, one after another. Both say how long their frame is. */
export type FrameHeader = MpegHeader | AdtsHeader;

/**
 * The header of a frame of mp3 or AAC. Combinations that no MP3 encoder writes are rejected, because audio data can look like a frame
 * header.
 */
export function frameHeaderAt(bytes: Uint8Array, at: number): FrameHeader | "more" | "no" {
  const kind = bytes[at + 1];
  const isLayerThree = kind === undefined || layers[(kind >> 1) & 3] === 3;
  if (!isLayerThree) return adtsHeaderAt(bytes, at);
  const header = mpegHeaderAt(bytes, at);
  return typeof header !== "string" && header.hasReservedEmphasis ? "no" : header;
}
