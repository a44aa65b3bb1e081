import { elementaryCoding } from "../mp4/mp4-audio-entry.ts";
import { noBytes } from "../bytes.ts";
import { uint64At, fourCcAt, viewOf } from "../../../../../src/media/containers/bytes.ts";
import type { SampleFormat } from "../wav/sample-formats.ts";
import { FileSlicer, type TrackCoding, type DemuxedTrack } from "./demuxed-track.ts";
import { UndecodableAudio } from "../codec.ts";

/** A file in Apple's Core Audio Format. */
export function readCaf(source: Uint8Array): DemuxedTrack {
  const chunks = chunksOf(source);
  const description = chunks.get("desc");
  const data = chunks.get("data");
  if (description === undefined || description.bytes.length < 32 || data === undefined) {
    throw new UndecodableAudio("The CAF file's header is damaged.");
  }
  const view = viewOf(description.bytes);
  const coding = codingOf(description.bytes, view, chunks.get("kuki")?.bytes ?? noBytes);
  const table = chunks.get("pakt")?.bytes ?? noBytes;
  const rate = view.getFloat64(0);
  // How many moments at the beginning are the codec's own, and how many are to be played.
  const lead = table.length >= 24 ? Math.max(0, viewOf(table).getInt32(16)) : 0;
  const played = table.length >= 24 ? uint64At(viewOf(table), 8) : 0;
  const packetBytes = view.getUint32(16);
  const from = data.from + editCountBytes;
  const packets = function* (): Generator<Uint8Array> {
    const slicer = new FileSlicer(source);
    const rest = source.length - from;
    // Behind the sound there may be other chunks, unless its length was not known: then it goes to the end.
    const length = data.isOpen ? rest : Math.min(rest, data.bytes.length - editCountBytes);
    if (coding.codec === "samples" || coding.codec === "mp3") {
      const bytes = slicer.sliceAvailable(from, length);
      if (bytes !== null) yield bytes;
      return;
    }
    let at = from;
    for (const size of packetBytes > 0 ? equal(packetBytes, length) : sizesIn(table, view.getUint32(20) === 0)) {
      const bytes = at + size > from + length ? null : slicer.slice(at, size);
      if (bytes === null) return;
      yield bytes;
      at += size;
    }
  };
  const isTimed = coding.codec !== "samples" && rate > 0;
  return {
    coding,
    leadSeconds: isTimed ? lead / rate : 0,
    playSeconds: isTimed && played > 0 ? played / rate : Infinity,
    packets: { [Symbol.iterator]: packets },
  };
}

const editCountBytes = 4;

interface Chunk {
  /** Where its content begins. */
  readonly from: number;
  readonly bytes: Uint8Array;
  readonly isOpen: boolean;
}

/** The first of each name. */
function chunksOf(source: Uint8Array): ReadonlyMap<string, Chunk> {
  const found = new Map<string, Chunk>();
  const view = viewOf(source);
  for (let at = 8; at + 12 <= source.length;) {
    const isOpen = view.getInt32(at + 4) === -1;
    const size = isOpen ? source.length : uint64At(view, at + 4);
    const name = fourCcAt(source, at);
    if (known.has(name) && !found.has(name)) found.set(name, { from: at + 12, bytes: source.subarray(at + 12, at + 12 + size), isOpen });
    at += 12 + size;
  }
  return found;
}

const known: ReadonlySet<string> = new Set(["desc", "data", "kuki", "pakt"]);

function codingOf(bytes: Uint8Array, view: DataView, cookie: Uint8Array): TrackCoding {
  const sampleRate = Math.round(view.getFloat64(0));
  const flags = view.getUint32(12);
  const channels = view.getUint32(24);
  const of = (kind: SampleFormat["kind"], blockBytes: number, littleEndian = false): TrackCoding => {
    return { codec: "samples", format: { kind, sampleRate, channels, blockBytes, littleEndian } };
  };
  const name = fourCcAt(bytes, 8);
  switch (name) {
    case "lpcm":
      return of((flags & 1) === 0 ? "signed" : "float", view.getUint32(16), (flags & 2) !== 0);
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
  for (let at = 24; at < table.length; at++) {
    value = (value % 2 ** 32) * 128 + (table[at]! & 0x7f);
    if ((table[at]! & 0x80) !== 0) continue;
    if (!hasFrames || numbers % 2 === 0) yield value;
    numbers++;
    value = 0;
  }
}
