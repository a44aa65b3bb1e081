import type { AudioFormat } from "../../../../src/media/audio.ts";
import type { Encoder, FixedRateEncoder } from "./codec.ts";
import { makeResampler } from "./resample.ts";

export async function makeEncoder(format: AudioFormat, options: { readonly sampleRate: number }): Promise<Encoder> {
  const encoder = await encoderOf(format, options.sampleRate);
  if (encoder.sampleRate === options.sampleRate) return encoder;
  const resampler = makeResampler(options.sampleRate, encoder.sampleRate);
  return {
    push: (samples) => encoder.push(resampler.push(samples)),
    end() {
      const rest = encoder.push(resampler.end());
      const last = encoder.end();
      const both = new Uint8Array(rest.length + last.length);
      both.set(rest);
      both.set(last, rest.length);
      return both;
    },
    destroy: () => encoder.destroy(),
  };
}

/** Loads what the encoder needs, and fails where that is not installed. */
export async function prepareEncoder(format: AudioFormat): Promise<void> {
  await modules[format]();
}

/** Each codec is loaded when it is first asked for: most gateways speak one or two of them. */
async function encoderOf(format: AudioFormat, sampleRate: number): Promise<FixedRateEncoder> {
  switch (format) {
    case "mp3":
      return (await modules.mp3()).makeMp3Encoder();
    case "opus":
      return (await modules.opus()).makeOpusEncoder(sampleRate);
    case "aac":
      return (await modules.aac()).makeAacEncoder();
    case "flac":
      return (await modules.flac()).makeFlacEncoder(sampleRate);
    case "wav":
      return (await modules.wav()).makeWavEncoder();
    case "pcm":
      return (await modules.pcm()).makePcmEncoder();
  }
}

const modules = {
  mp3: () => import("./mpeg/mp3-encode.ts"),
  opus: () => import("./ogg/opus-encode.ts"),
  aac: () => import("./aac/aac-encode.ts"),
  flac: () => import("./flac/flac-encode.ts"),
  wav: () => import("./wav/wav-encode.ts"),
  pcm: () => import("./wav/wav-encode.ts"),
};
