import type { Vocabulary } from "./vocabulary.ts";

/** Speech begins within the first second of a window, or the window would have begun later. */
const firstTimestampMax = 50;

/**
 * Takes away, in place, what may not follow `said`: times come in pairs (a segment's end, then the next one's start), never go back,
 * a window begins with one, and when the times together are likelier than every word, a time it is.
 */
export function restrain(scores: Float32Array, said: readonly number[], vocabulary: Vocabulary): void {
  const { endOfText, firstTimestamp } = vocabulary;
  for (const token of vocabulary.suppressed) scores[token] = -Infinity;
  if (said.length === 0) {
    for (const token of vocabulary.suppressedFirst) scores[token] = -Infinity;
    scores.fill(-Infinity, 0, firstTimestamp);
    scores.fill(-Infinity, firstTimestamp + firstTimestampMax + 1);
    return;
  }
  const isTime = (token: number | undefined): boolean => token !== undefined && token >= firstTimestamp;
  const lastIsTime = isTime(said.at(-1));
  const pairIsOpen = lastIsTime && said.length > 1 && !isTime(said.at(-2));
  if (lastIsTime && !pairIsOpen) scores.fill(-Infinity, firstTimestamp);
  if (pairIsOpen) scores.fill(-Infinity, 0, endOfText);
  const latest = said.findLast(isTime);
  // The start of a segment may be the end of the one before; its own end may not, or nothing would take no time for ever.
  if (latest !== undefined) scores.fill(-Infinity, firstTimestamp, pairIsOpen ? latest : latest + 1);
  if (logSum(scores, firstTimestamp, scores.length) > maximum(scores, 0, firstTimestamp)) scores.fill(-Infinity, 0, firstTimestamp);
}

export function maximum(scores: Float32Array, from: number, to: number): number {
  let best = -Infinity;
  for (let at = from; at < to; at++) if (scores[at]! > best) best = scores[at]!;
  return best;
}

/** The logarithm of the sum of the exponentials. */
export function logSum(scores: Float32Array, from: number, to: number): number {
  const best = maximum(scores, from, to);
  if (best === -Infinity) return best;
  let sum = 0;
  for (let at = from; at < to; at++) sum += Math.exp(scores[at]! - best);
  return best + Math.log(sum);
}
