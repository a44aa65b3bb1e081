import { Looks } from "./looks.ts";
import type { Look } from "./rate-limit-store.ts";

/** A limit has no room, and nothing was taken of any. */
export class Refusal extends Looks {
  readonly ok = false;

  constructor(
    readonly shortId: string,
    readonly waitMs: number,
    looks: readonly Look[],
  ) {
    super(looks);
  }
}
