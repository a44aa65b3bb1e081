import { framesPerSecond } from "./mel.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Text between two timestamps, in frames of 10 ms from the start of the window. */
export interface Passage {
  readonly startFrame: number;
  readonly endFrame: number;
  /** With the timestamp tokens around them. */
  readonly tokens: readonly number[];
}

export interface Passages {
  readonly passages: readonly Passage[];
  /** Where the next window begins, relative to this one. */
  readonly advanceFrames: number;
}

/** The resolution of a timestamp token is 20 ms. */
const framesPerTimestamp = 0.02 * framesPerSecond;

/** The least distance of two windows, so that the cost of a recording is bounded whatever the model outputs. */
const advanceFramesMin = 50;

/**
 * Splits the decoded tokens at pairs of timestamps. The last pair is the end of what the model is sure about, so that the next window
 * begins there. With a single timestamp at the end, or none, the window is complete.
 */
export function passages(tokens: readonly number[], windowFrames: number, vocabulary: Vocabulary): Passages {
  const isTime = (token: number | undefined): boolean => token !== undefined && token >= vocabulary.firstTimestamp;
  const frame = (token: number): number => Math.min(windowFrames, (token - vocabulary.firstTimestamp) * framesPerTimestamp);
  const cuts = tokens.flatMap((token, at) => (at > 0 && isTime(token) && isTime(tokens[at - 1]) ? [at] : []));
  const endsWithOneTime = isTime(tokens.at(-1)) && !isTime(tokens.at(-2));
  if (cuts.length === 0) {
    const times = tokens.filter(isTime);
    const start = times.length > 1 ? frame(times[0]!) : 0;
    const end = times.length > 0 && frame(times.at(-1)!) > start ? frame(times.at(-1)!) : windowFrames;
    return { passages: tokens.length === 0 ? [] : [{ startFrame: start, endFrame: end, tokens }], advanceFrames: windowFrames };
  }
  const ends = endsWithOneTime ? [...cuts, tokens.length] : cuts;
  const found = ends.map((end, index) => {
    const part = tokens.slice(index === 0 ? 0 : ends[index - 1], end);
    return { startFrame: frame(part[0]!), endFrame: frame(part.at(-1)!), tokens: part };
  });
  const advance = endsWithOneTime ? windowFrames : found.at(-1)!.endFrame;
  return { passages: found, advanceFrames: Math.max(advance, advanceFramesMin) };
}
