import { candidatesOf, deploymentScope, type Candidate, type Channel, type Route } from "../../channels/channel.ts";
import {
  afterFailure,
  afterHint,
  cause,
  afterSuccess,
  chargedScope,
  isForgettable,
  isProvedByContent,
  opensAgainMs,
  probeEnded,
  scopeIds,
  breakerState,
  withProbe,
  type Health,
} from "../../channels/health.ts";
import { LastAsked } from "../../channels/last-asked.ts";
import { startCall, endCall, newLoad, recordLatency, type Load } from "../../channels/load.ts";
import {
  countCall,
  newHedgeQuota,
  takeHedge,
  type HedgeQuota,
  countClientRetry,
  countFirst,
  mayRetry,
  newRetryBudget,
  takeRetry,
  type RetryBudget,
} from "../../limits/retry-budget.ts";
import { countAccept, countRequest, newThrottle, type Throttle } from "../../limits/throttle.ts";
import type { Failure, FailureKind } from "../../operations/failure.ts";
import { admits, isWaitRequested } from "../../routing/condition.ts";
import { hasOneDeployment, plan, wholePlan, type Choice, type Plan } from "../../routing/plan.ts";
import { BoundedMap } from "./bounded-map.ts";
import { CandidateState, ScopeHealth, type ChannelCalls } from "./candidate-state.ts";
import { HeldRequests } from "../attempt/rescue.ts";
import { Lessons, type CallLesson, type Lesson } from "./lessons.ts";
import { CapacityQueue } from "../admission/capacity-queue.ts";
import type { Ports } from "../ports.ts";
import { candidatesOfChannel, type Snapshot } from "../snapshot.ts";

/**
 * What the gateway remembers of upstreams between calls: health, load, retry budgets and lessons. It holds the values; pure rules say
 * how they change. It outlives reloads. Every table has a limit, because a channel that accepts any model lets clients choose the
 * names.
 */
