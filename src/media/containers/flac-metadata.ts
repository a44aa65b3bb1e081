import { viewOf } from "./bytes.ts";

/** The head of one of the metadata blocks that stand between the mark `fLaC` and the frames (RFC 9639, section 8). */
export interface FlacBlock {
  readonly isStreamInfo: boolean;
  readonly isLast: boolean;
  /** Of the content behind the head. */
  readonly lengthBytes: number;
}

export const flacBlockHeadBytes = 4;
export const streamInfoBytes = 34;

export function flacBlockAt(bytes: Uint8Array, at: number): FlacBlock | "more" {
  if (bytes.length - at < flacBlockHeadBytes) return "more";
  const head = bytes[at]!;
  const lengthBytes = (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
  return { isStreamInfo: (head & 0x7f) === 0, isLast: head >= 0x80, lengthBytes };
}

/** What the first block says of the stream. */
export interface FlacStreamInfo {
  /** Of the shortest block but the last: of all, where they do not vary. */
  readonly blockSamples: number;
  readonly sampleRate: number;
  readonly channels: number;
  /** Of a sample. */
  readonly bits: number;
  /** 0 where it was not known when it was written. */
  readonly totalSamples: number;
}

/** The content of the block at an offset; `more` where it has not all come. */
export function flacStreamInfoAt(bytes: Uint8Array, at: number): FlacStreamInfo | "more" {
  if (bytes.length - at < streamInfoBytes) return "more";
  const view = viewOf(bytes);
  // Twenty bits of rate, three of channels, five of bits and 36 of samples.
  const [high, low] = [view.getUint32(at + 10), view.getUint32(at + 14)];
  return {
    blockSamples: view.getUint16(at),
    sampleRate: high >>> 12,
    channels: ((high >>> 9) & 7) + 1,
    bits: ((high >>> 4) & 31) + 1,
    totalSamples: (high & 15) * 2 ** 32 + low,
  };
}

/** Where the frames begin behind the metadata, and how many samples that announces; 0 where it does not know. */
export interface FlacBody {
  readonly start: number;
  readonly totalSamples: number;
}

/** The body of what begins with `fLaC`. */
export function flacBody(bytes: Uint8Array): FlacBody | "more" | "no" {
  let at = flacMarkBytes;
  for (let isFirst = true; ; isFirst = false) {
    const block = flacBlockAt(bytes, at);
    if (block === "more") return "more";
    if (isFirst && !(block.isStreamInfo && block.lengthBytes === streamInfoBytes)) return "no";
    at += flacBlockHeadBytes + block.lengthBytes;
    if (block.isLast) break;
  }
  const info = flacStreamInfoAt(bytes, flacMarkBytes + flacBlockHeadBytes);
  return info === "more" ? "more" : { start: at, totalSamples: info.totalSamples };
}

export const flacMarkBytes = 4;
