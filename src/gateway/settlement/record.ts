import { failure, type Failure } from "../../operations/failure.ts";
import type { Metered } from "../../operations/usage.ts";
import type { Plan } from "../../routing/plan.ts";
import type { CallFacts } from "../call.ts";

/** How a call ended, written down once: who asked for what, who answered, when, and what it consumed. No content. */
export interface CallRecord extends CallFacts {
  readonly status: number;
  readonly state: "complete" | "failed" | "interrupted" | "abandoned";
  readonly failure: Failure | null;
  readonly attempts: readonly AttemptRecord[];
  readonly endedMs: number;
  /** From the start of the call to the first content, or null where there was none. */
  readonly firstContentMs: number | null;
  readonly usage: Metered | null;
  readonly finish: string | null;
  readonly bytesOut: number;
  readonly clampedTo: number | null;
  /** Malformed events that were left out of the stream. */
  readonly skippedEvents: number;
  /** Who could have been asked; null where it did not come to that, or where there were several such questions. */
  readonly plan: Plan | null;
}

/** Resolves when a record is safe; null where there is nothing to wait for. */
export type Persisted = Promise<void> | null;

/** One attempt, as it stands in the record. */
export interface AttemptRecord {
  readonly channel: string;
  readonly provider: string | null;
  readonly model: string;
  readonly startedMs: number;
  readonly outcome: "answered" | "failed" | "abandoned";
  readonly failure: Failure | null;
  readonly tookMs: number;
  readonly hedge: boolean;
  /** Its request was handed to the network: from then on, whoever was asked may have begun to work. */
  readonly sent: boolean;
  /** What it would use, as far as its request tells: for when nobody else does. */
  readonly expected: Metered;
  /** As the upstream reported it. */
  readonly usage: Metered | null;
  /** Roughly how many tokens of output arrived, whether or not they were reported. */
  readonly outputTokens: number;
}

/** The attempt that answered; the last one, where a call was answered in parts. */
export function answeredBy(attempts: readonly AttemptRecord[]): AttemptRecord | null {
  for (let at = attempts.length - 1; at >= 0; at -= 1) if (attempts[at]!.outcome === "answered") return attempts[at]!;
  return null;
}

/** The failure of an attempt that another one was quicker than. */
export const lostRace = failure("deadline", "another attempt was quicker");
