interface MpegHeader {
  readonly bytes: number;
  /** What stays the same from frame to frame: version, layer and rate. */
  readonly kind: number;
}

const low = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
/** Thousands of bits in a second, by version (1 first, then 2) and layer. */
const bitrates: readonly (readonly (readonly number[])[])[] = [
  [
    Array.from({ length: 14 }, (_, index) => 32 * (index + 1)),
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  ],
  [[32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256], low, low],
];
const rates = [44_100, 48_000, 32_000];

/**
 * Where MPEG audio begins: at a frame that another one of its kind follows, for the mark alone occurs in any noise. With `ended`
 * a frame that ends with the bytes will do. -1 where there is none, or not yet.
 */
export function findMpegFrame(bytes: Uint8Array, ended: boolean): number {
  for (let at = bytes.indexOf(0xff); at >= 0; at = bytes.indexOf(0xff, at + 1)) {
    const header = headerAt(bytes, at);
    if (header === null) continue;
    const next = at + header.bytes;
    if (headerAt(bytes, next)?.kind === header.kind || (ended && next === bytes.length)) return at;
  }
  return -1;
}

function headerAt(bytes: Uint8Array, at: number): MpegHeader | null {
  if (at + 4 > bytes.length) return null;
  const second = bytes[at + 1]!;
  const third = bytes[at + 2]!;
  if (bytes[at] !== 0xff || (second & 0xe0) !== 0xe0) return null;
  const version = (second >> 3) & 3;
  const layer = 4 - ((second >> 1) & 3);
  const rate = rates[(third >> 2) & 3];
  const bitrate = bitrates[version === 3 ? 0 : 1]?.[layer - 1]?.[(third >> 4) - 1];
  if (version === 1 || rate === undefined || bitrate === undefined) return null;
  const sampleRate = version === 3 ? rate : version === 2 ? rate / 2 : rate / 4;
  const padding = (third >> 1) & 1;
  const kind = (second & 0x1e) * 4 + ((third >> 2) & 3);
  if (layer === 1) return { bytes: (Math.floor((12_000 * bitrate) / sampleRate) + padding) * 4, kind };
  return { bytes: Math.floor(((layer === 3 && version !== 3 ? 72_000 : 144_000) * bitrate) / sampleRate) + padding, kind };
}
