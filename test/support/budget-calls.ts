import { BudgetLedger } from "../../src/state/budgets/budget-ledger.ts";
import type { BudgetLimit, BudgetRefused, ClockReading, ReservedPeriod } from "../../src/state/budgets/leased-budget.ts";

/** What was reserved for one call. */
export interface CallReservation {
  readonly ok: true;
  settle(costNanos: number | null): void;
}

/** A ledger whose calls know what they have reserved, as the limiter knows it for them. */
export class LedgerOfCalls extends BudgetLedger {
  override reserve(
    limit: BudgetLimit,
    nanos: number,
    now?: ClockReading,
  ): CallReservation | BudgetRefused | Promise<CallReservation | BudgetRefused> {
    const answer = super.reserve(limit, nanos, now);
    return answer instanceof Promise ? answer.then((late) => ofCall(late, nanos)) : ofCall(answer, nanos);
  }
}

function ofCall(answer: ReservedPeriod | BudgetRefused, nanos: number): CallReservation | BudgetRefused {
  return answer.ok ? { ok: true, settle: (cost) => answer.settle(nanos, cost) } : answer;
}
