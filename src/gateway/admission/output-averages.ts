import { isLength, moved, newOutputAverage, type OutputAverage } from "../../usage/output-average.ts";
import { BoundedMap } from "../upstream-state/bounded-map.ts";

/** The averages of many models; those that were not learned from for longest are forgotten. */
export class OutputAverages {
  private readonly averages: BoundedMap<string, OutputAverage>;

  constructor(private readonly modelsMax = 10_000) {
    this.averages = new BoundedMap(modelsMax);
  }

  of(name: string): number | null {
    return this.averages.get(name)?.tokens ?? null;
  }

  /** A figure that cannot be a count changes nothing. */
  learn(name: string, completionTokens: number | null): void {
    if (!isLength(completionTokens)) return;
    const known = this.averages.get(name);
    const average = known ?? newOutputAverage();
    moved(average, completionTokens);
    // Who is learned from goes to the end; as long as nobody may have to leave, the order does not matter.
    const isCrowded = this.averages.size > this.modelsMax / 2;
    if (known !== undefined && isCrowded) this.averages.delete(name);
    if (known === undefined || isCrowded) this.averages.set(name, average);
  }
}
