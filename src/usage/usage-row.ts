/** A query for usage, grouped and filtered. It is answered from sums that are updated with each receipt. */
export interface UsageQuery {
  readonly by: readonly UsageColumn[];
  /** From `sinceMs` (inclusive) to `untilMs` (exclusive), in wall-clock milliseconds, extended to whole hours. */
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  readonly keyId: string | null;
  /** Only calls that count for this group. Their keys cannot be told apart. */
  readonly groupId?: string | null;
  /** By group: only these. */
  readonly groups?: readonly string[] | null;
  /** Only keys that are now in one of these groups, or are among these. Which group a token of an issuer is in is not stored. */
  readonly keysOf?: { readonly groups: readonly string[]; readonly keys: readonly string[] } | null;
  readonly model: string | null;
  readonly channel: string | null;
}

/** A call counts for every group above its key, so that rows of different groups must not be added up. */
export type UsageColumn = "key" | "group" | "model" | "channel" | "operation" | "day" | "hour";
export const usageColumns: readonly UsageColumn[] = ["key", "group", "model", "channel", "operation", "day", "hour"];

export interface UsageRow {
  /** The values of the requested columns; a day as `2026-01-31`, an hour as `2026-01-31T14:00Z`; the key's id. */
  readonly group: Readonly<Partial<Record<UsageColumn, string | null>>>;
  readonly calls: number;
  readonly failedCalls: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly audioSeconds: number;
  readonly characters: number;
  /** The known part of the cost. Use `knownNanos` to show it. */
  readonly nanos: number;
  /** Calls whose price was not known, which `nanos` does not include. */
  readonly unpricedCalls: number;
  readonly uncertainCalls: number;
  readonly estimatedCalls: number;
}

/** The known cost of a row; null if nothing is known, so that an unknown cost does not look like a free call. */
export function knownNanos({ calls, nanos, unpricedCalls }: UsageRow): number | null {
  return unpricedCalls > 0 && unpricedCalls >= calls ? null : nanos;
}
