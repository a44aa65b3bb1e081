import { oncePerRoute, type Candidate, type Channel, type Route } from "../channels/channel.ts";
import type { LastAsked } from "../channels/last-asked.ts";
import { type Throttle, throttleAdmits } from "../limits/throttle.ts";
import { balanced, type LoadOf } from "./balance.ts";
import { condition, type HealthOf, type NotReady } from "./condition.ts";
import { drawOne, indexOf, inDrawnOrder } from "./draw.ts";

/** The candidates of a call in the order in which they are tried, and why others are left out; or why no candidate may be asked now. */
export type Plan = Candidates | PlanRefusal;

export interface Candidates {
  readonly ok: true;
  /** `last_resort`: no candidate is healthy, and this call tries one all the same. */
  readonly mode: "normal" | "last_resort";
  /** Never empty. */
  readonly candidates: readonly Choice[];
  /** Candidates with an open breaker, the one asked longest ago first. They are tried when all others have failed. */
  readonly reserve?: readonly Choice[];
  readonly skipped: readonly Skipped[];
}

export interface PlanRefusal {
  readonly ok: false;
  readonly kind: "rate_limited" | "no_channel" | "saturated";
  /** How long until the first candidate may be asked again. Clients are told this. */
  readonly soonestMs: number;
  /** How long until planning again makes sense. Shorter if a last resort is due earlier. */
  readonly againMs: number;
  /** A wait so short that the call waits and plans once more; `null`: the call is rejected now. */
  readonly waitMs: number | null;
  readonly skipped: readonly Skipped[];
}

export interface Choice {
  readonly candidate: Candidate;
  /** The index of its tier, from 0. */
  readonly tier: number;
  /** Its breaker is half-open, and this attempt is the probe. */
  readonly probe: boolean;
  /** It is asked despite its open breaker. */
  readonly lastResort?: true;
}

export interface Skipped {
  readonly candidate: Candidate;
  readonly because: "cooling" | "half_open_busy" | "half_open_alone" | "saturated" | "context_too_small";
  /** Until when it is in cool-down, on the clock of `nowMs`. */
  readonly untilMs: number | null;
  /** The scope that keeps it out, and the kind of failure that caused it. */
  readonly scope: string | null;
  readonly cause: string | null;
}

export interface PlanInput {
  readonly route: Route;
  readonly health: HealthOf;
  readonly load: LoadOf;
  /** Attempts in flight on a channel, over all its models. */
  readonly channelInFlight: (channel: Channel) => number;
  /** The throttle of the route, used if it has a single deployment. */
  readonly throttle: Throttle | undefined;
  /** When candidates were asked despite an open breaker. */
  readonly lastAsked: LastAsked;
  /** The call has waited for capacity in vain. */
  readonly waited: boolean;
  readonly promptTokensEstimate: number;
  /** How much is left of the deadline for first content. */
  readonly remainingMs: number;
  readonly nowMs: number;
  readonly dice: () => number;
}

/** The operator's settings for retries, hedging and waiting. */
export interface RoutingPolicy {
  readonly attemptsMax: number;
  /** `auto`: derived from the usual latency of the deployment; `null`: hedging is off. */
  readonly hedgeAfterMs: number | "auto" | null;
  /** Where a stream that broke off may be continued: `auto`: on channels with the same upstream model, `continue`: on every channel of the route, `error`: nowhere. */
  readonly rescue: "auto" | "continue" | "error";
  /** Deadlines for the first content, over all attempts. */
  readonly streamDeadlineMs: number;
  readonly wholeDeadlineMs: number;
  /** How long a call may wait in the queue while no candidate may be asked; 0: not at all. */
  readonly waitMs: number;
}

/** More than a call tries, so that the judge has alternatives when a whole host or account is down. */
const choicesMax = 8;
/** Choices reserved for lower tiers, so that a large first tier does not take them all. */
const reservedPerTier = 2;
const reservedMax = 4;
const skippedMax = 32;
/** The token estimate is rough, so only a context that is clearly too small rules a candidate out. */
const contextSlack = 1.25;

/** More than a call tries. */
const reserveMax = 4;
/** It is not known when a throttled route, or one whose last resorts are full, may be asked again. */
const lastResortRetryMs = 1_000;
const waitMaxMs = 5_000;
const waitJitter = 0.2;
/** It is not known when a full channel has capacity again. */
const saturatedRetryMs = 1_000;

