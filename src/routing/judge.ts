import { isLocalModel, type Candidate } from "../channels/channel.ts";
import { chargedScope } from "../channels/health.ts";
import type { Failure } from "../operations/failure.ts";
import type { Candidates, Choice, RoutingPolicy } from "./plan.ts";

/** What to do after an attempt that failed before any content had reached the client. */
export type Verdict = NextAttempt | Stop;

export interface NextAttempt {
  readonly action: "attempt";
  readonly candidate: Candidate;
  /** As in the plan: the attempt is the candidate's probe. */
  readonly probe: boolean;
  /** As in the plan: the candidate is asked despite its open breaker. */
  readonly lastResort?: true;
  readonly afterMs: number;
  /** The same candidate as the attempt before. */
  readonly same: boolean;
  /** Not charged to the retry budget: the last attempt failed because our own connection was stale. */
  readonly free: boolean;
}

export interface Stop {
  readonly action: "stop";
  readonly because:
    | "client_fault"
    | "client_gone"
    | "committed"
    | "gateway"
    | "hosted_tools"
    | "attempts"
    | "deadline"
    | "budget"
    | "no_candidate";
}

export interface FailedAttempt {
  readonly candidate: Candidate;
  readonly failure: Failure;
  readonly tookMs: number;
}

export interface JudgeInput {
  readonly policy: RoutingPolicy;
  readonly plan: Candidates;
  /** Every attempt so far, in order; at least one. */
  readonly failedAttempts: readonly FailedAttempt[];
  /** The configured deadline for the first content, and what is left of it. */
  readonly deadlineMs: number;
  readonly remainingMs: number;
  /** How long one attempt may wait for its first content. */
  readonly attemptTimerMs: number;
  readonly bodyBytes: number;
  /** The body is a file and not a prompt, so its size says nothing about a context window. */
  readonly upload: boolean;
  readonly hostedTools: boolean;
  readonly promptTokensEstimate: number;
  /** The retry budget of the route has one left. */
  readonly canRetry: boolean;
  /** Whether its health allows an attempt now. */
  readonly admits: (candidate: Candidate) => boolean;
  /** Whether it may be asked now despite its health, as a last resort. */
  readonly admitsAsLastResort: (candidate: Candidate) => boolean;
  readonly dice: () => number;
}

const largeBodyBytes = 1024 * 1024;
const largeBodyAttemptsMax = 2;
/** A call waits no longer than this for an upstream's Retry-After. */
const retryAfterMaxMs = 5_000;
/** An upstream that failed more slowly than this is not asked again within its tier. */
const quickMs = 5_000;
const attemptMinMs = 2_000;

export function judge(input: JudgeInput): Verdict {
  const { failedAttempts } = input;
  const last = failedAttempts.at(-1);
  if (last === undefined) throw new Error("judge was asked about a call without an attempt");

  const ending = finalReason(last.failure);
  if (ending !== null) return stop(ending);
  if (input.hostedTools && !isSurelyUnprocessed(last.failure)) return stop("hosted_tools");

  // A request that is repeated in an adapted form does not count: each deployment gets it at most once, whatever its size.
  const counted = failedAttempts.filter(({ failure }) => failure.kind !== "stale_socket" && failure.retryAdapted !== true).length;
  const attemptsMax = Math.min(input.policy.attemptsMax, input.bodyBytes > largeBodyBytes ? largeBodyAttemptsMax : Infinity);
  if (counted >= attemptsMax) return stop("attempts");

  const next = verdictAfter(input, last, attemptsMax - counted);
  if (next.action === "stop") return next;
  if (!fits(input, next.afterMs)) return stop("deadline");
  return next.free || input.canRetry ? next : stop("budget");
}

/** Why no candidate is asked after this failure, whatever the plan holds; null: one may be. */
function finalReason(failure: Failure): Stop["because"] | null {
  switch (failure.kind) {
    case "invalid_request":
    case "content_policy":
      return "client_fault";
    case "client_gone":
      return "client_gone";
    case "interrupted":
      return "committed";
    case "deadline":
      return "deadline";
    case "no_channel":
    case "shutting_down":
    case "internal":
      return "gateway";
    default:
      return null;
  }
}

/** Hosted tools may have run at the upstream already, unless the request did not reach it or was rejected for load or for its form. */
function isSurelyUnprocessed(failure: Failure): boolean {
  switch (failure.kind) {
    case "unreachable":
    case "tls_failed":
    case "connect_timeout":
    case "saturated":
    case "rate_limited":
      return true;
    default:
      return failure.retryAdapted === true || failure.status === 429 || failure.status === 503;
  }
}

