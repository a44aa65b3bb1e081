/** How long answers usually are. The first ones count alike, later ones move it slowly. */
export interface OutputAverage {
  readonly tokens: number;
  readonly answers: number;
}

/** After so many answers each new one weighs as much as one of the last so many. */
const memory = 20;
/** A longer answer is a fault of whoever counted. */
const tokensMax = 1e9;

/** The average with one more answer; a figure that cannot be a count changes nothing. */
export function averaged(average: OutputAverage | null, completionTokens: number | null): OutputAverage | null {
  if (completionTokens === null || !(completionTokens >= 0 && completionTokens <= tokensMax)) return average;
  if (average === null) return { tokens: completionTokens, answers: 1 };
  const answers = Math.min(average.answers + 1, memory);
  return { tokens: average.tokens + (completionTokens - average.tokens) / answers, answers };
}
