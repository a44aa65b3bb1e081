/**
 * How long answers usually are. The first ones count alike, later ones move it slowly. A changing value with one owner, because
 * every answer moves it.
 */
export interface OutputAverage {
  readonly tokens: number;
  readonly answers: number;
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
  const owned = average as { -readonly [K in keyof OutputAverage]: OutputAverage[K] };
  owned.answers = Math.min(owned.answers + 1, memory);
  owned.tokens += (completionTokens - owned.tokens) / owned.answers;
}
