import type { SampleFormat } from "./samples.ts";

/** The sound in a container, as its packets. They are read as they are asked for: no table of the file is ever expanded. */
export interface SoundTrack {
  readonly coding: SoundCoding;
  /** What is to be left out at the beginning, and how much is to be played behind that; without an end, Infinity. */
  readonly leadSeconds: number;
  readonly playSeconds: number;
  /** Those that are there: of a file that was cut, the ones before its end. */
  readonly packets: Iterable<Uint8Array>;
}

export type SoundCoding =
  /** `description` is what the codec has to know before the first packet. */
  | { readonly codec: "aac" | "mp3" | "flac" | "opus" | "vorbis" | "alac"; readonly description: Uint8Array }
  /** Samples one after another, or in blocks of one size. Packets may be cut anywhere. */
  | { readonly codec: "samples"; readonly format: SampleFormat }
  | { readonly codec: "other"; readonly name: string };

/** Gives the parts of a file. No byte of it is sound twice, whatever its tables say: all parts together are no longer than the file. */
export class PartReader {
  private left: number;

  constructor(private readonly source: Uint8Array) {
    this.left = source.length;
  }

  /** Null where it is not in the file as a whole, or where there were more parts than the file has bytes. */
  part(from: number, length: number): Uint8Array | null {
    if (!(from >= 0 && length > 0) || from + length > this.source.length || length > this.left) return null;
    this.left -= length;
    return this.source.subarray(from, from + length);
  }

  /** As much of it as is there. */
  partThere(from: number, length: number): Uint8Array | null {
    return this.part(from, Math.min(length, this.source.length - from, this.left));
  }
}

export const noBytes = new Uint8Array(0);

/** A number of 64 bits. Beyond 2^53 it is not exact, and no file is that long. */
export function longAt(view: DataView, at: number): number {
  return view.getUint32(at) * 2 ** 32 + view.getUint32(at + 4);
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function nameAt(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4));
}
