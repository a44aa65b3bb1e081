import { lossyBytesPerSecond, mpegBytesPerSecond, plainBytesPerSecond, videoBytesPerSecond, type Length } from "./bounds.ts";
import { windowAt, windowBytes, type ByteWindow } from "./bytes.ts";
import type { StoredFile } from "../stored-file.ts";

/** What WebM and Matroska say of themselves near their beginning. Recorders that stream say nothing. */
export async function matroskaLength(file: StoredFile): Promise<Length | null> {
  const start = await windowAt(file, 0, windowBytes);
  const segment = childIn(start, { from: 0, to: start.bytes.length }, ids.segment);
  const facts = segment === null ? null : childIn(start, segment, ids.info);
  const duration = facts === null ? null : childIn(start, facts, ids.duration);
  if (segment === null || facts === null || duration === null) return null;
  const ticks = floatIn(start.view, duration);
  const scale = childIn(start, facts, ids.timestampScale);
  const nanoseconds = scale === null ? 1_000_000 : integerIn(start.bytes, scale);
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
    if (type === null || integerIn(start.bytes, type) !== soundType) return videoBytesPerSecond;
    const codec = childIn(start, track, ids.codecId);
    const audio = childIn(start, track, ids.audio);
    const channels = audio === null ? null : childIn(start, audio, ids.channels);
    const name = codec === null ? "" : String.fromCharCode(...start.bytes.subarray(codec.from, Math.min(codec.to, codec.from + 32)));
    const count = Math.max(1, channels === null ? 1 : integerIn(start.bytes, channels));
    max += lossy.test(name) ? Math.max(mpegBytesPerSecond, count * lossyBytesPerSecond) : plainBytesPerSecond;
  }
  return max === 0 ? videoBytesPerSecond : max;
}

const soundType = 2;
const lossy = /^A_(OPUS|VORBIS|AAC|MPEG)/;

const ids = {
  segment: 0x18538067,
  info: 0x1549a966,
  timestampScale: 0x2ad7b1,
  duration: 0x4489,
  cluster: 0x1f43b675,
  tracks: 0x1654ae6b,
  trackEntry: 0xae,
  trackType: 0x83,
  codecId: 0x86,
  audio: 0xe1,
  channels: 0x9f,
} as const;

interface ByteRange {
  readonly from: number;
  readonly to: number;
}

interface EbmlElement extends ByteRange {
  /** Where it says that it ends; zero where it does not. */
  readonly announcedEnd: number;
}

/** The content of the first child of this name. */
function childIn(start: ByteWindow, parent: ByteRange, wanted: number): EbmlElement | null {
  for (const child of childrenIn(start, parent, wanted)) return child;
  return null;
}

/** Behind the first cluster there is only sound. */
function* childrenIn({ bytes }: ByteWindow, parent: ByteRange, wanted: number): Generator<EbmlElement> {
  let at = parent.from;
  while (at < parent.to) {
    const id = numberAt(bytes, at, false);
    const size = id === null ? null : numberAt(bytes, at + id.lengthBytes, true);
    if (id === null || size === null || id.value === ids.cluster) return;
    const from = at + id.lengthBytes + size.lengthBytes;
    const to = size.isUnknown ? parent.to : Math.min(from + size.value, parent.to);
    if (id.value === wanted) yield { from, to, announcedEnd: size.isUnknown ? 0 : from + size.value };
    at = to;
  }
}

interface EbmlNumber {
  readonly value: number;
  readonly lengthBytes: number;
  readonly isUnknown: boolean;
}

/** A number that says with its first bits how many bytes it has. A name keeps those bits, a size does not. */
function numberAt(bytes: Uint8Array, at: number, isSize: boolean): EbmlNumber | null {
  const first = bytes[at];
  if (first === undefined || first === 0) return null;
  const lengthBytes = Math.clz32(first) - 23;
  if (at + lengthBytes > bytes.length || (!isSize && lengthBytes > 4)) return null;
  const mark = 0x80 >> (lengthBytes - 1);
  let value = isSize ? first - mark : first;
  for (let index = 1; index < lengthBytes; index++) value = value * 256 + bytes[at + index]!;
  return { value, lengthBytes, isUnknown: isSize && value >= 2 ** (7 * lengthBytes) - 1 };
}

function floatIn(view: DataView, { from, to }: ByteRange): number | null {
  if (to - from === 4) return view.getFloat32(from);
  return to - from === 8 ? view.getFloat64(from) : null;
}

function integerIn(bytes: Uint8Array, { from, to }: ByteRange): number {
  return bytes.subarray(from, Math.min(to, from + 8)).reduce((sum, byte) => sum * 256 + byte, 0);
}
