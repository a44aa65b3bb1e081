import { fourCcAt, viewOf } from "./bytes.ts";

/** How the samples of an AIFF file are written: the content of its `COMM` chunk. */
export interface AiffFormat {
  readonly channels: number;
  /** Of a sample. */
  readonly bits: number;
  readonly sampleRate: number;
  /** The codec that AIFF-C names; null where nothing stands there. */
  readonly packing: string | null;
}

/** Null where it is cut. */
export function aiffFormatIn(content: Uint8Array): AiffFormat | null {
  if (content.length < 18) return null;
  const view = viewOf(content);
  return {
    channels: view.getInt16(0),
    bits: view.getInt16(6),
    sampleRate: extendedAt(view, 8),
    packing: content.length < 22 ? null : fourCcAt(content, 18),
  };
}

/** A number of 80 bits: a sign and fifteen bits of exponent, then 64 of which the first is the whole part. */
function extendedAt(view: DataView, at: number): number {
  const exponent = (view.getUint16(at) & 0x7fff) - 16_383;
  return (view.getUint32(at + 2) / 2 ** 31 + view.getUint32(at + 6) / 2 ** 63) * 2 ** exponent;
}
