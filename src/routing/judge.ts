import { runsHere, type Candidate } from "../channels/channel.ts";
import { chargedScope } from "../channels/health.ts";
import type { Failure } from "../operations/failure.ts";
import type { Candidates, Choice, RoutingPolicy } from "./plan.ts";

/** What to do after an attempt that failed before any content had reached the client. */
export type Verdict = Next | Stop;

export interface Next {
  readonly go: "next";
  readonly candidate: Candidate;
  /** As in the plan: the attempt is the candidate's probe. */
  readonly probe: boolean;
  /** As in the plan: it is asked in spite of its breaker. */
  readonly held?: true;
  readonly afterMs: number;
  /** The same candidate as the attempt before. */
  readonly same: boolean;
  /** Costs no retry: the attempt before never got through, by our own connection's fault. */
  readonly free: boolean;
}

export interface Stop {
  readonly go: "stop";
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
  readonly tried: readonly FailedAttempt[];
  /** The deadline for everything before first content, as configured, and what is left of it. */
  readonly deadlineMs: number;
  readonly remainingMs: number;
  /** How long one attempt may wait for its first content. */
  readonly attemptTimerMs: number;
  readonly bodyBytes: number;
  /** The body is a file, not a prompt: how large a one they take differs between channels for other reasons. */
  readonly upload: boolean;
  readonly hostedTools: boolean;
  readonly promptTokensEstimate: number;
  /** The retry budget of the model group has one left. */
  readonly canRetry: boolean;
  /** By its health as it is now. */
  readonly admits: (candidate: Candidate) => boolean;
  /** In spite of its health: as a last resort, it may be asked now. */
  readonly mayResort: (candidate: Candidate) => boolean;
  readonly dice: () => number;
}

const largeBodyBytes = 1024 * 1024;
const largeBodyAttemptsMax = 2;
/** Sleeping on an upstream's Retry-After is worth this much at most. */
const retryAfterMaxMs = 5_000;
/** A failure that took longer has had its chance. */
const quickMs = 5_000;
const attemptMinMs = 2_000;

export function judge(input: JudgeInput): Verdict {
  const { tried } = input;
  const last = tried.at(-1);
  if (last === undefined) throw new Error("judge was asked about a call without an attempt");

  const ending = endingOf(last.failure);
  if (ending !== null) return stop(ending);
  if (input.hostedTools && !isSurelyUnprocessed(last.failure)) return stop("hosted_tools");

  // What is asked again in another way is asked so once by each deployment, however large its body is.
  const counted = tried.filter(({ failure }) => failure.kind !== "stale_socket" && failure.retryAdapted !== true).length;
  const attemptsMax = Math.min(input.policy.attemptsMax, input.bodyBytes > largeBodyBytes ? largeBodyAttemptsMax : Infinity);
  if (counted >= attemptsMax) return stop("attempts");

  const next = chosen(input, last, attemptsMax - counted);
  if (next.go === "stop") return next;
  if (!fits(input, next.afterMs)) return stop("deadline");
  return next.free || input.canRetry ? next : stop("budget");
}