function verdictAfter(input: JudgeInput, last: FailedAttempt, attemptsLeft: number): Verdict {
  const { failure } = last;
  switch (failure.kind) {
    case "stale_socket":
      return timesFailed(input, last, "stale_socket") === 1 ? retry(input, last, 0, true) : nextInPlan(input, last, attemptsLeft);
    case "ceiling":
      // The upstream named its ceiling, so the same candidate will accept a smaller number. If it refuses again, the ceiling was wrong.
      if (failure.ceiling !== null && timesFailed(input, last, "ceiling") === 1) return retry(input, last, 0, false);
      return toAnotherChannelOnce(input, last);
    case "unsupported":
      if (failure.retryAdapted === true) return retry(input, last, 0, false);
      if (asksForStreamOptions(failure) && timesFailed(input, last, "unsupported") === 1) return retry(input, last, 0, false);
      return toAnotherChannelOnce(input, last);
    case "context_length":
      return input.upload ? toAnotherChannelOnce(input, last) : toLargerContext(input, last);
    case "too_large":
      return toAnotherHostOnce(input);
    case "model_failed":
      if (input.failedAttempts.filter((attempt) => attempt.failure.kind === "model_failed").length > 1) return stop("attempts");
      return attemptOn(input, firstUsable(input)) ?? lastResort(input) ?? stop("no_candidate");
    default:
      return nextInPlan(input, last, attemptsLeft);
  }
}

/**
 * The next candidate of the plan. Before the call falls back to a lower tier, which often has a weaker model, a tier that failed
 * quickly is asked once more; but only if an attempt is left for each lower tier, because one healthy tier must be enough to serve
 * the call. When no candidate is left, one with an open breaker is tried, which may have recovered; after that, the same ones again.
 */
function nextInPlan(input: JudgeInput, last: FailedAttempt, attemptsLeft: number): Verdict {
  const next = firstUsable(input);
  if (next === undefined) return lastResort(input) ?? retryLeastTried(input);
  const tier = tierOf(input.plan, last.candidate);
  if (next.tier > tier && attemptsLeft > tiersBelow(input, tier)) {
    const second = retryTier(input, last, tier);
    if (second !== null) return second;
  }
  return attemptOn(input, next) ?? stop("no_candidate");
}

/** How many lower tiers have a usable candidate. An attempt is kept for each. */
function tiersBelow(input: JudgeInput, tier: number): number {
  const below = input.plan.candidates.filter((choice) => choice.tier > tier && isUsable(choice, input));
  return new Set(below.map((choice) => choice.tier)).size;
}

/** The first candidate of the plan that no failure has ruled out. */
function firstUsable(input: JudgeInput, wanted: (choice: Choice) => boolean = () => true): Choice | undefined {
  return input.plan.candidates.find((choice) => wanted(choice) && isUsable(choice, input));
}

function isUsable({ candidate }: Choice, input: JudgeInput): boolean {
  return !isRuledOut(candidate, input.failedAttempts) && input.admits(candidate);
}

/** A failure rules out, for this call, every candidate that shares the scope it is charged to; without one, the deployment. */
function isRuledOut(candidate: Candidate, failedAttempts: readonly FailedAttempt[]): boolean {
  const { host, credential, deployment, quota } = candidate.scopes;
  return failedAttempts.some((attempt) => {
    if (attempt.candidate === candidate) return true;
    const charged = chargedScope(attempt.candidate, attempt.failure) ?? attempt.candidate.scopes.deployment;
    return charged === host || charged === credential || charged === deployment || charged === quota;
  });
}

function attemptOn(input: JudgeInput, choice: Choice | undefined): NextAttempt | null {
  if (choice === undefined) return null;
  const { candidate, probe } = choice;
  return { action: "attempt", candidate, probe, afterMs: jitterMs(input.dice), same: false, free: false };
}

/** Without a delay: after one, another call may have used the turn of this candidate. */
function lastResort(input: JudgeInput): NextAttempt | null {
  const choice = input.plan.reserve?.find(
    ({ candidate }) => !isRuledOut(candidate, input.failedAttempts) && input.admitsAsLastResort(candidate),
  );
  if (choice === undefined) return null;
  const { candidate, probe } = choice;
  return { action: "attempt", candidate, probe, lastResort: true, afterMs: 0, same: false, free: false };
}

