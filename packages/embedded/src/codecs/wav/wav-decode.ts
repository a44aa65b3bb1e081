import { joinBytes } from "../bytes.ts";
import { makeSampleReader, type SampleFormat } from "./sample-formats.ts";
import { fourCcAt } from "../../../../../src/media/containers/bytes.ts";
import { chunkAt, chunkHeadBytes, isPlaceholder } from "../../../../../src/media/containers/chunks.ts";
import { riffHeadBytes, waveFormatIn } from "../../../../../src/media/containers/wav.ts";
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
      if (held.length < riffHeadBytes) return false;
      const kind = fourCcAt(held, 0);
      if ((kind !== "RIFF" && kind !== "RF64") || fourCcAt(held, 8) !== "WAVE") throw new UndecodableAudio("This is not a WAV file.");
      begun = true;
      held = held.slice(riffHeadBytes);
    }
    if (skip > 0) {
      const gone = Math.min(skip, held.length);
      held = held.slice(gone);
      skip -= gone;
      if (skip > 0) return false;
    }
    const chunk = chunkAt(held, 0, true);
    if (chunk === null) return false;
    const { name, lengthBytes, stepBytes } = chunk;
    if (name === "data") {
      if (samples === null) throw new UndecodableAudio("The WAV file does not say how its samples are written.");
      // Streams are written before their length is known.
      left = isPlaceholder(lengthBytes) ? Infinity : lengthBytes;
      held = held.slice(chunkHeadBytes);
      return false;
    }
    if (name === "fmt ") {
      if (lengthBytes < 14 || lengthBytes > 1024) throw new UndecodableAudio("The WAV file's header is damaged.");
      if (held.length < chunkHeadBytes + lengthBytes) return false;
      samples = makeSampleReader(readWaveFormat(held.subarray(chunkHeadBytes, chunkHeadBytes + lengthBytes)));
    }
    skip = stepBytes;
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
export function readWaveFormat(content: Uint8Array): SampleFormat {
  const format = waveFormatIn(content);
  if (format === null) throw new UndecodableAudio("The WAV file's header is damaged.");
  const { code, channels, sampleRate, blockBytes, bits } = format;
  const kind = kindOf(code, blockBytes / channels);
  if (kind === null || (plainKinds.has(kind) && (bits > (blockBytes / channels) * 8 || bits === 0))) {
    throw new UndecodableAudio("The WAV file's samples are written in a way that is not supported.");
  }
  return { kind, sampleRate, channels, blockBytes, littleEndian: true };
}

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
