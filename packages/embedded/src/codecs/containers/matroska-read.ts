import { readWaveFormat } from "../wav/wav-decode.ts";
import { joinBytes, noBytes } from "../bytes.ts";
import {
  childrenOf,
  ebmlNumberAt,
  elementsIn,
  floatIn,
  matroskaIds as ids,
  soundTrackType,
  textIn,
  unsignedIn,
} from "../../../../../src/media/containers/matroska.ts";
import type { SampleFormat } from "../wav/sample-formats.ts";
import { type TrackCoding, type DemuxedTrack } from "./demuxed-track.ts";

/** The first sound of a WebM or Matroska file. Null where there is none. */
export function readMatroska(source: Uint8Array): DemuxedTrack | null {
  const track = soundTrack(source);
  if (track === null) return null;
  const packets = (): Generator<Uint8Array> => blocksOf(source, track);
  return { coding: track.coding, leadSeconds: 0, playSeconds: Infinity, packets: { [Symbol.iterator]: packets } };
}

interface MatroskaTrack {
  readonly number: number;
  readonly coding: TrackCoding;
  /** What was taken away from the front of each packet, where that is always the same. */
  readonly stripped: Uint8Array;
}

function soundTrack(source: Uint8Array): MatroskaTrack | null {
  for (const { id, bytes } of elementsIn(source, trackMasters)) {
    // The tracks come before the sound.
    if (id === ids.cluster) return null;
    if (id !== ids.trackEntry) continue;
    const facts = childrenOf(bytes);
    if (unsignedIn(facts.get(ids.trackType)) !== soundTrackType) continue;
    const stripped = strippedBy(facts.get(ids.encodings));
    const name = textIn(facts.get(ids.codecId));
    const coding: TrackCoding = stripped === null ? { codec: "other", name: "compressed" } : codingOf(name, facts);
    return { number: unsignedIn(facts.get(ids.trackNumber)), coding, stripped: stripped ?? noBytes };
  }
  return null;
}

const trackMasters: ReadonlySet<number> = new Set([ids.segment, ids.tracks]);

/** Null where packets are packed or locked in another way than by leaving out their common beginning. */
function strippedBy(encodings: Uint8Array | undefined): Uint8Array | null {
  if (encodings === undefined) return noBytes;
  const encoding = childrenOf(childrenOf(encodings).get(ids.encoding));
  if (encoding.has(ids.encryption)) return null;
  const compression = encoding.get(ids.compression);
  if (compression === undefined) return noBytes;
  const facts = childrenOf(compression);
  const settings = facts.get(ids.compressionSettings) ?? noBytes;
  return unsignedIn(facts.get(ids.compressionKind)) === headerStripping && settings.length <= strippedBytesMax ? settings : null;
}

const headerStripping = 3;
/** It is put before each packet, so it must be as short as it always is. */
const strippedBytesMax = 32;

function codingOf(name: string, facts: ReadonlyMap<number, Uint8Array>): TrackCoding {
  const description = facts.get(ids.codecPrivate) ?? noBytes;
  const audio = childrenOf(facts.get(ids.audio));
  const plain = (kind: SampleFormat["kind"], littleEndian: boolean): TrackCoding => {
    const channels = audio.has(ids.channels) ? unsignedIn(audio.get(ids.channels)) : 1;
    const sampleRate = audio.has(ids.samplingFrequency) ? Math.round(floatIn(audio.get(ids.samplingFrequency)) ?? 0) : 8000;
    const sampleBytes = unsignedIn(audio.get(ids.bitDepth)) / 8;
    const own = kind === "signed" && littleEndian && sampleBytes === 1 ? "unsigned" : kind;
    return { codec: "samples", format: { kind: own, sampleRate, channels, blockBytes: sampleBytes * channels, littleEndian } };
  };
  if (name === "A_OPUS") return { codec: "opus", description };
  if (name === "A_VORBIS") return { codec: "vorbis", description };
  if (name === "A_FLAC") return { codec: "flac", description };
  if (name === "A_ALAC") return { codec: "alac", description };
  if (name === "A_MPEG/L3" || name === "A_MPEG/L2") return { codec: "mp3", description: noBytes };
  if (name.startsWith("A_AAC")) return { codec: "aac", description };
  if (name === "A_PCM/INT/LIT") return plain("signed", true);
  if (name === "A_PCM/INT/BIG") return plain("signed", false);
  if (name === "A_PCM/FLOAT/IEEE") return plain("float", true);
  if (name === "A_MS/ACM") return { codec: "samples", format: readWaveFormat(description) };
  return { codec: "other", name: name.replaceAll(/[^ -~]/gu, "?") };
}

const blockMasters: ReadonlySet<number> = new Set([ids.segment, ids.tracks, ids.cluster, ids.blockGroup]);

function* blocksOf(source: Uint8Array, { number, stripped }: MatroskaTrack): Generator<Uint8Array> {
  for (const { id, bytes } of elementsIn(source, blockMasters)) {
    if (id !== ids.simpleBlock && id !== ids.block) continue;
    const track = ebmlNumberAt(bytes, 0);
    if (track === null || track.value !== number) continue;
    // A time of two bytes and flags stand behind the number.
    const headBytes = track.lengthBytes + 3;
    if (bytes.length < headBytes) continue;
    const lacing = (bytes[headBytes - 1]! >> 1) & 3;
    for (const frame of framesIn(bytes.subarray(headBytes), lacing)) {
      if (frame.length > 0) yield stripped.length === 0 ? frame : joinBytes([stripped, frame]);
    }
  }
}

/** A block has one frame, or several whose lengths stand in front of them in one of three ways. */
function framesIn(bytes: Uint8Array, lacing: number): readonly Uint8Array[] {
  if (lacing === 0 || bytes.length === 0) return [bytes];
  const count = bytes[0]! + 1;
  if (lacing === 2) {
    const length = Math.floor((bytes.length - 1) / count);
    return Array.from({ length: count }, (_, index) => bytes.subarray(1 + index * length, 1 + (index + 1) * length));
  }
  const sizes: number[] = [];
  let at = 1;
  for (let index = 0; index < count - 1 && at < bytes.length; index++) {
    let size = 0;
    if (lacing === 1) {
      for (; bytes[at] === 255; at++) size += 255;
      size += bytes[at++] ?? 0;
    } else {
      const parsed = ebmlNumberAt(bytes, at);
      if (parsed === null) return [];
      // The first is a length, those behind it are how much longer each is than the one before.
      size = index === 0 ? parsed.value : sizes[index - 1]! + parsed.value - (2 ** (7 * parsed.lengthBytes - 1) - 1);
      at += parsed.lengthBytes;
    }
    sizes.push(size);
  }
  const frames: Uint8Array[] = [];
  for (const size of sizes) {
    if (!(size >= 0) || at + size > bytes.length) return frames;
    frames.push(bytes.subarray(at, at + size));
    at += size;
  }
  frames.push(bytes.subarray(at));
  return frames;
}
