import type { AttemptReceipt, Receipt } from "../../usage/receipt.ts";

/**
 * Nearly every call has a single successful attempt, about which the receipt already says everything but its times. Only the times
 * of such an attempt are stored, in the journal and in the database.
 */
export interface CompactAttempt {
  readonly afterMs: number;
  readonly tookMs: number;
}

/** Null if there is not exactly one attempt, or if it differs from its receipt. */
export function compactAttempt(receipt: Receipt): CompactAttempt | null {
  const { attempts } = receipt;
  if (attempts.length !== 1) return null;
  const attempt = attempts[0]!;
  return isPlain(attempt, receipt) ? attempt : null;
}

function isPlain(attempt: AttemptReceipt, receipt: Receipt): boolean {
  const { delivered } = receipt;
  return (
    attempt.outcome === "answered" &&
    attempt.status === plainStatus &&
    attempt.error === null &&
    attempt.blame === null &&
    !attempt.hedge &&
    attempt.channel === receipt.channel &&
    attempt.model === receipt.upstreamModel &&
    attempt.nanos === receipt.billedNanos &&
    attempt.costUncertain === receipt.costUncertain &&
    attempt.estimated === receipt.estimated &&
    attempt.promptTokens === delivered.promptTokens &&
    attempt.cachedTokens === delivered.cachedTokens &&
    attempt.completionTokens === delivered.completionTokens &&
    attempt.reasoningTokens === delivered.reasoningTokens &&
    attempt.audioSeconds === delivered.audioSeconds &&
    attempt.characters === delivered.characters
  );
}

export function expandAttempt({ afterMs, tookMs }: CompactAttempt, receipt: Receipt): AttemptReceipt {
  const { delivered } = receipt;
  return {
    channel: receipt.channel ?? "",
    model: receipt.upstreamModel ?? "",
    afterMs,
    tookMs,
    outcome: "answered",
    status: plainStatus,
    error: null,
    blame: null,
    hedge: false,
    nanos: receipt.billedNanos,
    costUncertain: receipt.costUncertain,
    estimated: receipt.estimated,
    promptTokens: delivered.promptTokens,
    cachedTokens: delivered.cachedTokens,
    completionTokens: delivered.completionTokens,
    reasoningTokens: delivered.reasoningTokens,
    audioSeconds: delivered.audioSeconds,
    characters: delivered.characters,
  };
}

const plainStatus = 200;
