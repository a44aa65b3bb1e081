import { lossyBytesPerSecond, mpegBytesPerSecond, plainBytesPerSecond, videoBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt, windowBytes } from "./bytes.ts";
import { childrenOf, elementsIn, floatIn, matroskaIds as ids, soundTrackType, textIn, unsignedIn } from "../containers/matroska.ts";
import type { StoredFile } from "../stored-file.ts";

/** What WebM and Matroska say of themselves near their beginning. Recorders that stream say nothing. */
export async function matroskaLength(file: StoredFile): Promise<Length | null> {
  const { bytes } = await windowAt(file, 0, windowBytes);
  const segment = elementsIn(bytes).find(({ id }) => id === ids.segment);
  if (segment === undefined) return null;
  const children = childrenOf(segment.bytes);
  const info = childrenOf(children.get(ids.info));
  const ticks = floatIn(info.get(ids.duration));
  const nanoseconds = info.has(ids.timestampScale) ? unsignedIn(info.get(ids.timestampScale)) : 1_000_000;
  if (ticks === null || !Number.isFinite(ticks)) return null;
  const isCut = segment.announcedEnd > file.length;
  return {
    seconds: ((ticks * nanoseconds) / 1e9) * (isCut ? file.length / segment.announcedEnd : 1),
    soundBytes: file.length,
    bytesPerSecondMax: bytesPerSecondMaxOf(children.get(ids.tracks)),
    isCut,
  };
}

/** By the codec of its sound; more where there is a picture as well, or where the file does not say what it holds. */
function bytesPerSecondMaxOf(tracks: Uint8Array | undefined): number {
  let max = 0;
  for (const { id, bytes } of tracks === undefined ? [] : elementsIn(tracks)) {
    if (id !== ids.trackEntry) continue;
    const track = childrenOf(bytes);
    if (unsignedIn(track.get(ids.trackType)) !== soundTrackType) return videoBytesPerSecond;
    const channels = Math.max(1, unsignedIn(childrenOf(track.get(ids.audio)).get(ids.channels)));
    const isLossy = lossy.test(textIn(track.get(ids.codecId)));
    max += isLossy ? Math.max(mpegBytesPerSecond, channels * lossyBytesPerSecond) : plainBytesPerSecond;
  }
  return max === 0 ? videoBytesPerSecond : max;
}

const lossy = /^A_(OPUS|VORBIS|AAC|MPEG)/;