/** Failures after which nobody is asked, whatever the plan holds. */
function endingOf(failure: Failure): Stop["because"] | null {
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

/** Tools that act at the upstream may have acted, unless the request never got there or was turned away as one too many. */
function isSurelyUnprocessed(failure: Failure): boolean {
  switch (failure.kind) {
    case "unreachable":
    case "tls_failed":
    case "connect_timeout":
    case "saturated":
    case "rate_limited":
      return true;
    default:
      return failure.status === 429 || failure.status === 503;
  }
}

function chosen(input: JudgeInput, last: FailedAttempt, attemptsLeft: number): Verdict {
  const { failure } = last;
  switch (failure.kind) {
    case "stale_socket":
      return timesFailed(input, last, "stale_socket") === 1 ? again(input, last, 0, true) : moveOn(input, last, attemptsLeft);
    case "ceiling":
      // With the ceiling it told us the same candidate will do. A second such refusal means it told us nothing.
      if (failure.ceiling !== null && timesFailed(input, last, "ceiling") === 1) return again(input, last, 0, false);
      return toAnotherChannelOnce(input, last);
    case "unsupported":
      if (failure.retryAdapted === true) return again(input, last, 0, false);
      if (asksForStreamOptions(failure) && timesFailed(input, last, "unsupported") === 1) return again(input, last, 0, false);
      return toAnotherChannelOnce(input, last);
    case "context_length":
      return input.upload ? toAnotherChannelOnce(input, last) : toLarger(input, last);
    case "too_large":
      return toAnotherHostOnce(input);
    case "model_failed":
      if (input.tried.filter((attempt) => attempt.failure.kind === "model_failed").length > 1) return stop("attempts");
      return elsewhere(input, usable(input)) ?? lastResort(input) ?? stop("no_candidate");
    default:
      return moveOn(input, last, attemptsLeft);
  }
}

/**
 * On to the next in the plan. Before that means a lower tier, which is often a lesser model, a tier that failed quickly is
 * asked once more, provided an attempt is left for each lower one: a healthy tier anywhere must be enough. With nobody
 * else left, one whose breaker is open, which may have recovered; then the same ones again.
 */
function moveOn(input: JudgeInput, last: FailedAttempt, attemptsLeft: number): Verdict {
  const next = usable(input);
  if (next === undefined) return lastResort(input) ?? onceMore(input);
  const tier = tierOf(input.plan, last.candidate);
  if (next.tier > tier && attemptsLeft > tiersBelow(input, tier)) {
    const second = secondTry(input, last, tier);
    if (second !== null) return second;
  }
  return elsewhere(input, next) ?? stop("no_candidate");
}

/** How many lower tiers still have somebody to ask: each of them keeps an attempt. */
function tiersBelow(input: JudgeInput, tier: number): number {
  const below = input.plan.candidates.filter((choice) => choice.tier > tier && isUsable(choice, input));
  return new Set(below.map((choice) => choice.tier)).size;
}

/** The first in the plan that is not ruled out by what failed so far. */
function usable(input: JudgeInput, wanted: (choice: Choice) => boolean = () => true): Choice | undefined {
  return input.plan.candidates.find((choice) => wanted(choice) && isUsable(choice, input));
}

function isUsable({ candidate }: Choice, input: JudgeInput): boolean {
  return !isRuledOut(candidate, input.tried) && input.admits(candidate);
}

/** Whatever a failure is charged to is out for this call, with everyone who depends on it; otherwise its deployment is. */
function isRuledOut(candidate: Candidate, tried: readonly FailedAttempt[]): boolean {
  const { host, credential, deployment, quota } = candidate.scopes;
  return tried.some((attempt) => {
    if (attempt.candidate === candidate) return true;
    const charged = chargedScope(attempt.candidate, attempt.failure) ?? attempt.candidate.scopes.deployment;
    return charged === host || charged === credential || charged === deployment || charged === quota;
  });
}

function elsewhere(input: JudgeInput, choice: Choice | undefined): Next | null {
  if (choice === undefined) return null;
  const { candidate, probe } = choice;
  return { go: "next", candidate, probe, afterMs: elsewhereMs(input.dice), same: false, free: false };
}

/** At once: by the time a wait is over, somebody else may have asked. */
function lastResort(input: JudgeInput): Next | null {
  const choice = input.plan.reserve?.find(({ candidate }) => !isRuledOut(candidate, input.tried) && input.mayResort(candidate));
  if (choice === undefined) return null;
  const { candidate, probe } = choice;
  return { go: "next", candidate, probe, held: true, afterMs: 0, same: false, free: false };
}

function again(input: JudgeInput, attempt: FailedAttempt, afterMs: number, free: boolean): Next {
  const { candidate } = attempt;
  const probe = input.plan.candidates.some((choice) => choice.candidate === candidate && choice.probe);
  return { go: "next", candidate, probe, afterMs, same: candidate === input.tried.at(-1)?.candidate, free };
}

/** One more try for a tier whose failures were all quick, and only one. A silent upstream never gets it. */
function secondTry(input: JudgeInput, last: FailedAttempt, tier: number): Next | null {
  const inTier = input.tried.filter((attempt) => tierOf(input.plan, attempt.candidate) === tier);
  if (new Set(inTier.map((attempt) => attempt.candidate)).size < inTier.length) return null;
  if (!inTier.every(isQuick)) return null;
  const { failure, candidate } = last;
  if (failure.kind === "rate_limited") {
    if (isFullQueue(last)) return null;
    if (failure.retryAfterMs === null || failure.retryAfterMs > retryAfterMaxMs) return null;
  } else if (!input.admits(candidate)) {
    return null;
  }
  const next = again(input, last, waitMs(input, failure, 1), false);
  return next.afterMs <= retryAfterMaxMs && fits(input, next.afterMs) ? next : null;
}

function isQuick({ failure, tookMs }: FailedAttempt): boolean {
  const { kind } = failure;
  return tookMs <= quickMs && (kind === "overloaded" || kind === "disconnected" || kind === "rate_limited");
}

/** Nobody else is left: the one asked least so far, the best of the plan first, after a backoff. */
function onceMore(input: JudgeInput): Verdict {
  let best: { readonly attempt: FailedAttempt; readonly times: number } | null = null;
  for (const { candidate } of input.plan.candidates) {
    const attempts = input.tried.filter((attempt) => attempt.candidate === candidate);
    const attempt = attempts.at(-1);
    if (attempt === undefined || !isWorthRepeating(attempt.failure) || isFullQueue(attempt)) continue;
    if (isRuledOutByOthers(candidate, input.tried)) continue;
    // A last resort is asked no more often than its pace allows, by one call or by several.
    if (input.plan.mode === "last_resort" && !input.admits(candidate) && !input.mayResort(candidate)) continue;
    if (best === null || attempts.length < best.times) best = { attempt, times: attempts.length };
  }
  if (best === null) return stop("no_candidate");

  const { attempt, times } = best;
  const toldMs = attempt.failure.retryAfterMs;
  if (toldMs !== null && toldMs > Math.min(retryAfterMaxMs, input.remainingMs / 4)) return stop("no_candidate");
  return again(input, attempt, waitMs(input, attempt.failure, times), false);
}

/** The queue of a model of this machine is full: a second wait in front of it would help nobody, and the client is told at once. */
function isFullQueue({ candidate, failure }: FailedAttempt): boolean {
  return failure.kind === "rate_limited" && runsHere(candidate.deployment.channel.address);
}

/** A host that is down is down for its neighbours too, even if one of them failed for a lesser reason. */
function isRuledOutByOthers(candidate: Candidate, tried: readonly FailedAttempt[]): boolean {
  const others = tried.filter((attempt) => attempt.candidate !== candidate && !isWorthRepeating(attempt.failure));
  return isRuledOut(candidate, others);
}

/** Passing troubles. Not a timeout: it took its time already, and may still be working on the answer. */
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

/** The upstream's own figure is a lower bound: never sooner than it asked. */
function waitMs(input: JudgeInput, failure: Failure, times: number): number {
  if (failure.retryAfterMs !== null) return failure.retryAfterMs + elsewhereMs(input.dice);
  return backoffMs(failure, times, input.dice);
}

/** What one channel cannot do, another may: worth asking once. */
const capability: ReadonlySet<Failure["kind"]> = new Set(["unsupported", "ceiling"]);

function toAnotherChannelOnce(input: JudgeInput, last: FailedAttempt): Verdict {
  const refusals = input.tried.filter(({ failure: { kind } }) => kind === last.failure.kind || capability.has(kind));
  if (new Set(refusals.map(({ candidate }) => candidate.deployment.channel)).size > 1) return stop("client_fault");
  return elsewhere(input, onAnotherChannel(input)) ?? stop("client_fault");
}

/** How large a body may be is mostly the word of the server in front, whatever the model would take: worth asking another, once. */
function toAnotherHostOnce(input: JudgeInput): Verdict {
  const hosts = new Set(input.tried.filter(({ failure }) => failure.kind === "too_large").map(({ candidate }) => candidate.scopes.host));
  if (hosts.size > 1) return stop("client_fault");
  return (
    elsewhere(
      input,
      onAnotherChannel(input, ({ candidate }) => !hosts.has(candidate.scopes.host)),
    ) ?? stop("client_fault")
  );
}

/** To a channel that declares more room than everyone who refused so far; without one, to one that declares nothing, once. */
function toLarger(input: JudgeInput, last: FailedAttempt): Verdict {
  const refusals = input.tried.filter(({ failure }) => failure.kind === "context_length");
  const refusedTokens = Math.max(...refusals.map(({ candidate }) => contextOf(candidate) ?? input.promptTokensEstimate));
  const larger = onAnotherChannel(input, ({ candidate }) => (contextOf(candidate) ?? 0) > refusedTokens);
  if (larger !== undefined) return elsewhere(input, larger) ?? stop("client_fault");

  const guessed = refusals.slice(1).some(({ candidate }) => contextOf(candidate) === null);
  if (guessed) return stop("client_fault");
  const isUnknown = ({ candidate }: Choice): boolean => contextOf(candidate) === null;
  // The same model on the same host has the same context, as a rule.
  const { scopes, deployment } = last.candidate;
  const differs = ({ candidate }: Choice): boolean =>
    candidate.scopes.host !== scopes.host || candidate.deployment.model !== deployment.model;
  const other = onAnotherChannel(input, (choice) => isUnknown(choice) && differs(choice)) ?? onAnotherChannel(input, isUnknown);
  return elsewhere(input, other) ?? stop("client_fault");
}

function contextOf({ deployment }: Candidate): number | null {
  return deployment.channel.capabilities.contextTokens;
}

/** The first in the plan that is not ruled out, on a channel that was not asked yet. */
function onAnotherChannel(input: JudgeInput, wanted: (choice: Choice) => boolean = () => true): Choice | undefined {
  const asked = new Set(input.tried.map(({ candidate }) => candidate.deployment.channel));
  return usable(input, (choice) => !asked.has(choice.candidate.deployment.channel) && wanted(choice));
}

/** What we may have added ourselves, and the caller now leaves out. A fault inside it is the client's own. */
function asksForStreamOptions(failure: Failure): boolean {
  return failure.param === "stream_options";
}

function timesFailed(input: JudgeInput, { candidate }: FailedAttempt, kind: Failure["kind"]): number {
  return input.tried.filter((attempt) => attempt.candidate === candidate && attempt.failure.kind === kind).length;
}

/** An attempt needs time to be worth its cost: two seconds or a tenth of its timer, but where deadlines are short, a fifth. */
function fits({ remainingMs, attemptTimerMs, deadlineMs }: JudgeInput, afterMs: number): boolean {
  return remainingMs - afterMs >= Math.min(Math.max(attemptMinMs, attemptTimerMs / 10), deadlineMs / 5);
}

function tierOf(plan: Candidates, candidate: Candidate): number {
  return plan.candidates.find((choice) => choice.candidate === candidate)?.tier ?? 0;
}

function stop(because: Stop["because"]): Stop {
  return { go: "stop", because };
}

/** Exponential backoff with full jitter, which spreads callers that failed together better than fixed steps (AWS Architecture Blog, 2015). */
function backoffMs(failure: Failure, failuresSoFar: number, dice: () => number): number {
  const { baseMs, capMs } = failure.kind === "rate_limited" ? rateLimitedBackoff : failedBackoff;
  return dice() * Math.min(capMs, baseMs * 2 ** (failuresSoFar - 1));
}

const failedBackoff = { baseMs: 250, capMs: 4_000 };
const rateLimitedBackoff = { baseMs: 1_000, capMs: 20_000 };

/** Another channel can be asked at once. The jitter keeps many calls from arriving there together. */
function elsewhereMs(dice: () => number): number {
  return dice() * 50;
}
