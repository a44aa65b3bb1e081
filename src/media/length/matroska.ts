import { lossyBytesPerSecond, mpegBytesPerSecond, plainBytesPerSecond, videoBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt, windowBytes, type ByteWindow } from "./bytes.ts";
import { elementAt, floatIn, matroskaIds as ids, soundTrackType, textIn, unsignedIn } from "../containers/matroska.ts";
import type { StoredFile } from "../stored-file.ts";

/** What WebM and Matroska say of themselves near their beginning. Recorders that stream say nothing. */
export async function matroskaLength(file: StoredFile): Promise<Length | null> {
  const start = await windowAt(file, 0, windowBytes);
  const segment = childIn(start, { from: 0, to: start.bytes.length }, ids.segment);
  const facts = segment === null ? null : childIn(start, segment, ids.info);
  const duration = facts === null ? null : childIn(start, facts, ids.duration);
  if (segment === null || facts === null || duration === null) return null;
  const ticks = floatIn(contentOf(start, duration));
  const scale = childIn(start, facts, ids.timestampScale);
  const nanoseconds = scale === null ? 1_000_000 : unsignedIn(contentOf(start, scale));
  if (ticks === null || !Number.isFinite(ticks)) return null;
  const isCut = segment.announcedEnd > file.length;
  return {
    seconds: ((ticks * nanoseconds) / 1e9) * (isCut ? file.length / segment.announcedEnd : 1),
    soundBytes: file.length,
    bytesPerSecondMax: bytesPerSecondMaxOf(start, segment),
    isCut,
  };
}

/** By the codec of its sound; more where there is a picture as well, or where the file does not say what it holds. */
function bytesPerSecondMaxOf(start: ByteWindow, segment: ByteRange): number {
  const tracks = childIn(start, segment, ids.tracks);
  let max = 0;
  for (const track of tracks === null ? [] : childrenIn(start, tracks, ids.trackEntry)) {
    const type = childIn(start, track, ids.trackType);
    if (type === null || unsignedIn(contentOf(start, type)) !== soundTrackType) return videoBytesPerSecond;
    const codec = childIn(start, track, ids.codecId);
    const audio = childIn(start, track, ids.audio);
    const channels = audio === null ? null : childIn(start, audio, ids.channels);
    const name = codec === null ? "" : textIn(contentOf(start, codec));
    const count = Math.max(1, channels === null ? 1 : unsignedIn(contentOf(start, channels)));
    max += lossy.test(name) ? Math.max(mpegBytesPerSecond, count * lossyBytesPerSecond) : plainBytesPerSecond;
  }
  return max === 0 ? videoBytesPerSecond : max;
}

const lossy = /^A_(OPUS|VORBIS|AAC|MPEG)/;

interface ByteRange {
  readonly from: number;
  readonly to: number;
}

interface Child extends ByteRange {
  /** Where it says that it ends; zero where it does not. */
  readonly announcedEnd: number;
}

/** The content of the first child of this name. */
function childIn(start: ByteWindow, parent: ByteRange, wanted: number): Child | null {
  for (const child of childrenIn(start, parent, wanted)) return child;
  return null;
}

/** Behind the first cluster there is only sound. */
function* childrenIn({ bytes }: ByteWindow, parent: ByteRange, wanted: number): Generator<Child> {
  for (let at = parent.from; at < parent.to;) {
    const element = elementAt(bytes, at);
    if (element === null || element.id === ids.cluster) return;
    const { id, from, lengthBytes } = element;
    const to = lengthBytes === null ? parent.to : Math.min(from + lengthBytes, parent.to);
    if (id === wanted) yield { from, to, announcedEnd: lengthBytes === null ? 0 : from + lengthBytes };
    at = to;
  }
}

function contentOf({ bytes }: ByteWindow, { from, to }: ByteRange): Uint8Array {
  return bytes.subarray(from, to);
}
