import { callsIn, count, marksIn, newTally, type Span, type Tally } from "./sliding-counter.ts";

/**
 * How many retries the calls of one model group may make together: a fifth of the first attempts of the last ten seconds,
 * and three a second on top so that a quiet gateway can retry at all. In an outage this is what keeps retries from
 * multiplying the load on upstreams that are already down.
 */
export type RetryBudget = Tally;

export const newRetryBudget: () => RetryBudget = newTally;

const share = 0.2;
const floorPerSecond = 3;
const spanSeconds = 10;
const span: Span = { slotMs: 1_000, slots: spanSeconds + 1 };

export function countFirst(budget: RetryBudget, nowMs: number): void {
  count(budget, span, nowMs, 1, 0);
}

/** A first attempt of ours that the client calls a retry of its own: the same storm, so the same budget. */
export function countClientRetry(budget: RetryBudget, nowMs: number): void {
  count(budget, span, nowMs, 1, 1);
}

export function mayRetry(budget: RetryBudget, nowMs: number): boolean {
  return marksIn(budget, span, nowMs) + 1 <= share * callsIn(budget, span, nowMs) + floorPerSecond * spanSeconds;
}

/** False where there is none to be had. */
export function takeRetry(budget: RetryBudget, nowMs: number): boolean {
  if (!mayRetry(budget, nowMs)) return false;
  count(budget, span, nowMs, 0, 1);
  return true;
}
