import type { Candidate } from "../channels/channel.ts";
import { asksForReasoning, promptTokensOf, retryCostOf } from "../operations/call-request.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import { continued } from "../operations/chat/continuation.ts";
import type { WholeAnswer } from "../operations/emission.ts";
import { failure, isFailure, type Failure, obeyedWaitMaxMs } from "../operations/failure.ts";
import { endOf } from "../operations/chat/resume.ts";
import { operationSpecs } from "../operations/operation.ts";
import { finalFailure } from "../routing/final-failure.ts";
import { hedgeAgainMs, hedgeDelayMs, hedgeWith } from "../routing/hedge.ts";
import { judge, type FailedAttempt, type Verdict } from "../routing/judge.ts";
import type { Candidates, Choice, Plan, PlanRefusal } from "../routing/plan.ts";
import { canContinue, type RescueInput } from "../routing/rescue.ts";
import { estimateTokens } from "../usage/token-estimate.ts";
import type { Call } from "./call.ts";
import type { Gateway } from "./gateway.ts";
import { together, type CallLesson } from "./upstream-state/lessons.ts";
import type { LiveStream } from "./attempt/live-stream.ts";
import { pause } from "./attempt/pause.ts";
import type { CallRecord, Persisted, AttemptRecord } from "./settlement/record.ts";
import { Relay, type StreamTotals } from "./attempt/relay.ts";
import { isNothing, Rescue, type Successor } from "./attempt/rescue.ts";
import type { Outcome } from "./attempt/attempt-exchange.ts";
import { patienceMs, Attempt, type AttemptChoice, type HedgeTrigger } from "./attempt/attempt.ts";

/** What became of a call, for the edge to write. */
export type CallResult = CallResultFacts &
  (
    | { readonly kind: "whole"; readonly body: Uint8Array; readonly type: string }
    | { readonly kind: "stream"; readonly source: OutputSource; readonly type: string; readonly shape: "events" | "bytes" }
    /** `recorded` is told the status the client saw. */
    | {
        readonly kind: "failed";
        readonly failure: Failure;
        readonly retryAfterMs: number | null;
        readonly recorded: (status: number) => Persisted;
      }
  );

/** What a client is sent as it comes: bytes, the failure that interrupted them, or `null` at the end. */
export interface OutputSource {
  next(): Uint8Array | Failure | null | Promise<Uint8Array | Failure | null>;
  cancel(reason: Failure): void;
  /** Whoever reads it, and sends it on. */
  reader: OutputReader | null;
}

/** Reads an answer and sends it to the client. */
export interface OutputReader {
  /** How much of what it was given has not left. Where an answer breaks off in bytes, or its client is gone, that never will. */
  unsentBytes(): number;
}

interface CallResultFacts {
  readonly channel: string | null;
  readonly attempts: number;
  readonly clampedTo: number | null;
  readonly voice: string | null;
  /** The fields of the request that did not reach the model. */
  readonly dropped?: readonly string[];
}

/** Serves one call: plan, attempt, judge, until there is a result or another attempt makes no sense. It rejects only for a bug. */
export function serve(call: Call, gateway: Gateway): Promise<CallResult> {
  return new CallExecution(call, gateway).run();
}

/** One admitted call while it is served. */
class CallExecution implements HedgeTrigger {
  private failures: readonly FailedAttempt[] = none;
  private readonly attempts: Attempt[] = [];
  /** What this call was refused for, by deployment: the next attempt there does without. */
  private lessons: Map<string, CallLesson> | null = null;
  private readonly deadlineMs: number;
  private planned: Plan | null = null;
  private plannedMs = 0;
  /** As the present attempt was chosen from it. */
  private candidates: Candidates | null = null;
  /** The attempt beside the present one, which was slow. */
  private hedge: HedgeAttempt | null = null;
  /** It waited for its turn, and those behind it want to know how it went. */
  private wasQueued = false;
  /** However often it waits, not longer than this. */
  private waitsUntilMs: number | null = null;

  constructor(
    private readonly call: Call,
    private readonly gateway: Gateway,
  ) {
    const { routing } = call.snapshot;
    const soon = call.facts.stream && operationSpecs[call.ask.operation].startsEarly;
    this.deadlineMs = soon ? routing.streamDeadlineMs : routing.wholeDeadlineMs;
  }

