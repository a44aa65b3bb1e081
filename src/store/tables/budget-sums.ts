import type { BudgetHoldRequest } from "../../gateway/storage.ts";
import { selectsPaid, type PaidCalls } from "../../keys/budget-selector.ts";
import { belongsTo } from "../../keys/rule-models.ts";
import type { BudgetSelector } from "../../limits/limits.ts";
import type { Database } from "../database.ts";
import { wordsOf } from "../receipts/receipt-line.ts";
import { sql, type Sql } from "../sql.ts";
import { parsedJson } from "../stored-json.ts";
import { selectorFrom } from "./stored-limits.ts";

/** The selector of a budget as it is stored; null for a budget of a key, and "damaged" if this version cannot read it. */
export function storedSelector(text: string | null): BudgetSelector | null | "damaged" {
  return text === null ? null : (selectorFrom(parsedJson(text)) ?? "damaged");
}

/** What was spent in the period, and what all processes hold for it. One statement, so that both are of the same moment. */
export async function spentAndHeld(
  database: Database,
  { budget, ownerId, models, exceptModels = [], selector: text = null, sinceMs }: BudgetHoldRequest,
): Promise<{ readonly spentNanos: number; readonly heldNanos: number }> {
  const stored = storedSelector(text);
  if (stored === "damaged") throw new TypeError("the selector of a budget is invalid");
  const ofDays = sinceMs % dayMs === 0;
  const fit = models === null ? { condition: sql`1 = 1`, exact: true } : modelCondition(models);
  const by: readonly PaidColumn[] = [
    ...(!fit.exact || exceptModels.length > 0 || stored?.models != null ? (["model"] as const) : []),
    ...(stored?.channels != null ? (["channel", "tags"] as const) : []),
    ...(stored?.operations != null ? (["operation"] as const) : []),
  ];
  const from =
    stored === null
      ? sql`${ofDays ? sql`usage_days` : sql`usage_hours`} where key_id = ${ownerId}`
      : sql`${ofDays ? sql`owner_days` : sql`owner_hours`} where owner_id = ${ownerId}`;
  const rows = await database.all<SpentRow>(sql`
    select 'held' as kind, '' as model, '' as channel, '' as tags, '' as operation, cast(coalesce(sum(nanos), 0) as bigint) as nanos
    from budget_holds where budget = ${budget} and since_ms = ${sinceMs}
    union all
    select 'spent' as kind, ${shown("model", by)} as model, ${shown("channel", by)} as channel, ${shown("tags", by)} as tags,
      ${shown("operation", by)} as operation, cast(coalesce(sum(nanos), 0) as bigint) as nanos
    from ${from} and at_ms >= ${sinceMs} and ${fit.condition}
    ${groupedBy(by)}`);
  let spentNanos = 0;
  let heldNanos = 0;
  for (const { kind, model, channel, tags, operation, nanos } of rows) {
    if (kind === "held") heldNanos += nanos;
    else if (by.includes("model") && !belongsTo(models, exceptModels, model)) continue;
    else if (stored === null || by.length === 0 || selectsPaid(stored, { model, channel, tags: wordsOf(tags), operation }))
      spentNanos += nanos;
  }
  return { spentNanos, heldNanos };
}

type PaidColumn = keyof PaidCalls;

interface SpentRow extends Omit<PaidCalls, "tags"> {
  readonly kind: string;
  readonly tags: string;
  readonly nanos: number;
}

const columnSql: { readonly [C in PaidColumn]: Sql } = {
  model: sql`model`,
  channel: sql`channel`,
  tags: sql`tags`,
  operation: sql`operation`,
};

/** A column that matters, or else nothing, so that its rows are summed. */
function shown(column: PaidColumn, by: readonly PaidColumn[]): Sql {
  return by.includes(column) ? columnSql[column] : sql`''`;
}

function groupedBy([first, ...others]: readonly PaidColumn[]): Sql {
  if (first === undefined) return sql``;
  return others.reduce((list, column) => sql`${list}, ${columnSql[column]}`, sql`group by ${columnSql[first]}`);
}

/**
 * A pattern with `*` as a condition on the column `model`. It does not use `like`, which ignores case in SQLite but not in
 * PostgreSQL. For a pattern with more than one star the condition is necessary but not sufficient (`exact` is false), and the
 * caller must match the pattern itself as well.
 */
function modelCondition(pattern: string): { readonly condition: Sql; readonly exact: boolean } {
  const parts = pattern.split("*");
  const first = parts[0] ?? "";
  if (parts.length === 1) return { condition: sql`model = ${first}`, exact: true };
  const last = parts.at(-1) ?? "";
  // Both engines count code points, not UTF-16 code units.
  const [before, after] = [Array.from(first).length, Array.from(last).length];
  const begins = before === 0 ? sql`` : sql` and substr(model, 1, cast(${before} as integer)) = ${first}`;
  const ends = after === 0 ? sql`` : sql` and substr(model, length(model) - cast(${after - 1} as integer)) = ${last}`;
  return { condition: sql`length(model) >= ${before + after}${begins}${ends}`, exact: parts.length === 2 };
}

const dayMs = 86_400_000;
