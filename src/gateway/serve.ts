import type { Candidate } from "../channels/channel.ts";
import { contextTokensOf, retryCostOf, takesLong } from "../operations/call-request.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import type { AnswerContext, AnsweredRequest, AnswerFormat, AnswerWriter } from "../operations/conversation/surface.ts";
import { continued, repeated } from "../operations/chat/continuation.ts";
import type { WholeAnswer } from "../operations/emission.ts";
import { failure, isFailure, type Failure, obeyedWaitMaxMs } from "../operations/failure.ts";
import { endOf } from "../operations/chat/resume.ts";
import { operationSpecs } from "../operations/operation.ts";
import { finalFailure } from "../routing/final-failure.ts";
import { hedgeAgainMs, hedgeDelayMs, hedgeWith } from "../routing/hedge.ts";
import { judge, type FailedAttempt, type Verdict } from "../routing/judge.ts";
import { choicesSoFar, type Candidates, type Choice, type Plan, type PlanRefusal } from "../routing/plan.ts";
import { canContinue, type RescueInput } from "../routing/rescue.ts";
import { estimateTokens } from "../usage/token-estimate.ts";
import type { Call, CallFacts } from "./call.ts";
import type { CallResult } from "./call-result.ts";
import type { Gateway } from "./gateway.ts";
import { together, type CallLesson } from "./upstream-state/lessons.ts";
import type { LiveStream } from "./attempt/live-stream.ts";
import { pause } from "./cancellation.ts";
import type { CallRecord, Persisted, AttemptRecord } from "./settlement/record.ts";
import { AnswerItems } from "./attempt/answer-items.ts";
import { sealFor } from "./attempt/carried-parts.ts";
import { Relay, type StreamTotals } from "./attempt/relay.ts";
import { isNothing, Rescue, type Successor } from "./attempt/rescue.ts";
import { patienceMs, Attempt, type AttemptChoice, type HedgeTrigger, type Outcome } from "./attempt/attempt.ts";

/** Serves one call: plan, attempt, judge, until there is a result or another attempt makes no sense. It rejects only for a bug. */
export function serve(call: Call, gateway: Gateway): Promise<CallResult> {
  return new CallExecution(call, gateway).run();
}

/** One admitted call while it is served. */
class CallExecution implements HedgeTrigger {
  private failures: readonly FailedAttempt[] = none;
  private readonly attempts: Attempt[] = [];
  /** What deployments rejected during this call, by deployment id. The next attempt there leaves it out. */
  private lessons: Map<string, CallLesson> | null = null;
  private readonly deadlineMs: number;
  private planned: Plan | null = null;
  private plannedMs = 0;
  /** The plan that the present attempt was chosen from. */
  private candidates: Candidates | null = null;
  /** The hedge: a second attempt beside the present one, which is slow. */
  private hedge: HedgeAttempt | null = null;
  /** The call was admitted by the fair queue, which has to be told how it went. */
  private wasQueued = false;
  /** The end of all waiting in queues, however often the call waits. */
  private waitsUntilMs: number | null = null;
  /** How long the call has waited on purpose since its last attempt. */
  private waitedMs = 0;

  constructor(
    private readonly call: Call,
    private readonly gateway: Gateway,
  ) {
    call.cancellation.attempts = this.attempts;
    const { routing } = call.snapshot;
    const soon = call.facts.stream && operationSpecs[call.ask.operation].startsEarly;
    this.deadlineMs = soon ? routing.streamDeadlineMs : Math.min(routing.wholeDeadlineMs, clientPatienceMs(call));
  }