  async run(): Promise<CallResult> {
    const { call, gateway } = this;
    const planning = this.planOrWait();
    let plan = planning instanceof Promise ? await planning : planning;
    this.planned = plan;
    if (plan.go === "refuse") return this.refused(plan);
    const clientRetries = call.headers.header("x-stainless-retry-count");
    let nowMs = planning instanceof Promise ? gateway.ports.nowMs() : this.plannedMs;
    gateway.upstreams.callBegins(call.route.model, clientRetries !== null && clientRetries !== "0", nowMs);

    let choice: AttemptChoice = plan.candidates[0]!;
    for (; ; nowMs = gateway.ports.nowMs()) {
      this.candidates = plan;
      const attempt = this.begin(choice, nowMs);
      let won = this.concluded(attempt, await attempt.run());
      if (this.hedge !== null) won = await this.raced(won, this.hedge);
      if (won !== null) {
        const persisted = this.persist(won);
        if (persisted !== null) await persisted;
        return this.answered(won, plan);
      }
      if (call.cancellation.failure !== null) return this.failed(call.cancellation.failure);
      const verdict = await this.decide(plan);
      if (call.cancellation.failure !== null) return this.failed(call.cancellation.failure);
      if (verdict.go === "stop") {
        const later = await this.planAgain();
        if (call.cancellation.failure !== null) return this.failed(call.cancellation.failure);
        if (later === null) return this.failed(this.finalFailure(), verdict.because);
        plan = later;
        choice = plan.candidates[0]!;
        continue;
      }
      choice = verdict;
    }
  }

  /** What comes after a failure, when the time for it has come: the place that was free for it may be somebody else's by then. */
  private async decide(plan: Candidates): Promise<Verdict> {
    const { call, gateway } = this;
    for (let look = 0; ; look += 1) {
      const verdict = this.judge(plan);
      if (verdict.go === "stop") return verdict;
      if (!verdict.free && look === 0) gateway.upstreams.takeRetry(call.route.model);
      if (verdict.afterMs > 0) await pause(verdict.afterMs, call.cancellation, gateway.ports);
      if (call.cancellation.failure !== null || gateway.upstreams.hasCapacity(verdict.candidate) || look === looksMax) return verdict;
    }
  }

  private plan(again = false, waited = false): Plan {
    const { route, ask } = this.call;
    const nowMs = this.gateway.ports.nowMs();
    this.plannedMs = nowMs;
    return this.gateway.upstreams.plan(route, promptTokensOf(ask), this.remainingMs(nowMs), nowMs, again, waited);
  }

  /** Where nobody may be asked now: the plan after a short wait, or, where calls may wait for longer, when it is their turn. */
  private planOrWait(): Plan | Promise<Plan> {
    const first = this.plan();
    const shortMs = first.go === "refuse" ? first.waitMs : null;
    const { waitMs } = this.call.snapshot.routing;
    if (waitMs > 0) this.waitsUntilMs = this.gateway.ports.nowMs() + waitMs;
    if (waitMs > (shortMs ?? 0)) return this.mayGo(first) ? first : this.planInQueue(first);
    if (shortMs !== null) return this.planAfter(first, shortMs);
    // The newest would go first, and a later part has no use for a place before an earlier one.
    return isFull(first) && !this.gateway.servesParts ? this.planWithCapacity(first) : first;
  }

  /** Somebody may be asked now, and nobody waits for that already. */
  private mayGo(plan: Plan): boolean {
    return plan.go === "ahead" && this.gateway.fairQueue.waiting(this.call.route.model) === 0;
  }

  /** All that were asked said that it was too much for now. Where calls may wait, this one does too, for another try. */
  private async planAgain(): Promise<Candidates | null> {
    const { waitMs, attemptsMax } = this.call.snapshot.routing;
    if (waitMs === 0 || this.failures.length >= attemptsMax || !this.failures.every(({ failure: { kind } }) => kind === "rate_limited"))
      return null;
    const now = this.plan(true);
    if (now.go === "ahead") return null;
    const plan = await this.planInQueue(now);
    return plan.go === "ahead" ? plan : null;
  }

  /** Every upstream asked for a wait, and a short one: the plan after it. */
  private async planAfter(refused: Plan, waitMs: number): Promise<Plan> {
    const { cancellation } = this.call;
    await pause(waitMs, cancellation, this.gateway.ports);
    return cancellation.failure === null ? this.plan(true) : refused;
  }

