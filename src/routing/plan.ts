import type { Candidate, Channel, Route } from "../channels/channel.ts";
import type { LastAsked } from "../channels/last-asked.ts";
import { type Throttle, throttleAdmits } from "../limits/throttle.ts";
import { balanced, type LoadOf } from "./balance.ts";
import { condition, type HealthOf, type Held } from "./condition.ts";
import { drawOne, indexOf, inDrawnOrder } from "./draw.ts";

/** With whom a call will be tried, in order and with the reasons for whom it will not; or why nobody may be asked now. */
export type Plan = Candidates | PlanRefusal;

export interface Candidates {
  readonly go: "ahead";
  /** `last_resort`: nobody is well, and this call tries all the same. */
  readonly mode: "normal" | "last_resort";
  /** Never empty. */
  readonly candidates: readonly Choice[];
  /** Whose breakers are open, asked longest ago first: for when everybody else has failed. None where it is missing. */
  readonly reserve?: readonly Choice[];
  readonly skipped: readonly Skipped[];
}

export interface PlanRefusal {
  readonly go: "refuse";
  readonly kind: "rate_limited" | "no_channel" | "saturated";
  /** How long until the first candidate may be asked again: what clients are told. */
  readonly soonestMs: number;
  /** How long until it is worth planning anew: sooner, where a last resort will be due before. */
  readonly againMs: number;
  /** So short a wait that the call may sleep it out and plan once more; `null`: it should be answered now. */
  readonly waitMs: number | null;
  readonly skipped: readonly Skipped[];
}

export interface Choice {
  readonly candidate: Candidate;
  /** Its place among the route's tiers, from 0. */
  readonly tier: number;
  /** It is half-open: this attempt is its probe, to be marked as such and reported. */
  readonly probe: boolean;
  /** It is asked in spite of its breaker, as a last resort. */
  readonly held?: true;
}

export interface Skipped {
  readonly candidate: Candidate;
  readonly because: "cooling" | "half_open_busy" | "half_open_alone" | "saturated" | "context_too_small";
  /** Until when it cools, on the clock of `nowMs`. */
  readonly untilMs: number | null;
  /** The scope that holds it back, and the kind of failure that did. */
  readonly scope: string | null;
  readonly cause: string | null;
}

