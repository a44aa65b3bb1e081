/** What the admin API names the rows of sums by: those columns that were asked for. */
export interface GroupedRow {
  readonly key?: string | null | undefined;
  readonly key_name?: string | null | undefined;
  readonly group?: string | null | undefined;
  readonly group_name?: string | null | undefined;
  readonly model?: string | null | undefined;
  readonly channel?: string | null | undefined;
  readonly operation?: string | null | undefined;
  readonly day?: string | null | undefined;
  readonly hour?: string | null | undefined;
}

/** A row of usage, as the admin API answers it. */
export interface UsageAnswerRow extends GroupedRow {
  readonly calls: number;
  readonly failed: number;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly audio_seconds: number;
  readonly characters: number;
  readonly cost_usd: number | null;
  readonly unpriced: number;
}

export type UsageTotals = Pick<
  UsageAnswerRow,
  "calls" | "failed" | "prompt_tokens" | "cached_tokens" | "completion_tokens" | "cost_usd" | "unpriced"
>;

/** The sum of all rows. Its cost is unknown only if that of every row is. */
export function summed(rows: readonly UsageAnswerRow[]): UsageTotals {
  const add = (pick: (row: UsageAnswerRow) => number): number => rows.reduce((sum, row) => sum + pick(row), 0);
  return {
    calls: add(({ calls }) => calls),
    failed: add(({ failed }) => failed),
    prompt_tokens: add(({ prompt_tokens }) => prompt_tokens),
    cached_tokens: add(({ cached_tokens }) => cached_tokens),
    completion_tokens: add(({ completion_tokens }) => completion_tokens),
    cost_usd: rows.length > 0 && rows.every(({ cost_usd }) => cost_usd === null) ? null : add(({ cost_usd }) => cost_usd ?? 0),
    unpriced: add(({ unpriced }) => unpriced),
  };
}

export function groupName(row: GroupedRow, by: string): string {
  switch (by) {
    case "key":
      return row.key_name ?? row.key ?? "–";
    case "group":
      return row.group_name ?? row.group ?? "–";
    case "channel":
      return row.channel ?? "no channel answered";
    case "model":
      return row.model ?? "–";
    case "operation":
      return row.operation ?? "–";
    default:
      return row.day ?? row.hour ?? "–";
  }
}

export function spanDays(since: string): number {
  const [, number = "1", unit = "d"] = /^(\d+)([hd])$/.exec(since) ?? [];
  return unit === "h" ? Number(number) / 24 : Number(number);
}

/**
 * The span of the same length before one that ends now. The gateway sums up whole hours: it begins each span with the hour of `since`, and
 * ends one with the hour of `until`, which is thus the one before the first hour of the other.
 */
export function spanBefore(since: string): { readonly since: string; readonly until: string } {
  const hours = Math.round(spanDays(since) * 24);
  return { since: `${2 * hours}h`, until: `${hours + 1}h` };
}
