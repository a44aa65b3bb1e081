import type { FailureKind } from "../../operations/failure.ts";

/** How an attempt stands while its call runs. */
export interface AttemptProgress {
  readonly channel: string;
  /** The upstream's name. */
  readonly model: string;
  readonly startedMs: number;
  /** Null while it runs. */
  readonly endedMs: number | null;
  readonly outcome: "running" | "answered" | "failed" | "abandoned";
  readonly error: FailureKind | null;
  readonly hedge: boolean;
  /** On the same clock as its start; null before its first content, and if it is not streamed. */
  readonly firstContentMs: number | null;
  /** Estimated from what has arrived. */
  readonly outputTokens: number;
}
