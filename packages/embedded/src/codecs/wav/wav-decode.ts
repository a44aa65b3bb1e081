import { joinBytes } from "../bytes.ts";
import { makeSampleReader, type SampleFormat } from "./sample-formats.ts";
import { UndecodableAudio, type DecodedAudio, type StreamDecoder } from "../codec.ts";

const none = new Float32Array(0);

export function makeWavDecoder(): StreamDecoder {
  let held = new Uint8Array(0);
  let begun = false;
  let samples: StreamDecoder | null = null;
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
      if (samples === null) throw new UndecodableAudio("The WAV file does not say how its samples are written.");
      // Streams are written before their length is known; then the size is the greatest, or none.
      left = size === 0 || size >= 0xff_ff_ff_00 ? Infinity : size;
      held = held.slice(8);
      return false;
    }
    if (name === "fmt ") {
      if (size < 14 || size > 1024) throw new UndecodableAudio("The WAV file's header is damaged.");
      if (held.length < 8 + size) return false;
      samples = makeSampleReader(readWaveFormat(new DataView(held.buffer, 8, size)));
    }
    // Chunks are padded to an even length.
    skip = 8 + size + (size & 1);
    return true;
  };

  const read = (bytes: Uint8Array): DecodedAudio => {
    let sound = bytes;
    if (left === null) {
      held = new Uint8Array(joinBytes([held, bytes]));
      while (readHeader());
      sound = held;
    }
    if (left === null || samples === null) return { samples: none, sampleRate: 0 };
    const usable = Math.min(left, sound.length);
    left -= usable;
    held = new Uint8Array(0);
    return samples.push(sound.subarray(0, usable));
  };

  return {
    push: read,
    end() {
      if (left === null || samples === null) throw new UndecodableAudio("The WAV file ends before its audio.");
      return samples.end();
    },
    destroy() {},
  };
}

/** The description of samples in WAV, which AVI and Matroska have as well. */
export function readWaveFormat(view: DataView): SampleFormat {
  if (view.byteLength < 14) throw new UndecodableAudio("The WAV file's header is damaged.");
  const code = view.getUint16(0, true);
  const channels = view.getUint16(2, true);
  const sampleRate = view.getUint32(4, true);
  const blockBytes = view.getUint16(12, true);
  const bits = view.byteLength >= 16 ? view.getUint16(14, true) : 0;
  const kind = kindOf(code === extensibleCode && view.byteLength >= 26 ? view.getUint16(24, true) : code, blockBytes / channels);
  if (kind === null || (plainKinds.has(kind) && (bits > (blockBytes / channels) * 8 || bits === 0))) {
    throw new UndecodableAudio("The WAV file's samples are written in a way that is not supported.");
  }
  return { kind, sampleRate, channels, blockBytes, littleEndian: true };
}

const extensibleCode = 0xff_fe;
const plainKinds: ReadonlySet<SampleFormat["kind"]> = new Set<SampleFormat["kind"]>(["signed", "unsigned", "float"]);

function kindOf(code: number, sampleBytes: number): SampleFormat["kind"] | null {
  switch (code) {
    case 1:
      return sampleBytes === 1 ? "unsigned" : "signed";
    case 2:
      return "adpcm-microsoft";
    case 3:
      return "float";
    case 6:
      return "alaw";
    case 7:
      return "ulaw";
    case 0x11:
      return "ima-wav";
    default:
      return null;
  }
}

function text(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4));
}
