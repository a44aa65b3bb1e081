import { z } from "zod";
import { budgetPeriods } from "../../limits/limit-fields.ts";
import type { BudgetSpending } from "../../manage/key-spending.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import { isoOrNull } from "../../usage/time-text.ts";
import { moment } from "../fields/scalars.ts";

export const keyBudgetsAnswer = z.strictObject({
  id: z.string(),
  budgets: z.array(
    z.strictObject({
      name: z.string().nullable().describe("The name of a budget for some of the calls; null for the others."),
      models: z.string().nullable().describe("The pattern of models it is for; null for all of them."),
      period: z.enum(budgetPeriods),
      limit_usd: z.number(),
      spent_usd: z.number(),
      remaining_usd: z.number(),
      since_at: moment.nullable(),
      resets_at: moment.nullable(),
    }),
  ),
});

export function shownBudgets(id: string, spending: readonly BudgetSpending[]): z.input<typeof keyBudgetsAnswer> {
  return {
    id,
    budgets: spending.map(({ name, models, budget: { period, nanos }, spentNanos, sinceMs, resetsMs }) => ({
      name,
      models,
      period,
      limit_usd: dollarsNumber(nanos),
      spent_usd: dollarsNumber(spentNanos),
      remaining_usd: dollarsNumber(Math.max(0, nanos - spentNanos)),
      since_at: isoOrNull(sinceMs),
      resets_at: isoOrNull(resetsMs),
    })),
  };
}