export class UpstreamState {
  private readonly healths = new BoundedMap<string, ScopeHealth>(
    entriesMax,
    (_, dropped) => (dropped.dropped = true),
    (scope) => this.isKnownScope(scope),
  );
  private readonly loads = new BoundedMap<string, Load>(entriesMax, ignore, (id) => this.isKnown(id));
  private readonly routes = new BoundedMap<string, RouteState>(entriesMax, ignore, (model) => this.snapshot?.routes.has(model) === true);
  private readonly lastAsked = new LastAsked(new BoundedMap(entriesMax));
  private readonly channelCalls = new Map<string, ChannelCalls>();
  /** What the tables have about each candidate of the configuration that calls go by. */
  private readonly states = new WeakMap<Candidate, CandidateState>();
  readonly lessons: Lessons;
  private snapshot: Snapshot | null = null;
  /** The deployments in the configuration, collected when a table is full. */
  private known: ReadonlySet<string> | null = null;
  /** Calls whose channels are all full. */
  readonly capacityQueue: CapacityQueue;
  readonly heldRequests = new HeldRequests();

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "dice" | "after">,
    private readonly notice: (event: string, fields: Readonly<Record<string, unknown>>) => void = () => {},
  ) {
    this.capacityQueue = new CapacityQueue(ports);
    this.lessons = new Lessons(entriesMax, ports.nowMs, (id) => this.isKnown(id));
  }

  /** `again`: the same call plans again after a wait; `waited`: it waited for capacity in vain. */
  plan(route: Route, promptTokensEstimate: number, remainingMs: number, nowMs: number, again = false, waited = false): Plan {
    const { dice } = this.ports;
    const state = this.route(route.model);
    const planned = plan({
      route,
      health: this.health,
      isWell: this.isWell,
      load: this.load,
      channelInFlight: this.channelInFlight,
      throttle: state.throttle,
      lastAsked: this.lastAsked,
      waited,
      promptTokensEstimate,
      remainingMs,
      nowMs,
      dice,
    });
    if (!again && hasOneDeployment(route)) countRequest(state.throttle, nowMs, planned.ok);
    return planned;
  }

  /** What the plan of a call would be now. Changes nothing. */
  previewPlan(route: Route, promptTokensEstimate: number, remainingMs: number): Plan {
    const state = this.routes.get(route.model);
    return wholePlan({
      route,
      health: this.health,
      isWell: this.isWell,
      load: this.load,
      channelInFlight: this.channelInFlight,
      throttle: state?.throttle,
      lastAsked: this.lastAsked,
      waited: false,
      promptTokensEstimate,
      remainingMs,
      nowMs: this.ports.nowMs(),
      dice: this.ports.dice,
    });
  }

  /** Another process reports a failing scope, and for how long it will not be asked. */
  hint(scope: string, kind: FailureKind, forMs: number): void {
    const of = this.scopeHealth(scope);
    of.health = afterHint(of.health, kind, this.ports.nowMs(), forMs);
  }

  /** Forgets the failures of these candidates: an operator says that their cause is gone. Returns how many breakers were not closed. */
  clear(candidates: readonly Candidate[]): number {
    const open = this.openBreakers(candidates).length;
    for (const candidate of candidates) {
      for (const scope of scopeIds(candidate.scopes)) {
        const of = this.healths.get(scope);
        if (of !== undefined) of.health = undefined;
      }
      this.lastAsked.clear(candidate);
    }
    return open;
  }

  /** The same for all that a channel can be asked with, or was asked with if it takes any model. */
  clearChannel(name: string, snapshot: Snapshot): number {
    const routed = candidatesOfChannel(name, snapshot);
    const channel = routed.length > 0 ? undefined : snapshot.channels.find((one) => one.name === name);
    return this.clear(channel === undefined ? routed : this.askedCandidates(channel, this.askedModels()));
  }

  /** The scopes of these candidates whose breaker is not closed, the cause, and for how long. */
  openBreakers(candidates: readonly Candidate[]): readonly OpenBreaker[] {
    const nowMs = this.ports.nowMs();
    const scopes = new Set(candidates.flatMap((candidate) => scopeIds(candidate.scopes)));
    return [...scopes].flatMap((scope) => {
      const health = this.health(scope);
      const now = breakerState(health, nowMs);
      if (health === undefined || now === "closed") return [];
      return [{ scope, state: now, cause: cause(health, nowMs), forMs: Math.max(0, Math.round(opensAgainMs(health) - nowMs)) }];
    });
  }

  /** By the names of channels, the models that they were asked for, as far as that is remembered. */
  askedModels(): AskedModels {
    const asked = new Map<string, string[]>();
    for (const scope of this.healths.keys()) {
      if (!scope.startsWith(deploymentScope)) continue;
      const deployment = scope.slice(deploymentScope.length);
      const channel = channelOf(deployment);
      const model = deployment.slice(channel.length + 1);
      const models = asked.get(channel);
      if (models === undefined) asked.set(channel, [model]);
      else models.push(model);
    }
    return asked;
  }

  /** What a channel that takes any model was asked with: clients choose the names. If it was not, what all of its models share. */
  askedCandidates(channel: Channel, asked: AskedModels): readonly Candidate[] {
    const models = asked.get(channel.name) ?? [""];
    return models.flatMap((model) => candidatesOf({ id: `${channel.name}/${model}`, channel, model }));
  }

  /** The same without models that the upstream does not have: a name that a client made up says nothing about the channel. */
  knownModelCandidates(channel: Channel, asked: AskedModels): readonly Candidate[] {
    const candidates = this.askedCandidates(channel, asked);
    const isMissing = ({ cause: because }: OpenBreaker): boolean => because === "model_missing";
    if (!this.openBreakers(candidates).some(isMissing)) return candidates;
    return candidates.filter((candidate) => !this.openBreakers([candidate]).some(isMissing));
  }

  /** The number of attempts that are running on a channel. */
  running(channel: string): number {
    return this.channelCalls.get(channel)?.running ?? 0;
  }

  /** A call was admitted. `retried`: the client itself repeats an earlier call. */
  callBegins(model: string, retried: boolean, nowMs: number): void {
    const state = this.route(model);
    if (retried) countClientRetry(state.budget, nowMs);
    else countFirst(state.budget, nowMs);
    countCall(state.hedges);
  }

  mayRetry(model: string): boolean {
    return mayRetry(this.route(model).budget, this.ports.nowMs());
  }

  takeRetry(model: string): boolean {
    return takeRetry(this.route(model).budget, this.ports.nowMs());
  }

  takeHedge(model: string): boolean {
    return takeHedge(this.route(model).hedges, this.ports.nowMs());
  }

  /** It is healthy and has capacity. */
  admits(candidate: Candidate): boolean {
    return this.hasCapacity(candidate) && this.isHealthy(candidate);
  }

  isHealthy({ scopes }: Candidate): boolean {
    return admits(scopes, this.health, this.ports.nowMs());
  }

  /** It is not healthy but may be asked as a last resort: it was not asked lately, and the upstream did not ask for a wait. */
  admitsAsLastResort(candidate: Candidate, route: Route): boolean {
    const nowMs = this.ports.nowMs();
    if (!this.hasCapacity(candidate) || isWaitRequested(candidate.scopes, this.health, nowMs)) return false;
    return hasOneDeployment(route) || this.lastAsked.waitMs(candidate, nowMs) <= 0;
  }

  hasCapacity({ deployment: { channel } }: Candidate): boolean {
    return this.channelInFlight(channel) < channel.concurrencyMax;
  }

  /** How long until the first of these may be asked again. */
  soonestMs(candidates: readonly Candidate[]): number {
    const freeMs = candidates.map(({ scopes }) => Math.max(...scopeIds(scopes).map((scope) => opensAgainMs(this.health(scope)))));
    return Math.max(0, Math.min(...freeMs) - this.ports.nowMs());
  }

  loadOf(candidate: Candidate): Readonly<Load> | undefined {
    return this.stateOf(candidate).load;
  }

  /** What was learned about this deployment. */
  lessonOf(candidate: Candidate): Lesson {
    return this.lessons.of(candidate);
  }

  /** A call succeeded with a lesson, so that the next calls can use it. */
  learn(candidate: Candidate, lesson: CallLesson): void {
    const fact = this.lessons.confirmed(candidate, lesson);
    if (fact === null) return;
    const { channel, model, maxTokens, unsupported, forMs } = fact;
    this.notice("learned", { channel, model, max_tokens: maxTokens, unsupported, for_ms: forMs });
  }

  /** Counts an attempt as running. Its end is reported exactly once. */
  begin(
    { candidate, probe, lastResort }: Pick<Choice, "candidate" | "probe" | "lastResort">,
    model: string,
    nowMs: number,
    streamed: boolean,
  ): AttemptReporter {
    const state = this.stateOf(candidate);
    startCall(state.load);
    state.calls.running += 1;
    if (probe) this.probing(candidate.scopes, nowMs);
    const suspect = probe || lastResort === true;
    if (suspect) this.lastAsked.asked(candidate, nowMs);
    return new AttemptReporter(this, candidate, probe, suspect, model, state, nowMs, streamed);
  }

  /** A probe or a last resort has content. Other calls do not have to wait for its end. */
  probeAnswers({ candidate: { scopes }, beganMs }: AttemptReporter, nowMs: number): void {
    for (const scope of scopeIds(scopes)) {
      if (isProvedByContent(this.health(scope))) recordSuccess(this.scopeHealth(scope), nowMs, beganMs);
    }
  }

  succeeded({ candidate, model, beganMs, suspect }: AttemptReporter, nowMs: number): void {
    if (suspect) {
      // Scopes that were proved by the first content are not counted again at the end.
      for (const scope of scopeIds(candidate.scopes)) {
        if (!isProvedByContent(this.health(scope))) recordSuccess(this.scopeHealth(scope), nowMs, beganMs);
      }
      return this.accepted(model, nowMs);
    }
    const { host, credential, deployment, quota } = this.stateOf(candidate);
    recordSuccess(host, nowMs, beganMs);
    recordSuccess(credential, nowMs, beganMs);
    recordSuccess(deployment, nowMs, beganMs);
    if (quota !== null) recordSuccess(quota, nowMs, beganMs);
    this.accepted(model, nowMs);
  }

  private accepted(model: string, nowMs: number): void {
    const state = this.routes.get(model);
    if (state !== undefined) countAccept(state.throttle, nowMs);
  }

  failed({ candidate, probe, beganMs }: AttemptReporter, failure: Failure, nowMs: number): void {
    const charged = chargedScope(candidate, failure);
    if (charged === null) this.lastAsked.clear(candidate);
    for (const scope of scopeIds(candidate.scopes)) {
      if (scope !== charged) {
        if (probe) this.probeEnds(scope, beganMs);
        continue;
      }
      const of = this.scopeHealth(scope);
      const before = of.health;
      const after = afterFailure(before, failure, nowMs, this.ports.dice, beganMs);
      of.health = after;
      if (breakerState(before, nowMs) !== "open" && breakerState(after, nowMs) === "open") {
        this.notice("cooling", {
          scope,
          channel: candidate.deployment.channel.name,
          error: failure.kind,
          detail: failure.detail,
          for_ms: Math.round(opensAgainMs(after) - nowMs),
        });
      }
    }
  }

  abandoned({ candidate, probe, beganMs }: AttemptReporter): void {
    if (probe) for (const scope of scopeIds(candidate.scopes)) this.probeEnds(scope, beganMs);
  }

  private probeEnds(scope: string, beganMs: number): void {
    const of = this.scopeHealth(scope);
    if (of.health !== undefined) of.health = probeEnded(of.health, beganMs);
  }

  callEnded(channel: string, calls: ChannelCalls): void {
    calls.running -= 1;
    if (this.capacityQueue.size > 0) this.capacityQueue.freed(channel);
  }

  /** Called at start and after a reload: forgets what the configuration no longer names. */
  forgetUnknown(snapshot: Snapshot): void {
    this.snapshot = snapshot;
    this.known = null;
    const nowMs = this.ports.nowMs();
    for (const [scope, of] of this.healths) {
      if (of.health !== undefined && !isForgettable(of.health, nowMs)) continue;
      this.healths.delete(scope);
      of.dropped = true;
    }
    // Clients can make up models, but not channels. What a call still runs on is counted on, and goes with a later reload.
    const channels = new Set(snapshot.channels.map(({ name }) => name));
    for (const [name, calls] of this.channelCalls) {
      if (calls.running > 0 || channels.has(name)) continue;
      this.channelCalls.delete(name);
      calls.dropped = true;
    }
    for (const id of this.loads.keys()) {
      const channel = channelOf(id);
      if (!channels.has(channel) && !this.channelCalls.has(channel)) this.loads.delete(id);
    }
    if (snapshot.wildcard !== null) return;
    for (const model of this.routes.keys()) if (!snapshot.routes.has(model)) this.routes.delete(model);
  }

  /** Only names of models can be invented by clients; hosts, credentials and quotas come from the configuration. */
  private isKnownScope(scope: string): boolean {
    return !scope.startsWith(deploymentScope) || this.isKnown(scope.slice(deploymentScope.length));
  }

  private isKnown(deployment: string): boolean {
    this.known ??= deploymentsOf(this.snapshot);
    return this.known.has(deployment);
  }

  private readonly health = (scope: string): Health | undefined => this.healths.get(scope)?.health;
  private readonly isWell = (candidate: Candidate, nowMs: number): boolean => this.stateOf(candidate).isWell(candidate, nowMs);
  private readonly load = (candidate: Candidate): Readonly<Load> => this.stateOf(candidate).load;
  private readonly channelInFlight = (channel: Channel): number => this.running(channel.name);

  private stateOf(candidate: Candidate): CandidateState {
    const before = this.states.get(candidate);
    if (before?.isCurrent === true) return before;
    // The load of a channel that was forgotten is forgotten with it.
    const known = before?.calls.dropped === true ? undefined : before;
    const { scopes, deployment } = candidate;
    const state = new CandidateState(
      this.scopeHealth(scopes.host),
      this.scopeHealth(scopes.credential),
      this.scopeHealth(scopes.deployment),
      scopes.quota === null ? null : this.scopeHealth(scopes.quota),
      known?.load ?? found(this.loads, deployment.id, newLoad),
      known?.calls ?? found(this.channelCalls, deployment.channel.name, noCalls),
    );
    this.states.set(candidate, state);
    return state;
  }

  private scopeHealth(scope: string): ScopeHealth {
    return found(this.healths, scope, newScopeHealth);
  }

  private probing(scopes: Candidate["scopes"], nowMs: number): void {
    for (const scope of scopeIds(scopes)) {
      const of = this.scopeHealth(scope);
      if (of.health !== undefined) of.health = withProbe(of.health, nowMs);
    }
  }

  private route(model: string): RouteState {
    let state = this.routes.get(model);
    if (state === undefined) {
      state = { budget: newRetryBudget(), hedges: newHedgeQuota(), throttle: newThrottle() };
      this.routes.set(model, state);
    }
    return state;
  }
}

