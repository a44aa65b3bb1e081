import { oncePerRoute, type Candidate, type Channel, type Route } from "../channels/channel.ts";
import type { LastAsked } from "../channels/last-asked.ts";
import { type Throttle, throttleAdmits } from "../limits/throttle.ts";
import { balanced, type LoadOf } from "./balance.ts";
import { condition, type HealthOf, type NotReady } from "./condition.ts";
import { drawOne, indexOf, inDrawnOrder, type TierIndex } from "./draw.ts";

/** The candidates of a call in the order in which they are tried, and why others are left out; or why no candidate may be asked now. */
export type Plan = Candidates | PlanRefusal;

export interface Candidates {
  readonly ok: true;
  /** `last_resort`: no candidate is healthy, and this call tries one all the same. */
  readonly mode: "normal" | "last_resort";
  /** Never empty. Of a large tier, most are drawn when this is first read: nearly every call is served by the first of them. */
  readonly candidates: readonly Choice[];
  /** Those of them that were drawn so far, the first one included; absent: all. */
  readonly drawn?: readonly Choice[];
  /** Candidates with an open breaker, the one asked longest ago first. They are tried when all others have failed. */
  readonly reserve?: readonly Choice[];
  /** Those that were looked at so far and left out. */
  readonly skipped: readonly Skipped[];
}

/** The candidates that a call has looked at so far and may ask, without looking at more. */
export function choicesSoFar(planned: Candidates): readonly Choice[] {
  return planned.drawn ?? planned.candidates;
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
  /** Whether a candidate is healthy, has all of its weight and has capacity. It is asked before anything else, because nearly all are. */
  readonly isWell: (candidate: Candidate, nowMs: number) => boolean;
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
  if (tiers.length === 0 || tiers[0]!.length <= wholeTierMax) return completePlan(input, survey, null);
  const draw = new LargeTierDraw(tiers[0]!, 0, input, survey);
  const pair = draw.pair();
  return pair === null ? completePlan(input, survey, draw) : new OpenPlan(pair, draw, input, survey);
}

/** The same with everything in it, for those who show a plan. */
export function wholePlan(input: PlanInput): Plan {
  const planned = plan(input);
  return planned instanceof OpenPlan ? planned.whole : planned;
}

/**
 * The plan of a call whose first tier is large. Two candidates are drawn, and the better one goes first. The others are drawn if they are
 * needed, so that a call looks at two of ten thousand channels, not at all that it could ask.
 */
class OpenPlan implements Candidates {
  readonly ok = true;
  readonly mode = "normal";
  private completed: Candidates | null = null;

  constructor(
    private readonly pair: readonly ReadyCandidate[],
    private readonly draw: LargeTierDraw,
    private readonly input: PlanInput,
    private readonly survey: Survey,
  ) {}

  get drawn(): readonly Choice[] {
    return this.completed?.candidates ?? this.pair;
  }

  get skipped(): readonly Skipped[] {
    return this.survey.skipped;
  }

  get candidates(): readonly Choice[] {
    return this.whole.candidates;
  }

  get reserve(): readonly Choice[] {
    return this.whole.reserve ?? noChoices;
  }

  get whole(): Candidates {
    if (this.completed === null) {
      // Two candidates were ready, so that it is no refusal.
      this.completed = completePlan(this.input, this.survey, this.draw, this.pair[0]) as Candidates;
    }
    return this.completed;
  }
}

const noChoices: readonly Choice[] = [];

