import type { Failure } from "../operations/failure.ts";

/** Full jitter over an exponentially growing wait: spreads those who failed together better than any fixed step. */
export function backoffMs(failure: Failure, failuresSoFar: number, dice: () => number): number {
  const { baseMs, capMs } = failure.kind === "rate_limited" ? limited : failing;
  return dice() * Math.min(capMs, baseMs * 2 ** (failuresSoFar - 1));
}

const failing = { baseMs: 250, capMs: 4_000 };
const limited = { baseMs: 1_000, capMs: 20_000 };

/** Moving on to another channel needs no wait, only enough jitter that many calls do not arrive there as one. */
export function elsewhereMs(dice: () => number): number {
  return dice() * 50;
}
