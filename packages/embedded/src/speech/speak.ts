import { pcmRate } from "../codecs/pcm.ts";
import { makeResampler, type Resampler } from "../codecs/resample.ts";
import type { Flite } from "./flite.ts";

export interface SpeechOptions {
  readonly voice: string;
  readonly speed: number;
}

/** Long enough to avoid a click, and too short to be heard. */
const fadeMs = 4;

/**
 * Speaks pieces of text one after the other, at the sample rate of PCM answers. The first piece is sent before the last is computed.
 * Leaving the loop, or aborting the signal, stops the work.
 */
export async function* speak(
  flite: Flite,
  pieces: readonly string[],
  { voice, speed }: SpeechOptions,
  signal: AbortSignal,
): AsyncGenerator<Float32Array, void> {
  let resampler: Resampler | null = null;
  for (const piece of pieces) {
    await yieldToEventLoop();
    signal.throwIfAborted();
    const { samples, sampleRate } = await flite.speak(piece, voice, speed);
    // One resampler for the whole text, because each new one would begin and end with silence.
    resampler ??= makeResampler(sampleRate, pcmRate);
    fade(samples, Math.round((sampleRate * fadeMs) / 1000));
    yield resampler.push(samples);
  }
  if (resampler !== null) yield resampler.end();
}

/** Fades both ends of a piece, so that pieces can be joined without a click. */
function fade(samples: Float32Array, length: number): void {
  const faded = Math.min(length, samples.length >> 1);
  for (let index = 0; index < faded; index++) {
    samples[index]! *= index / faded;
    samples[samples.length - 1 - index]! *= index / faded;
  }
}

/** Yields to the event loop between two pieces, because computing one takes long. */
function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