/** `begun`: what was drawn from the first tier before, and `leader`: who goes first of that, whatever has changed since. */
function completePlan(input: PlanInput, survey: Survey, begun: LargeTierDraw | null, leader: ReadyCandidate | null = null): Plan {
  const { tiers } = input.route;
  const choices: Choice[] = [];
  for (let tier = 0; tier < tiers.length && (choices.length < choicesMax || survey.ready === 0); tier += 1) {
    const reserved = Math.min(reservedMax, reservedPerTier * (tiers.length - 1 - tier));
    const room = Math.max(1, choicesMax - choices.length - reserved);
    const drawn =
      tier === 0 && begun !== null ? begun.all(Math.min(room, drawnWanted)) : drawnFrom(tiers[tier]!, tier, room, input, survey);
    placeTier(choices, drawn, room, input, tier === 0 ? leader : null);
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
  if (isTooSmall(channel, input)) return null;
  if (!input.isWell(candidate, input.nowMs)) {
    if (isFull(channel, input) || condition(candidate.scopes, input.health, input.nowMs).kind !== "ready") return null;
  }
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
function placeTier(
  choices: Choice[],
  drawn: readonly ReadyCandidate[],
  room: number,
  input: PlanInput,
  leader: ReadyCandidate | null,
): void {
  if (drawn.length === 1) return void choices.push(drawn[0]!);
  const roomEnd = choices.length + room;
  const probing = choices.length === 0 && drawn[0]?.probe === true ? drawn[0] : null;
  if (probing !== null) choices.push(probing);
  const healthy = drawn.filter((entry) => !entry.probe && entry !== leader);
  const order = balanced(healthy, input.load, input.nowMs);
  const wanted = roomEnd - choices.length;
  for (const entry of withOtherHost(leader === null ? order : [leader, ...order], wanted)) choices.push(entry);
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
function drawnFrom(tier: readonly Candidate[], at: number, room: number, input: PlanInput, survey: Survey): readonly ReadyCandidate[] {
  if (tier.length > wholeTierMax) return new LargeTierDraw(tier, at, input, survey).all(Math.min(room, drawnWanted));
  const entries: ReadyCandidate[] = [];
  for (const candidate of tier) {
    const entry = assess(candidate, at, input, survey);
    if (entry !== null) entries.push(entry);
  }
  return entries.length < 2 ? entries : inDrawnOrder(entries, input.dice);
}

/**
 * Candidates that are drawn from a large tier. Usually most of it is healthy, and a few draws find enough. If not, because of skewed
 * weights or many failures, the tier is scanned, and to its end only if no candidate was found.
 */
class LargeTierDraw {
  private readonly index: TierIndex;
  /** Those that were drawn, whether they may be asked or not. */
  private readonly seen: Candidate[] = [];
  private readonly drawn: ReadyCandidate[] = [];
  private readonly slowStarting: ReadyCandidate[] = [];
  private healthy = 0;
  private draws = 0;

  constructor(
    private readonly tier: readonly Candidate[],
    private readonly at: number,
    private readonly input: PlanInput,
    private readonly survey: Survey,
  ) {
    this.index = indexOf(tier);
  }

  /** The first two, the better one first; null if they were not found at once, or not without a probe between them. */
  pair(): readonly ReadyCandidate[] | null {
    this.drawUntil(2);
    return this.healthy === 2 && this.drawn.length === 2 ? balanced(this.drawn, this.input.load, this.input.nowMs) : null;
  }

  /** All that a plan has of the tier. */
  all(wanted: number): readonly ReadyCandidate[] {
    this.drawUntil(wanted);
    if (this.healthy === 0) for (const entry of this.slowStarting) this.add(entry);
    this.scan(wanted);
    this.addOtherHost();
    return this.drawn;
  }

  private drawUntil(wanted: number): void {
    const { tier, index, input } = this;
    for (; this.draws < drawsMax && this.healthy < wanted; this.draws += 1) {
      const entry = this.assessOnce(tier[drawOne(index, input.dice)]!);
      if (entry === null) continue;
      if (entry.share < 1 && input.dice() >= entry.share) this.slowStarting.push(entry);
      else this.add(entry);
    }
  }

  private scan(wanted: number): void {
    const { tier, input, survey, at } = this;
    const start = Math.floor(input.dice() * tier.length);
    if (this.healthy >= wanted) return;
    const seen = new Set(this.seen);
    for (let step = 0; step < tier.length && (this.healthy === 0 || (this.healthy < wanted && step < stepsMax)); step += 1) {
      const candidate = tier[(start + step) % tier.length]!;
      const entry = seen.has(candidate) ? null : assess(candidate, at, input, survey);
      this.seen.push(candidate);
      if (entry !== null) this.add(entry);
    }
  }

  /** Candidates on one host fail together, so one on another host is added. */
  private addOtherHost(): void {
    const { index, input, drawn } = this;
    const host = drawn[0]?.candidate.scopes.host;
    if (host === undefined || index.hosts.length === 1 || drawn.some(({ candidate }) => candidate.scopes.host !== host)) return;
    const from = Math.floor(input.dice() * index.hosts.length);
    for (let step = 0; step < otherHostSteps; step += 1) {
      const other = index.hosts[(from + step) % index.hosts.length]!;
      const onHost = index.byHost.get(other)!;
      const entry = other === host ? null : this.assessOnce(onHost[Math.floor(input.dice() * onHost.length)]!);
      if (entry !== null) return this.add(entry);
    }
  }

  private assessOnce(candidate: Candidate): ReadyCandidate | null {
    if (this.seen.includes(candidate)) return null;
    this.seen.push(candidate);
    return assess(candidate, this.at, this.input, this.survey);
  }

  private add(entry: ReadyCandidate): void {
    this.drawn.push(entry);
    if (!entry.probe) this.healthy += 1;
  }
}

/** The candidate if it may be asked now; otherwise null, and the survey has the reason. */
function assess(candidate: Candidate, tier: number, input: PlanInput, survey: Survey): ReadyCandidate | null {
  const { channel } = candidate.deployment;
  survey.seen += 1;
  if (isTooSmall(channel, input)) {
    survey.tooSmall += 1;
    return skip(survey, candidate, "context_too_small", null);
  }
  if (input.isWell(candidate, input.nowMs)) {
    survey.ready += 1;
    return { candidate, tier, probe: false, share: 1, weight: candidate.weight };
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
