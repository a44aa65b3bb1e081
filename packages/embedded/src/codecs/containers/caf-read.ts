import { elementaryCoding } from "../mp4/mp4-audio-entry.ts";
import { noBytes } from "../bytes.ts";
import {
  cafChunkAt,
  cafChunkHeadBytes,
  cafDescriptionIn,
  cafEditCountBytes,
  cafHeadBytes,
  cafPacketTableHeadBytes,
  cafPacketTableIn,
  type CafDescription,
} from "../../../../../src/media/containers/caf.ts";
import { fourCcAt } from "../../../../../src/media/containers/bytes.ts";
import type { SampleFormat } from "../wav/sample-formats.ts";
import { FileSlicer, type TrackCoding, type DemuxedTrack } from "./demuxed-track.ts";
import { UndecodableAudio } from "../codec.ts";

/** A file in Apple's Core Audio Format. */
export function readCaf(source: Uint8Array): DemuxedTrack {
  const chunks = chunksOf(source);
  const description = cafDescriptionIn(chunks.get("desc")?.bytes ?? noBytes);
  const data = chunks.get("data");
  if (description === null || data === undefined) throw new UndecodableAudio("The CAF file's header is damaged.");
  const coding = codingOf(description, chunks.get("kuki")?.bytes ?? noBytes);
  const table = chunks.get("pakt")?.bytes ?? noBytes;
  const { leadFrames, playedFrames } = cafPacketTableIn(table) ?? { leadFrames: 0, playedFrames: 0 };
  const { sampleRate: rate, packetBytes, packetFrames } = description;
  const from = data.from + cafEditCountBytes;
  const packets = function* (): Generator<Uint8Array> {
    const slicer = new FileSlicer(source);
    const rest = source.length - from;
    // Behind the sound there may be other chunks, unless its length was not known: then it goes to the end.
    const length = data.isOpen ? rest : Math.min(rest, data.bytes.length - cafEditCountBytes);
    if (coding.codec === "samples" || coding.codec === "mp3") {
      const bytes = slicer.sliceAvailable(from, length);
      if (bytes !== null) yield bytes;
      return;
    }
    let at = from;
    for (const size of packetBytes > 0 ? equal(packetBytes, length) : sizesIn(table, packetFrames === 0)) {
      const bytes = at + size > from + length ? null : slicer.slice(at, size);
      if (bytes === null) return;
      yield bytes;
      at += size;
    }
  };
  const isTimed = coding.codec !== "samples" && rate > 0;
  return {
    coding,
    leadSeconds: isTimed ? leadFrames / rate : 0,
    playSeconds: isTimed && playedFrames > 0 ? playedFrames / rate : Infinity,
    packets: { [Symbol.iterator]: packets },
  };
}

interface FoundChunk {
  /** Where its content begins. */
  readonly from: number;
  readonly bytes: Uint8Array;
  readonly isOpen: boolean;
}

/** The first of each name. */
function chunksOf(source: Uint8Array): ReadonlyMap<string, FoundChunk> {
  const found = new Map<string, FoundChunk>();
  let at = cafHeadBytes;
  for (let chunk = cafChunkAt(source, at); chunk !== null; chunk = cafChunkAt(source, at)) {
    const { name, lengthBytes } = chunk;
    const from = at + cafChunkHeadBytes;
    const to = lengthBytes === null ? source.length : from + lengthBytes;
    if (known.has(name) && !found.has(name)) found.set(name, { from, bytes: source.subarray(from, to), isOpen: lengthBytes === null });
    at = to;
  }
  return found;
}

const known: ReadonlySet<string> = new Set(["desc", "data", "kuki", "pakt"]);

function codingOf({ sampleRate: rate, codec: name, flags, packetBytes, channels }: CafDescription, cookie: Uint8Array): TrackCoding {
  const sampleRate = Math.round(rate);
  const of = (kind: SampleFormat["kind"], blockBytes: number, littleEndian = false): TrackCoding => {
    return { codec: "samples", format: { kind, sampleRate, channels, blockBytes, littleEndian } };
  };
  switch (name) {
    case "lpcm":
      return of((flags & 1) === 0 ? "signed" : "float", packetBytes, (flags & 2) !== 0);
    case "ulaw":
    case "alaw":
      return of(name, channels);
    case "ima4":
      return of("ima-quicktime", 34 * channels);
    case "alac":
      return { codec: "alac", description: alacFacts(cookie) };
    case "aac ":
      // The description, or all of what it stands in elsewhere.
      return cookie[0] === 3 ? elementaryCoding(cookie) : { codec: "aac", description: cookie };
    case ".mp3":
      return { codec: "mp3", description: noBytes };
    default:
      return { codec: "other", name: name.replaceAll(/[^ -~]/gu, "?").trim() };
  }
}

/** Older files have boxes around it, as in MP4. */
function alacFacts(cookie: Uint8Array): Uint8Array {
  return fourCcAt(cookie, 4) === "frma" ? cookie.subarray(24) : cookie;
}

function* equal(size: number, length: number): Generator<number> {
  for (let left = length; left >= size; left -= size) yield size;
}

/** Numbers of seven bits a byte. Where packets last differently, each is followed by how long it lasts. */
function* sizesIn(table: Uint8Array, hasFrames: boolean): Generator<number> {
  let value = 0;
  let numbers = 0;
  for (let at = cafPacketTableHeadBytes; at < table.length; at++) {
    value = (value % 2 ** 32) * 128 + (table[at]! & 0x7f);
    if ((table[at]! & 0x80) !== 0) continue;
    if (!hasFrames || numbers % 2 === 0) yield value;
    numbers++;
    value = 0;
  }
}