export function plan(input: PlanInput): Plan {
  const { tiers } = input.route;
  const only = tiers.length === 1 && tiers[0]!.length === 1 ? singleCandidatePlan(tiers[0]![0]!, input) : null;
  if (only !== null) return only;
  const survey = newSurvey();
  const choices: Choice[] = [];
  for (let tier = 0; tier < tiers.length && (choices.length < choicesMax || survey.ready === 0); tier += 1) {
    const reserved = Math.min(reservedMax, reservedPerTier * (tiers.length - 1 - tier));
    const room = Math.max(1, choicesMax - choices.length - reserved);
    placeTier(choices, drawnFrom(tiers[tier]!, tier, room, input, survey), room, input);
  }
  if (survey.ready > 0) {
    if (survey.reserve === none) return { ok: true, mode: "normal", candidates: choices, skipped: survey.skipped };
    return { ok: true, mode: "normal", candidates: choices, reserve: quickOf(survey.reserve), skipped: survey.skipped };
  }
  // The prompt seems too long for every candidate. Then the upstream decides.
  const allTooSmall = survey.tooSmall > 0 && survey.tooSmall === survey.seen;
  if (allTooSmall) return plan({ ...input, promptTokensEstimate: 0 });
  return planWithoutReady(input, survey, choices);
}

/** If there is a single candidate and it is ready, the plan is the same for every call and is made once; otherwise null. */
function singleCandidatePlan(candidate: Candidate, input: PlanInput): Candidates | null {
  const { channel } = candidate.deployment;
  if (isTooSmall(channel, input) || isFull(channel, input)) return null;
  if (condition(candidate.scopes, input.health, input.nowMs).kind !== "ready") return null;
  let known = singleCandidatePlans.get(candidate);
  if (known === undefined) {
    known = { ok: true, mode: "normal", candidates: [{ candidate, tier: 0, probe: false }], skipped: [] };
    singleCandidatePlans.set(candidate, known);
  }
  return known;
}

const singleCandidatePlans = new WeakMap<Candidate, Candidates>();

function isTooSmall({ capabilities: { contextTokens } }: Channel, { promptTokensEstimate }: PlanInput): boolean {
  return contextTokens !== null && promptTokensEstimate > contextTokens * contextSlack;
}

function isFull(channel: Channel, { channelInFlight }: PlanInput): boolean {
  return channelInFlight(channel) >= channel.concurrencyMax;
}

/** A candidate that may be asked now. */
interface ReadyCandidate {
  readonly candidate: Candidate;
  readonly tier: number;
  readonly probe: boolean;
  /** The share of its weight that slow start allows, and the resulting weight. */
  readonly share: number;
  readonly weight: number;
}

/**
 * A half-open candidate that is drawn first is probed now, if its tier is the first that has candidates: lower tiers are there as a
 * safe fallback. Other half-open candidates come last. The rest is ordered by the power of two choices.
 */
function placeTier(choices: Choice[], drawn: readonly ReadyCandidate[], room: number, input: PlanInput): void {
  if (drawn.length === 1) return void choices.push(drawn[0]!);
  const roomEnd = choices.length + room;
  const probing = choices.length === 0 && drawn[0]?.probe === true ? drawn[0] : null;
  if (probing !== null) choices.push(probing);
  const healthy = drawn.filter((entry) => !entry.probe);
  const wanted = roomEnd - choices.length;
  for (const entry of withOtherHost(balanced(healthy, input.load, input.nowMs), wanted)) choices.push(entry);
  for (const entry of drawn) {
    if (entry.probe && entry !== probing && choices.length < roomEnd) choices.push(entry);
  }
}

/** The first `wanted`. If all of them share one host, the last one is replaced by the first candidate on another host. */
function withOtherHost(order: readonly ReadyCandidate[], wanted: number): readonly ReadyCandidate[] {
  if (order.length <= wanted) return order;
  const kept = order.slice(0, wanted);
  const host = kept[0]?.candidate.scopes.host;
  if (kept.some((entry) => entry.candidate.scopes.host !== host)) return kept;
  const other = order.find((entry) => entry.candidate.scopes.host !== host);
  return other === undefined ? kept : [...kept.slice(0, -1), other];
}

/** What was found while planning, for the case that no candidate is ready. */
interface Survey {
  seen: number;
  ready: number;
  tooSmall: number;
  saturated: number;
  /** In cool-down because the upstream asked for it, and how many of them because of rate limits. */
  waitRequested: number;
  rateLimited: number;
  soonestMs: number;
  /** Kept out by a breaker, not at the upstream's request; how long until the first of them is due. */
  breakerOpen: number;
  dueMs: number;
  /** Candidates that are due, the best first. */
  reserve: readonly Due[];
  readonly skipped: Skipped[];
}

interface Due {
  readonly choice: Choice;
  /** Its last probe succeeded, so it is the most likely to work. */
  readonly passed: boolean;
  readonly askedMs: number;
  readonly costly: boolean;
}

const none: readonly Due[] = [];

