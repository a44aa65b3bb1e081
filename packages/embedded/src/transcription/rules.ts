import type { Vocabulary } from "./vocabulary.ts";

/** Speech begins within the first second of a window; otherwise the window would begin later. */
const firstTimestampMax = 50;

/**
 * Removes, in place, the tokens that may not follow `output`: timestamps come in pairs (the end of a segment and the start of the next), never
 * decrease, and begin a window. If all timestamps together are more likely than any word, only timestamps are allowed.
 */
export function suppressTokens(scores: Float32Array, output: readonly number[], vocabulary: Vocabulary): void {
  const { endOfText, firstTimestamp } = vocabulary;
  for (const token of vocabulary.suppressed) scores[token] = -Infinity;
  if (output.length === 0) {
    for (const token of vocabulary.suppressedFirst) scores[token] = -Infinity;
    scores.fill(-Infinity, 0, firstTimestamp);
    scores.fill(-Infinity, firstTimestamp + firstTimestampMax + 1);
    return;
  }
  const isTime = (token: number | undefined): boolean => token !== undefined && token >= firstTimestamp;
  const lastIsTime = isTime(output.at(-1));
  const pairIsOpen = lastIsTime && output.length > 1 && !isTime(output.at(-2));
  if (lastIsTime && !pairIsOpen) scores.fill(-Infinity, firstTimestamp);
  if (pairIsOpen) scores.fill(-Infinity, 0, endOfText);
  const latest = output.findLast(isTime);
  // A segment may start where the previous one ended, but may not end where it started: empty segments would never advance.
  if (latest !== undefined) scores.fill(-Infinity, firstTimestamp, pairIsOpen ? latest : latest + 1);
  if (logSum(scores, firstTimestamp, scores.length) > maximum(scores, 0, firstTimestamp)) scores.fill(-Infinity, 0, firstTimestamp);
}

export function maximum(scores: Float32Array, from: number, to: number): number {
  let best = -Infinity;
  for (let at = from; at < to; at++) if (scores[at]! > best) best = scores[at]!;
  return best;
}

/** log-sum-exp. */
export function logSum(scores: Float32Array, from: number, to: number): number {
  const best = maximum(scores, from, to);
  if (best === -Infinity) return best;
  let sum = 0;
  for (let at = from; at < to; at++) sum += Math.exp(scores[at]! - best);
  return best + Math.log(sum);
}