function retry(input: JudgeInput, attempt: FailedAttempt, afterMs: number, free: boolean): NextAttempt {
  const { candidate } = attempt;
  const probe = input.plan.candidates.some((choice) => choice.candidate === candidate && choice.probe);
  return { action: "attempt", candidate, probe, afterMs, same: candidate === input.failedAttempts.at(-1)?.candidate, free };
}

/** Asks the last candidate of a tier once more if all failures of the tier were quick. Timeouts never are. */
function retryTier(input: JudgeInput, last: FailedAttempt, tier: number): NextAttempt | null {
  const inTier = input.failedAttempts.filter((attempt) => tierOf(input.plan, attempt.candidate) === tier);
  if (new Set(inTier.map((attempt) => attempt.candidate)).size < inTier.length) return null;
  if (!inTier.every(isQuick)) return null;
  const { failure, candidate } = last;
  if (failure.kind === "rate_limited") {
    if (isFullQueue(last)) return null;
    if (failure.retryAfterMs === null || failure.retryAfterMs > retryAfterMaxMs) return null;
  } else if (!input.admits(candidate)) {
    return null;
  }
  const next = retry(input, last, waitMs(input, failure, 1), false);
  return next.afterMs <= retryAfterMaxMs && fits(input, next.afterMs) ? next : null;
}

function isQuick({ failure, tookMs }: FailedAttempt): boolean {
  const { kind } = failure;
  return tookMs <= quickMs && (kind === "overloaded" || kind === "disconnected" || kind === "rate_limited");
}

/** No other candidate is left. Asks the one with the fewest attempts again, in the order of the plan, after a backoff. */
function retryLeastTried(input: JudgeInput): Verdict {
  let best: { readonly attempt: FailedAttempt; readonly times: number } | null = null;
  for (const { candidate } of input.plan.candidates) {
    const attempts = input.failedAttempts.filter((attempt) => attempt.candidate === candidate);
    const attempt = attempts.at(-1);
    if (attempt === undefined || !isWorthRepeating(attempt.failure) || isFullQueue(attempt)) continue;
    if (isRuledOutByOthers(candidate, input.failedAttempts)) continue;
    // The pace of last resorts holds for all calls together.
    if (input.plan.mode === "last_resort" && !input.admits(candidate) && !input.admitsAsLastResort(candidate)) continue;
    if (best === null || attempts.length < best.times) best = { attempt, times: attempts.length };
  }
  if (best === null) return stop("no_candidate");

  const { attempt, times } = best;
  const requestedMs = attempt.failure.retryAfterMs;
  if (requestedMs !== null && requestedMs > Math.min(retryAfterMaxMs, input.remainingMs / 4)) return stop("no_candidate");
  return retry(input, attempt, waitMs(input, attempt.failure, times), false);
}

/** A local model rejected the request because its queue is full. Waiting here as well would not help, so the client is told at once. */
function isFullQueue({ candidate, failure }: FailedAttempt): boolean {
  return failure.kind === "rate_limited" && isLocalModel(candidate.deployment.channel.address);
}

/** A host that is down rules out all its candidates, even those whose own failure would be worth repeating. */
function isRuledOutByOthers(candidate: Candidate, failedAttempts: readonly FailedAttempt[]): boolean {
  const others = failedAttempts.filter((attempt) => attempt.candidate !== candidate && !isWorthRepeating(attempt.failure));
  return isRuledOut(candidate, others);
}

/** Failures that may pass. A timeout is not repeated: it has used much of the deadline, and the upstream may still be working. */
function isWorthRepeating(failure: Failure): boolean {
  switch (failure.kind) {
    case "unreachable":
    case "connect_timeout":
    case "disconnected":
    case "overloaded":
    case "rate_limited":
    case "bad_response":
      return true;
    default:
      return false;
  }
}

/** Retry-After is a lower bound, so the jitter is added to it. */
function waitMs(input: JudgeInput, failure: Failure, times: number): number {
  if (failure.retryAfterMs !== null) return failure.retryAfterMs + jitterMs(input.dice);
  return backoffMs(failure, times, input.dice);
}

/** Failures that another channel may not have. */
const capability: ReadonlySet<Failure["kind"]> = new Set(["unsupported", "ceiling"]);

