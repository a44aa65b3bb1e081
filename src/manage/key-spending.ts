import type { Key } from "../keys/key.ts";
import { belongsTo } from "../keys/rule-models.ts";
import type { Budget } from "../limits/limits.ts";
import { periodEndMs, periodStartMs } from "../limits/period.ts";
import type { UsageRow } from "../usage/usage-row.ts";
import type { ManageContext } from "./context.ts";

/** One budget of a key, and what was spent of it in the current period. */
export interface BudgetSpending {
  /** The pattern of models it is for; null for all of them. */
  readonly models: string | null;
  readonly budget: Budget;
  readonly spentNanos: number;
  /** Both are null for a budget without a period. */
  readonly sinceMs: number | null;
  readonly resetsMs: number | null;
}

/** Exact, except for receipts that are not in the store yet: budgets begin and end with an hour, and usage is summed by hours. */
export async function budgetSpending(
  { reports, wallMs }: Pick<ManageContext, "reports" | "wallMs">,
  { id, limits }: Key,
): Promise<readonly BudgetSpending[]> {
  const nowMs = wallMs();
  const patterns = limits.models.map(({ pattern }) => pattern);
  const budgets: readonly { readonly models: string | null; readonly before: readonly string[]; readonly budget: Budget }[] = [
    ...(limits.budget === null ? [] : [{ models: null, before: [], budget: limits.budget }]),
    ...limits.models.flatMap(({ pattern, budget }, at) =>
      budget === null ? [] : [{ models: pattern, before: patterns.slice(0, at), budget }],
    ),
  ];
  const usedIn = new Map<string, readonly UsageRow[]>();
  for (const period of new Set(budgets.map(({ budget }) => budget.period))) {
    const sinceMs = period === "total" ? null : periodStartMs(period, nowMs);
    usedIn.set(period, await reports.receipts.usage({ by: ["model"], sinceMs, untilMs: null, keyId: id, model: null, channel: null }));
  }
  return budgets.map(({ models, before, budget }) => ({
    models,
    budget,
    spentNanos: (usedIn.get(budget.period) ?? [])
      .filter(({ group }) => belongsTo(models, before, group.model ?? ""))
      .reduce((total, { nanos }) => total + nanos, 0),
    sinceMs: budget.period === "total" ? null : periodStartMs(budget.period, nowMs),
    resetsMs: budget.period === "total" ? null : periodEndMs(budget.period, nowMs),
  }));
}

/** What a key has spent in all. */
export async function totalSpentNanos({ reports }: ManageContext, { id }: Key): Promise<number> {
  const [row] = await reports.receipts.usage({ by: [], sinceMs: null, untilMs: null, keyId: id, model: null, channel: null });
  return row?.nanos ?? 0;
}