export interface PlanInput {
  readonly route: Route;
  readonly health: HealthOf;
  readonly load: LoadOf;
  /** Calls in flight on a whole channel, over all its models. */
  readonly channelInFlight: (channel: Channel) => number;
  /** Of the route; needed where it has a single deployment. */
  readonly throttle: Throttle | undefined;
  /** Those that were asked in spite of their breakers. */
  readonly lastAsked: LastAsked;
  /** The call has waited for a place at a full channel in vain. */
  readonly waited: boolean;
  readonly promptTokensEstimate: number;
  /** Of the deadline for everything before first content. */
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

/** More than a call will try, so that the judge has someone left when a whole host or account is out. */
const choicesMax = 8;
/** Places kept for the tiers below: they must not be crowded out by a large first tier. */
const reservedPerTier = 2;
const reservedMax = 4;
const skippedMax = 32;
/** The count of a prompt's tokens is rough: only a candidate that is clearly too small is passed over. */
const contextSlack = 1.25;

/** More than a call will try. */
const reserveMax = 4;
/** When a throttled route, or one whose last resorts are full, may be asked again nobody knows; soon. */
const lastResortRetryMs = 1_000;
const waitMaxMs = 5_000;
const waitJitter = 0.2;
/** When a full channel has a place again nobody knows; soon. */
const saturatedRetryMs = 1_000;

export function plan(input: PlanInput): Plan {
  const { tiers } = input.route;
  const only = tiers.length === 1 && tiers[0]!.length === 1 ? aloneWith(tiers[0]![0]!, input) : null;
  if (only !== null) return only;
  const survey = newSurvey();
  const choices: Choice[] = [];
  for (let tier = 0; tier < tiers.length && (choices.length < choicesMax || survey.ready === 0); tier += 1) {
    const reserved = Math.min(reservedMax, reservedPerTier * (tiers.length - 1 - tier));
    const room = Math.max(1, choicesMax - choices.length - reserved);
    placeTier(choices, drawnFrom(tiers[tier]!, tier, room, input, survey), room, input);
  }
  if (survey.ready > 0) {
    if (survey.reserve === none) return { go: "ahead", mode: "normal", candidates: choices, skipped: survey.skipped };
    return { go: "ahead", mode: "normal", candidates: choices, reserve: quickOf(survey.reserve), skipped: survey.skipped };
  }
  // The prompt looks too long for every one of them: then it is theirs to say so.
  const allTooSmall = survey.tooSmall > 0 && survey.tooSmall === survey.seen;
  if (allTooSmall) return plan({ ...input, promptTokensEstimate: 0 });
  return withNobodyReady(input, survey, choices);
}

/** Where there is but one candidate, and it is ready, the plan is the same for every call, and made once; null where it is not. */
function aloneWith(candidate: Candidate, input: PlanInput): Candidates | null {
  const { channel } = candidate.deployment;
  if (isTooSmall(channel, input) || isFull(channel, input)) return null;
  if (condition(candidate.scopes, input.health, input.nowMs).kind !== "ready") return null;
  let ahead = alone.get(candidate);
  if (ahead === undefined) {
    ahead = { go: "ahead", mode: "normal", candidates: [{ candidate, tier: 0, probe: false }], skipped: [] };
    alone.set(candidate, ahead);
  }
  return ahead;
}

const alone = new WeakMap<Candidate, Candidates>();

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
  /** The share of its weight it may take, and that weight: its chance to be drawn. */
  readonly share: number;
  readonly weight: number;
}

/**
 * A half-open candidate that is drawn first gets its probe now, if the tier is the first that has anyone: a lower tier
 * is there to be safe. The others come last, for when all else has failed. The cheaper of two sorts out the rest.
 */
function placeTier(choices: Choice[], drawn: readonly ReadyCandidate[], room: number, input: PlanInput): void {
  if (drawn.length === 1) return void choices.push(drawn[0]!);
  const roomEnd = choices.length + room;
  const probing = choices.length === 0 && drawn[0]?.probe === true ? drawn[0] : null;
  if (probing !== null) choices.push(probing);
  const well = drawn.filter((entry) => !entry.probe);
  const wanted = roomEnd - choices.length;
  for (const entry of withOtherHost(balanced(well, input.load, input.nowMs), wanted)) choices.push(entry);
  for (const entry of drawn) {
    if (entry.probe && entry !== probing && choices.length < roomEnd) choices.push(entry);
  }
}

/** The first so many; but where all of them hang on one host, the last place goes to the first who does not. */
function withOtherHost(order: readonly ReadyCandidate[], wanted: number): readonly ReadyCandidate[] {
  if (order.length <= wanted) return order;
  const kept = order.slice(0, wanted);
  const host = kept[0]?.candidate.scopes.host;
  if (kept.some((entry) => entry.candidate.scopes.host !== host)) return kept;
  const other = order.find((entry) => entry.candidate.scopes.host !== host);
  return other === undefined ? kept : [...kept.slice(0, -1), other];
}

/** What was seen on the way, for the case that nobody is ready. */
interface Survey {
  seen: number;
  ready: number;
  tooSmall: number;
  saturated: number;
  /** Cooling by the upstream's own word, and how many of them for its limits. */
  told: number;
  limited: number;
  soonestMs: number;
  /** Held back by a breaker, but not by the upstream's own word; how long until the first of them is due. */
  held: number;
  dueMs: number;
  /** Those that are due, the best first. */
  reserve: readonly Due[];
  readonly skipped: Skipped[];
}