function newSurvey(): Survey {
  return {
    seen: 0,
    ready: 0,
    tooSmall: 0,
    saturated: 0,
    waitRequested: 0,
    rateLimited: 0,
    soonestMs: Number.POSITIVE_INFINITY,
    breakerOpen: 0,
    dueMs: Number.POSITIVE_INFINITY,
    reserve: none,
    skipped: [],
  };
}

/** A tier of up to this size is evaluated completely. */
const wholeTierMax = choicesMax;
/** How many candidates of a larger tier are wanted, in how many draws, and then in how many steps through it. */
const drawnWanted = 4;
const drawsMax = 16;
const stepsMax = 64;
const otherHostSteps = 4;

/** The candidates of a tier that may be asked now, in random order by weight. */
function drawnFrom(tier: readonly Candidate[], at: number, room: number, input: PlanInput, survey: Survey): ReadyCandidate[] {
  if (tier.length > wholeTierMax) return drawnFromLarge(tier, at, Math.min(room, drawnWanted), input, survey);
  const entries: ReadyCandidate[] = [];
  for (const candidate of tier) {
    const entry = assess(candidate, at, input, survey);
    if (entry !== null) entries.push(entry);
  }
  return entries.length < 2 ? entries : inDrawnOrder(entries, input.dice);
}

/**
 * Usually most of a large tier is healthy, and a few draws find enough. If not, because of skewed weights or many failures, the tier
 * is scanned, and to its end only if no candidate was found.
 */
function drawnFromLarge(tier: readonly Candidate[], at: number, wanted: number, input: PlanInput, survey: Survey): ReadyCandidate[] {
  const { dice } = input;
  const index = indexOf(tier);
  const seen = new Set<Candidate>();
  const drawn: ReadyCandidate[] = [];
  let healthy = 0;
  const add = (entry: ReadyCandidate): void => {
    drawn.push(entry);
    if (!entry.probe) healthy += 1;
  };
  const assessOnce = (candidate: Candidate): ReadyCandidate | null => {
    if (seen.has(candidate)) return null;
    seen.add(candidate);
    return assess(candidate, at, input, survey);
  };

  const slowStarting: ReadyCandidate[] = [];
  for (let draw = 0; draw < drawsMax && healthy < wanted; draw += 1) {
    const entry = assessOnce(tier[drawOne(index, dice)]!);
    if (entry === null) continue;
    if (entry.share < 1 && dice() >= entry.share) slowStarting.push(entry);
    else add(entry);
  }
  if (healthy === 0) slowStarting.forEach(add);

  const start = Math.floor(dice() * tier.length);
  for (let step = 0; step < tier.length && (healthy === 0 || (healthy < wanted && step < stepsMax)); step += 1) {
    const entry = assessOnce(tier[(start + step) % tier.length]!);
    if (entry !== null) add(entry);
  }

  // Candidates on one host fail together, so one on another host is added.
  const host = drawn[0]?.candidate.scopes.host;
  if (host !== undefined && index.hosts.length > 1 && drawn.every(({ candidate }) => candidate.scopes.host === host)) {
    const from = Math.floor(dice() * index.hosts.length);
    for (let step = 0; step < otherHostSteps; step += 1) {
      const other = index.hosts[(from + step) % index.hosts.length]!;
      const onHost = index.byHost.get(other)!;
      const entry = other === host ? null : assessOnce(onHost[Math.floor(dice() * onHost.length)]!);
      if (entry === null) continue;
      add(entry);
      break;
    }
  }
  return drawn;
}

/** The candidate if it may be asked now; otherwise null, and the survey has the reason. */
function assess(candidate: Candidate, tier: number, input: PlanInput, survey: Survey): ReadyCandidate | null {
  const { channel } = candidate.deployment;
  survey.seen += 1;
  if (isTooSmall(channel, input)) {
    survey.tooSmall += 1;
    return skip(survey, candidate, "context_too_small", null);
  }
  const found = condition(candidate.scopes, input.health, input.nowMs);
  if (found.kind === "cooling") {
    survey.soonestMs = Math.min(survey.soonestMs, found.untilMs - input.nowMs);
    if (found.waitRequested) {
      survey.waitRequested += 1;
      if (found.cause === "rate_limited") survey.rateLimited += 1;
    } else {
      noteBreakerOpen(survey, candidate, tier, found, input);
    }
    return skip(survey, candidate, "cooling", found);
  }
  if (isFull(channel, input)) {
    survey.saturated += 1;
    return skip(survey, candidate, "saturated", null);
  }
  if (found.kind === "ready") {
    survey.ready += 1;
    return { candidate, tier, probe: false, share: found.share, weight: candidate.weight * found.share };
  }
  survey.soonestMs = 0;
  noteBreakerOpen(survey, candidate, tier, found, input);
  if (found.busy) return skip(survey, candidate, "half_open_busy", found);
  return { candidate, tier, probe: true, share: 1, weight: candidate.weight };
}

