import { isGroupId } from "../../keys/group.ts";
import { marksOf, outcomeOf } from "../../usage/call-outcome.ts";
import { dollarsNumber } from "../../usage/dollars.ts";
import type { AttemptReceipt, Figures, PlannedStep, Receipt } from "../../usage/receipt.ts";
import { isoMoment } from "../../usage/time-text.ts";

/** A call in one line, under the field names of the admin API. */
export function shownSummary(receipt: Receipt, keyName: string | null) {
  return { ...head(receipt, keyName), ...shownFigures(receipt.delivered), attempts: receipt.attempts.length };
}

/** A call in full. */
export function shownReceipt(receipt: Receipt, keyName: string | null) {
  return {
    ...head(receipt, keyName),
    delivered: shownFigures(receipt.delivered),
    generated_tokens: receipt.generatedTokens,
    billed_usd: dollarsOrNull(receipt.billedNanos),
    cache_saved_usd: dollarsOrNull(receipt.cacheSavedNanos),
    hedge_waste_usd: dollarsNumber(receipt.hedgeWasteNanos),
    attempts: receipt.attempts.map(shownAttempt),
    plan: receipt.plan === null ? null : receipt.plan.map(shownStep),
  };
}

function head(receipt: Receipt, keyName: string | null) {
  return {
    id: receipt.id,
    request_id: receipt.requestId,
    key: receipt.keyId,
    key_name: keyName,
    groups: receipt.owners.filter(isGroupId),
    operation: receipt.operation,
    model: receipt.model,
    channel: receipt.channel,
    upstream_model: receipt.upstreamModel,
    stream: receipt.stream,
    status: receipt.status,
    state: receipt.state,
    error: receipt.error,
    started_at: isoMoment(receipt.startedMs),
    took_ms: receipt.tookMs,
    first_content_ms: receipt.firstContentMs,
    cost_usd: dollarsOrNull(receipt.billedNanos),
    cost_uncertain: receipt.costUncertain,
    estimated: receipt.estimated,
    partial: receipt.partial,
    warning: receipt.warning,
    outcomes: [...marksOf(outcomeOf(receipt))],
  };
}

function shownAttempt(attempt: AttemptReceipt) {
  const { channel, model, outcome, status, error, blame, hedge, estimated } = attempt;
  return {
    channel,
    model,
    after_ms: attempt.afterMs,
    took_ms: attempt.tookMs,
    outcome,
    status,
    error,
    blame,
    hedge,
    ...shownFigures(attempt),
    cost_usd: dollarsOrNull(attempt.nanos),
    cost_uncertain: attempt.costUncertain,
    estimated,
  };
}

function shownStep({ channel, model, tier, verdict, cause, forMs }: PlannedStep) {
  return { channel, model, tier, verdict, cause, for_ms: forMs };
}

function shownFigures(given: Figures) {
  return {
    prompt_tokens: given.promptTokens,
    cached_tokens: given.cachedTokens,
    completion_tokens: given.completionTokens,
    reasoning_tokens: given.reasoningTokens,
    audio_seconds: given.audioSeconds,
    characters: given.characters,
  };
}

function dollarsOrNull(nanos: number | null): number | null {
  return nanos === null ? null : dollarsNumber(nanos);
}
