import type { SampleFormat } from "../wav/sample-formats.ts";
import { fourCcAt, viewOf } from "../../../../../src/media/containers/bytes.ts";
import { FileSlicer, type TrackCoding, type DemuxedTrack } from "./demuxed-track.ts";
import { UndecodableAudio } from "../codec.ts";

/** An AIFF or AIFF-C file. */
export function readAiff(source: Uint8Array): DemuxedTrack {
  const view = viewOf(source);
  let coding: TrackCoding | null = null;
  let sound: { readonly from: number; readonly length: number } | null = null;
  for (let at = 12; at + 8 <= source.length;) {
    const size = view.getUint32(at + 4);
    const name = fourCcAt(source, at);
    const content = source.subarray(at + 8, at + 8 + size);
    if (name === "COMM" && coding === null) coding = codingOf(content, fourCcAt(source, 8) === "AIFC");
    if (name === "SSND" && sound === null && content.length >= 8) {
      const offset = view.getUint32(at + 8);
      // Whoever streams does not know the length.
      sound = { from: at + 16 + offset, length: size <= 8 ? Infinity : size - 8 - offset };
    }
    at += 8 + size + (size & 1);
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
  if (common.length < (isPacked ? 22 : 18)) throw new UndecodableAudio("The AIFF file's header is damaged.");
  const view = viewOf(common);
  const channels = view.getInt16(0);
  const sampleBytes = Math.ceil(view.getInt16(6) / 8);
  const sampleRate = Math.round(extendedAt(view, 8));
  const of = (kind: SampleFormat["kind"], bytes: number, littleEndian = false): TrackCoding => {
    return { codec: "samples", format: { kind, sampleRate, channels, blockBytes: bytes * channels, littleEndian } };
  };
  const packing = isPacked ? fourCcAt(common, 18) : "NONE";
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

/** A number of 80 bits: a sign and fifteen bits of exponent, then 64 of which the first is the whole part. */
function extendedAt(view: DataView, at: number): number {
  const exponent = (view.getUint16(at) & 0x7fff) - 16_383;
  return (view.getUint32(at + 2) / 2 ** 31 + view.getUint32(at + 6) / 2 ** 63) * 2 ** exponent;
}
