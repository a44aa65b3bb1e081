/** A question about what was used: grouped, filtered, and answered from sums made while receipts came in. */
export interface UsageQuery {
  readonly by: readonly UsageColumn[];
  /** From this moment on, and up to but without that one; wall-clock milliseconds, widened to whole hours. */
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  readonly keyId: string | null;
  readonly model: string | null;
  readonly channel: string | null;
}

export type UsageColumn = "key" | "model" | "channel" | "operation" | "day" | "hour";
export const usageColumns: readonly UsageColumn[] = ["key", "model", "channel", "operation", "day", "hour"];

export interface UsageRow {
  /** The values of the columns asked for; a day as `2026-01-31`, an hour as `2026-01-31T14:00Z`; the key's id. */
  readonly group: Readonly<Partial<Record<UsageColumn, string | null>>>;
  readonly calls: number;
  readonly failedCalls: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly audioSeconds: number;
  readonly characters: number;
  /** What is known of the cost; to be shown by way of `knownNanos`. */
  readonly nanos: number;
  /** Calls whose price was not known: they are not in `nanos`. */
  readonly unpricedCalls: number;
  readonly uncertainCalls: number;
  readonly estimatedCalls: number;
}

/** What is known of the cost of a row; null where nothing is, since what nobody knows must not look like what is free. */
export function knownNanos({ calls, nanos, unpricedCalls }: UsageRow): number | null {
  return unpricedCalls > 0 && unpricedCalls >= calls ? null : nanos;
}