/** Reports the course of a running attempt. Exactly one of `succeeded`, `failed` and `abandoned` ends it. */
export class AttemptReporter {
  private open = true;

  constructor(
    private readonly upstreams: UpstreamState,
    readonly candidate: Candidate,
    readonly probe: boolean,
    /** Its breaker was not closed: it is a probe or a last resort. */
    readonly suspect: boolean,
    readonly model: string,
    private readonly state: CandidateState,
    readonly beganMs: number,
    private readonly streamed: boolean,
  ) {}

  firstContent(nowMs: number): void {
    recordLatency(this.state.load, nowMs - this.beganMs, nowMs, this.streamed);
    if (this.suspect) this.upstreams.probeAnswers(this, nowMs);
  }

  succeeded(nowMs: number): void {
    this.close();
    this.upstreams.succeeded(this, nowMs);
  }

  failed(failure: Failure, nowMs: number): void {
    this.close();
    this.upstreams.failed(this, failure, nowMs);
    if (failure.kind === "timed_out") recordLatency(this.state.load, nowMs - this.beganMs, nowMs, this.streamed);
  }

  /** It ended without saying anything about the upstream: the client left, or another attempt won. */
  abandoned(): void {
    this.close();
    this.upstreams.abandoned(this);
  }

  private close(): void {
    if (!this.open) throw new Error("an attempt was ended twice");
    this.open = false;
    endCall(this.state.load);
    this.upstreams.callEnded(this.candidate.deployment.channel.name, this.state.calls);
  }
}

