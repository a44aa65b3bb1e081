import type { SampleFormat } from "../wav/sample-formats.ts";

/** The sound in a container, as its packets. They are read as they are asked for: no table of the file is ever expanded. */
export interface DemuxedTrack {
  readonly coding: TrackCoding;
  /** What is to be left out at the beginning, and how much is to be played behind that; without an end, Infinity. */
  readonly leadSeconds: number;
  readonly playSeconds: number;
  /** Those that are there: of a file that was cut, the ones before its end. */
  readonly packets: Iterable<Uint8Array>;
}

export type TrackCoding =
  /** `description` is what the codec has to know before the first packet. */
  | { readonly codec: "aac" | "mp3" | "flac" | "opus" | "vorbis" | "alac"; readonly description: Uint8Array }
  /** Samples one after another, or in blocks of one size. Packets may be cut anywhere. */
  | { readonly codec: "samples"; readonly format: SampleFormat }
  | { readonly codec: "other"; readonly name: string };

/** Gives the parts of a file. No byte of it is sound twice, whatever its tables say: all parts together are no longer than the file. */
export class FileSlicer {
  private left: number;

  constructor(private readonly source: Uint8Array) {
    this.left = source.length;
  }

  /** Null where it is not in the file as a whole, or where there were more parts than the file has bytes. */
  slice(from: number, length: number): Uint8Array | null {
    if (!(from >= 0 && length > 0) || from + length > this.source.length || length > this.left) return null;
    this.left -= length;
    return this.source.subarray(from, from + length);
  }

  /** As much of it as is there. */
  sliceAvailable(from: number, length: number): Uint8Array | null {
    return this.slice(from, Math.min(length, this.source.length - from, this.left));
  }
}
