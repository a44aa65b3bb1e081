import type { BudgetLimit } from "./leased-budget.ts";

/** A budget that has refused a call which all of it would have been enough for. It is plain data, which workers send to one another. */
export interface BudgetRefusal {
  readonly budget: string;
  readonly limitNanos: number;
  /** When it last did, on the wall clock. */
  readonly atMs: number;
}

/** The budgets of which too little is left for calls that this process was asked to make: those that refused last, if there are too many. */
export class RefusedBudgets {
  /** In the order of their last refusals. */
  private readonly refusals = new Map<string, BudgetRefusal>();

  constructor(private readonly wallMs: () => number) {}

  readonly note = ({ budget, limitNanos }: Pick<BudgetLimit, "budget" | "limitNanos">): void => {
    this.refusals.delete(budget);
    const [oldest] = this.refusals.keys();
    if (this.refusals.size >= refusalsMax && oldest !== undefined) this.refusals.delete(oldest);
    this.refusals.set(budget, { budget, limitNanos, atMs: this.wallMs() });
  };

  list(): readonly BudgetRefusal[] {
    return [...this.refusals.values()];
  }
}

const refusalsMax = 5_000;