  /** Every channel that is well is full: the plan when one has a place, or after so long that it is better to try others, or say no. */
  private async planWithCapacity(first: PlanRefusal): Promise<Plan> {
    const { route, cancellation } = this.call;
    const { capacityQueue } = this.gateway.upstreams;
    const nowMs = this.gateway.ports.nowMs();
    const untilMs = nowMs + Math.min(capacityWaitMaxMs, this.remainingMs(nowMs));
    let plan: Plan = first;
    while (isFull(plan)) {
      const freed = await capacityQueue.wait({ route: route.model, channels: fullChannels(plan), untilMs, cancellation });
      if (freed === null) return cancellation.failure === null ? this.plan(true, true) : plan;
      if (cancellation.failure === null) plan = this.plan(true);
      // Whoever leaves, or goes elsewhere, leaves the place to the next.
      const left = plan.go === "ahead" ? channelOf(plan) !== freed : !isFull(plan) || cancellation.failure !== null;
      if (left) capacityQueue.freed(freed);
      if (cancellation.failure !== null) return plan;
    }
    return plan;
  }

  /** Where nobody may be asked now, or others wait already, the call waits its turn: keys by turns, and not past its deadline. */
  private async planInQueue(first: Plan): Promise<Plan> {
    const { call, gateway } = this;
    const { fairQueue } = gateway;
    const { model } = call.route;
    const nowMs = gateway.ports.nowMs();
    this.waitsUntilMs ??= nowMs + call.snapshot.routing.waitMs;
    const deadlineMs = Math.min(this.waitsUntilMs, nowMs + this.remainingMs(nowMs));
    let plan = first;
    // Who had its turn and was turned away has its place at the head again.
    for (let again = this.wasQueued; plan.go === "refuse" || (!again && fairQueue.waiting(model) > 0); again = true) {
      const soonestMs = plan.go === "refuse" ? plan.againMs : 0;
      const turn = await fairQueue.wait({
        route: model,
        keyId: call.key.id,
        soonestMs,
        deadlineMs,
        cancellation: call.cancellation,
        again,
      });
      if (turn !== "go") return plan.go === "refuse" ? plan : this.plan(true);
      this.wasQueued = true;
      plan = this.plan(true, true);
    }
    return plan;
  }

  private judge(plan: Candidates): ReturnType<typeof judge> {
    const { call, gateway, failures: tried } = this;
    const { timeouts } = tried.at(-1)!.candidate.deployment.channel;
    const { bodyBytes, hostedTools, promptTokensEstimate } = retryCostOf(call.ask);
    return judge({
      policy: call.snapshot.routing,
      plan,
      tried,
      deadlineMs: this.deadlineMs,
      remainingMs: this.remainingMs(gateway.ports.nowMs()),
      attemptTimerMs: patienceMs(call.ask.operation, call.facts.stream, timeouts),
      bodyBytes,
      upload: operationSpecs[call.ask.operation].uploads,
      hostedTools,
      promptTokensEstimate,
      canRetry: gateway.upstreams.mayRetry(call.route.model),
      admits: (candidate) => gateway.upstreams.admits(candidate),
      mayResort: (candidate) => gateway.upstreams.mayResort(candidate, call.route),
      dice: gateway.ports.dice,
    });
  }

  /** How long an attempt may take before another one is made beside it; Infinity where none is. */
  slowMs(candidate: Candidate, streamed: boolean): number {
    const { call, gateway, candidates } = this;
    const { routing } = call.snapshot;
    if (routing.hedgeAfterMs === null || candidates!.candidates.length === 1) return Infinity;
    return hedgeDelayMs(routing, gateway.upstreams.loadOf(candidate), streamed, asksForReasoning(call.ask)) ?? Infinity;
  }

