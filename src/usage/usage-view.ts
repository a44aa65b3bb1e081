import { dollarsNumber } from "./dollars.ts";
import { knownNanos, usageColumns, type UsageColumn, type UsageRow } from "./usage-row.ts";

/** A row of usage, as the admin API, the command line and exports show it: flat, with the grouping columns first. */
export type UsageView = Readonly<Record<string, string | number | null>>;

/** The figures, in the order in which they are shown. */
export const usageFigures = [
  "calls",
  "prompt_tokens",
  "completion_tokens",
  "cached_tokens",
  "reasoning_tokens",
  "audio_seconds",
  "characters",
  "cost_usd",
  "estimated",
  "uncertain",
  "failed",
  "unpriced",
] as const;

type NameOf = (id: string) => string | null;

/** What a row is grouped by. `nameOf` returns the name of a key or a group; null if it is no longer known. */
export function namedColumns({ group }: Pick<UsageRow, "group">, nameOf: NameOf): Readonly<Record<string, string | null>> {
  const named: Record<string, string | null> = {};
  for (const [column, value] of Object.entries(group)) {
    named[column] = value;
    if (column === "key" || column === "group") named[`${column}_name`] = value === null ? null : nameOf(value);
  }
  return named;
}

export function usageView(row: UsageRow, nameOf: NameOf = () => null): UsageView {
  const nanos = knownNanos(row);
  const figures: Readonly<Record<(typeof usageFigures)[number], number | null>> = {
    calls: row.calls,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cached_tokens: row.cachedTokens,
    reasoning_tokens: row.reasoningTokens,
    audio_seconds: row.audioSeconds,
    characters: row.characters,
    cost_usd: nanos === null ? null : dollarsNumber(nanos),
    estimated: row.estimatedCalls,
    uncertain: row.uncertainCalls,
    failed: row.failedCalls,
    unpriced: row.unpricedCalls,
  };
  return { ...namedColumns(row, nameOf), ...figures };
}

/** The column names of a table, in order. */
export function usageHeadings(by: readonly UsageColumn[]): readonly string[] {
  return [...by.flatMap((column) => (column === "key" || column === "group" ? [column, `${column}_name`] : [column])), ...usageFigures];
}

/** Parses a list such as `key,model`; returns the first name that is no column, if any. */
export function readUsageColumns(text: string): readonly UsageColumn[] | { readonly unknown: string } {
  const columns = new Set<UsageColumn>();
  for (const word of text.split(",").map((part) => part.trim())) {
    if (word === "") continue;
    const column = usageColumns.find((known) => known === word);
    if (column === undefined) return { unknown: word };
    columns.add(column);
  }
  return [...columns];
}
