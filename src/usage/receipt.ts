import type { Operation } from "../operations/operation.ts";

/** What one call consumed and cost, and how it went: written once, when it is over. No content. Times are wall-clock milliseconds. */
export interface Receipt {
  /** A UUIDv7 made when the call began: what makes writing it twice harmless. */
  readonly id: string;
  /** What the client was told as `x-request-id`; it may have chosen it itself. */
  readonly requestId: string;
  readonly keyId: string;
  readonly operation: Operation;
  /** As the client named it. */
  readonly model: string;
  /** Who answered; null where nobody did. */
  readonly channel: string | null;
  readonly upstreamModel: string | null;
  readonly stream: boolean;
  readonly status: number;
  /** `unknown`: the process died while the call was under way. */
  readonly state: "complete" | "failed" | "interrupted" | "abandoned" | "unknown";
  /** The kind of failure it ended with. */
  readonly error: string | null;
  readonly startedMs: number;
  readonly tookMs: number;
  readonly firstContentMs: number | null;
  /** What reached the client. */
  readonly delivered: Figures;
  /** Output tokens that upstreams made for it, over all attempts, delivered or not. */
  readonly generatedTokens: number | null;
  /** What upstreams will charge for it, over all attempts, in billionths of a dollar; null where a price is unknown. */
  readonly billedNanos: number | null;
  /** Of that, what attempts cost that lost a race. */
  readonly hedgeWasteNanos: number;
  /** An upstream may have charged for an attempt whose figures never came. */
  readonly costUncertain: boolean;
  /** Some figure is our own estimate. */
  readonly estimated: boolean;
  /** The answer is not whole: cut, or its client left. */
  readonly partial: boolean;
  /** Why the answer may be less than its client expects, though nobody failed: `truncated_audio`, the upload had been cut off. */
  readonly warning: string | null;
  readonly attempts: readonly AttemptReceipt[];
  /** Who could have been asked, and why they were or were not; null where there was no choice. */
  readonly plan: readonly PlannedStep[] | null;
}

export interface Figures {
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  readonly completionTokens: number | null;
  readonly reasoningTokens: number | null;
  readonly audioSeconds: number | null;
  readonly characters: number | null;
}

export interface AttemptReceipt extends Figures {
  readonly channel: string;
  /** The upstream's name. */
  readonly model: string;
  /** After the call's start. */
  readonly afterMs: number;
  readonly tookMs: number;
  readonly outcome: "answered" | "failed" | "abandoned";
  readonly status: number | null;
  readonly error: string | null;
  readonly blame: "client" | "channel" | "gateway" | null;
  readonly hedge: boolean;
  readonly nanos: number | null;
  readonly costUncertain: boolean;
  readonly estimated: boolean;
}

export interface PlannedStep {
  readonly channel: string;
  readonly model: string;
  readonly tier: number | null;
  /** `taken`, `ready` (not needed), or why it was passed over. */
  readonly verdict: string;
  /** What it was cooling for, and how long still. */
  readonly cause: string | null;
  readonly forMs: number | null;
}

/** A call that was let in: should we die before its receipt is written, this is what is known of it. */
export interface ReceiptOpening {
  readonly id: string;
  readonly requestId: string;
  readonly keyId: string;
  readonly operation: Operation;
  readonly model: string;
  readonly stream: boolean;
  readonly startedMs: number;
  readonly promptTokens: number | null;
  readonly audioSeconds: number | null;
  readonly characters: number | null;
  /** What was reserved for it. */
  readonly nanos: number | null;
}