  /** The present attempt has no content yet: another one is made beside it, now or when that is possible. */
  slow(first: Attempt): number {
    const { call, gateway } = this;
    if (call.cancellation.failure !== null) return Infinity;
    const { bodyBytes, choices, hostedTools } = retryCostOf(call.ask);
    const { model } = call.route;
    const hedge = hedgeWith({
      plan: this.candidates!,
      asked: this.attempts.map(({ candidate }) => candidate),
      attemptsMax: call.snapshot.routing.attemptsMax,
      bodyBytes,
      choices,
      hostedTools,
      canRetry: gateway.upstreams.mayRetry(model),
      admits: (candidate) => gateway.upstreams.admits(candidate),
    });
    if (hedge === "never") return Infinity;
    if (hedge === "later" || !gateway.upstreams.takeHedge(model)) return hedgeAgainMs;
    gateway.upstreams.takeRetry(model);
    const nowMs = gateway.ports.nowMs();
    const attempt = new Attempt(call, call.ask, gateway, { candidate: hedge, probe: false }, nowMs, this.remainingMs(nowMs), true);
    this.attempts.push(attempt);
    // The first to have content wins, and the other one is ended at once.
    const running = attempt.run().then((outcome) => {
      const won = this.concluded(attempt, outcome);
      if (won !== null && this.hedge === beside) {
        beside.won = won;
        first.lose();
      }
      return won;
    });
    const beside: HedgeAttempt = { attempt, running, won: null };
    this.hedge = beside;
    // `raced` awaits it, unless the first attempt has won by then.
    running.catch(() => {});
    return Infinity;
  }

  /** The present attempt is over: it has won, or it has lost, or it failed and the other one may still win. */
  private async raced(won: Winner | null, hedge: HedgeAttempt): Promise<Winner | null> {
    this.hedge = null;
    if (hedge.won !== null) return hedge.won;
    if (won === null) return hedge.running;
    hedge.attempt.lose();
    return won;
  }

  private begin(choice: AttemptChoice, nowMs: number): Attempt {
    const { call, gateway } = this;
    const taught = this.lessons?.get(choice.candidate.deployment.id) ?? null;
    const attempt = new Attempt(call, call.ask, gateway, choice, nowMs, this.remainingMs(nowMs), false, this, taught);
    this.attempts.push(attempt);
    return attempt;
  }

  private concluded(attempt: Attempt, outcome: Outcome): Winner | null {
    if (!isFailure(outcome)) return { attempt, outcome };
    if (attempt.lesson !== null) this.learned(attempt.candidate.deployment.id, attempt.lesson);
    this.failures = [...this.failures, { candidate: attempt.candidate, failure: outcome, tookMs: attempt.record.tookMs }];
    return null;
  }

  private learned(deployment: string, lesson: CallLesson): void {
    this.lessons ??= new Map();
    const before = this.lessons.get(deployment) ?? null;
    this.lessons.set(deployment, { ...together(lesson, before), shared: lesson.shared && (before?.shared ?? true) });
  }

  /** A whole answer waits until its receipt is safe; a stream has none before its end. */
  private persist({ outcome }: Winner): Persisted {
    this.gateway.fairQueue.opened(this.call.route.model);
    if (outcome.kind !== "whole") return null;
    return this.record(200, "complete", null, outcome);
  }

  private answered({ attempt, outcome }: Winner, plan: Candidates): CallResult {
    const channel = attempt.candidate.deployment.channel.name;
    const count = this.attempts.length;
    const { clampedTo, voice, dropped } = attempt;
    const { type } = outcome;
    if (outcome.kind === "whole") return { kind: "whole", body: outcome.body, type, channel, attempts: count, clampedTo, voice, dropped };
    const source = this.relay(attempt, outcome, plan);
    return { kind: "stream", source, type, shape: outcome.shape, channel, attempts: count, clampedTo, voice, dropped };
  }

  private relay(attempt: Attempt, stream: LiveStream, plan: Candidates): Relay {
    const { call } = this;
    const last = { attempt };
    const settle = this.settlement(last, stream.firstContentMs - call.facts.startedMs);
    const relay = new Relay(stream, settle, stream.shape === "events", this.rescueOf(stream, last, plan));
    call.cancellation.add(relay);
    return relay;
  }

  /** What has another channel go on with the stream when it breaks off; null where none could. */
  private rescueOf(stream: LiveStream, last: { attempt: Attempt }, plan: Candidates): Rescue | null {
    const { ask } = this.call;
    const { heldRequests } = this.gateway.upstreams;
    // Most routes have nobody else, and pay nothing.
    if (plan.candidates.length === 1 || ask.operation !== "chat" || !ask.plainText) return null;
    const input = this.rescueInput(last.attempt, plan);
    if (!plan.candidates.some((choice) => canContinue(choice, input)) || !heldRequests.hold(ask.body.length)) return null;
    return new Rescue((text, cause) => this.succeed(ask, text, cause, stream, last, plan), heldRequests, ask.body.length);
  }

  private rescueInput(broken: Attempt, plan: Candidates): RescueInput {
    const asked = this.attempts.map(({ candidate }) => candidate);
    return { policy: this.call.snapshot.routing, plan, asked, broken: broken.candidate.deployment };
  }

