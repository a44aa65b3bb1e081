import { callsIn, counted, marksIn, newTally, rolled, type Span, type Tally } from "./tally.ts";

/**
 * How many retries the calls of one model group may make together: a fifth of the first attempts of the last ten seconds,
 * and three a second on top so that a quiet gateway can retry at all. In an outage this is what keeps retries from
 * multiplying the load on upstreams that are already down.
 */
export type RetryBudget = Tally;

export const newRetryBudget: RetryBudget = newTally;

const share = 0.2;
const floorPerSecond = 3;
const spanSeconds = 10;
const span: Span = { slotMs: 1_000, slots: spanSeconds + 1 };

const first = { calls: 1, marks: 0 };
const retry = { calls: 0, marks: 1 };
const both = { calls: 1, marks: 1 };

export function afterFirst(budget: RetryBudget, nowMs: number): RetryBudget {
  return counted(budget, span, nowMs, first);
}

/** A first attempt of ours that the client calls a retry of its own: the same storm, so the same budget. */
export function afterClientRetry(budget: RetryBudget, nowMs: number): RetryBudget {
  return counted(budget, span, nowMs, both);
}

export function mayRetry(budget: RetryBudget, nowMs: number): boolean {
  const now = rolled(budget, span, nowMs);
  return marksIn(now) + 1 <= share * callsIn(now) + floorPerSecond * spanSeconds;
}

export function tryRetry(budget: RetryBudget, nowMs: number): { readonly allowed: boolean; readonly budget: RetryBudget } {
  if (!mayRetry(budget, nowMs)) return { allowed: false, budget };
  return { allowed: true, budget: counted(budget, span, nowMs, retry) };
}
