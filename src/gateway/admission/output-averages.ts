import { BoundedMap } from "../upstream-state/bounded-map.ts";

/** The average output of many models. The model that was updated least recently is dropped first. */
export class OutputAverages {
  private readonly averages: BoundedMap<string, OutputAverage>;

  constructor(private readonly modelsMax = 10_000) {
    this.averages = new BoundedMap(modelsMax);
  }

  of(name: string): number | null {
    return this.averages.get(name)?.tokens ?? null;
  }

  /** A value that is not a valid count is ignored. */
  learn(name: string, completionTokens: number | null): void {
    if (!isLength(completionTokens)) return;
    const known = this.averages.get(name);
    const average = known ?? newOutputAverage();
    moved(average, completionTokens);
    // Updated models move to the end of the map. While it is far from full, the order does not matter.
    const isCrowded = this.averages.size > this.modelsMax / 2;
    if (known !== undefined && isCrowded) this.averages.delete(name);
    if (known === undefined || isCrowded) this.averages.set(name, average);
  }
}

/**
 * How long answers usually are. The first ones count alike, later ones move it slowly. It changes with every answer; only its owner
 * calls `moved`.
 */
interface OutputAverage {
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
function isLength(completionTokens: number | null): completionTokens is number {
  return completionTokens !== null && completionTokens >= 0 && completionTokens <= tokensMax;
}

/** One more answer. */
export function moved(average: OutputAverage, completionTokens: number): void {
  average.answers = Math.min(average.answers + 1, memory);
  average.tokens += (completionTokens - average.tokens) / average.answers;
}
