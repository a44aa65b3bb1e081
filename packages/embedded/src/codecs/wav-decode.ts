import type { Decoded, StreamDecoder } from "./decode.ts";
import { joinBytes } from "./joined.ts";
import { sampleRateMax, sampleRateMin } from "./resample.ts";
import { UndecodableAudio } from "./undecodable.ts";

interface WavFormat {
  readonly float: boolean;
  readonly sampleBytes: number;
  readonly channels: number;
  readonly frameBytes: number;
  readonly sampleRate: number;
}

const integerCode = 1;
const floatCode = 3;
const extensibleCode = 0xff_fe;
const channelsMax = 64;

const none = new Float32Array(0);

export function makeWavDecoder(): StreamDecoder {
  let held = new Uint8Array(0);
  let begun = false;
  let format: WavFormat | null = null;
  /** Bytes of a chunk that is of no interest, still to pass over. */
  let skip = 0;
  /** Bytes of audio still to come; `null` before the audio. */
  let left: number | null = null;

  /** Reads one thing from the front of `held`; false where it needs more. */
  const readHeader = (): boolean => {
    if (!begun) {
      if (held.length < 12) return false;
      const kind = text(held, 0);
      if ((kind !== "RIFF" && kind !== "RF64") || text(held, 8) !== "WAVE") throw new UndecodableAudio("This is not a WAV file.");
      begun = true;
      held = held.slice(12);
    }
    if (skip > 0) {
      const gone = Math.min(skip, held.length);
      held = held.slice(gone);
      skip -= gone;
      if (skip > 0) return false;
    }
    if (held.length < 8) return false;
    const name = text(held, 0);
    const size = new DataView(held.buffer).getUint32(4, true);
    if (name === "data") {
      if (format === null) throw new UndecodableAudio("The WAV file does not say how its samples are written.");
      // Streams are written before their length is known; then the size is the greatest, or none.
      left = size === 0 || size >= 0xff_ff_ff_00 ? Infinity : size;
      held = held.slice(8);
      return false;
    }
    if (name === "fmt ") {
      if (size < 14 || size > 1024) throw new UndecodableAudio("The WAV file's header is damaged.");
      if (held.length < 8 + size) return false;
      format = readFormat(new DataView(held.buffer, 8, size));
    }
    // Chunks are padded to an even length.
    skip = 8 + size + (size & 1);
    return true;
  };

  const read = (bytes: Uint8Array): Decoded => {
    if (left === null) {
      held = new Uint8Array(joinBytes([held, bytes]));
      while (readHeader());
    } else {
      held = left === 0 ? held : new Uint8Array(joinBytes([held, bytes]));
    }
    if (left === null || format === null) return { samples: none, sampleRate: 0 };
    const usable = Math.min(left, held.length);
    const frames = Math.floor(usable / format.frameBytes);
    const samples = toSamples(held, frames, format);
    left -= frames * format.frameBytes;
    if (left < format.frameBytes) left = 0;
    held = left === 0 ? new Uint8Array(0) : held.slice(frames * format.frameBytes);
    return { samples, sampleRate: format.sampleRate };
  };

  return {
    push: read,
    end() {
      if (left === null || format === null) throw new UndecodableAudio("The WAV file ends before its audio.");
      return { samples: none, sampleRate: format.sampleRate };
    },
    destroy() {},
  };
}

function readFormat(view: DataView): WavFormat {
  const code = view.getUint16(0, true);
  const channels = view.getUint16(2, true);
  const sampleRate = view.getUint32(4, true);
  const frameBytes = view.getUint16(12, true);
  const bits = view.byteLength >= 16 ? view.getUint16(14, true) : 0;
  const kind = code === extensibleCode && view.byteLength >= 26 ? view.getUint16(24, true) : code;
  const sampleBytes = frameBytes / channels;
  const known = kind === integerCode ? [1, 2, 3, 4].includes(sampleBytes) : kind === floatCode && [4, 8].includes(sampleBytes);
  if (!known || bits > sampleBytes * 8 || bits === 0) {
    throw new UndecodableAudio("The WAV file's samples are written in a way that is not supported.");
  }
  if (channels > channelsMax || sampleRate < sampleRateMin || sampleRate > sampleRateMax) {
    throw new UndecodableAudio("The WAV file's rate or number of channels is not supported.");
  }
  return { float: kind === floatCode, sampleBytes, channels, frameBytes, sampleRate };
}

function toSamples(bytes: Uint8Array, frames: number, { float, sampleBytes, channels, frameBytes }: WavFormat): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = readerOf(view, float, sampleBytes);
  const samples = new Float32Array(frames);
  for (let frame = 0; frame < frames; frame++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) sum += read(frame * frameBytes + channel * sampleBytes);
    samples[frame] = sum / channels || 0;
  }
  return samples;
}

function readerOf(view: DataView, float: boolean, sampleBytes: number): (at: number) => number {
  if (float) return sampleBytes === 8 ? (at) => view.getFloat64(at, true) : (at) => view.getFloat32(at, true);
  switch (sampleBytes) {
    case 1:
      return (at) => (view.getUint8(at) - 128) / 128;
    case 2:
      return (at) => view.getInt16(at, true) / 32_768;
    case 3:
      return (at) => ((view.getInt8(at + 2) << 16) | view.getUint16(at, true)) / 8_388_608;
    default:
      return (at) => view.getInt32(at, true) / 2_147_483_648;
  }
}

function text(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4));
}
