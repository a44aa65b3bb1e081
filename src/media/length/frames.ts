import { mpegBytesPerSecond, type Length } from "./bounds.ts";
import { pastTags, windowAt, windowBytes, type ByteWindow } from "./bytes.ts";
import { hasTextAt } from "../containers/bytes.ts";
import { frameHeaderAt, type FrameHeader, type MpegHeader } from "../containers/mpeg-frame.ts";
import type { StoredFile } from "../stored-file.ts";

/** As many frames as are found, or an estimate of that; as the first one announces, where that is about the same. */
export async function mp3Length(file: StoredFile): Promise<Length | null> {
  const start = await pastTags(file);
  const first = await windowAt(file, start, windowBytes);
  const at = firstFrame(first.bytes, "mp3");
  const header = at === null ? "no" : frameHeaderAt(first.bytes, at);
  if (at === null || typeof header === "string" || header.format !== "mp3") return null;
  const soundBytes = file.length - start - at;
  const announced = announcedIn(first, at, header);
  const counted = await countFrames(file, start + at, "mp3");
  const isBelieved = announced.frames > counted / countedWrongBy && announced.frames < counted * countedWrongBy;
  const isCut = announced.bytes > soundBytes || (announced.bytes === 0 && (await endsInFrame(file, "mp3")));
  const frames = isBelieved && !isCut ? announced.frames : counted;
  return { seconds: (frames * header.samples) / header.sampleRate, soundBytes, bytesPerSecondMax: mpegBytesPerSecond, isCut };
}

/** Of a file that is counted in samples of it, the count may be wrong by so much. */
const countedWrongBy = 1.5;

/** As many frames as are found, or an estimate of that: no head says how many there are. */
export async function adtsLength(file: StoredFile): Promise<Length | null> {
  const start = await pastTags(file);
  const { bytes } = await windowAt(file, start, windowBytes);
  const at = firstFrame(bytes, "aac");
  const header = at === null ? "no" : frameHeaderAt(bytes, at);
  if (at === null || typeof header === "string") return null;
  return {
    seconds: ((await countFrames(file, start + at, "aac")) * header.samples) / header.sampleRate,
    soundBytes: file.length - start,
    bytesPerSecondMax: Infinity,
    isCut: await endsInFrame(file, "aac"),
  };
}

/** Whether the last frame goes on behind the end of the file. */
async function endsInFrame(file: StoredFile, format: FrameHeader["format"]): Promise<boolean> {
  const { bytes } = await windowAt(file, Math.max(0, file.length - endBytes), endBytes);
  const at = firstFrame(bytes, format);
  if (at === null) return false;
  const { lengthBytes, isCut } = walk(bytes, at, format, Infinity);
  return isCut && at + lengthBytes !== bytes.length;
}

/** Some of the longest frames. */
const endBytes = 16 * 1024;

/** Encoders write the number of frames into a first frame that plays nothing, and some the bytes; zero where this one did not. */
function announcedIn(
  { bytes, view }: ByteWindow,
  at: number,
  { isMpegOne, isMono }: MpegHeader,
): { readonly frames: number; readonly bytes: number } {
  const tagAt = at + 4 + (isMpegOne ? (isMono ? 17 : 32) : isMono ? 9 : 17);
  if (tagAt + 16 <= bytes.length && (hasTextAt(bytes, tagAt, "Xing") || hasTextAt(bytes, tagAt, "Info"))) {
    const flags = bytes[tagAt + 7]! & 3;
    return { frames: (flags & 1) === 0 ? 0 : view.getUint32(tagAt + 8), bytes: flags === 3 ? view.getUint32(tagAt + 12) : 0 };
  }
  const otherAt = at + 36;
  if (otherAt + 18 > bytes.length || !hasTextAt(bytes, otherAt, "VBRI")) return { frames: 0, bytes: 0 };
  return { frames: view.getUint32(otherAt + 14), bytes: view.getUint32(otherAt + 10) };
}

/**
 * All frames, one by one, up to a mebibyte; of a longer file those at its beginning and as many at places all over the rest,
 * of which the mean is taken. Speech begins with silence more often than not, and silence has short frames: so the beginning
 * counts as what it is, and stands for nothing else.
 */
async function countFrames(file: StoredFile, start: number, format: FrameHeader["format"]): Promise<number> {
  const length = file.length - start;
  const step = length > samplesMax * windowBytes ? length / samplesMax : null;
  const first = { frames: 0, lengthBytes: 0 };
  const others = { frames: 0, lengthBytes: 0 };
  let from = start;
  for (let sample = 0; sample < samplesMax && from < file.length; sample++) {
    const { bytes } = await windowAt(file, from, windowBytes);
    const at = firstFrame(bytes, format);
    const walked = at === null ? null : walk(bytes, at, format, Infinity);
    const sum = sample === 0 ? first : others;
    sum.frames += walked?.frames ?? 0;
    sum.lengthBytes += walked?.lengthBytes ?? 0;
    const next = walked === null ? from + windowBytes : from + at! + walked.lengthBytes;
    from = step === null ? next : Math.floor(start + (sample + 1) * step);
  }
  const mean = others.frames === 0 ? first : others;
  const rest = Math.max(0, length - first.lengthBytes);
  return mean.frames === 0 ? 0 : first.frames + (rest * mean.frames) / mean.lengthBytes;
}

const samplesMax = 16;

/** Where frames begin: sound can look like the head of one, but hardly like three in the right places. */
function firstFrame(bytes: Uint8Array, format: FrameHeader["format"]): number | null {
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] !== 0xff) continue;
    const { frames, isCut } = walk(bytes, at, format, 3);
    if (frames === 3 || (frames > 0 && isCut)) return at;
  }
  return null;
}

interface Walked {
  readonly frames: number;
  readonly lengthBytes: number;
  /** The bytes came to an end before anything else did. */
  readonly isCut: boolean;
}

/** Goes along frames of one kind, to the last one that begins here. */
function walk(bytes: Uint8Array, start: number, format: FrameHeader["format"], framesMax: number): Walked {
  let at = start;
  let signature: number | null = null;
  let frames = 0;
  while (frames < framesMax) {
    const header = frameHeaderAt(bytes, at);
    if (header === "more") return { frames, lengthBytes: at - start, isCut: true };
    if (header === "no" || header.format !== format || (signature !== null && header.signature !== signature)) break;
    ({ signature } = header);
    at += header.lengthBytes;
    frames += 1;
  }
  return { frames, lengthBytes: at - start, isCut: false };
}
