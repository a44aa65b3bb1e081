import type { AskedCall } from "../../src/gateway/admission/limiter.ts";
import type { Budget } from "../../src/limits/limits.ts";
import type { BudgetLimit } from "../../src/state/budgets/leased-budget.ts";

/** A chat with a model that no channel serves. */
export function asks(model: string, id: string): AskedCall {
  return { id, model, operation: "chat", route: { model, tiers: [], size: 0 } };
}

/** A budget of a key for all of its calls. */
export function budgetOfKey(id: string, limitNanos: number, period: Budget["period"]): BudgetLimit {
  return {
    budget: id,
    ownerId: id,
    models: null,
    exceptModels: [],
    selector: null,
    selectorText: null,
    limitNanos,
    period,
    unpriced: "refuse",
    of: "this key",
  };
}