/**
 * The candidate that was asked longest ago goes first, so that all are asked in turn and the one that has recovered is found. In any
 * other order, one that always fails could block the others.
 */
function noteBreakerOpen(survey: Survey, candidate: Candidate, tier: number, state: NotReady, input: PlanInput): void {
  survey.breakerOpen += 1;
  if (isFull(candidate.deployment.channel, input)) return;
  const isHalfOpen = state.kind === "half_open" && !state.busy;
  const passed = isHalfOpen && state.passed;
  // A single deployment is throttled instead of paced.
  const waitMs = passed || hasOneDeployment(input.route) ? 0 : input.lastAsked.waitMs(candidate, input.nowMs);
  survey.dueMs = Math.min(survey.dueMs, Math.max(0, waitMs));
  if (waitMs > 0) return;
  const choice: Choice = { candidate, tier, probe: isHalfOpen, lastResort: true };
  const due: Due = { choice, passed, askedMs: input.lastAsked.askedMs(candidate), costly: state.costly };
  const later = survey.reserve.findIndex((other) => (passed && !other.passed) || (passed === other.passed && due.askedMs < other.askedMs));
  survey.reserve = survey.reserve.toSpliced(later < 0 ? survey.reserve.length : later, 0, due).slice(0, reserveMax);
}

/** While others are healthy, no call waits for a candidate that fails slowly. Half-open candidates are in the plan already. */
function quickOf(reserve: readonly Due[]): readonly Choice[] {
  return reserve.filter(({ costly, choice }) => !costly && !choice.probe).map(({ choice }) => choice);
}

function skip(survey: Survey, candidate: Candidate, because: Skipped["because"], state: NotReady | null): null {
  if (survey.skipped.length >= skippedMax) return null;
  survey.skipped.push({
    candidate,
    because,
    untilMs: state?.kind === "cooling" ? state.untilMs : null,
    scope: state?.scope ?? null,
    cause: state?.cause ?? null,
  });
  return null;
}

/**
 * If every upstream asked for a wait, it is respected. If channels are merely full, one will have capacity soon. Otherwise a few calls
 * at a time find out whether a candidate has recovered.
 */
function planWithoutReady(input: PlanInput, survey: Survey, probes: readonly Choice[]): Plan {
  const skipped = [...survey.skipped];
  for (const { candidate } of probes) {
    skipped.push({ candidate, because: "half_open_alone", untilMs: null, scope: null, cause: null });
  }
  const [first, ...reserve] = survey.reserve.map(({ choice }) => choice);
  if (survey.saturated > 0 && (first === undefined || !input.waited)) {
    return { ok: false, kind: "saturated", soonestMs: saturatedRetryMs, againMs: saturatedRetryMs, waitMs: null, skipped };
  }
  const soonestMs = Number.isFinite(survey.soonestMs) ? Math.max(0, survey.soonestMs) : 0;
  if (survey.breakerOpen === 0) {
    const kind = survey.waitRequested > 0 && survey.rateLimited === survey.waitRequested ? "rate_limited" : "no_channel";
    const waits = survey.waitRequested > 0 && soonestMs <= Math.min(waitMaxMs, input.remainingMs / 4);
    // Calls that wait here wait for the same moment. Jitter keeps them from arriving together.
    const waitMs = waits ? soonestMs * (1 + waitJitter * input.dice()) : null;
    return { ok: false, kind, soonestMs, againMs: soonestMs, waitMs, skipped };
  }
  if (first === undefined || !isThrottleOpen(input)) {
    const againMs = first === undefined && Number.isFinite(survey.dueMs) ? survey.dueMs : lastResortRetryMs;
    return { ok: false, kind: "no_channel", soonestMs, againMs: Math.min(soonestMs, againMs), waitMs: null, skipped };
  }
  return {
    ok: true,
    mode: "last_resort",
    candidates: [first],
    reserve,
    skipped: skipped.filter((one) => one.candidate !== first.candidate),
  };
}

function isThrottleOpen({ route, throttle, nowMs, dice }: PlanInput): boolean {
  return throttle === undefined || !hasOneDeployment(route) || throttleAdmits(throttle, nowMs, dice);
}

/** A route with nothing to fall back on is throttled in trouble instead of being shut off, so its requests are counted. */
export function hasOneDeployment(route: Route): boolean {
  return route.size <= 1 || isOneDeployment(route);
}

const isOneDeployment = oncePerRoute(({ tiers }: Route): boolean => {
  const first = tiers[0]?.[0]?.deployment.id;
  return tiers.every((tier) => tier.every((candidate) => candidate.deployment.id === first));
});