function toAnotherChannelOnce(input: JudgeInput, last: FailedAttempt): Verdict {
  const refusals = input.failedAttempts.filter(({ failure: { kind } }) => kind === last.failure.kind || capability.has(kind));
  if (new Set(refusals.map(({ candidate }) => candidate.deployment.channel)).size > 1) return stop("client_fault");
  return attemptOn(input, onAnotherChannel(input)) ?? stop("client_fault");
}

/** The size limit of a body is usually set by the server in front of the model, so one other host is tried. */
function toAnotherHostOnce(input: JudgeInput): Verdict {
  const hosts = new Set(
    input.failedAttempts.filter(({ failure }) => failure.kind === "too_large").map(({ candidate }) => candidate.scopes.host),
  );
  if (hosts.size > 1) return stop("client_fault");
  return (
    attemptOn(
      input,
      onAnotherChannel(input, ({ candidate }) => !hosts.has(candidate.scopes.host)),
    ) ?? stop("client_fault")
  );
}

/** A channel with a larger declared context than all that refused; without one, a channel that declares none, once. */
function toLargerContext(input: JudgeInput, last: FailedAttempt): Verdict {
  const refusals = input.failedAttempts.filter(({ failure }) => failure.kind === "context_length");
  const refusedTokens = Math.max(...refusals.map(({ candidate }) => contextOf(candidate) ?? input.promptTokensEstimate));
  const larger = onAnotherChannel(input, ({ candidate }) => (contextOf(candidate) ?? 0) > refusedTokens);
  if (larger !== undefined) return attemptOn(input, larger) ?? stop("client_fault");

  const guessed = refusals.slice(1).some(({ candidate }) => contextOf(candidate) === null);
  if (guessed) return stop("client_fault");
  const isUnknown = ({ candidate }: Choice): boolean => contextOf(candidate) === null;
  // The same model on the same host most likely has the same context.
  const { scopes, deployment } = last.candidate;
  const differs = ({ candidate }: Choice): boolean =>
    candidate.scopes.host !== scopes.host || candidate.deployment.model !== deployment.model;
  const other = onAnotherChannel(input, (choice) => isUnknown(choice) && differs(choice)) ?? onAnotherChannel(input, isUnknown);
  return attemptOn(input, other) ?? stop("client_fault");
}

function contextOf({ deployment }: Candidate): number | null {
  return deployment.channel.capabilities.contextTokens;
}

/** The first usable candidate of the plan on a channel that was not asked yet. */
function onAnotherChannel(input: JudgeInput, wanted: (choice: Choice) => boolean = () => true): Choice | undefined {
  const asked = new Set(input.failedAttempts.map(({ candidate }) => candidate.deployment.channel));
  return firstUsable(input, (choice) => !asked.has(choice.candidate.deployment.channel) && wanted(choice));
}

/** The gateway may have added `stream_options` itself; the retry leaves it out. An error inside it is the client's own. */
function asksForStreamOptions(failure: Failure): boolean {
  return failure.param === "stream_options";
}

function timesFailed(input: JudgeInput, { candidate }: FailedAttempt, kind: Failure["kind"]): number {
  return input.failedAttempts.filter((attempt) => attempt.candidate === candidate && attempt.failure.kind === kind).length;
}

/** An attempt needs two seconds or a tenth of its timeout, whichever is longer; but no more than a fifth of the deadline. */
function fits({ remainingMs, attemptTimerMs, deadlineMs }: JudgeInput, afterMs: number): boolean {
  return remainingMs - afterMs >= Math.min(Math.max(attemptMinMs, attemptTimerMs / 10), deadlineMs / 5);
}

function tierOf(plan: Candidates, candidate: Candidate): number {
  return plan.candidates.find((choice) => choice.candidate === candidate)?.tier ?? 0;
}

function stop(because: Stop["because"]): Stop {
  return { action: "stop", because };
}

/** Exponential backoff with full jitter: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/ */
function backoffMs(failure: Failure, failuresSoFar: number, dice: () => number): number {
  const { baseMs, capMs } = failure.kind === "rate_limited" ? rateLimitedBackoff : failedBackoff;
  return dice() * Math.min(capMs, baseMs * 2 ** (failuresSoFar - 1));
}

const failedBackoff = { baseMs: 250, capMs: 4_000 };
const rateLimitedBackoff = { baseMs: 1_000, capMs: 20_000 };

/** Another channel can be asked at once. The jitter keeps many calls from arriving there together. */
function jitterMs(dice: () => number): number {
  return dice() * 50;
}
