import type { SampleFormat } from "../wav/sample-formats.ts";
import { aiffFormatIn } from "../../../../../src/media/containers/aiff.ts";
import { fourCcAt, viewOf } from "../../../../../src/media/containers/bytes.ts";
import { chunkAt, chunkHeadBytes } from "../../../../../src/media/containers/chunks.ts";
import { FileSlicer, type TrackCoding, type DemuxedTrack } from "./demuxed-track.ts";
import { UndecodableAudio } from "../codec.ts";

/** An AIFF or AIFF-C file. */
export function readAiff(source: Uint8Array): DemuxedTrack {
  let coding: TrackCoding | null = null;
  let sound: { readonly from: number; readonly length: number } | null = null;
  let at = 12;
  for (let chunk = chunkAt(source, at, false); chunk !== null; chunk = chunkAt(source, at, false)) {
    const { name, lengthBytes, stepBytes } = chunk;
    const from = at + chunkHeadBytes;
    const content = source.subarray(from, from + lengthBytes);
    if (name === "COMM" && coding === null) coding = codingOf(content, fourCcAt(source, 8) === "AIFC");
    if (name === "SSND" && sound === null && content.length >= 8) {
      const offset = viewOf(content).getUint32(0);
      // Whoever streams does not know the length.
      sound = { from: from + 8 + offset, length: lengthBytes <= 8 ? Infinity : lengthBytes - 8 - offset };
    }
    at += stepBytes;
  }
  if (coding === null || sound === null) throw new UndecodableAudio("The AIFF file's header is damaged.");
  const found = sound;
  const packets = function* (): Generator<Uint8Array> {
    const bytes = new FileSlicer(source).sliceAvailable(found.from, found.length);
    if (bytes !== null) yield bytes;
  };
  return { coding, leadSeconds: 0, playSeconds: Infinity, packets: { [Symbol.iterator]: packets } };
}

function codingOf(common: Uint8Array, isPacked: boolean): TrackCoding {
  const described = aiffFormatIn(common);
  if (described === null || (isPacked && described.packing === null)) throw new UndecodableAudio("The AIFF file's header is damaged.");
  const { channels } = described;
  const sampleBytes = Math.ceil(described.bits / 8);
  const sampleRate = Math.round(described.sampleRate);
  const of = (kind: SampleFormat["kind"], bytes: number, littleEndian = false): TrackCoding => {
    return { codec: "samples", format: { kind, sampleRate, channels, blockBytes: bytes * channels, littleEndian } };
  };
  const packing = isPacked ? (described.packing ?? "") : "NONE";
  switch (packing) {
    case "NONE":
    case "twos":
      return of("signed", sampleBytes);
    case "sowt":
      return of("signed", sampleBytes, true);
    case "raw ":
      return of("unsigned", 1);
    case "in24":
      return of("signed", 3);
    case "in32":
      return of("signed", 4);
    case "fl32":
    case "FL32":
      return of("float", 4);
    case "fl64":
    case "FL64":
      return of("float", 8);
    case "ulaw":
    case "ULAW":
      return of("ulaw", 1);
    case "alaw":
    case "ALAW":
      return of("alaw", 1);
    case "ima4":
      return of("ima-quicktime", 34);
    default:
      return { codec: "other", name: packing.replaceAll(/[^ -~]/gu, "?").trim() };
  }
}
