import { hopSamples } from "./mel.ts";

/** About -70 dB of full scale: far below any speech, above the dither and the hum of a good recording. */
const audibleLevel = 3e-4;

/** The first frame of 10 ms, from `frame` on, that can be heard at all; null when nothing more can. */
export function nextAudible(samples: Float32Array, frame: number): number | null {
  for (let at = frame; at * hopSamples < samples.length; at++) {
    const end = Math.min(samples.length, (at + 1) * hopSamples);
    let energy = 0;
    for (let sample = at * hopSamples; sample < end; sample++) energy += samples[sample]! * samples[sample]!;
    if (energy > audibleLevel * audibleLevel * (end - at * hopSamples)) return at;
  }
  return null;
}
