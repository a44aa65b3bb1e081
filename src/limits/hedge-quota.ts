/**
 * How many calls of one route may be hedged: a bucket of ten, which a twentieth of the route's calls refills, and one every ten
 * seconds at any rate, or a quiet route never could. It counts in twentieths of a hedge.
 */
export interface HedgeQuota {
  readonly left: number;
  /** When time was last counted in; null: never, and it is full. */
  readonly countedMs: number | null;
}

type Owned = { -readonly [K in keyof HedgeQuota]: HedgeQuota[K] };

const cost = 20;
const leftMax = 10 * cost;
const refillMs = 10_000 / cost;

export function newHedgeQuota(): HedgeQuota {
  return { left: leftMax, countedMs: null };
}

export function countCall(quota: HedgeQuota): void {
  if (quota.left < leftMax) (quota as Owned).left = Math.min(leftMax, quota.left + 1);
}

/** False where there is none to be had. */
export function takeHedge(quota: HedgeQuota, nowMs: number): boolean {
  const owned = quota as Owned;
  if (owned.countedMs !== null) owned.left = Math.min(leftMax, owned.left + (nowMs - owned.countedMs) / refillMs);
  owned.countedMs = nowMs;
  if (owned.left < cost) return false;
  owned.left -= cost;
  return true;
}
