import type { OutcomeFigure } from "./call-outcome.ts";
import type { UsageRow } from "./usage-row.ts";

/** What is known of the outcomes of some calls, as sums. */
export interface OutcomeRow {
  /** As in the usage of the same calls. */
  readonly group: UsageRow["group"];
  readonly figures: Readonly<Record<OutcomeFigure, number>>;
}

export interface AnswerTimesQuery {
  /** Only calls that count for this group, on whole days of UTC; null: all calls. */
  readonly groupId: string | null;
  readonly model: string;
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
}

/** How many calls fell into each of the buckets of `firstContentBoundsMs`, and beyond. */
export interface AnswerTimes {
  /** Streams, by the time to their first content. */
  readonly first: readonly number[];
  /** Complete calls, by how long they took. */
  readonly took: readonly number[];
}

/** What one channel used of one model of its upstream, over all attempts, whether or not they answered the client. */
export interface UpstreamRow {
  /** Empty for calls of processes that died: it is not known who was asked. */
  readonly channel: string;
  /** The upstream's name. */
  readonly model: string;
  readonly attempts: number;
  readonly answered: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
  readonly audioSeconds: number;
  readonly characters: number;
  readonly nanos: number;
  readonly unpriced: number;
  readonly uncertain: number;
  readonly estimated: number;
}
