import type { Operation } from "../operations/operation.ts";

/** How a call ended. `unknown`: the process died during the call. */
export const receiptStates = ["complete", "failed", "interrupted", "abandoned", "unknown"] as const;

/** What one call used and cost, and how it ended. It is written once, when the call is over, and holds no content. Times are wall-clock milliseconds. */
export interface Receipt {
  /** A UUIDv7 that is made when the call begins. It makes writing the receipt twice harmless. */
  readonly id: string;
  /** The `x-request-id` of the response; the client may have chosen it. */
  readonly requestId: string;
  readonly keyId: string;
  readonly operation: Operation;
  /** As the client named it. */
  readonly model: string;
  /** The channel that answered; null if none did. */
  readonly channel: string | null;
  readonly upstreamModel: string | null;
  readonly stream: boolean;
  readonly status: number;
  readonly state: (typeof receiptStates)[number];
  /** The kind of failure it ended with. */
  readonly error: string | null;
  readonly startedMs: number;
  readonly tookMs: number;
  readonly firstContentMs: number | null;
  /** What reached the client. */
  readonly delivered: Figures;
  /** Output tokens that upstreams generated, over all attempts, delivered or not. */
  readonly generatedTokens: number | null;
  /** What upstreams charge for all attempts, in billionths of a dollar; null if a price is unknown. */
  readonly billedNanos: number | null;
  /** The part of it for hedged attempts that were not used. */
  readonly hedgeWasteNanos: number;
  /** An upstream may have charged for an attempt that reported no usage. */
  readonly costUncertain: boolean;
  /** A figure is an estimate of the gateway. */
  readonly estimated: boolean;
  /** The answer is not complete: it broke off, or the client left. */
  readonly partial: boolean;
  /** Why the answer may be incomplete although no attempt failed: `truncated_audio`, the upload was cut off. */
  readonly warning: string | null;
  /** Why the answer ended, where that is worth knowing: it was as long as it may be, or the model or its provider refused to go on. */
  readonly finish: UnusualFinish | null;
  /** What caches of the upstream saved, in billionths of a dollar; negative if filling them cost more. Null if they were not used, or the price is unknown. */
  readonly cacheSavedNanos: number | null;
  /**
   * Whose limits it counts on besides those of its key: the groups that the key had when the call was admitted, the nearest first,
   * and the key itself where it has a budget with a selector.
   */
  readonly owners: readonly string[];
  /**
   * The tags of the channel that answered, for budgets that select channels. If none did, the name and the tags of the last one that charges for
   * the call, or `anyChannel` if it is not known who was asked. Without owners, nobody needs them.
   */
  readonly channelTags: readonly string[];
  readonly attempts: readonly AttemptReceipt[];
  /** The candidates, and why each was asked or not; null if there was no choice. */
  readonly plan: readonly PlannedStep[] | null;
}

export type UnusualFinish = "length" | "content_filter";

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
  /** `taken`, `ready` (not needed), or why it was skipped. */
  readonly verdict: string;
  /** The cause and the remaining time of its cool-down. */
  readonly cause: string | null;
  readonly forMs: number | null;
}

/** An admitted call, written when it begins: what is known if the process dies before its receipt is written. */
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
  /** As in its receipt. */
  readonly owners: readonly string[];
}

/** The `x-request-id` of a call whose client sent none. It is made of the receipt id, so that one leads to the other. */
export function requestNameOf(receiptId: string): string {
  return `req_${receiptId.replace(/-/g, "")}`;
}
