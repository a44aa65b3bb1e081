import { callsIn, counted, marksIn, newTally, rolled, type Span, type Tally } from "./tally.ts";

/** How many calls may be hedged: one in twenty, but one every ten seconds at any rate, or a quiet gateway never could. */
export interface HedgeQuota {
  readonly tally: Tally;
  readonly hedgedMs: number;
}

export const newHedgeQuota: HedgeQuota = { tally: newTally, hedgedMs: Number.NEGATIVE_INFINITY };

const share = 0.05;
const alwaysAfterMs = 10_000;
const span: Span = { slotMs: 1_000, slots: 11 };

const call = { calls: 1, marks: 0 };
const hedge = { calls: 0, marks: 1 };

export function afterCall(quota: HedgeQuota, nowMs: number): HedgeQuota {
  return { tally: counted(quota.tally, span, nowMs, call), hedgedMs: quota.hedgedMs };
}

export function mayHedge(quota: HedgeQuota, nowMs: number): boolean {
  if (nowMs - quota.hedgedMs >= alwaysAfterMs) return true;
  const now = rolled(quota.tally, span, nowMs);
  return marksIn(now) + 1 <= share * callsIn(now);
}

export function tryHedge(quota: HedgeQuota, nowMs: number): { readonly allowed: boolean; readonly quota: HedgeQuota } {
  if (!mayHedge(quota, nowMs)) return { allowed: false, quota };
  return { allowed: true, quota: { tally: counted(quota.tally, span, nowMs, hedge), hedgedMs: nowMs } };
}
