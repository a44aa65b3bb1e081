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
    if (!isTokenCount(completionTokens)) return;
    const known = this.averages.get(name);
    const average = known ?? newOutputAverage();
    addAnswer(average, completionTokens);
    // Updated models move to the end of the map. While it is far from full, the order does not matter.
    const isCrowded = this.averages.size > this.modelsMax / 2;
    if (known !== undefined && isCrowded) this.averages.delete(name);
    if (known === undefined || isCrowded) this.averages.set(name, average);
  }
}

/**
 * The average length of answers: a mean of the first ones, and an exponential moving average after that. `addAnswer` changes it in
 * place.
 */
interface OutputAverage {
  tokens: number;
  answers: number;
}

/** From this many answers on, each new one has a weight of one in so many. */
const memory = 20;
/** A larger count is a mistake of the upstream. */
const tokensMax = 1e9;

export function newOutputAverage(): OutputAverage {
  return { tokens: 0, answers: 0 };
}

function isTokenCount(completionTokens: number | null): completionTokens is number {
  return completionTokens !== null && completionTokens >= 0 && completionTokens <= tokensMax;
}

/** One more answer. */
export function addAnswer(average: OutputAverage, completionTokens: number): void {
  average.answers = Math.min(average.answers + 1, memory);
  average.tokens += (completionTokens - average.tokens) / average.answers;
}