interface Due {
  readonly choice: Choice;
  /** Its last probe succeeded: nobody has better prospects. */
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
    told: 0,
    limited: 0,
    soonestMs: Number.POSITIVE_INFINITY,
    held: 0,
    dueMs: Number.POSITIVE_INFINITY,
    reserve: none,
    skipped: [],
  };
}

/** Up to here a tier is looked at whole. */
const wholeTierMax = choicesMax;
/** From a larger one so many are wanted, by so many draws, and then so many steps through it. */
const drawnWanted = 4;
const drawsMax = 16;
const stepsMax = 64;
const otherHostSteps = 4;

/** The tier's candidates that may be asked now, in random order by weight. */
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
 * Most of a large tier is well, as a rule, and a few draws find enough of them. Where they do not, because of skewed weights
 * or many that are down, the tier is looked through; to its end only as long as nobody at all was found.
 */
function drawnFromLarge(tier: readonly Candidate[], at: number, wanted: number, input: PlanInput, survey: Survey): ReadyCandidate[] {
  const { dice } = input;
  const index = indexOf(tier);
  const seen = new Set<Candidate>();
  const drawn: ReadyCandidate[] = [];
  let well = 0;
  const take = (entry: ReadyCandidate): void => {
    drawn.push(entry);
    if (!entry.probe) well += 1;
  };
  const look = (candidate: Candidate): ReadyCandidate | null => {
    if (seen.has(candidate)) return null;
    seen.add(candidate);
    return assess(candidate, at, input, survey);
  };

  const slow: ReadyCandidate[] = [];
  for (let draw = 0; draw < drawsMax && well < wanted; draw += 1) {
    const entry = look(tier[drawOne(index, dice)]!);
    if (entry === null) continue;
    if (entry.share < 1 && dice() >= entry.share) slow.push(entry);
    else take(entry);
  }
  if (well === 0) slow.forEach(take);

  const start = Math.floor(dice() * tier.length);
  for (let step = 0; step < tier.length && (well === 0 || (well < wanted && step < stepsMax)); step += 1) {
    const entry = look(tier[(start + step) % tier.length]!);
    if (entry !== null) take(entry);
  }

  // Neighbours fall together: one more, from elsewhere.
  const host = drawn[0]?.candidate.scopes.host;
  if (host !== undefined && index.hosts.length > 1 && drawn.every(({ candidate }) => candidate.scopes.host === host)) {
    const from = Math.floor(dice() * index.hosts.length);
    for (let step = 0; step < otherHostSteps; step += 1) {
      const other = index.hosts[(from + step) % index.hosts.length]!;
      const there = index.byHost.get(other)!;
      const entry = other === host ? null : look(there[Math.floor(dice() * there.length)]!);
      if (entry === null) continue;
      take(entry);
      break;
    }
  }
  return drawn;
}

/** May this candidate be asked now? If not, the survey keeps the reason. */
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
    if (found.told) {
      survey.told += 1;
      if (found.cause === "rate_limited") survey.limited += 1;
    } else {
      noteHeld(survey, candidate, tier, found, input);
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
  noteHeld(survey, candidate, tier, found, input);
  if (found.busy) return skip(survey, candidate, "half_open_busy", found);
  return { candidate, tier, probe: true, share: 1, weight: candidate.weight };
}

/**
 * Whoever was asked longest ago goes first: so all of them are asked in turn, and the one that has recovered is found.
 * By any other order, one that fails for good could keep the others waiting.
 */
function noteHeld(survey: Survey, candidate: Candidate, tier: number, held: Held, input: PlanInput): void {
  survey.held += 1;
  if (isFull(candidate.deployment.channel, input)) return;
  const isHalfOpen = held.kind === "half_open" && !held.busy;
  const passed = isHalfOpen && held.passed;
  // A single deployment has a throttle instead of a pace.
  const waitMs = passed || hasOneDeployment(input.route) ? 0 : input.lastAsked.waitMs(candidate, input.nowMs);
  survey.dueMs = Math.min(survey.dueMs, Math.max(0, waitMs));
  if (waitMs > 0) return;
  const choice: Choice = { candidate, tier, probe: isHalfOpen, held: true };
  const due: Due = { choice, passed, askedMs: input.lastAsked.askedMs(candidate), costly: held.costly };
  const later = survey.reserve.findIndex((other) => (passed && !other.passed) || (passed === other.passed && due.askedMs < other.askedMs));
  survey.reserve = survey.reserve.toSpliced(later < 0 ? survey.reserve.length : later, 0, due).slice(0, reserveMax);
}

