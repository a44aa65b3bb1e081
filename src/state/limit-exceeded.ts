import type { LimitExceeded, RateLimitStatus } from "../gateway/admission/limiter.ts";
import type { HeldMoney } from "../gateway/storage.ts";
import type { BudgetPeriod } from "../limits/limits.ts";
import { periodEndMs } from "../limits/period.ts";
import { failure, type FailureFacts } from "../operations/failure.ts";
import { dollarsOf } from "../usage/dollars.ts";
import type { BudgetLimit, BudgetRefused } from "./budgets/leased-budget.ts";
import type { ConcurrencyLimit, RateLimit } from "./key-limits.ts";

/**
 * The errors for clients whose key or group has reached a limit, which they name. The words billing, quota and credit do not appear where a wait helps,
 * because some client frameworks never retry an error that contains them.
 */
export function rateLimitExceeded(rateLimit: RateLimit, waitMs: number, rateLimitStatus: RateLimitStatus | null): LimitExceeded {
  if (!Number.isFinite(waitMs)) return neverFits(rateLimit, rateLimitStatus);
  const message = `${capitalised(rateLimit.of)} is limited to ${figureOf(rateLimit)}, which leaves no room for this request now. Try again in ${spoken(waitMs)}.`;
  return limited(
    rateLimit.id,
    { ...rateFacts, message, retryAfterMs: Math.max(1, Math.min(Math.ceil(waitMs), minuteMs)) },
    rateLimitStatus,
  );
}

/** The call alone is more than the limit allows in a minute. */
export function neverFits(rateLimit: RateLimit, rateLimitStatus: RateLimitStatus | null): LimitExceeded {
  const message =
    rateLimit.what === "requests"
      ? `${capitalised(rateLimit.of)} is limited to ${figureOf(rateLimit)}: it may not be used for this.`
      : `This request needs more than all of what ${rateLimit.of} is limited to, ${figureOf(rateLimit)}, so it can never pass. ` +
        `Make it smaller, or ask the operator to raise the limit.`;
  return limited(rateLimit.id, { ...rateFacts, message }, rateLimitStatus);
}

export function concurrencyLimitExceeded(
  { id, limit, pattern, of }: ConcurrencyLimit,
  rateLimitStatus: RateLimitStatus | null,
): LimitExceeded {
  const calls = limit === 1 ? "1 call" : `${limit} calls`;
  const message = `${capitalised(of)} is limited to ${calls} at the same time${forModels(pattern)}, and that many are running. Try again in a moment.`;
  return limited(
    id,
    { status: 429, type: "rate_limit_error", code: "concurrency_limit", message, retryAfterMs: roomRetryMs },
    rateLimitStatus,
  );
}

export function budgetExceeded(
  budget: BudgetLimit,
  nanos: number,
  refused: Pick<BudgetRefused, "spentNanos" | "held">,
  wallMs: number,
  rateLimitStatus: RateLimitStatus | null,
): LimitExceeded {
  const name = `The budget of ${budget.of}${forModels(budget.models)}, $${dollarsOf(budget.limitNanos)}${periodWords[budget.period]},`;
  return limited(
    `budget ${budget.budget}`,
    {
      status: 429,
      type: "insufficient_quota",
      code: "insufficient_quota",
      message: `${name} ${whyNot(budget, nanos, refused)} ${whatNext(budget, nanos, wallMs)}`,
    },
    rateLimitStatus,
  );
}

export function priceUnknown(model: string, { of }: Pick<BudgetLimit, "of">, rateLimitStatus: RateLimitStatus | null): LimitExceeded {
  const message =
    `The budget of ${of} needs the price of the model ${JSON.stringify(model)}, which is not known. ` +
    "Set one with `sluice prices set`, or allow models without a price there.";
  return limited(
    `no price of ${model}`,
    { status: 403, type: "permission_error", code: "price_unknown", param: "model", message },
    rateLimitStatus,
  );
}

export function storeUnavailable(detail: string, rateLimitStatus: RateLimitStatus | null): LimitExceeded {
  return {
    kind: "limit_exceeded",
    failure: failure("store_unavailable", detail, { retryAfterMs: storeRetryMs }),
    retryAfterMs: storeRetryMs,
    rateLimitStatus,
  };
}

function limited(detail: string, facts: FailureFacts, rateLimitStatus: RateLimitStatus | null): LimitExceeded {
  return { kind: "limit_exceeded", failure: failure("limited", detail, facts), retryAfterMs: facts.retryAfterMs ?? null, rateLimitStatus };
}

function whyNot({ limitNanos }: BudgetLimit, nanos: number, { spentNanos, held }: Pick<BudgetRefused, "spentNanos" | "held">): string {
  if (nanos > limitNanos) return `is less than the $${dollarsOf(nanos)} that this request may cost.`;
  if (spentNanos !== null && spentNanos >= limitNanos) return "is spent.";
  const tooLittle = `leaves too little for this request, which may cost $${dollarsOf(nanos)}`;
  if (spentNanos === null || held === null) return `${tooLittle}, besides what is spent and what calls under way may cost.`;
  return `${tooLittle}: $${dollarsOf(spentNanos)} is spent, and $${dollarsOf(held.heldNanos)} is held for calls under way or not counted yet${whereHeld(held)}.`;
}

function whereHeld({ heldNanos, ownNanos, others }: HeldMoney): string {
  if (others === 0) return "";
  const elsewhere = `$${dollarsOf(heldNanos - ownNanos)} by ${others === 1 ? "another process" : `${others} others`}`;
  return ` ($${dollarsOf(ownNanos)} by this process, ${elsewhere})`;
}

function whatNext({ limitNanos, period }: BudgetLimit, nanos: number, wallMs: number): string {
  if (nanos > limitNanos) return "Make it smaller, or ask the operator to raise the budget.";
  if (period === "total") return "Ask the operator of this gateway to raise it.";
  return `The next ${period} begins at ${new Date(periodEndMs(period, wallMs)).toISOString().replace(".000Z", "Z")}.`;
}

function figureOf({ what, figure, pattern }: RateLimit): string {
  const unit = figure === 1 ? unitWords[what].replace(/s\b/, "") : unitWords[what];
  return `${figure} ${unit} per minute${forModels(pattern)}`;
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function forModels(pattern: string | null): string {
  return pattern === null ? "" : ` for the models ${JSON.stringify(pattern)}`;
}

function spoken(waitMs: number): string {
  const seconds = Math.max(1, Math.ceil(Math.min(waitMs, minuteMs) / 1_000));
  return seconds === 1 ? "1 second" : `${seconds} seconds`;
}

const rateFacts = { status: 429, type: "rate_limit_error", code: "rate_limit_exceeded" };
const unitWords: { readonly [W in RateLimit["what"]]: string } = {
  requests: "requests",
  tokens: "tokens",
  audio: "seconds of audio",
  characters: "characters",
};
const periodWords: { readonly [P in BudgetPeriod]: string } = {
  hour: " an hour",
  day: " a day",
  week: " a week",
  month: " a month",
  total: " in all",
};
/** A window is a little longer than a minute. A longer wait is not reported: official clients ignore a Retry-After of more than a minute. */
const minuteMs = 60_000;
/** It is not known when a call ends. */
const roomRetryMs = 1_000;
const storeRetryMs = 1_000;
