import { framesPerSecond } from "./mel.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** A stretch of text between two times, in frames of 10 ms from the window's start. */
export interface Passage {
  readonly startFrame: number;
  readonly endFrame: number;
  /** With the times around them. */
  readonly tokens: readonly number[];
}

export interface Passages {
  readonly passages: readonly Passage[];
  /** How far the next window begins after this one. */
  readonly advanceFrames: number;
}

/** A timestamp token stands for 20 ms. */
const framesPerTimestamp = 0.02 * framesPerSecond;

/** Two windows never begin closer than this, so that the cost of a recording is bounded whatever the model says. */
const advanceFramesMin = 50;

/**
 * Cuts what was said at the pairs of times. The last pair shows where the model stopped being sure, so the next window begins there;
 * when there is only one time at the end, or none, the window is done.
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
