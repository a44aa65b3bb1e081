import { pcmRate } from "../../codecs/pcm.ts";

/** Quieter samples are silence. */
const audible = 0.01;
const leadMs = 100;
const sentenceMs = 320;
const clauseMs = 120;

/** The model surrounds each piece with most of a second of silence. It is shortened to a natural pause. */
export function withShortPauses(samples: Float32Array, endsSentence: boolean): Float32Array {
  const first = samples.findIndex((sample) => Math.abs(sample) >= audible);
  if (first < 0) return samples;
  const last = samples.findLastIndex((sample) => Math.abs(sample) >= audible);
  const begin = Math.max(0, first - inSamples(leadMs));
  return samples.slice(begin, last + 1 + inSamples(endsSentence ? sentenceMs : clauseMs));
}

function inSamples(ms: number): number {
  return (pcmRate * ms) / 1000;
}
