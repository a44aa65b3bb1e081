import { selectsPaid, type PaidCalls } from "../keys/budget-selector.ts";
import type { Group } from "../keys/group.ts";
import type { Key } from "../keys/key.ts";
import { belongsTo } from "../keys/rule-models.ts";
import { isRefusing, type BudgetRefusals } from "../limits/budget-refusal.ts";
import { budgetId, budgetLabel } from "../limits/limit-id.ts";
import type { Budget, Limits } from "../limits/limits.ts";
import { periodEndMs, periodStartMs } from "../limits/period.ts";
import type { ManageContext } from "./context.ts";
import type { BudgetFact } from "./problems/problems.ts";

/** One budget of a key or a group, and what was spent of it in the current period. */
export interface BudgetSpending {
  /** The name of a budget with a selector; null for the others. */
  readonly name: string | null;
  /** The pattern of models it is for; null for all of them. */
  readonly models: string | null;
  readonly budget: Budget;
  readonly spentNanos: number;
  /** Both are null for a budget without a period. */
  readonly sinceMs: number | null;
  readonly resetsMs: number | null;
}

/** What is told of one budget of a key or a group. */
export interface ToldBudget extends BudgetFact {
  /** When the present period began; null for a budget without one. */
  readonly sinceMs: number | null;
}

/** `refusals`: the last ones of all budgets. */
export function toldBudget(
  { of, id, name }: Pick<ToldBudget, "of" | "id" | "name">,
  { name: selected, models: pattern, budget, spentNanos, sinceMs }: BudgetSpending,
  { refusals, nowMs }: { readonly refusals: BudgetRefusals; readonly nowMs: number },
): ToldBudget {
  const limitNanos = budget.nanos;
  const refusal = refusals.get(budgetId(id, pattern, selected));
  const refuses = isRefusing(refusal, { limitNanos, sinceMs }, nowMs);
  return { of, id, name, models: budgetLabel(pattern, selected), limitNanos, spentNanos, isRefusing: refuses, sinceMs };
}

type SpendingContext = Pick<ManageContext, "reports" | "wallMs">;

/** Exact, except for receipts that are not in the store yet: budgets begin and end with an hour, and usage is summed by hours. */
export async function budgetSpending(context: SpendingContext, { id, limits }: Key): Promise<readonly BudgetSpending[]> {
  const paidFor = async (sinceMs: number | null): Promise<readonly Paid[]> => {
    const query = { sinceMs, untilMs: null, keyId: id, model: null, channel: null };
    const rows = await context.reports.receipts.usage({ by: ["model"], ...query });
    return rows.map(({ group, nanos }) => ({ model: group.model ?? "", channel: "", tags: [], operation: "", nanos }));
  };
  return [
    ...(await spendingOf(context, ownBudgets(limits), paidFor)),
    ...(await spendingOf(context, selectedBudgets(limits), (sinceMs) => context.reports.receipts.payments(id, sinceMs))),
  ];
}

/** The same for a group: what all of its keys have spent. */
export async function groupSpending(context: SpendingContext, { id, limits }: Group): Promise<readonly BudgetSpending[]> {
  const budgets = [...ownBudgets(limits), ...selectedBudgets(limits)];
  return spendingOf(context, budgets, (sinceMs) => context.reports.receipts.payments(id, sinceMs));
}

/** What a key has spent in all. */
export async function totalSpentNanos({ reports }: ManageContext, { id }: Key): Promise<number> {
  const [row] = await reports.receipts.usage({ by: [], sinceMs: null, untilMs: null, keyId: id, model: null, channel: null });
  return row?.nanos ?? 0;
}

type Paid = PaidCalls & { readonly nanos: number };

interface CountedBudget extends Pick<BudgetSpending, "name" | "models" | "budget"> {
  readonly counts: (paid: PaidCalls) => boolean;
}

function ownBudgets(limits: Limits): readonly CountedBudget[] {
  const patterns = limits.models.map(({ pattern }) => pattern);
  return [
    ...(limits.budget === null ? [] : [{ name: null, models: null, budget: limits.budget, counts: () => true }]),
    ...limits.models.flatMap(({ pattern, budget }, at) => {
      const counts = ({ model }: PaidCalls): boolean => belongsTo(pattern, patterns.slice(0, at), model);
      return budget === null ? [] : [{ name: null, models: pattern, budget, counts }];
    }),
  ];
}

function selectedBudgets({ budgets }: Limits): readonly CountedBudget[] {
  return budgets.map((selected) => {
    const { name, nanos, period } = selected;
    return { name, models: null, budget: { nanos, period }, counts: (paid) => selectsPaid(selected, paid) };
  });
}

async function spendingOf(
  { wallMs }: SpendingContext,
  budgets: readonly CountedBudget[],
  paidFor: (sinceMs: number | null) => Promise<readonly Paid[]>,
): Promise<readonly BudgetSpending[]> {
  const nowMs = wallMs();
  const since = (period: Budget["period"]): number | null => (period === "total" ? null : periodStartMs(period, nowMs));
  const paidIn = new Map<Budget["period"], readonly Paid[]>();
  for (const period of new Set(budgets.map(({ budget }) => budget.period))) paidIn.set(period, await paidFor(since(period)));
  return budgets.map(({ name, models, budget, counts }) => ({
    name,
    models,
    budget,
    spentNanos: (paidIn.get(budget.period) ?? []).reduce((sum, paid) => (counts(paid) ? sum + paid.nanos : sum), 0),
    sinceMs: since(budget.period),
    resetsMs: budget.period === "total" ? null : periodEndMs(budget.period, nowMs),
  }));
}
