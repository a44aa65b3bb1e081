import type { BudgetRefusal } from "../../limits/budget-refusal.ts";
import type { BudgetLimit } from "./leased-budget.ts";

/**
 * The budgets that had too little left for the last paid call that this process was asked to make: those that refused last, if there are too
 * many. One that admits a call again is not among them: what it refused was a large one.
 */
export class RefusedBudgets {
  /** In the order of their last refusals. */
  private readonly refusals = new Map<string, BudgetRefusal>();

  constructor(private readonly wallMs: () => number) {}

  note({ budget, limitNanos }: Pick<BudgetLimit, "budget" | "limitNanos">): void {
    this.refusals.delete(budget);
    const [oldest] = this.refusals.keys();
    if (this.refusals.size >= refusalsMax && oldest !== undefined) this.refusals.delete(oldest);
    this.refusals.set(budget, { budget, limitNanos, atMs: this.wallMs() });
  }

  forget({ budget }: Pick<BudgetLimit, "budget">): void {
    if (this.refusals.size > 0) this.refusals.delete(budget);
  }

  list(): readonly BudgetRefusal[] {
    return [...this.refusals.values()];
  }
}

const refusalsMax = 5_000;
