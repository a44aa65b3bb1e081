import { pcmRate } from "../codecs/pcm.ts";
import { makeResampler, type Resampler } from "../codecs/resample.ts";
import type { Flite } from "./flite.ts";

export interface SpeakingWishes {
  readonly voice: string;
  readonly speed: number;
}

/** Long enough to be heard as no click, too short to be heard at all. */
const fadeMs = 4;

/**
 * Speaks pieces of text one after the other, at the rate of bare audio. The first piece can be heard before the last
 * is computed. Leaving the loop ends the work, and so does the signal.
 */
export async function* speak(
  flite: Flite,
  pieces: readonly string[],
  { voice, speed }: SpeakingWishes,
  signal: AbortSignal,
): AsyncGenerator<Float32Array, void> {
  let resampler: Resampler | null = null;
  for (const piece of pieces) {
    await others();
    signal.throwIfAborted();
    const { samples, sampleRate } = await flite.speak(piece, voice, speed);
    // One for the whole text: it fills the seams, where two would each begin and end with silence.
    resampler ??= makeResampler(sampleRate, pcmRate);
    fade(samples, Math.round((sampleRate * fadeMs) / 1000));
    yield resampler.push(samples);
  }
  if (resampler !== null) yield resampler.end();
}

/** Both ends of a piece come from zero and go to zero, so that pieces can be joined. */
function fade(samples: Float32Array, length: number): void {
  const faded = Math.min(length, samples.length >> 1);
  for (let index = 0; index < faded; index++) {
    samples[index]! *= index / faded;
    samples[samples.length - 1 - index]! *= index / faded;
  }
}

/** A piece is a long computation: what happened meanwhile is seen between two of them. */
function others(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
