import { createEncoder } from "wasm-media-encoders";
import type { FixedRateEncoder } from "../codec.ts";
import { joinBytes } from "../bytes.ts";

/** The encoder's delay cannot be told to a player in a stream; at this rate it is half as long as at 24 kHz. */
const sampleRate = 48_000;
/** In thousands of bits in a second; transparent for one voice. */
const bitrate = 96;
/** A call of the encoder takes memory that it never gives back, as much as its longest input. */
const sliceSamples = 24_000;

const lame = import.meta.resolve("wasm-media-encoders/wasm/mp3");
let loading: Promise<WebAssembly.Module> | null = null;

export async function makeMp3Encoder(): Promise<FixedRateEncoder> {
  loading ??= load().catch((error: unknown) => {
    loading = null;
    throw error;
  });
  const encoder = await createEncoder("audio/mpeg", await loading);
  encoder.configure({ sampleRate, channels: 1, bitrate });
  return {
    sampleRate,
    push(samples) {
      const pieces: Uint8Array[] = [];
      for (let at = 0; at < samples.length; at += sliceSamples) {
        // What it gives is a view of its own memory, good until the next call.
        pieces.push(encoder.encode([sane(samples.subarray(at, at + sliceSamples))]).slice());
      }
      return joinBytes(pieces);
    },
    end: () => encoder.finalize().slice(),
    // Its memory is its own, and goes with it.
    destroy() {},
  };
}

/** One sample that is no number would make all that follow it silent. */
function sane(samples: Float32Array): Float32Array {
  return samples.map((sample) => (sample > 1 ? 1 : sample < -1 ? -1 : sample || 0));
}

async function load(): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await Bun.file(new URL(lame)).arrayBuffer());
}
