import type { Failure } from "../operations/failure.ts";
import type { Metered } from "../operations/usage.ts";
import type { CallFacts } from "./call.ts";

/** How a call ended, written down once: who asked for what, who answered, when, and what it consumed. No content. */
export interface CallRecord extends CallFacts {
  readonly status: number;
  readonly state: "complete" | "failed" | "interrupted" | "abandoned";
  readonly failure: Failure | null;
  readonly tries: readonly Try[];
  readonly endedMs: number;
  /** From the start of the call to the first content, or null where there was none. */
  readonly firstContentMs: number | null;
  readonly usage: Metered | null;
  readonly finish: string | null;
  readonly bytesOut: number;
  readonly clampedTo: number | null;
  /** Malformed events that were left out of the stream. */
  readonly skippedEvents: number;
}

/** One attempt, as it stands in the record. */
export interface Try {
  readonly channel: string;
  readonly model: string;
  readonly outcome: "answered" | "failed" | "abandoned";
  readonly failure: Failure | null;
  readonly tookMs: number;
  readonly hedge: boolean;
}
