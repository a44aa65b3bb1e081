/**
 * How many calls of one route may be hedged: a token bucket that holds ten hedges. Every call refills a twentieth of a hedge, and
 * every ten seconds refill one, because a quiet route could never hedge otherwise. It counts in twentieths of a hedge.
 */
export interface HedgeQuota {
  left: number;
  /** When elapsed time was last added; null: never, and the bucket is full. */
  refilledMs: number | null;
}

const cost = 20;
const leftMax = 10 * cost;
const refillMs = 10_000 / cost;

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
  if (quota.left < cost) return false;
  quota.left -= cost;
  return true;
}
