import { fourCcAt, viewOf } from "./bytes.ts";
import { chunkAt, chunkHeadBytes, isPlaceholder } from "./chunks.ts";

/** How the samples of a WAV are written: the content of its `fmt ` chunk, which Matroska has as well. */
export interface WaveFormat {
  /** Of the codec. 0xfffe where that stands in an extension which is not there. */
  readonly code: number;
  readonly channels: number;
  readonly sampleRate: number;
  readonly bytesPerSecond: number;
  /** Of one sample of all channels, or of a block of several. */
  readonly blockBytes: number;
  /** Of a sample; 0 where it is not said. */
  readonly bits: number;
}

/** Null where it is cut. */
export function waveFormatIn(content: Uint8Array, littleEndian = true): WaveFormat | null {
  if (content.length < 14) return null;
  const view = viewOf(content);
  const code = view.getUint16(0, littleEndian);
  return {
    code: code === extensibleCode && content.length >= 26 ? view.getUint16(24, littleEndian) : code,
    channels: view.getUint16(2, littleEndian),
    sampleRate: view.getUint32(4, littleEndian),
    bytesPerSecond: view.getUint32(8, littleEndian),
    blockBytes: view.getUint16(12, littleEndian),
    bits: content.length < 16 ? 0 : view.getUint16(14, littleEndian),
  };
}

export const extensibleCode = 0xfffe;

/** RIFF, the form of a WAV, and the name of what it holds. */
export const riffHeadBytes = 12;

/** Where the samples of a WAV begin, and how many bytes of them it announces. */
export interface WavData {
  readonly start: number;
  /** Null where the encoder could not know and wrote a placeholder. */
  readonly lengthBytes: number | null;
  /** Of one sample of all channels. */
  readonly blockBytes: number;
}

/** The `data` chunk of what begins with `RIFF`; `more` where it has not come, or what is wrong. */
export function wavData(bytes: Uint8Array): WavData | "more" | { readonly wrong: string } {
  if (bytes.length < riffHeadBytes) return "more";
  if (fourCcAt(bytes, 8) !== "WAVE") return { wrong: "the answer is a RIFF file, but not WAVE" };
  let blockBytes = 0;
  let at = riffHeadBytes;
  for (let chunk = chunkAt(bytes, at, true); chunk !== null; chunk = chunkAt(bytes, at, true)) {
    const { name, lengthBytes, stepBytes } = chunk;
    const from = at + chunkHeadBytes;
    if (name === "data") {
      if (blockBytes === 0) return { wrong: "the WAV has samples before their format" };
      return { start: from, lengthBytes: isPlaceholder(lengthBytes) ? null : lengthBytes, blockBytes };
    }
    if (name === "fmt ") {
      if (from + formatBytes > bytes.length) return "more";
      const format = waveFormatIn(bytes.subarray(from, from + Math.min(lengthBytes, formatBytes)));
      const isMeaningless = format === null || format.channels === 0 || format.sampleRate === 0 || format.blockBytes === 0;
      if (isMeaningless || lengthBytes < formatBytes) return { wrong: "the WAV has a format without meaning" };
      ({ blockBytes } = format);
    }
    at += stepBytes;
  }
  return "more";
}

const formatBytes = 16;

/** The head of a WAV of 16 bits and one channel whose length is not known yet: all that follows are its samples. */
export function streamedWavHead(sampleRate: number): Uint8Array {
  const head = new Uint8Array(44);
  const view = viewOf(head);
  head.set(ascii.encode("RIFF\0\0\0\0WAVEfmt "));
  head.set(ascii.encode("data"), 36);
  view.setUint32(4, unknownBytes, true);
  view.setUint32(16, formatBytes, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, 2 * sampleRate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  view.setUint32(40, unknownBytes, true);
  return head;
}

const ascii = new TextEncoder();
const unknownBytes = 0xffff_ffff;
