import type { AudioFormat } from "../../../../src/media/audio.ts";
import { UndecodableAudio, type DecodedAudio, type Encoder } from "./codec.ts";
import { makeDecoder } from "./decode.ts";
import { makeEncoder } from "./encode.ts";
import { pcmRate } from "./pcm.ts";

/**
 * Works in slices, for a few bytes can hold hours of silence: neither the samples nor what is made of them is ever there
 * as a whole.
 */
export interface SlicedTranscoder {
  give(bytes: Uint8Array): void;
  /** No more will be given. */
  finish(): void;
  /** One slice of work, and what it made, which may be nothing; `null` where all that was given is worked off. */
  slice(): Promise<Uint8Array | null>;
  destroy(): void;
}

/** Decodes the one and encodes the other. The encoder is made when the first samples tell their rate. */
export async function makeTranscoder(from: AudioFormat, to: AudioFormat): Promise<SlicedTranscoder> {
  const decoder = await makeDecoder(from);
  const measure = makeMeasure(from);
  const sliceBytes = from === "pcm" || from === "wav" ? bareSliceBytes : packedSliceBytes;
  let encoder: Encoder | null = null;
  let open = true;
  const given: Uint8Array[] = [];
  let givenAt = 0;
  let finished = false;
  let drained = false;
  let decoded: DecodedAudio = { samples: new Float32Array(0), sampleRate: 0 };
  let encodedSamples = 0;

  const destroy = (): void => {
    if (!open) return;
    open = false;
    given.length = 0;
    decoder.destroy();
    encoder?.destroy();
  };

  const encoderAt = async (sampleRate: number): Promise<Encoder> => {
    encoder ??= await makeEncoder(to, { sampleRate });
    if (!open) {
      // It was given up while the encoder was made.
      encoder.destroy();
      throw new Error("the transcoder was destroyed");
    }
    return encoder;
  };

  const nextGiven = (): Uint8Array => {
    const bytes = given[0]!.subarray(givenAt, givenAt + sliceBytes);
    givenAt += bytes.length;
    if (givenAt === given[0]!.length) {
      given.shift();
      givenAt = 0;
    }
    return bytes;
  };

  const decode = (bytes: Uint8Array | null): void => {
    decoded = readable(() => (bytes === null ? decoder.end() : decoder.push(bytes)));
    encodedSamples = 0;
    measure(bytes?.length ?? 0, decoded);
  };

  return {
    give(bytes) {
      if (bytes.length > 0) given.push(bytes);
    },
    finish() {
      finished = true;
    },
    async slice() {
      if (!open) return null;
      const { samples, sampleRate } = decoded;
      if (encodedSamples < samples.length) {
        const codec = await encoderAt(sampleRate);
        const from = encodedSamples;
        encodedSamples += sampleRate;
        return codec.push(samples.subarray(from, encodedSamples));
      }
      if (given.length > 0) decode(nextGiven());
      else if (!finished) return null;
      else if (drained) {
        const ending = (await encoderAt(sampleRate === 0 ? pcmRate : sampleRate)).end().slice();
        destroy();
        return ending;
      } else {
        decode(null);
        drained = true;
      }
      return new Uint8Array(0);
    },
    destroy,
  };
}

/** Packed audio may hold much in little. */
const packedSliceBytes = 512;
const bareSliceBytes = 4096;

/** Whatever a decoder throws, it was the audio's doing. */
function readable(read: () => DecodedAudio): DecodedAudio {
  try {
    return read();
  } catch (error) {
    if (error instanceof UndecodableAudio) throw error;
    throw new UndecodableAudio("The audio is damaged.", { cause: error });
  }
}

/** No speech is so long, nor so well packed. Bare samples cannot be packed, and a long text may be spoken in them by ourselves. */
function makeMeasure(from: AudioFormat): (bytes: number, decoded: DecodedAudio) => void {
  let bytesIn = 0;
  let seconds = 0;
  return (bytes, { samples, sampleRate }) => {
    bytesIn += bytes;
    if (from === "pcm" || samples.length === 0) return;
    seconds += samples.length / sampleRate;
    if (seconds > secondsMax) throw new UndecodableAudio("The audio is longer than an hour.");
    if (seconds > freeSeconds + bytesIn * secondsPerByteMax) throw new UndecodableAudio("The audio is too long for its bytes.");
  };
}

const secondsMax = 3600;
const secondsPerByteMax = 2000 / 100_000;
/** Of a short stream, this much is not questioned. */
const freeSeconds = 60;
