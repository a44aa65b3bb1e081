import { isLength, moved, newOutputAverage, type OutputAverage } from "../../usage/output-average.ts";
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
