import type { Length } from "./bounds.ts";
import { pastTags, windowAt, windowBytes } from "./bytes.ts";
import { hasTextAt } from "../containers/bytes.ts";
import { flacHeaderAt } from "../containers/flac-frame.ts";
import { flacBlockAt, flacBlockHeadBytes, flacMarkBytes, flacStreamInfoAt, streamInfoBytes } from "../containers/flac-metadata.ts";
import type { StoredFile } from "../stored-file.ts";

/** The end of the last frame. Where that cannot be found, the number of samples that the head says. */
export async function flacLength(file: StoredFile): Promise<Length | null> {
  const at = await pastTags(file);
  const { bytes } = await windowAt(file, at, headBytes);
  const first = flacBlockAt(bytes, flacMarkBytes);
  const info = flacStreamInfoAt(bytes, flacMarkBytes + flacBlockHeadBytes);
  if (!hasTextAt(bytes, 0, "fLaC") || first === "more" || info === "more" || !first.isStreamInfo) return null;
  const { blockSamples, sampleRate, channels, bits, totalSamples } = info;
  if (sampleRate === 0) return null;
  const end = await windowAt(file, Math.max(at + headBytes, file.length - windowBytes), windowBytes);
  const last = lastSample(end.bytes, blockSamples);
  if (last === null && totalSamples === 0) return null;
  return {
    seconds: (last ?? totalSamples) / sampleRate,
    // A frame that is no smaller than its samples is written as they are.
    soundBytes: await framesFrom(file, at).then((from) => Math.max(0, file.length - from)),
    bytesPerSecondMax: last === null ? sampleRate * channels * Math.ceil(bits / 8) * 1.1 : Infinity,
    isCut: last !== null && last + blockSamples < totalSamples,
  };
}

/** Behind the blocks in front of the frames, which may hold pictures. */
async function framesFrom(file: StoredFile, start: number): Promise<number> {
  let at = start + flacMarkBytes;
  for (let blocks = 0; blocks < blocksMax; blocks++) {
    const block = flacBlockAt((await windowAt(file, at, flacBlockHeadBytes)).bytes, 0);
    if (block === "more") break;
    at += flacBlockHeadBytes + block.lengthBytes;
    if (block.isLast) break;
  }
  return at;
}

const blocksMax = 16;
/** The mark and the first block. */
const headBytes = flacMarkBytes + flacBlockHeadBytes + streamInfoBytes;

/** Sound can look like the head of a frame, but not like one that goes on where another ends. */
function lastSample(bytes: Uint8Array, usualSamples: number): number | null {
  const frames: { readonly first: number; readonly end: number }[] = [];
  for (let at = 0; at < bytes.length; at++) {
    const header = bytes[at] === 0xff ? flacHeaderAt(bytes, at) : "no";
    if (typeof header === "string") continue;
    const first = header.varies ? header.number : header.number * usualSamples;
    frames.push({ first, end: first + header.blockSamples });
  }
  const ends = new Set(frames.map(({ end }) => end));
  return frames.findLast(({ first }) => first === 0 || ends.has(first))?.end ?? null;
}
