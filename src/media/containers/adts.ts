/** The header of an ADTS frame, which bare AAC is carried in (ISO 13818-7, section 6.2). */
export interface AdtsHeader {
  readonly format: "aac";
  /** Of the frame with its header. */
  readonly lengthBytes: number;
  readonly sampleRate: number;
  /** How many samples of each channel the frame holds. */
  readonly samples: number;
  /** What every frame of one stream has in common. */
  readonly signature: number;
}

export const adtsHeaderBytes = 7;

/** By the index that ADTS and MP4 write. */
export const aacSampleRates: readonly number[] = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000, 7350,
];

const blockSamples = 1024;

/** Whether a frame may begin here: twelve set bits, and no layer. */
export function hasAdtsMark(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === 0xff && (bytes[at + 1]! & 0xf6) === 0xf0;
}

/** The header at an offset; `more` where its bytes have not all come, `no` where there is none. */
export function adtsHeaderAt(bytes: Uint8Array, at: number): AdtsHeader | "more" | "no" {
  if (at >= bytes.length || (at + 1 === bytes.length && bytes[at] === 0xff)) return "more";
  if (!hasAdtsMark(bytes, at)) return "no";
  if (bytes.length - at < adtsHeaderBytes) return "more";
  const profileAndRate = bytes[at + 2]!;
  const sampleRate = aacSampleRates[(profileAndRate >> 2) & 15];
  const lengthBytes = ((bytes[at + 3]! & 3) << 11) | (bytes[at + 4]! << 3) | (bytes[at + 5]! >> 5);
  if (sampleRate === undefined || lengthBytes <= adtsHeaderBytes) return "no";
  const channels = ((profileAndRate & 1) << 2) | (bytes[at + 3]! >> 6);
  const samples = ((bytes[at + 6]! & 3) + 1) * blockSamples;
  return { format: "aac", lengthBytes, sampleRate, samples, signature: ((profileAndRate >> 2) << 3) | channels };
}
