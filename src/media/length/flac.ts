import type { Length } from "./bounds.ts";
import { pastTags, windowAt, windowBytes } from "./bytes.ts";
import { hasTextAt } from "../containers/bytes.ts";
import { flacHeaderAt } from "../containers/flac-frame.ts";
import type { StoredFile } from "../stored-file.ts";

/** The end of the last frame. Where that cannot be found, the number of samples that the head says. */
export async function flacLength(file: StoredFile): Promise<Length | null> {
  const at = await pastTags(file);
  const { bytes, view } = await windowAt(file, at, headBytes);
  if (bytes.length < headBytes || !hasTextAt(bytes, 0, "fLaC") || (bytes[4]! & 0x7f) !== 0) return null;
  const rate = view.getUint32(18) >>> 12;
  if (rate === 0) return null;
  const samples = (bytes[21]! & 15) * 2 ** 32 + view.getUint32(22);
  const end = await windowAt(file, Math.max(at + headBytes, file.length - windowBytes), windowBytes);
  const usualSamples = view.getUint16(8);
  const last = lastSample(end.bytes, usualSamples);
  if (last === null && samples === 0) return null;
  const channels = ((bytes[20]! >> 1) & 7) + 1;
  const sampleBytes = Math.ceil(((((bytes[20]! & 1) << 4) | (bytes[21]! >> 4)) + 1) / 8);
  return {
    seconds: (last ?? samples) / rate,
    // A frame that is no smaller than its samples is written as they are.
    soundBytes: await framesFrom(file, at).then((from) => Math.max(0, file.length - from)),
    bytesPerSecondMax: last === null ? rate * channels * sampleBytes * 1.1 : Infinity,
    isCut: last !== null && last + usualSamples < samples,
  };
}

/** Behind the blocks in front of the frames, which may hold pictures. */
async function framesFrom(file: StoredFile, start: number): Promise<number> {
  let at = start + 4;
  for (let blocks = 0; blocks < blocksMax; blocks++) {
    const { bytes } = await windowAt(file, at, 4);
    if (bytes.length < 4) break;
    at += 4 + ((bytes[1]! << 16) | (bytes[2]! << 8) | bytes[3]!);
    if ((bytes[0]! & 0x80) !== 0) break;
  }
  return at;
}

const blocksMax = 16;
/** The mark, the head of the first block, and all of it. */
const headBytes = 42;

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
