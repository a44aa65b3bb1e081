/** How much of a budget is used in its present period. */
export interface BudgetUse {
  readonly limitNanos: number;
  readonly spentNanos: number;
  /** It has refused a call lately that all of it would have been enough for, and admitted none since, as far as is known. */
  readonly isRefusing: boolean;
}

/** Whether so much is spent that an operator wants to hear of it. */
export function isNearlySpent({ limitNanos, spentNanos }: BudgetUse): boolean {
  return spentNanos >= limitNanos * nearlyShare;
}

/** Calls are refused before the last cent of a budget, once what is left is less than they may cost: for large calls that may be early. */
export function isSpent({ limitNanos, spentNanos, isRefusing }: BudgetUse): boolean {
  return spentNanos >= limitNanos || isRefusing;
}

const nearlyShare = 0.8;
