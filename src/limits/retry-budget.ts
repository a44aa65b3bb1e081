import { callsIn, count, marksIn, newSlidingCounter, type SlidingCounter, type WindowSpan } from "./sliding-counter.ts";

/**
 * How many retries the calls of one route may make together: a fifth of the first attempts of the last ten seconds, and
 * three a second on top, so that a quiet gateway can retry at all. It keeps an outage from multiplying the load on upstreams that
 * are already down (https://sre.google/sre-book/handling-overload/).
 */
export type RetryBudget = SlidingCounter;

export const newRetryBudget: () => RetryBudget = newSlidingCounter;

const share = 0.2;
const floorPerSecond = 3;
const spanSeconds = 10;
const span: WindowSpan = { slotMs: 1_000, slots: spanSeconds + 1 };

export function countFirst(budget: RetryBudget, nowMs: number): void {
  count(budget, span, nowMs, 1, 0);
}

/** Counts a first attempt that the client calls a retry of its own: it adds to the same storm, so it uses the same budget. */
export function countClientRetry(budget: RetryBudget, nowMs: number): void {
  count(budget, span, nowMs, 1, 1);
}

export function mayRetry(budget: RetryBudget, nowMs: number): boolean {
  return marksIn(budget, span, nowMs) + 1 <= share * callsIn(budget, span, nowMs) + floorPerSecond * spanSeconds;
}

/** False where the budget is used up. */
export function takeRetry(budget: RetryBudget, nowMs: number): boolean {
  if (!mayRetry(budget, nowMs)) return false;
  count(budget, span, nowMs, 0, 1);
  return true;
}

/**
 * How many calls of one route may be hedged: a token bucket that holds ten hedges. Every call refills a twentieth of a hedge, and
 * every ten seconds refill one, because a quiet route could never hedge otherwise. It counts in twentieths of a hedge.
 */
export interface HedgeQuota {
  left: number;
  /** When elapsed time was last added; null: never, and the bucket is full. */
  refilledMs: number | null;
}

const hedgeCost = 20;
const leftMax = 10 * hedgeCost;
const refillMs = 10_000 / hedgeCost;

export function newHedgeQuota(): HedgeQuota {
  return { left: leftMax, refilledMs: null };
}

export function countCall(quota: HedgeQuota): void {
  if (quota.left < leftMax) quota.left = Math.min(leftMax, quota.left + 1);
}

/** False where the quota is used up. */
export function takeHedge(quota: HedgeQuota, nowMs: number): boolean {
  if (quota.refilledMs !== null) quota.left = Math.min(leftMax, quota.left + (nowMs - quota.refilledMs) / refillMs);
  quota.refilledMs = nowMs;
  if (quota.left < hedgeCost) return false;
  quota.left -= hedgeCost;
  return true;
}
