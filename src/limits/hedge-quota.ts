import { callsIn, count, marksIn, newTally, type Span, type Tally } from "./tally.ts";

/** How many calls may be hedged: one in twenty, but one every ten seconds at any rate, or a quiet gateway never could. */
export interface HedgeQuota {
  readonly tally: Tally;
  readonly hedgedMs: number;
}

export function newHedgeQuota(): HedgeQuota {
  return { tally: newTally(), hedgedMs: Number.NEGATIVE_INFINITY };
}

const share = 0.05;
const alwaysAfterMs = 10_000;
const span: Span = { slotMs: 1_000, slots: 11 };

export function countCall({ tally }: HedgeQuota, nowMs: number): void {
  count(tally, span, nowMs, 1, 0);
}

export function mayHedge({ tally, hedgedMs }: HedgeQuota, nowMs: number): boolean {
  if (nowMs - hedgedMs >= alwaysAfterMs) return true;
  return marksIn(tally, span, nowMs) + 1 <= share * callsIn(tally, span, nowMs);
}

/** False where there is none to be had. */
export function takeHedge(quota: HedgeQuota, nowMs: number): boolean {
  if (!mayHedge(quota, nowMs)) return false;
  count(quota.tally, span, nowMs, 0, 1);
  (quota as { hedgedMs: number }).hedgedMs = nowMs;
  return true;
}
