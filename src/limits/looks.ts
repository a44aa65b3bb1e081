import type { Look, Standings } from "./rate-limit-store.ts";

/** How limits stood, as it was seen. */
export class Looks implements Standings {
  constructor(private readonly looks: readonly Look[]) {}

  remaining(at: number): number {
    return this.looks[at]!.remaining;
  }

  resetMs(at: number): number {
    return this.looks[at]!.resetMs;
  }
}
