import { lossyBytesPerSecond, mpegBytesPerSecond, plainBytesPerSecond, videoBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt, windowBytes, type ByteWindow } from "./bytes.ts";
import { uint64At } from "../containers/bytes.ts";
import { boxesIn, boxHeadAt, boxUnder, soundFormatIn, ticksPerSecond, trackBoxesIn, type Mp4TrackBoxes } from "../containers/mp4-boxes.ts";
import type { StoredFile } from "../stored-file.ts";

/** What the movie header says, or the table of packets where that is longer. The box that holds them may stand behind all of the sound. */
export async function mp4Length(file: StoredFile): Promise<Length | null> {
  let movie: ByteWindow | null = null;
  let at = 0;
  let [mediaBytes, mediaBytesThere] = [0, 0];
  for (let boxes = 0; boxes < boxesMax && at + 8 <= file.length; boxes++) {
    const box = boxHeadAt((await windowAt(file, at, 16)).bytes, 0);
    const length = box?.lengthBytes ?? file.length - at;
    if (box === null || length > Number.MAX_SAFE_INTEGER) break;
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
  const header = boxUnder(movie.bytes, "mvhd");
  if (header === null) return null;
  const isLong = header.bytes[0] === 1;
  if (header.bytes.length < (isLong ? 32 : 20)) return null;
  const ticks = ticksAt(header, isLong ? 24 : 16, isLong) ?? fragmentTicks(movie);
  const perSecond = ticksPerSecond(header);
  return perSecond === 0 || ticks === null ? null : ticks / perSecond;
}

interface Sound {
  /** By the number of its packets, where each has as many samples; null where that cannot be told. */
  readonly seconds: number | null;
  readonly bytesPerSecondMax: number;
}

function soundIn(movie: ByteWindow): Sound {
  let sound: Sound = { seconds: null, bytesPerSecondMax: videoBytesPerSecond };
  for (const { name, bytes } of boxesIn(movie.bytes)) {
    const track = name === "trak" ? trackBoxesIn(bytes) : null;
    if (track?.handler === "vide") return { seconds: sound.seconds, bytesPerSecondMax: videoBytesPerSecond };
    const described = track?.handler === "soun" ? describedIn(track) : null;
    if (described !== null) sound = described;
  }
  return sound;
}

function describedIn({ tables, entry }: Mp4TrackBoxes): Sound | null {
  const format = entry === null ? null : soundFormatIn(entry.bytes);
  if (tables === null || entry === null || format === null) return null;
  const channels = Math.max(1, format.channels);
  const rate = Math.floor(format.sampleRate);
  const sizes = boxUnder(tables, "stsz");
  const packets = sizes === null || sizes.bytes.length < 12 ? 0 : sizes.view.getUint32(8);
  if (entry.name === "mp4a") {
    const isKnown = rate > 0 && packets > 0 && packets < packetsMax;
    const bytesPerSecondMax = Math.max(mpegBytesPerSecond, channels * lossyBytesPerSecond);
    return { seconds: isKnown ? (packets * aacSamples) / rate : null, bytesPerSecondMax };
  }
  return { seconds: null, bytesPerSecondMax: entry.name === "Opus" ? channels * lossyBytesPerSecond : plainBytesPerSecond };
}

/** Of each packet of AAC; those with an extended band have more. */
const aacSamples = 1024;
/** Each stands in the table with four bytes: more than this is no table. */
const packetsMax = 100_000_000;

function fragmentTicks(movie: ByteWindow): number | null {
  const header = boxUnder(movie.bytes, "mvex", "mehd");
  if (header === null) return null;
  const isLong = header.bytes[0] === 1;
  return header.bytes.length < (isLong ? 12 : 8) ? null : ticksAt(header, 4, isLong);
}

/** Zero and the largest number both mean that the length is unknown. */
function ticksAt({ view }: ByteWindow, at: number, isLong: boolean): number | null {
  const ticks = isLong ? uint64At(view, at) : view.getUint32(at);
  return ticks === 0 || ticks >= (isLong ? Number.MAX_SAFE_INTEGER : 0xffff_ffff) ? null : ticks;
}

/** Files in fragments have many, but what is looked for stands before those. */
const boxesMax = 32;