  async run(): Promise<CallResult> {
    const { call, gateway } = this;
    const planning = this.planOrWait();
    let plan = planning instanceof Promise ? await this.waited(planning) : planning;
    this.planned = plan;
    if (!plan.ok) return this.refused(plan);
    const clientRetries = call.headers.header("x-stainless-retry-count");
    let nowMs = planning instanceof Promise ? gateway.ports.nowMs() : this.plannedMs;
    gateway.upstreams.callBegins(call.route.model, clientRetries !== null && clientRetries !== "0", nowMs);

    let choice: AttemptChoice = choicesSoFar(plan)[0]!;
    for (; ; nowMs = gateway.ports.nowMs()) {
      this.candidates = plan;
      const attempt = this.begin(choice, nowMs);
      const outcome = attempt.finish(await attempt.start());
      let won = this.concluded(attempt, outcome instanceof Promise ? await outcome : outcome);
      if (this.hedge !== null) won = await this.raced(won, this.hedge);
      if (won !== null) {
        const persisted = this.persist(won);
        if (persisted !== null) await persisted;
        return this.answered(won, plan);
      }
      if (call.cancellation.failure !== null) return this.failed(call.cancellation.failure);
      const verdict = await this.decide(plan);
      if (call.cancellation.failure !== null) return this.failed(call.cancellation.failure);
      if (verdict.action === "stop") {
        const later = await this.planAgain();
        if (call.cancellation.failure !== null) return this.failed(call.cancellation.failure);
        if (later === null) return this.failed(this.finalFailure(), verdict.because);
        plan = later;
        choice = choicesSoFar(plan)[0]!;
        continue;
      }
      choice = verdict;
    }
  }

  /**
   * Decides what to do after a failure, and waits for as long as that says. The verdict is taken again when the channel filled up
   * meanwhile.
   */
  private async decide(plan: Candidates): Promise<Verdict> {
    const { call, gateway } = this;
    for (let look = 0; ; look += 1) {
      const verdict = this.judge(plan);
      if (verdict.action === "stop") return verdict;
      if (!verdict.free && look === 0) gateway.upstreams.takeRetry(call.route.model);
      if (verdict.afterMs > 0) await this.waited(pause(verdict.afterMs, call.cancellation, gateway.ports));
      if (call.cancellation.failure !== null || gateway.upstreams.hasCapacity(verdict.candidate) || look === looksMax) return verdict;
    }
  }

  /** Takes the time of a wait on purpose, which is neither the gateway's work nor an upstream's. */
  private async waited<T>(waiting: Promise<T>): Promise<T> {
    const { ports } = this.gateway;
    const fromMs = ports.nowMs();
    const result = await waiting;
    this.waitedMs += ports.nowMs() - fromMs;
    return result;
  }

  private plan(again = false, waited = false): Plan {
    const { route, ask } = this.call;
    const nowMs = this.gateway.ports.nowMs();
    this.plannedMs = nowMs;
    return this.gateway.upstreams.plan(route, contextTokensOf(ask), this.remainingMs(nowMs), nowMs, again, waited);
  }

  /** Plans the call. If no candidate may be asked now, it waits: for a short time, for capacity, or in the fair queue. */
  private planOrWait(): Plan | Promise<Plan> {
    const first = this.plan();
    const shortMs = first.ok ? null : first.waitMs;
    const { waitMs } = this.call.snapshot.routing;
    if (waitMs > 0) this.waitsUntilMs = this.gateway.ports.nowMs() + waitMs;
    if (waitMs > (shortMs ?? 0)) return this.mayGo(first) ? first : this.planInQueue(first);
    if (shortMs !== null) return this.planAfter(first, shortMs);
    // The capacity queue is last in, first out, which would let the later parts of a long call overtake the earlier ones.
    return isFull(first) && !this.gateway.servesParts ? this.planWithCapacity(first) : first;
  }

  /** A candidate may be asked now, and no other call is queued for the route. */
  private mayGo(plan: Plan): boolean {
    return plan.ok && this.gateway.fairQueue.waiting(this.call.route.model) === 0;
  }

  /** If every attempt was rate limited and calls may wait (`routing.wait`), this one goes back into the queue. */
  private async planAgain(): Promise<Candidates | null> {
    const { waitMs, attemptsMax } = this.call.snapshot.routing;
    if (waitMs === 0 || this.failures.length >= attemptsMax || !this.failures.every(({ failure: { kind } }) => kind === "rate_limited"))
      return null;
    const now = this.plan(true);
    if (now.ok) return null;
    const plan = await this.waited(this.planInQueue(now));
    return plan.ok ? plan : null;
  }

