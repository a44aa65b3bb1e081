import { softmax } from "./transformer.ts";

/** How the next token is chosen. Temperature 0 always takes the most likely token. */
export interface Sampling {
  readonly temperature: number;
  /** Choose only among the most likely tokens whose probabilities add up to this (nucleus sampling). */
  readonly topP: number;
  /** Subtracted from the score of each token in the answer, per occurrence and once. */
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
}

/** Modifies `scores`. `dice` returns a number from 0 up to, but not including, 1. */
export function chooseToken(scores: Float32Array, sampling: Sampling, written: ReadonlyMap<number, number>, dice: () => number): number {
  for (const [token, times] of written) scores[token]! -= sampling.presencePenalty + times * sampling.frequencyPenalty;
  if (sampling.temperature === 0) return likeliest(scores);
  softmax(scores, scores.length, sampling.temperature);
  return sampling.topP < 1 ? amongLikeliest(scores, sampling.topP, dice()) : amongAll(scores, dice());
}

function likeliest(scores: Float32Array): number {
  let best = 0;
  for (let token = 1; token < scores.length; token++) if (scores[token]! > scores[best]!) best = token;
  return best;
}

function amongAll(shares: Float32Array, cast: number): number {
  let sum = 0;
  for (let token = 0; token < shares.length; token++) {
    sum += shares[token]!;
    if (cast < sum) return token;
  }
  // Rounding may make the sum a little less than one.
  return likeliest(shares);
}

function amongLikeliest(shares: Float32Array, topP: number, cast: number): number {
  // Tokens with a smaller probability cannot be among them.
  const least = (1 - topP) / (shares.length - 1);
  const candidates: number[] = [];
  for (let token = 0; token < shares.length; token++) if (shares[token]! >= least) candidates.push(token);
  candidates.sort((left, right) => shares[right]! - shares[left]!);
  let count = 0;
  let sum = 0;
  while (count < candidates.length && sum < topP) sum += shares[candidates[count++]!]!;
  let rest = cast * sum;
  for (const token of candidates.slice(0, count)) {
    rest -= shares[token]!;
    if (rest < 0) return token;
  }
  return likeliest(shares);
}

/** A seeded pseudo-random generator, the same on each machine. Not for cryptography. */
export function seededDice(seed: string): () => number {
  let state = 2_166_136_261;
  for (const byte of new TextEncoder().encode(seed)) state = Math.imul(state ^ byte, 16_777_619);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