  /** What happens when a stream ends. Bound to the few values it needs: the request itself may go. */
  private settlement(
    last: { attempt: Attempt },
    firstContentMs: number,
  ): (cause: Failure | null, totals: Readonly<StreamTotals>) => Persisted {
    const { gateway, attempts, planned } = this;
    const { facts } = this.call;
    return (cause, totals) => {
      if (cause === null) last.attempt.succeed();
      else last.attempt.fail(cause);
      return gateway.record({
        ...facts,
        ...totals,
        status: 200,
        state: cause === null ? "complete" : cause.kind === "client_gone" ? "abandoned" : "interrupted",
        failure: cause,
        attempts: recordsOf(attempts),
        endedMs: gateway.ports.nowMs(),
        firstContentMs,
        clampedTo: last.attempt.clampedTo,
        plan: planned,
      });
    };
  }

  /** Another channel goes on where this one broke off. Once, and never twice to the same deployment. */
  private async succeed(
    ask: ChatRequest,
    text: string,
    cause: Failure,
    stream: LiveStream,
    last: { attempt: Attempt },
    plan: Candidates,
  ): Promise<Successor | null> {
    last.attempt.fail(cause);
    const input = this.rescueInput(last.attempt, plan);
    const able = plan.candidates.filter((choice) => canContinue(choice, input) && this.gateway.upstreams.admits(choice.candidate));
    const fluent = able.find(({ candidate }) => candidate.deployment.channel.capabilities.prefill);
    const choice = fluent ?? able[0];
    if (choice === undefined) return null;
    // Reasoning alone is no part of an answer: it is asked for anew, and whole.
    if (isNothing(text)) return orNull(await this.goOnWith(ask, "continues", choice, last));
    const tokens = stream.outputTokens;
    if (fluent !== undefined) {
      const found = await this.goOnWith(continued(ask, text, "prefill", tokens), "continues", choice, last);
      if (!isFailure(found) || found.blame !== "client") return orNull(found);
    }
    // What it repeats is no part of the answer, and needs room as well.
    const repeated = Math.min(tokens, estimateTokens(endOf(text)));
    return orNull(await this.goOnWith(continued(ask, text, "repeat", tokens - repeated), "repeats", choice, last));
  }

  private async goOnWith(
    ask: ChatRequest | null,
    expects: Successor["expects"],
    choice: Choice,
    last: { attempt: Attempt },
  ): Promise<Successor | Failure> {
    const { call, gateway } = this;
    const { cancellation, snapshot } = call;
    if (cancellation.failure !== null) return cancellation.failure;
    if (ask === null || this.attempts.length >= snapshot.routing.attemptsMax || !gateway.upstreams.takeRetry(call.route.model))
      return noSuccessor;
    const { timeouts } = choice.candidate.deployment.channel;
    const attempt = new Attempt(call, ask, gateway, choice, gateway.ports.nowMs(), timeouts.firstContentMs, false);
    this.attempts.push(attempt);
    const outcome = await attempt.run();
    if (isFailure(outcome)) return outcome;
    if (outcome.kind === "whole") return noSuccessor;
    last.attempt = attempt;
    const leave = (reason: Failure): void => {
      outcome.abandon(reason);
      attempt.fail(reason);
    };
    return { stream: outcome, expects, leave };
  }

  private finalFailure(): Failure {
    const final = finalFailure(this.failures);
    // A channel that takes any model has only the client's word for its name: then the name is the mistake.
    const named = final.kind === "model_missing" && !this.call.snapshot.routes.has(this.call.route.model);
    return named ? { ...final, code: "model_not_found", param: "model" } : final;
  }

  private refused(plan: PlanRefusal): CallResult {
    const { cancellation } = this.call;
    if (cancellation.failure !== null) return this.failed(cancellation.failure);
    return this.failed(refusalOf(plan), null, plan.soonestMs);
  }

  private failed(cause: Failure, because: string | null = null, soonestMs: number | null = null): CallResult {
    if (this.wasQueued) this.gateway.fairQueue.failed(this.call.route.model);
    const count = this.attempts.length;
    const explained =
      because === null || because === "client_fault" ? cause : { ...cause, detail: `${cause.detail} (stopped: ${because})` };
    return {
      kind: "failed",
      failure: explained,
      retryAfterMs: this.retryAfterMs(cause, soonestMs),
      recorded: (status) => this.record(status, cause.kind === "client_gone" ? "abandoned" : "failed", explained, null),
      channel: count === 0 ? null : (this.attempts.at(-1)?.candidate.deployment.channel.name ?? null),
      attempts: count,
      clampedTo: null,
      voice: null,
    };
  }

