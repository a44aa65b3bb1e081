import { failure, type Failure } from "../../operations/failure.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { Plan } from "../../routing/plan.ts";
import type { ReceiptOpening, Receipt } from "../../usage/receipt.ts";
import type { CallFacts } from "../call.ts";

/** How a call ended, recorded once: who asked for what, who answered, when, and what it used. It has no content. */
export interface CallRecord extends Readonly<CallFacts> {
  readonly status: number;
  readonly state: "complete" | "failed" | "interrupted" | "abandoned";
  readonly failure: Failure | null;
  readonly attempts: readonly AttemptRecord[];
  readonly endedMs: number;
  /** From the start of the call to the first content; null if there was none. */
  readonly firstContentMs: number | null;
  readonly usage: MeteredUsage | null;
  readonly finish: string | null;
  /** The model said in its answer that it refuses, which some upstreams tell apart from other words. */
  readonly refused?: boolean;
  readonly bytesOut: number;
  /** How often something arrived of a stream; 0 if the answer was not streamed. */
  readonly chunks: number;
  readonly clampedTo: number | null;
  /** Malformed events that were left out of the stream. */
  readonly skippedEvents: number;
  /** The plan; null if there was none, or if there were several (a long call). */
  readonly plan: Plan | null;
}

/** Resolves when a record is safe; null if there is nothing to wait for. */
export type Persisted = Promise<void> | null;

/** One attempt in the record of a call. */
export interface AttemptRecord {
  readonly channel: string;
  readonly provider: string | null;
  /** Host and port of the upstream. */
  readonly host: string;
  readonly model: string;
  readonly startedMs: number;
  /** How long the call had waited on purpose right before it: in a queue, or after a failure. */
  readonly waitedMs: number;
  readonly outcome: "answered" | "failed" | "abandoned";
  readonly failure: Failure | null;
  readonly tookMs: number;
  readonly hedge: boolean;
  /** The request was sent: from then on, the upstream may have worked on it. */
  readonly sent: boolean;
  /** The expected usage, for when the upstream reports none. */
  readonly expected: MeteredUsage;
  /** As the upstream reported it. */
  readonly usage: MeteredUsage | null;
  /** Estimated from the output that arrived, whether or not usage was reported. */
  readonly outputTokens: number;
  /** The longest time between two events of its stream, as far as somebody read it; null if there were no two. */
  readonly longestGapMs: number | null;
  /** The id of its span, which the upstream was told; absent if calls are not traced. */
  readonly spanId?: string | undefined;
}

/** The attempt that answered; the last one if the call was answered in parts. */
export function answeredBy(attempts: readonly AttemptRecord[]): AttemptRecord | null {
  for (let at = attempts.length - 1; at >= 0; at -= 1) if (attempts[at]!.outcome === "answered") return attempts[at]!;
  return null;
}

/** The failure of an attempt that lost against another one. */
export const lostRace = failure("deadline", "another attempt was quicker");

/** Where receipts are written. When a promise resolves, the receipt survives a crash of this process. */
export interface ReceiptBook {
  /** No more receipts fit. A call of a key with a budget must not begin. */
  readonly full: boolean;
  /** A call was admitted. A call of a key with a budget waits until this resolves. */
  open(opening: ReceiptOpening): Promise<void>;
  /** The same for a call without a budget: written within a moment, unless the call ends before that. */
  openDeferred(opening: ReceiptOpening): void;
  /** A call has ended. The last bytes of its answer wait for this. */
  close(receipt: Receipt): Promise<void>;
}