  /** Every upstream asked for a short wait: plans again after it. */
  private async planAfter(refused: Plan, waitMs: number): Promise<Plan> {
    const { cancellation } = this.call;
    await pause(waitMs, cancellation, this.gateway.ports);
    return cancellation.failure === null ? this.plan(true) : refused;
  }

  /** Every healthy channel is full: plans again when one has capacity. After `capacityWaitMaxMs`, last resorts are allowed too. */
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
      // A call that leaves, or uses another channel, passes the capacity on to the next one.
      const left = plan.ok ? channelOf(plan) !== freed : !isFull(plan) || cancellation.failure !== null;
      if (left) capacityQueue.freed(freed);
      if (cancellation.failure !== null) return plan;
    }
    return plan;
  }

  /** Waits in the fair queue until a candidate may be asked, but not past the deadline. */
  private async planInQueue(first: Plan): Promise<Plan> {
    const { call, gateway } = this;
    const { fairQueue } = gateway;
    const { model } = call.route;
    const nowMs = gateway.ports.nowMs();
    this.waitsUntilMs ??= nowMs + call.snapshot.routing.waitMs;
    const deadlineMs = Math.min(this.waitsUntilMs, nowMs + this.remainingMs(nowMs));
    let plan = first;
    // A call that was admitted and still found no candidate returns to the head of the queue.
    for (let again = this.wasQueued; !plan.ok || (!again && fairQueue.waiting(model) > 0); again = true) {
      const soonestMs = plan.ok ? 0 : plan.againMs;
      const turn = await fairQueue.wait({
        route: model,
        keyId: call.key.id,
        soonestMs,
        deadlineMs,
        cancellation: call.cancellation,
        again,
      });
      if (turn !== "go") return plan.ok ? this.plan(true) : plan;
      this.wasQueued = true;
      plan = this.plan(true, true);
    }
    return plan;
  }

  private judge(plan: Candidates): ReturnType<typeof judge> {
    const { call, gateway, failures } = this;
    const { timeouts } = failures.at(-1)!.candidate.deployment.channel;
    const { bodyBytes, promptTokensEstimate } = retryCostOf(call.ask);
    return judge({
      policy: call.snapshot.routing,
      plan,
      failedAttempts: failures,
      deadlineMs: this.deadlineMs,
      remainingMs: this.remainingMs(gateway.ports.nowMs()),
      attemptTimerMs: patienceMs(call.ask.operation, call.facts.stream, timeouts),
      bodyBytes,
      upload: operationSpecs[call.ask.operation].uploads,
      hostedTools: this.wouldRunHostedToolsAgain(),
      promptTokensEstimate,
      canRetry: gateway.upstreams.mayRetry(call.route.model),
      admits: (candidate) => gateway.upstreams.admits(candidate),
      admitsAsLastResort: (candidate) => gateway.upstreams.admitsAsLastResort(candidate, call.route),
      dice: gateway.ports.dice,
    });
  }

  /** Whether another attempt could run hosted tools a second time. A translated request carries almost none of them. */
  private wouldRunHostedToolsAgain(): boolean {
    return retryCostOf(this.call.ask).hostedTools && this.attempts.some(({ translated, hostedTools }) => !translated || hostedTools);
  }

  /** How long an attempt may take before a hedge is started; Infinity: no hedge. */
  slowMs(candidate: Candidate, streamed: boolean): number {
    const { call, gateway, candidates } = this;
    const { routing } = call.snapshot;
    if (routing.hedgeAfterMs === null || choicesSoFar(candidates!).length === 1) return Infinity;
    return hedgeDelayMs(routing, gateway.upstreams.loadOf(candidate), streamed, takesLong(call.ask)) ?? Infinity;
  }

  /** The present attempt has no content yet. Starts a hedge, or returns after how long to ask again. */
  slow(first: Attempt): number {
    const { call, gateway } = this;
    if (call.cancellation.failure !== null) return Infinity;
    const { bodyBytes, choices } = retryCostOf(call.ask);
    const { model } = call.route;
    const hedge = hedgeWith({
      plan: this.candidates!,
      asked: this.attempts.map(({ candidate }) => candidate),
      attemptsMax: call.snapshot.routing.attemptsMax,
      bodyBytes,
      choices,
      hostedTools: this.wouldRunHostedToolsAgain(),
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

  /** The present attempt is over. It won, or the hedge had won before it, or it failed and the hedge may still win. */
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
    attempt.waitedMs = this.waitedMs;
    this.waitedMs = 0;
    this.attempts.push(attempt);
    return attempt;
  }

  private concluded(attempt: Attempt, outcome: Outcome): Winner | null {
    if (!isFailure(outcome)) return outcome.kind === "whole" ? this.written(outcome, attempt) : { attempt, outcome, items: null };
    if (attempt.lesson !== null) this.learned(attempt.candidate.deployment.id, attempt.lesson);
    this.failures = [...this.failures, { candidate: attempt.candidate, failure: outcome, tookMs: attempt.record.tookMs }];
    return null;
  }

  /** The answer as the client's API has it. */
  private written(whole: WholeAnswer, attempt: Attempt): Winner {
    const { surface, ask, facts } = this.call;
    if (whole.answer === undefined || surface === null || ask.operation !== "chat") return { attempt, outcome: whole, items: null };
    const items = this.answerItems();
    const context = answerContext(answeredRequest(surface, ask), facts, this.sealOf({ attempt }), items);
    return { attempt, outcome: { ...whole, body: surface.whole(whole.answer, context) }, items };
  }

  /** Where the items of the answer are kept that the client may refer to; null if none are. */
  private answerItems(): AnswerItems | null {
    const { key, snapshot, surface, ask } = this.call;
    const { items: memory } = this.gateway.ports;
    const { keepItemsMs } = snapshot.service;
    if (memory === undefined || keepItemsMs === 0 || ask.operation !== "chat" || surface?.mayKeep?.(ask) !== true) return null;
    return new AnswerItems(memory, key.id, keepItemsMs);
  }

  private learned(deployment: string, lesson: CallLesson): void {
    this.lessons ??= new Map();
    const before = this.lessons.get(deployment) ?? null;
    this.lessons.set(deployment, { ...together(lesson, before), shared: lesson.shared && (before?.shared ?? true) });
  }

  /** A whole answer is not sent before its receipt is in the journal. A stream is settled at its end. */
  private persist({ outcome, items }: Winner): Persisted {
    this.gateway.fairQueue.opened(this.call.route.model);
    if (outcome.kind !== "whole") return null;
    return both(this.record(200, "complete", null, outcome), items?.keep() ?? null);
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
    const items = this.answerItems();
    const settle = this.settlement(last, stream.firstContentMs - call.facts.startedMs, items);
    const rescue = this.rescueOf(stream, last, plan);
    // Only what a rescue needs is followed where nothing is translated.
    const makeWriter = stream.translated || rescue !== null ? this.makeWriter(last, items) : null;
    const relay = new Relay(stream, settle, stream.shape === "events", rescue, makeWriter);
    // The client may leave before anything reads the stream. Without this, the upstream connection would stay open.
    call.cancellation.listen((reason) => {
      if (reason.kind === "client_gone") relay.cancel(reason);
    });
    return relay;
  }

  /** It captures nothing of the request but what the answer repeats: a long stream must not hold the body. */
  private makeWriter(last: { attempt: Attempt }, items: AnswerItems | null): (() => AnswerWriter) | null {
    const { surface, ask, facts } = this.call;
    if (surface === null || ask.operation !== "chat") return null;
    const request = answeredRequest(surface, ask);
    const seal = this.sealOf(last);
    return () => surface.writer(answerContext(request, facts, seal, items));
  }

  /** `last` is the attempt that answers, also after another channel went on with the answer. */
  private sealOf(last: { readonly attempt: Attempt }): AnswerContext["seal"] {
    const { call, gateway } = this;
    return sealFor(gateway.ports.seal ?? null, call.key.id, () => last.attempt.candidate.deployment);
  }

  /** What continues the stream on another channel if it breaks off; null if no other channel could. */
  private rescueOf(stream: LiveStream, last: { attempt: Attempt }, plan: Candidates): Rescue | null {
    const { ask } = this.call;
    const { heldRequests } = this.gateway.upstreams;
    // Most routes have no other channel and pay nothing for this.
    if (choicesSoFar(plan).length === 1 || ask.operation !== "chat" || !ask.plainText) return null;
    const input = this.rescueInput(last.attempt, plan);
    const can = (choice: Choice): boolean => canContinue(choice, input);
    if (!choicesSoFar(plan).some(can) && !plan.candidates.some(can)) return null;
    if (!heldRequests.hold(ask.body.length)) return null;
    return new Rescue(
      (text, cause) => this.succeed(ask, text, cause, stream, last, plan),
      heldRequests,
      ask.body.length,
      stream.translated,
    );
  }

  private rescueInput(broken: Attempt, plan: Candidates): RescueInput {
    const asked = this.attempts.map(({ candidate }) => candidate);
    return { policy: this.call.snapshot.routing, plan, asked, broken: broken.candidate.deployment };
  }

  /** What happens when a stream ends. It captures only the values it needs, so that the request can be freed while the stream runs. */
  private settlement(
    last: { attempt: Attempt },
    firstContentMs: number,
    items: AnswerItems | null,
  ): (cause: Failure | null, totals: Readonly<StreamTotals>) => Persisted {
    const { gateway, attempts, planned } = this;
    const { facts } = this.call;
    return (cause, totals) => {
      if (cause === null) last.attempt.succeed();
      else last.attempt.fail(cause);
      const recorded = gateway.record({
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
      return cause === null && items !== null ? both(recorded, items.keep()) : recorded;
    };
  }

  /** Another channel continues the stream that broke off. This happens once per call, and never on the same deployment. */
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
    // If only reasoning was sent so far, the whole answer is requested again.
    const { translated } = stream;
    if (isNothing(text)) return orNull(await this.goOnWith(repeated(ask, translated), "continues", choice, last));
    const tokens = stream.outputTokens;
    if (fluent !== undefined) {
      const found = await this.goOnWith(continued(ask, text, "prefill", tokens, translated), "continues", choice, last);
      if (!isFailure(found) || found.blame !== "client") return orNull(found);
    }
    // The repeated text is not part of the answer but uses output tokens, too.
    const again = Math.min(tokens, estimateTokens(endOf(text)));
    return orNull(await this.goOnWith(continued(ask, text, "repeat", tokens - again, translated), "repeats", choice, last));
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
    // A channel that accepts any model (`models: "*"`) takes the name from the client, so the client's name is wrong.
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

  /** When the client may try again, if waiting helps. Jitter keeps clients from returning all at once. */
  private retryAfterMs(cause: Failure, soonestMs: number | null): number | null {
    if (cause.kind !== "rate_limited" && cause.kind !== "no_channel" && cause.kind !== "saturated") return null;
    const waitMs = soonestMs ?? this.gateway.upstreams.soonestMs(this.failures.map(({ candidate }) => candidate));
    const spreadMs = Math.max(1000, waitMs) * (1 + this.gateway.ports.dice() * retryJitter);
    // Jitter must not push a wait that clients obey above the limit up to which they do.
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
      waitedMs: facts.waitedMs + this.waitedMs,
      admission: facts.admission,
      trace: facts.trace,
      status,
      state,
      failure: cause,
      attempts: recordsOf(this.attempts),
      endedMs,
      firstContentMs: whole === null ? null : endedMs - facts.startedMs,
      usage: whole?.usage ?? null,
      finish: whole?.finish ?? null,
      refused: whole?.refused ?? false,
      bytesOut: whole?.body.length ?? 0,
      chunks: 0,
      clampedTo: this.attempts.at(-1)?.clampedTo ?? null,
      skippedEvents: 0,
      plan: this.planned,
    });
  }

  private remainingMs(nowMs: number): number {
    return this.deadlineMs - (nowMs - this.call.facts.startedMs);
  }
}

/**
 * How long the client will wait, as the official clients state in seconds: to the first byte, which of an answer that is not streamed comes
 * with the last. Who asks for a stream gets bytes earlier, whatever they are. A moment less, so that the answer to a failure is in time.
 */
function clientPatienceMs({ headers }: Call): number {
  const stated = headers.header("x-stainless-timeout") ?? headers.header("x-stainless-read-timeout");
  const seconds = stated !== null && /^\d{1,6}(?:\.\d{1,6})?$/.test(stated) ? Number(stated) : 0;
  return seconds > 0 ? Math.max(seconds * 1000 - patienceMarginMs, seconds * 900) : Infinity;
}

const patienceMarginMs = 1_000;

interface Winner {
  readonly attempt: Attempt;
  readonly outcome: WholeAnswer | LiveStream;
  /** What of a whole answer is kept for later requests; null: nothing. */
  readonly items: AnswerItems | null;
}

interface HedgeAttempt {
  readonly attempt: Attempt;
  readonly running: Promise<Winner | null>;
  /** Set when the hedge had content first. */
  won: Winner | null;
}

const none: readonly FailedAttempt[] = [];

function recordsOf(attempts: readonly Attempt[]): readonly AttemptRecord[] {
  const records: AttemptRecord[] = [];
  for (const attempt of attempts) records.push(attempt.record);
  return records;
}

/** After so many looks the attempt is made even if the channel is full, so that a call cannot starve. */
const looksMax = 8;
const retryJitter = 0.2;
/** How long a call waits for capacity when all channels are full. */
const capacityWaitMaxMs = 2_000;

function isFull(plan: Plan): plan is PlanRefusal {
  return !plan.ok && plan.kind === "saturated";
}

function channelOf(plan: Candidates): string {
  return choicesSoFar(plan)[0]!.candidate.deployment.channel.name;
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

/** If every candidate is out because of its credentials, waiting does not help, and the client is told that. */
function refusalOf({ kind, skipped }: PlanRefusal): Failure {
  const named = skipped
    .slice(0, 4)
    .map(({ candidate, because, cause }) => `${candidate.deployment.id} ${because}${cause === null ? "" : ` (${cause})`}`);
  const detail = `no candidate may be asked: ${named.join(", ")}`;
  const barred =
    kind === "no_channel" && skipped.length > 0 && skipped.every(({ cause }) => cause === "unauthorized" || cause === "quota_exhausted");
  return failure(barred ? "unauthorized" : kind, detail, kind === "saturated" ? channelSaturated : {});
}

function answeredRequest(surface: AnswerFormat, ask: ChatRequest): AnsweredRequest {
  const { model, promptTokensEstimate, maxCompletionTokens } = ask;
  return { model, promptTokensEstimate, maxCompletionTokens, echo: surface.echo?.(ask) ?? {} };
}

function answerContext(
  request: AnsweredRequest,
  { id, admission }: Readonly<CallFacts>,
  seal: AnswerContext["seal"],
  items: AnswerItems | null,
): AnswerContext {
  const context = { request, idSeed: admission?.id ?? id, nowSeconds: Math.floor((admission?.startedMs ?? 0) / 1000), seal };
  return items === null ? context : { ...context, keep: items.add };
}

function both(first: Persisted, second: Persisted): Persisted {
  if (first === null || second === null) return first ?? second;
  return Promise.all([first, second]).then(() => {});
}