/** While others are well, nobody waits for one that keeps its callers waiting; and who is half-open has its place already. */
function quickOf(reserve: readonly Due[]): readonly Choice[] {
  return reserve.filter(({ costly, choice }) => !costly && !choice.probe).map(({ choice }) => choice);
}

function skip(survey: Survey, candidate: Candidate, because: Skipped["because"], held: Held | null): null {
  if (survey.skipped.length >= skippedMax) return null;
  survey.skipped.push({
    candidate,
    because,
    untilMs: held?.kind === "cooling" ? held.untilMs : null,
    scope: held?.scope ?? null,
    cause: held?.cause ?? null,
  });
  return null;
}

/**
 * Where every upstream asked us to stay away, we do. Where places are merely full, one will be free soon. Otherwise
 * somebody has to find out whether the worst is over, but only a few calls at a time.
 */
function withNobodyReady(input: PlanInput, survey: Survey, probes: readonly Choice[]): Plan {
  const skipped = [...survey.skipped];
  for (const { candidate } of probes) {
    skipped.push({ candidate, because: "half_open_alone", untilMs: null, scope: null, cause: null });
  }
  const [first, ...reserve] = survey.reserve.map(({ choice }) => choice);
  if (survey.saturated > 0 && (first === undefined || !input.waited)) {
    return { go: "refuse", kind: "saturated", soonestMs: saturatedRetryMs, againMs: saturatedRetryMs, waitMs: null, skipped };
  }
  const soonestMs = Number.isFinite(survey.soonestMs) ? Math.max(0, survey.soonestMs) : 0;
  if (survey.held === 0) {
    const kind = survey.told > 0 && survey.limited === survey.told ? "rate_limited" : "no_channel";
    const waits = survey.told > 0 && soonestMs <= Math.min(waitMaxMs, input.remainingMs / 4);
    // Those who wait here all wait for the same moment: the jitter keeps them from arriving as one.
    const waitMs = waits ? soonestMs * (1 + waitJitter * input.dice()) : null;
    return { go: "refuse", kind, soonestMs, againMs: soonestMs, waitMs, skipped };
  }
  if (first === undefined || !isLetThrough(input)) {
    const againMs = first === undefined && Number.isFinite(survey.dueMs) ? survey.dueMs : lastResortRetryMs;
    return { go: "refuse", kind: "no_channel", soonestMs, againMs: Math.min(soonestMs, againMs), waitMs: null, skipped };
  }
  return {
    go: "ahead",
    mode: "last_resort",
    candidates: [first],
    reserve,
    skipped: skipped.filter((one) => one.candidate !== first.candidate),
  };
}

function isLetThrough({ route, throttle, nowMs, dice }: PlanInput): boolean {
  return throttle === undefined || !hasOneDeployment(route) || throttleAdmits(throttle, nowMs, dice);
}

/** Nothing to fall back on: such a route is throttled in trouble instead of being shut off, so its requests are counted. */
export function hasOneDeployment(route: Route): boolean {
  if (route.size <= 1) return true;
  const known = oneDeployment.get(route);
  if (known !== undefined) return known;
  const first = route.tiers[0]?.[0]?.deployment.id;
  const has = route.tiers.every((tier) => tier.every((candidate) => candidate.deployment.id === first));
  oneDeployment.set(route, has);
  return has;
}

/** Asked on every call, and a large pool has one deployment too. */
const oneDeployment = new WeakMap<Route, boolean>();
