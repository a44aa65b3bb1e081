import { lossyBytesPerSecond, mpegBytesPerSecond, plainBytesPerSecond, videoBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt, windowBytes, type ByteWindow } from "./bytes.ts";
import { uint64At } from "../containers/bytes.ts";
import type { StoredFile } from "../stored-file.ts";

/** What the movie header says, or the table of packets where that is longer. The box that holds them may stand behind all of the sound. */
export async function mp4Length(file: StoredFile): Promise<Length | null> {
  let movie: ByteWindow | null = null;
  let at = 0;
  let [mediaBytes, mediaBytesThere] = [0, 0];
  for (let boxes = 0; boxes < boxesMax && at + 8 <= file.length; boxes++) {
    const box = boxAt(await windowAt(file, at, 16), 0);
    if (box === null) break;
    const length = box.lengthBytes ?? file.length - at;
    if (box.name === "moov") movie ??= await windowAt(file, at + box.headBytes, Math.min(length - box.headBytes, windowBytes));
    if (box.name === "mdat") {
      mediaBytes += length;
      mediaBytesThere += Math.min(length, file.length - at);
    }
    at += length;
  }
  if (movie === null) return null;
  const sound = soundIn(movie);
  const seconds = Math.max(movieSeconds(movie) ?? 0, sound.seconds ?? 0);
  if (seconds === 0) return null;
  const share = mediaBytes === 0 ? 1 : mediaBytesThere / mediaBytes;
  // Beyond the boxes that are looked at there are fragments, whose bytes are not counted.
  const soundBytes = at < file.length ? file.length : mediaBytesThere;
  return { seconds: seconds * share, soundBytes, bytesPerSecondMax: sound.bytesPerSecondMax, isCut: at > file.length };
}

/** Movies in fragments have no length in their header, and may have one beside the description of the fragments. */
function movieSeconds(movie: ByteWindow): number | null {
  const header = childIn(movie, "mvhd");
  if (header === null) return null;
  const isLong = header.bytes[0] === 1;
  if (header.bytes.length < (isLong ? 32 : 20)) return null;
  const ticksPerSecond = header.view.getUint32(isLong ? 20 : 12);
  const ticks = ticksAt(header, isLong ? 24 : 16, isLong) ?? fragmentTicks(movie);
  return ticksPerSecond === 0 || ticks === null ? null : ticks / ticksPerSecond;
}

interface Sound {
  /** By the number of its packets, where each has as many samples; null where that cannot be told. */
  readonly seconds: number | null;
  readonly bytesPerSecondMax: number;
}

function soundIn(movie: ByteWindow): Sound {
  let sound: Sound = { seconds: null, bytesPerSecondMax: videoBytesPerSecond };
  for (const track of childrenIn(movie, "trak")) {
    const media = childIn(track, "mdia");
    const handler = media === null ? null : childIn(media, "hdlr");
    if (media === null || handler === null) continue;
    const kind = String.fromCharCode(...handler.bytes.subarray(8, 12));
    if (kind === "vide") return { seconds: sound.seconds, bytesPerSecondMax: videoBytesPerSecond };
    const described = kind === "soun" ? describedIn(media) : null;
    if (described !== null) sound = described;
  }
  return sound;
}

function describedIn(media: ByteWindow): Sound | null {
  const inner = childIn(media, "minf");
  const tables = inner === null ? null : childIn(inner, "stbl");
  const description = tables === null ? null : childIn(tables, "stsd");
  if (tables === null || description === null || description.bytes.length < 44) return null;
  const name = String.fromCharCode(...description.bytes.subarray(12, 16));
  const channels = Math.max(1, description.view.getUint16(32));
  const rate = description.view.getUint32(40) >>> 16;
  const sizes = childIn(tables, "stsz");
  const packets = sizes === null || sizes.bytes.length < 12 ? 0 : sizes.view.getUint32(8);
  if (name === "mp4a") {
    const isTold = rate > 0 && packets > 0 && packets < packetsMax;
    const bytesPerSecondMax = Math.max(mpegBytesPerSecond, channels * lossyBytesPerSecond);
    return { seconds: isTold ? (packets * aacSamples) / rate : null, bytesPerSecondMax };
  }
  return { seconds: null, bytesPerSecondMax: name === "Opus" ? channels * lossyBytesPerSecond : plainBytesPerSecond };
}

/** Of each packet of AAC; those with an extended band have more. */
const aacSamples = 1024;
/** Each stands in the table with four bytes: more than this is no table. */
const packetsMax = 100_000_000;

function fragmentTicks(movie: ByteWindow): number | null {
  const fragments = childIn(movie, "mvex");
  const header = fragments === null ? null : childIn(fragments, "mehd");
  if (header === null) return null;
  const isLong = header.bytes[0] === 1;
  return header.bytes.length < (isLong ? 12 : 8) ? null : ticksAt(header, 4, isLong);
}

/** Zero and the largest number both mean that the length is unknown. */
function ticksAt({ view }: ByteWindow, at: number, isLong: boolean): number | null {
  const ticks = isLong ? uint64At(view, at) : view.getUint32(at);
  return ticks === 0 || ticks >= (isLong ? Number.MAX_SAFE_INTEGER : 0xffff_ffff) ? null : ticks;
}

function childIn(parent: ByteWindow, name: string): ByteWindow | null {
  for (const child of childrenIn(parent, name)) return child;
  return null;
}

function* childrenIn(parent: ByteWindow, name: string): Generator<ByteWindow> {
  let at = 0;
  while (at + 8 <= parent.bytes.length) {
    const box = boxAt(parent, at);
    if (box === null) return;
    const end = at + (box.lengthBytes ?? parent.bytes.length - at);
    if (box.name === name) {
      const bytes = parent.bytes.subarray(at + box.headBytes, end);
      yield { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
    }
    at = end;
  }
}

interface Box {
  readonly name: string;
  readonly headBytes: number;
  /** Null where it goes on to the end. */
  readonly lengthBytes: number | null;
}

/** Null where no box can be: each is at least as long as its own head, so that a walk along them ends. */
function boxAt({ bytes, view }: ByteWindow, at: number): Box | null {
  if (at + 8 > bytes.length) return null;
  const short = view.getUint32(at);
  const name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
  if (short === 0) return { name, headBytes: 8, lengthBytes: null };
  if (short !== 1) return short < 8 ? null : { name, headBytes: 8, lengthBytes: short };
  if (at + 16 > bytes.length) return null;
  const long = uint64At(view, at + 8);
  return long < 16 || long > Number.MAX_SAFE_INTEGER ? null : { name, headBytes: 16, lengthBytes: long };
}

/** Files in fragments have many, but what is looked for stands before those. */
const boxesMax = 32;