  /** When a client may try again, where waiting helps: spread a little, so that they do not all come back at once. */
  private retryAfterMs(cause: Failure, soonestMs: number | null): number | null {
    if (cause.kind !== "rate_limited" && cause.kind !== "no_channel" && cause.kind !== "saturated") return null;
    const waitMs = soonestMs ?? this.gateway.upstreams.soonestMs(this.failures.map(({ candidate }) => candidate));
    const spreadMs = Math.max(1000, waitMs) * (1 + this.gateway.ports.dice() * retryJitter);
    // A wait that clients obey does not become one that they are told not to.
    return waitMs <= obeyedWaitMaxMs ? Math.min(obeyedWaitMaxMs, spreadMs) : spreadMs;
  }

  private record(status: number, state: CallRecord["state"], cause: Failure | null, whole: WholeAnswer | null): Persisted {
    const { gateway, call } = this;
    const { facts } = call;
    const endedMs = gateway.ports.nowMs();
    return gateway.record({
      id: facts.id,
      keyId: facts.keyId,
      operation: facts.operation,
      model: facts.model,
      stream: facts.stream,
      bytesIn: facts.bytesIn,
      startedMs: facts.startedMs,
      admission: facts.admission,
      status,
      state,
      failure: cause,
      attempts: recordsOf(this.attempts),
      endedMs,
      firstContentMs: whole === null ? null : endedMs - facts.startedMs,
      usage: whole?.usage ?? null,
      finish: whole?.finish ?? null,
      bytesOut: whole?.body.length ?? 0,
      clampedTo: this.attempts.at(-1)?.clampedTo ?? null,
      skippedEvents: 0,
      plan: this.planned,
    });
  }

  private remainingMs(nowMs: number): number {
    return this.deadlineMs - (nowMs - this.call.facts.startedMs);
  }
}

interface Winner {
  readonly attempt: Attempt;
  readonly outcome: WholeAnswer | LiveStream;
}

interface HedgeAttempt {
  readonly attempt: Attempt;
  readonly running: Promise<Winner | null>;
  /** What it won with, where it was the first to have content. */
  won: Winner | null;
}

const none: readonly FailedAttempt[] = [];

function recordsOf(attempts: readonly Attempt[]): readonly AttemptRecord[] {
  const records: AttemptRecord[] = [];
  for (const attempt of attempts) records.push(attempt.record);
  return records;
}

/** However often its place is taken, it is not left out for ever. */
const looksMax = 8;
const retryJitter = 0.2;
/** A place at a full channel is worth this much waiting. */
const capacityWaitMaxMs = 2_000;

function isFull(plan: Plan): plan is PlanRefusal {
  return plan.go === "refuse" && plan.kind === "saturated";
}

function channelOf({ candidates }: Candidates): string {
  return candidates[0]!.candidate.deployment.channel.name;
}

function fullChannels({ skipped }: PlanRefusal): readonly string[] {
  const full = skipped.filter(({ because }) => because === "saturated");
  return [...new Set(full.map(({ candidate }) => candidate.deployment.channel.name))];
}

const noSuccessor = failure("no_channel", "no other channel can go on with the answer");

function orNull(found: Successor | Failure): Successor | null {
  return isFailure(found) ? null : found;
}

const channelSaturated = {
  code: "channel_saturated",
  message: "Every channel for this model has as many calls as it takes. Try again later.",
};

/** Where every candidate is out for its credentials, waiting will not help, and the client is told what the first one was. */
function refusalOf({ kind, skipped }: PlanRefusal): Failure {
  const named = skipped
    .slice(0, 4)
    .map(({ candidate, because, cause }) => `${candidate.deployment.id} ${because}${cause === null ? "" : ` (${cause})`}`);
  const detail = `no candidate may be asked: ${named.join(", ")}`;
  const barred =
    kind === "no_channel" && skipped.length > 0 && skipped.every(({ cause }) => cause === "unauthorized" || cause === "quota_exhausted");
  return failure(barred ? "unauthorized" : kind, detail, kind === "saturated" ? channelSaturated : {});
}
