/** A budget that has refused a call which all of it would have been enough for. It is plain data, which workers send to one another. */
export interface BudgetRefusal {
  readonly budget: string;
  readonly limitNanos: number;
  /** When it last did, on the wall clock. */
  readonly atMs: number;
}

/** The last refusal of each budget, by its id. */
export type BudgetRefusals = ReadonlyMap<string, BudgetRefusal>;

export function lastRefusals(refusals: readonly BudgetRefusal[]): BudgetRefusals {
  const last = new Map<string, BudgetRefusal>();
  for (const refusal of refusals) if (refusal.atMs >= (last.get(refusal.budget)?.atMs ?? 0)) last.set(refusal.budget, refusal);
  return last;
}

/**
 * Whether calls are refused now for want of money. A refusal of another period, or of a limit that was changed since, says nothing, and an
 * old one little: that call may have been larger than others, which another process admits.
 */
export function isRefusing(
  refusal: BudgetRefusal | undefined,
  { limitNanos, sinceMs }: { readonly limitNanos: number; readonly sinceMs: number | null },
  nowMs: number,
): boolean {
  if (refusal === undefined || refusal.limitNanos !== Math.floor(limitNanos)) return false;
  return refusal.atMs >= (sinceMs ?? 0) && nowMs - refusal.atMs < recentMs;
}

const recentMs = 600_000;
