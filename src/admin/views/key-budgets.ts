import { z } from "zod";
import { belongsTo } from "../../keys/rule-models.ts";
import type { Key } from "../../keys/key.ts";
import type { Budget } from "../../limits/limits.ts";
import { periodEndMs, periodStartMs } from "../../limits/period.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import type { UsageRow } from "../../usage/usage-row.ts";
import type { Services } from "../services.ts";
import { moment, momentOf } from "../fields/scalars.ts";

export const keyBudgetsAnswer = z.strictObject({
  id: z.string(),
  budgets: z.array(
    z.strictObject({
      models: z.string().nullable().describe("The pattern of models it is for; null for all of them."),
      period: z.enum(["hour", "day", "week", "month", "total"]),
      limit_usd: z.number(),
      spent_usd: z.number(),
      remaining_usd: z.number(),
      since_at: moment.nullable(),
      resets_at: moment.nullable(),
    }),
  ),
});

/** Budgets end with hours, and what was used is summed by hours: so this is exact, but for receipts that are still under way. */
export async function keyBudgets({ id, limits }: Key, services: Services): Promise<z.input<typeof keyBudgetsAnswer>> {
  const nowMs = services.wallMs();
  const patterns = limits.models.map(({ pattern }) => pattern);
  const lines: readonly { readonly models: string | null; readonly before: readonly string[]; readonly budget: Budget }[] = [
    ...(limits.budget === null ? [] : [{ models: null, before: [], budget: limits.budget }]),
    ...limits.models.flatMap(({ pattern, budget }, at) =>
      budget === null ? [] : [{ models: pattern, before: patterns.slice(0, at), budget }],
    ),
  ];
  const periods = [...new Set(lines.map(({ budget }) => budget.period))];
  const usedIn = new Map<string, readonly UsageRow[]>();
  for (const period of periods) {
    const sinceMs = period === "total" ? null : periodStartMs(period, nowMs);
    const query = { by: ["model"] as const, sinceMs, untilMs: null, keyId: id, model: null, channel: null };
    usedIn.set(period, await services.reports.receipts.usage(query));
  }
  return {
    id,
    budgets: lines.map(({ models, before, budget: { period, nanos } }) => {
      const spent = spentOn(usedIn.get(period) ?? [], (model) => belongsTo(models, before, model));
      return {
        models,
        period,
        limit_usd: dollarsNumber(nanos),
        spent_usd: dollarsNumber(spent),
        remaining_usd: dollarsNumber(Math.max(0, nanos - spent)),
        since_at: period === "total" ? null : momentOf(periodStartMs(period, nowMs)),
        resets_at: period === "total" ? null : momentOf(periodEndMs(period, nowMs)),
      };
    }),
  };
}

function spentOn(rows: readonly UsageRow[], counts: (model: string) => boolean): number {
  return rows.reduce((total, { group, nanos }) => (counts(group.model ?? "") ? total + nanos : total), 0);
}