export type AskedModels = ReadonlyMap<string, readonly string[]>;

export interface OpenBreaker {
  readonly scope: string;
  readonly state: "half_open" | "open";
  readonly cause: FailureKind;
  readonly forMs: number;
}

/** What is remembered of the calls of one model. */
interface RouteState {
  readonly budget: RetryBudget;
  readonly hedges: HedgeQuota;
  readonly throttle: Throttle;
}

/** Entries beside those of the configuration. That is more names than clients need, and costs a few megabytes. */
const entriesMax = 5_000;
const ignore = (): void => {};
const newScopeHealth = (): ScopeHealth => new ScopeHealth();
const noCalls = (): ChannelCalls => ({ running: 0, dropped: false });

/** The channel of a deployment, by its id: names of channels have no slash. */
function channelOf(deployment: string): string {
  return deployment.slice(0, deployment.indexOf("/"));
}

/** What a table has under a key; if it has nothing, a new value from now on. */
function found<Value>(table: Map<string, Value>, key: string, make: () => Value): Value {
  let value = table.get(key);
  if (value === undefined) table.set(key, (value = make()));
  return value;
}

function recordSuccess(of: ScopeHealth, nowMs: number, beganMs: number): void {
  const after = afterSuccess(of.health, nowMs, beganMs);
  if (after !== of.health) of.health = after;
}

function deploymentsOf(snapshot: Snapshot | null): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const { tiers } of snapshot?.routes.values() ?? [])
    for (const tier of tiers) for (const { deployment } of tier) ids.add(deployment.id);
  return ids;
}

/** The cause of a hint to other processes: end the cool-downs of this channel. */
export const clearCoolDowns = "clear_cool_downs";
