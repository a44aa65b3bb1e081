import type { AttemptReceipt, Receipt } from "./receipt.ts";

/** What was special about a call, by which calls can be found. */
export const outcomeMarks = ["truncated", "refused", "rescued", "rescue_failed", "failed_over", "retried", "hedged"] as const;
export type OutcomeMark = (typeof outcomeMarks)[number];

/**
 * What is counted of calls that did not simply succeed with their first attempt. All are numbers of calls, except for `hedges`, `hedges_won`
 * and `extra_attempts` (attempts), `extra_tokens`, and money in billionths of a dollar, as far as it is known.
 */
export const outcomeFigures = [
  /** The answer was as long as the client, the model or the gateway allows. */
  "truncated",
  /** The model or its provider refused: instead of an answer, or in the middle of one. */
  "refused",
  /** The answer broke off, and no other channel went on with it. */
  "interrupted",
  "abandoned",
  /** The process died during the call. */
  "unknown",
  /** A broken answer was continued by another attempt, which had output. */
  "rescued",
  "rescue_failed",
  /** Complete calls, of which an attempt had failed without output: another channel answered, or the same one did. */
  "failed_over",
  "retried",
  "hedges",
  "hedges_won",
  /** Attempts that the call would not have made without failover, hedging and rescue, and what they used. */
  "extra_attempts",
  "extra_tokens",
  "failover_nanos",
  "hedge_nanos",
  "rescue_nanos",
  "cache_saved_nanos",
] as const;
export type OutcomeFigure = (typeof outcomeFigures)[number];

export type JudgedAttempt = Pick<
  AttemptReceipt,
  "channel" | "outcome" | "status" | "error" | "hedge" | "promptTokens" | "completionTokens" | "nanos"
>;

/** Of a receipt, what its outcome is told from. */
export interface JudgedCall extends Pick<Receipt, "state" | "error" | "finish" | "hedgeWasteNanos" | "cacheSavedNanos"> {
  readonly attempts: readonly JudgedAttempt[];
}

export type CallOutcome = Readonly<Partial<Record<OutcomeFigure, number>>>;

/** Figures that are zero are left out. */
export function outcomeOf(call: JudgedCall): CallOutcome {
  const counts: Partial<Record<OutcomeFigure, number>> = {};
  const add = (figure: OutcomeFigure, amount = 1): void => {
    if (amount !== 0) counts[figure] = (counts[figure] ?? 0) + amount;
  };
  if (call.finish === "length") add("truncated");
  if (call.finish === "content_filter" || call.error === "content_policy") add("refused");
  if (call.state === "interrupted" || call.state === "abandoned" || call.state === "unknown") add(call.state);
  add("hedge_nanos", call.hedgeWasteNanos);
  add("cache_saved_nanos", call.cacheSavedNanos ?? 0);
  if (call.attempts.length > 1) countAttempts(call, add);
  return counts;
}

export function marksOf(outcome: CallOutcome): readonly OutcomeMark[] {
  return outcomeMarks.filter((mark) => (outcome[mark === "hedged" ? "hedges" : mark] ?? 0) > 0);
}

function countAttempts({ state, attempts }: JudgedCall, add: (figure: OutcomeFigure, amount?: number) => void): void {
  // If no attempt had output, the last one is what the call would have been anyway.
  const needless = attempts.some(hasOutput) ? attempts.length : attempts.length - 1;
  let broken = false;
  let continued = false;
  let spoke = false;
  let helped: "failed_over" | "retried" | null = null;
  for (const [at, attempt] of attempts.entries()) {
    if (attempt.hedge) {
      add("hedges");
      if (attempt.outcome === "answered") add("hedges_won");
    }
    const left = failedBefore(attempts, at);
    if (left !== null) helped = left.channel === attempt.channel ? (helped ?? "retried") : "failed_over";
    const continues = broken && !attempt.hedge;
    if (continues) {
      continued = true;
      spoke ||= hasOutput(attempt);
      add("rescue_nanos", attempt.nanos ?? 0);
    } else if (!hasOutput(attempt) && at < needless && !hasLost(attempt)) add("failover_nanos", attempt.nanos ?? 0);
    if (continues || (!hasOutput(attempt) && at < needless)) {
      add("extra_attempts");
      add("extra_tokens", (attempt.promptTokens ?? 0) + (attempt.completionTokens ?? 0));
    }
    broken ||= isBroken(attempt);
  }
  if (continued) add(spoke ? "rescued" : "rescue_failed");
  else if (helped !== null && state === "complete") add(helped);
}

/** The attempt without output whose place this one takes; null if there was none. A hedge stands beside another attempt, and takes no place. */
export function failedBefore(attempts: readonly JudgedAttempt[], at: number): JudgedAttempt | null {
  if (attempts[at]?.hedge !== false) return null;
  let place = at - 1;
  while (place >= 0 && attempts[place]!.hedge) place -= 1;
  const before = attempts[place];
  return before !== undefined && hasFailed(before) && !hasOutput(before) ? before : null;
}

/** Only a text that had begun can break. The next attempt that is no hedge goes on with it. */
export function isBroken({ outcome, status, error, completionTokens }: JudgedAttempt): boolean {
  return outcome === "failed" && (status === 200 || error === "interrupted") && (completionTokens ?? 0) > 0;
}

export function hasOutput(attempt: JudgedAttempt): boolean {
  return attempt.outcome === "answered" || isBroken(attempt);
}

/** Another attempt was quicker, or the client left. */
function hasLost({ outcome, error }: JudgedAttempt): boolean {
  return outcome === "abandoned" && (error === null || error === "deadline" || error === "client_gone");
}

function hasFailed(attempt: JudgedAttempt): boolean {
  return attempt.outcome !== "answered" && !hasLost(attempt);
}
