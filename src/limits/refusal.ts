import type { Look, Standings } from "./rate-keeper.ts";

/** A limit has no room, and nothing was taken of any. */
export class Refusal implements Standings {
  readonly ok = false;

  constructor(
    readonly shortId: string,
    readonly waitMs: number,
    private readonly looks: readonly Look[],
  ) {}

  remaining(at: number): number {
    return this.looks[at]!.remaining;
  }

  resetMs(at: number): number {
    return this.looks[at]!.resetMs;
  }
}
