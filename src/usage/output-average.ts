/**
 * How long answers usually are. The first ones count alike, later ones move it slowly. It changes with every answer; only its owner
 * calls `moved`.
 */
export interface OutputAverage {
  tokens: number;
  answers: number;
}

/** After so many answers each new one weighs as much as one of the last so many. */
const memory = 20;
/** A longer answer is a fault of whoever counted. */
const tokensMax = 1e9;

/** Nothing was learned yet. */
export function newOutputAverage(): OutputAverage {
  return { tokens: 0, answers: 0 };
}

/** Whether an average can be moved by it. */
export function isLength(completionTokens: number | null): completionTokens is number {
  return completionTokens !== null && completionTokens >= 0 && completionTokens <= tokensMax;
}

/** One more answer. */
export function moved(average: OutputAverage, completionTokens: number): void {
  average.answers = Math.min(average.answers + 1, memory);
  average.tokens += (completionTokens - average.tokens) / average.answers;
}
