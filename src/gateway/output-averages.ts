import { averaged, type OutputAverage } from "../usage/output-average.ts";
import { BoundedMap } from "./bounded-map.ts";

/** The averages of many models; those that were not learned from for longest are forgotten. */
export class OutputAverages {
  private readonly averages: BoundedMap<string, OutputAverage>;

  constructor(modelsMax = 10_000) {
    this.averages = new BoundedMap(modelsMax);
  }

  of(name: string): number | null {
    return this.averages.get(name)?.tokens ?? null;
  }

  learn(name: string, completionTokens: number | null): void {
    const average = averaged(this.averages.get(name) ?? null, completionTokens);
    if (average === null) return;
    this.averages.delete(name);
    this.averages.set(name, average);
  }
}
