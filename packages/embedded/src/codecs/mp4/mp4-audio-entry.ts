import {
  boxesIn,
  boxUnder,
  soundEntryHeadBytes,
  soundFormatIn,
  type Mp4SampleEntry,
  type Mp4SoundFormat,
} from "../../../../../src/media/containers/mp4-boxes.ts";
import { noBytes } from "../bytes.ts";
import { viewOf } from "../../../../../src/media/containers/bytes.ts";
import type { SampleFormat } from "../wav/sample-formats.ts";
import { type TrackCoding } from "../containers/demuxed-track.ts";

/** What MP4 and QuickTime say of how a track's sound is written. */
export function mp4Coding({ name, bytes: entry }: Mp4SampleEntry): TrackCoding {
  const described = soundFormatIn(entry);
  if (described === null) return { codec: "other", name };
  const inside = childrenOf(entry);
  const plain = plainFormat(name, entry, described, inside);
  if (plain !== null) return { codec: "samples", format: plain };
  switch (name) {
    case "mp4a":
      return elementary(inside);
    case ".mp3":
    case "ms\0U":
      return { codec: "mp3", description: noBytes };
    case "Opus":
      return { codec: "opus", description: opusHead(boxUnder(inside, "dOps")?.bytes ?? noBytes) };
    case "fLaC":
      return { codec: "flac", description: flacHead(boxUnder(inside, "dfLa")?.bytes ?? noBytes) };
    case "alac":
      return { codec: "alac", description: (boxUnder(inside, "alac") ?? boxUnder(inside, "wave", "alac"))?.bytes.subarray(4) ?? noBytes };
    default:
      return { codec: "other", name: printable(name) };
  }
}

/** QuickTime has longer heads of two lengths; what MP4 calls by the same number has not. */
function childrenOf(entry: Uint8Array): Uint8Array {
  const version = viewOf(entry).getUint16(8);
  const longer = version === 1 ? 16 : version === 2 ? 36 : 0;
  const [first] = boxesIn(entry.subarray(soundEntryHeadBytes));
  const isShort = longer === 0 || (first !== undefined && version === 1 && knownBoxes.has(first.name));
  return entry.subarray(isShort ? soundEntryHeadBytes : soundEntryHeadBytes + longer);
}

const knownBoxes: ReadonlySet<string> = new Set(["esds", "wave", "chan", "dOps", "dfLa", "alac", "srat", "pcmC", "btrt"]);

function plainFormat(name: string, entry: Uint8Array, described: Mp4SoundFormat, inside: Uint8Array): SampleFormat | null {
  const view = viewOf(entry);
  const isLong = view.getUint16(8) === 2 && entry.length >= soundEntryHeadBytes + 36;
  const channels = isLong ? view.getUint32(40) : described.channels;
  const bits = isLong ? view.getUint32(48) : described.bits;
  const sampleRate = Math.round(isLong ? view.getFloat64(32) : described.sampleRate);
  const of = (kind: SampleFormat["kind"], sampleBytes: number, littleEndian: boolean): SampleFormat => {
    return { kind, sampleRate, channels, blockBytes: sampleBytes * channels, littleEndian };
  };
  const order = boxUnder(inside, "wave", "enda") ?? boxUnder(inside, "enda");
  const isSwapped = order !== null && order.bytes.length >= 2 && order.view.getUint16(0) === 1;
  switch (name) {
    case "raw ":
      return of(bits === 16 ? "signed" : "unsigned", bits === 16 ? 2 : 1, false);
    case "twos":
      return of("signed", bits === 8 ? 1 : 2, isSwapped);
    case "sowt":
      return of("signed", bits === 8 ? 1 : 2, true);
    case "in24":
      return of("signed", 3, isSwapped);
    case "in32":
      return of("signed", 4, isSwapped);
    case "fl32":
      return of("float", 4, isSwapped);
    case "fl64":
      return of("float", 8, isSwapped);
    case "ulaw":
    case "alaw":
      return of(name, 1, false);
    case "ima4":
      return of("ima-quicktime", 34, false);
    case "lpcm": {
      if (!isLong) return null;
      const flags = view.getUint32(52);
      return of((flags & 1) === 0 ? "signed" : "float", bits / 8, (flags & 2) === 0);
    }
    case "ipcm":
    case "fpcm": {
      const facts = boxUnder(inside, "pcmC")?.bytes;
      if (facts === undefined || facts.length < 6) return null;
      return of(name === "ipcm" ? "signed" : "float", facts[5]! / 8, (facts[4]! & 1) !== 0);
    }
    default:
      return null;
  }
}

/** The description that MPEG-4 systems have: what it is, and what the codec has to know. */
function elementary(inside: Uint8Array): TrackCoding {
  const bytes = (boxUnder(inside, "esds") ?? boxUnder(inside, "wave", "esds"))?.bytes;
  return bytes === undefined ? { codec: "other", name: "mp4a" } : elementaryCoding(bytes.subarray(4));
}

export function elementaryCoding(bytes: Uint8Array): TrackCoding {
  const stream = descriptorIn(bytes, 3);
  const flags = stream?.[2] ?? 0;
  const skipped = 3 + ((flags & 0x80) === 0 ? 0 : 2) + ((flags & 0x40) === 0 ? 0 : 1 + (stream?.[3 + ((flags & 0x80) === 0 ? 0 : 2)] ?? 0));
  const decoder = stream === null ? null : descriptorIn(stream.subarray(skipped + ((flags & 0x20) === 0 ? 0 : 2)), 4);
  if (decoder === null || decoder.length < 13) return { codec: "other", name: "mp4a" };
  const kind = decoder[0]!;
  if (kind === 0x69 || kind === 0x6b) return { codec: "mp3", description: noBytes };
  const description = descriptorIn(decoder.subarray(13), 5) ?? noBytes;
  if (kind === 0x40 || (kind >= 0x66 && kind <= 0x68)) return { codec: "aac", description };
  return kind === 0xdd ? { codec: "vorbis", description } : { codec: "other", name: `mp4a.${kind.toString(16)}` };
}

/** The content of the first descriptor, where it has this tag. */
function descriptorIn(bytes: Uint8Array, tag: number): Uint8Array | null {
  if (bytes[0] !== tag) return null;
  let length = 0;
  let at = 1;
  for (let more = true; more && at <= 4 && at < bytes.length; at++) {
    length = length * 128 + (bytes[at]! & 0x7f);
    more = (bytes[at]! & 0x80) !== 0;
  }
  return bytes.subarray(at, Math.min(bytes.length, at + length));
}

/** The same facts as at the head of an Ogg stream, where numbers are written the other way round. */
function opusHead(facts: Uint8Array): Uint8Array {
  if (facts.length < 11) return noBytes;
  const head = new Uint8Array(8 + facts.length);
  head.set(new TextEncoder().encode("OpusHead"));
  head.set(facts, 8);
  const from = viewOf(facts);
  const to = viewOf(head);
  head[8] = 1;
  to.setUint16(10, from.getUint16(2), true);
  to.setUint32(12, from.getUint32(4), true);
  to.setInt16(16, from.getInt16(8), true);
  return head;
}

function flacHead(facts: Uint8Array): Uint8Array {
  const head = new Uint8Array(4 + Math.max(0, facts.length - 4));
  head.set(new TextEncoder().encode("fLaC"));
  head.set(facts.subarray(4), 4);
  return head;
}

function printable(name: string): string {
  return name.replaceAll(/[^ -~]/gu, "?").trim();
}
