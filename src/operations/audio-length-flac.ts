import { pastTags, says, windowAt, windowBytes } from "./audio-length-bytes.ts";
import { flacHeaderAt } from "./flac-frame.ts";
import type { StoredFile } from "./stored-file.ts";

/** The number of samples that the head says, or where it was written before anybody knew, the end of the last frame. */
export async function flacSeconds(file: StoredFile): Promise<number | null> {
  const at = await pastTags(file);
  const { bytes, view } = await windowAt(file, at, headBytes);
  if (bytes.length < headBytes || !says(bytes, 0, "fLaC") || (bytes[4]! & 0x7f) !== 0) return null;
  const rate = view.getUint32(18) >>> 12;
  if (rate === 0) return null;
  const samples = (bytes[21]! & 15) * 2 ** 32 + view.getUint32(22);
  if (samples > 0) return samples / rate;
  const end = await windowAt(file, Math.max(at + headBytes, file.length - windowBytes), windowBytes);
  const last = lastSample(end.bytes, view.getUint16(8));
  return last === null ? null : last / rate;
}

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
