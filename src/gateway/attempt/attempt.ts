import {
  codecOf,
  type Codec,
  type EncodedRequest,
  type ExpectedSteps,
  type ExpectedStream,
  type ExpectedWhole,
  type FewerBetas,
  type StreamReader,
  type UpstreamRequest,
} from "../../dialects/dialect.ts";
import { isLocalModel, type Candidate, type Timeouts } from "../../channels/channel.ts";
import { type CallRequest, maxOutputTokensOf } from "../../operations/call-request.ts";
import { isFailure, ofLocalEngine, signedParam, type Failure } from "../../operations/failure.ts";
import { type Operation, operationSpecs } from "../../operations/operation.ts";
import { requestText } from "../../operations/request-text.ts";
import type { Choice } from "../../routing/plan.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { expectedUse } from "../../usage/demand.ts";
import type { AttemptReporter } from "../upstream-state/upstream-state.ts";
import type { Call } from "../call.ts";
import type { Cancellation } from "../cancellation.ts";
import type { Gateway } from "../gateway.ts";
import { sanitizedFailure, isEcho } from "./sanitized-failure.ts";
import {
  betasLesson,
  fieldLesson,
  lessonIn,
  signatureLesson,
  subtitlesLesson,
  together,
  type CallLesson,
} from "../upstream-state/lessons.ts";
import { AttemptTimeouts } from "./attempt-timeouts.ts";
import { encodedFor } from "./encoded-request.ts";
import type { AttemptProgress } from "./attempt-progress.ts";
import { LiveStream, type StreamOwner } from "./live-stream.ts";
import type { Exchange, Ports, Reply, TraceHeaders } from "../ports.ts";
import { lostRace, type AttemptRecord } from "../settlement/record.ts";
import { traceHeaderNames, traceHeaders } from "../trace.ts";
import { takeSteps } from "./steps.ts";
import { explained, insteadOf, isSuccess, outputEstimate, readWhole } from "./whole-answer.ts";

/** What comes of an attempt. */
export type Outcome = WholeAnswer | LiveStream | Failure;

/**
 * One request to one candidate: encoded in its dialect, sent, and answered in exactly one of three ways: a whole answer, a stream whose
 * first output has arrived (the commit point), or a failure. Before that, nothing has been sent to the client. It is counted in the
 * upstream state, and ended exactly once.
 */
export class Attempt implements StreamOwner {
  readonly candidate: Candidate;
  readonly clampedTo: number | null;
  readonly voice: string | null;
  readonly dropped: readonly string[];
  /** The request was written in another API than the client's. */
  readonly translated: boolean;
  /** It asks for a tool that runs at the upstream, although it was translated. */
  readonly hostedTools: boolean;
  readonly timeouts: AttemptTimeouts;
  /** Why the gateway ended the exchange. Errors that the network reports afterwards are consequences of that. */
  reason: Failure | null = null;
  /** What can be learned from the rejection of this attempt. */
  lesson: CallLesson | null = null;
  private readonly cancellation: Cancellation;
  private readonly explain: Codec<never>["explain"];
  private readonly reporter: AttemptReporter;
  private readonly operation: Operation;
  private readonly askedTokens: number;
  private readonly asksSubtitles: boolean;
  private readonly fewerBetas: FewerBetas | null;
  private readonly forwarded: Readonly<Record<string, string>>;
  private readonly expected: MeteredUsage;
  private readonly spanId: string | null;
  private readonly trace: TraceHeaders | null;
  /** The request, until the answer begins: a long stream must not hold it in memory. */
  private ask: CallRequest | null;
  /** How long the call had waited on purpose before it began. */
  waitedMs = 0;
  private encoded: EncodedRequest | Failure | null;
  /** How the reply is read, until it is. */
  private expects: ExpectedWhole | ExpectedStream | null = null;
  /** The request on the network, or the series of them; null until it is sent. */
  private exchange: Pick<Exchange, "abort" | "isUnsent"> | null = null;
  private reader: StreamReader | null = null;
  private answered: LiveStream | WholeAnswer | null = null;
  private ended: AttemptRecord | null = null;
  /** What the upstream said of its refusal may be a repetition of the request. */
  private isEchoed = true;

  constructor(
    call: Call,
    ask: CallRequest,
    private readonly gateway: Gateway,
    choice: AttemptChoice,
    private readonly startedMs: number,
    /** How much is left of the call's deadline for first content. */
    deadlineMs: number,
    private readonly hedge: boolean,
    hedgeTrigger: HedgeTrigger | null = null,
    /** What this call has learned about the deployment before. */
    private readonly taught: CallLesson | null = null,
  ) {
    const { candidate } = choice;
    const { channel } = candidate.deployment;
    const dialect = gateway.dialects.get(channel.dialect);
    const lesson = together(gateway.upstreams.lessonOf(candidate), taught);
    this.candidate = candidate;
    this.ask = ask;
    const { trace = null } = call.facts;
    this.spanId = trace === null ? null : gateway.spanIds.next();
    this.trace = trace === null || this.spanId === null ? null : traceHeaders(trace, this.spanId, channel.headers);
    this.forwarded = forwardedHeaders(call, channel.forwardHeaders, this.trace === null ? nothing : traceHeaderNames);
    const encoded = encodedFor(gateway, ask, candidate, { lesson, forwarded: this.forwarded, keyId: call.key.id });
    const sendable = isFailure(encoded) ? null : encoded;
    const stream = sendable?.answer.kind === "stream";
    this.explain = sendable?.explain ?? codecOf(dialect, ask.operation).explain;
    this.cancellation = call.cancellation;
    this.encoded = encoded;
    this.clampedTo = sendable?.clampedTo ?? null;
    this.voice = sendable?.voice ?? null;
    this.dropped = lesson.withoutReasoning === true ? [...(sendable?.dropped ?? nothing), signedParam] : (sendable?.dropped ?? nothing);
    this.hostedTools = sendable?.hostedTools === true;
    this.translated = sendable === null || sendable.translated === true;
    this.askedTokens = maxOutputTokensOf(ask);
    this.operation = ask.operation;
    this.asksSubtitles = sendable?.subtitles === true;
    this.fewerBetas = sendable?.fewerBetas ?? null;
    this.expected = expectedOf(ask);
    this.reporter = gateway.upstreams.begin(choice, call.route.model, startedMs, stream);
    const slowMs = hedgeTrigger?.slowMs(candidate, stream) ?? Infinity;
    const { timeouts } = channel;
    const limits = { startedMs, timeouts, stream, patienceMs: patienceMs(ask.operation, stream, timeouts), deadlineMs, slowMs };
    const slow = hedgeTrigger === null || slowMs === Infinity ? undefined : slowOf(hedgeTrigger, this);
    this.timeouts = new AttemptTimeouts(gateway.ports, limits, this, slow);
    call.cancellation.add(this);
  }

  get ports(): Ports {
    return this.gateway.ports;
  }

  /** Sends the request, reads the answer and concludes the attempt. */
  async run(): Promise<Outcome> {
    return this.finish(await this.start());
  }

  /** Sends the request, and returns what `finish` reads. A call awaits that itself, which saves it an async function. */
  start(): Promise<Reply | WholeAnswer | Failure> {
    const encoded = this.encoded!;
    // A long stream must not hold its request in memory.
    this.encoded = null;
    if (isFailure(encoded)) return Promise.resolve(encoded);
    if (this.reason !== null) return Promise.resolve(this.reason);
    const { request, answer } = encoded;
    if (answer.kind === "steps") return this.readSteps(request, answer);
    const exchange = this.send(request);
    this.exchange = exchange;
    this.expects = answer;
    return exchange.reply;
  }

  /** Reads the answer and concludes the attempt. An answer that arrived in one piece is not awaited. */
  finish(came: Reply | WholeAnswer | Failure): Outcome | Promise<Outcome> {
    const { expects } = this;
    this.expects = null;
    const nowMs = this.ports.nowMs();
    if (isFailure(came) || came.kind === "whole") return this.conclude(came, nowMs);
    const reading = this.read(came, expects!);
    if (!(reading instanceof Promise)) return this.conclude(reading, nowMs);
    this.timeouts.headArrived(nowMs);
    return this.concludeLater(reading);
  }

  private async concludeLater(reading: Promise<Outcome>): Promise<Outcome> {
    return this.conclude(await reading, this.ports.nowMs());
  }

  private send(request: UpstreamRequest): Exchange {
    const { deployment, credential } = this.candidate;
    return this.ports.send(request, deployment.channel, credential, this.trace);
  }

  /** Reads an answer that takes several requests. */
  private readSteps(request: UpstreamRequest, answer: ExpectedSteps): Promise<WholeAnswer | Failure> {
    const steps = takeSteps(request, answer, {
      send: (each) => this.send(each),
      after: this.ports.after,
      explain: this.explain,
      bytesMax: operationSpecs[this.operation].answerBytesMax,
      progress: this.timeouts,
    });
    this.exchange = steps;
    return steps.outcome;
  }

  /** Reads the answer: all of it, or up to the first output of a stream. */
  private read(reply: Reply, answer: ExpectedWhole | ExpectedStream): Outcome | Promise<Outcome> {
    const { timeouts } = this;
    if (!isSuccess(reply)) return explained(reply, this.explain);
    const { answerBytesMax } = operationSpecs[this.operation];
    if (answer.kind !== "stream") return readWhole(reply, answer.read, answerBytesMax, timeouts);
    // Some upstreams answer a streaming request with JSON and status 200, mostly to report an error.
    if (isJson(reply) && answer.isJson !== true) return readWhole(reply, insteadOf(answer), answerBytesMax, timeouts);
    return this.openStream(reply, answer);
  }

  private async openStream(reply: Reply, answer: ExpectedStream): Promise<Outcome> {
    const reader = await answer.reader(reply, this.ports.tools);
    if (isFailure(reader)) return reader;
    this.reader = reader;
    reply.dropHeaders?.();
    const stream = new LiveStream(reply, reader, this, this.translated);
    const trouble = await stream.open();
    // The attempt may have been ended from outside while the stream opened.
    return trouble ?? this.reason ?? stream;
  }

  /** A whole answer or a failure ends the attempt. A stream ends it later, through `succeed` or `fail`. */
  private conclude(read: Outcome, nowMs: number): Outcome {
    if (!(read instanceof LiveStream)) this.release();
    // A failed exchange must not keep its connection.
    if (isFailure(read)) this.exchange?.abort();
    const outcome = read instanceof LiveStream ? read : (this.reason ?? read);
    if (isFailure(outcome)) {
      const cause = this.adapted(this.sanitized(this.named(outcome)));
      this.ask = null;
      this.fail(cause);
      return cause;
    }
    this.ask = null;
    if (this.taught !== null) this.gateway.upstreams.learn(this.candidate, this.taught);
    this.answered = outcome;
    this.reporter.firstContent(nowMs);
    if (outcome.kind === "whole") this.succeed(nowMs);
    return outcome;
  }

  /** Ends the attempt from outside: the client left, a timeout expired, or another attempt won. The first reason counts. */
  abandon(reason: Failure): void {
    this.reason ??= reason;
    this.release();
    this.exchange?.abort();
  }

  release(): void {
    this.timeouts.stop();
    this.cancellation.remove(this);
    this.reader?.destroy();
  }

  /** The failure under its public name: an engine on this machine is not reported as an upstream. */
  named(cause: Failure): Failure {
    return isLocalModel(this.candidate.deployment.channel.address) ? ofLocalEngine(cause) : cause;
  }

  /** The failure without anything that must not be repeated to the client. */
  sanitized(cause: Failure): Failure {
    if (cause.upstreamWords === null) return cause;
    const { ask, gateway, candidate } = this;
    const others = [...Object.values(this.forwarded), this.trace?.traceparent ?? "", this.trace?.tracestate ?? ""];
    const text = ask === null ? null : requestText(ask, others);
    if (text !== null) {
      // The name of a field that the client uses is no echo of it.
      this.isEchoed = isEcho(cause, cause.param === null ? text : text.replaceAll(`"${cause.param}":`, ""));
      this.lesson = lessonIn(cause, this.askedTokens, isEcho(cause, text));
    }
    const { channel } = candidate.deployment;
    const redact = (words: string): string => gateway.ports.redact?.(channel, words) ?? words;
    const { asTyped } = gateway.ports;
    // Commands that an upstream names are not ours.
    const isOurs = asTyped !== undefined && isLocalModel(channel.address);
    return sanitizedFailure(cause, text, isOurs ? (words) => asTyped(redact(words)) : redact);
  }

  /** The same failure, marked if the request can be written in another way. */
  private adapted(cause: Failure): Failure {
    const lesson = this.asksSubtitles ? subtitlesLesson(cause) : this.requestLesson(cause);
    if (lesson === null) return cause;
    this.lesson = lesson;
    return { ...cause, retryAdapted: true };
  }

  /** What of the request can be left out that the upstream refused. */
  private requestLesson(cause: Failure): CallLesson | null {
    const { taught, translated, isEchoed, fewerBetas } = this;
    const field = translated ? fieldLesson(cause, taught, isEchoed) : null;
    return field ?? signatureLesson(cause, taught) ?? betasLesson(cause, fewerBetas, isEchoed);
  }

  succeed(nowMs = this.ports.nowMs()): void {
    if (this.end("answered", null, nowMs)) this.reporter.succeeded(nowMs);
  }

  /** Ends the attempt with a failure. It is charged to its scope, or to nothing if the upstream had no part in it. */
  fail(cause: Failure): void {
    const outcome = outcomeOf(cause);
    const nowMs = this.ports.nowMs();
    if (!this.end(outcome, cause, nowMs)) return;
    if (outcome === "abandoned") this.reporter.abandoned();
    else this.reporter.failed(cause, nowMs);
  }

  /** Another attempt won. */
  lose(): void {
    this.abandon(lostRace);
    this.fail(lostRace);
  }

  /** How it stands now, for whoever watches the running calls. */
  get progress(): AttemptProgress {
    const { candidate, startedMs, hedge, ended, answered } = this;
    const stream = answered !== null && answered.kind === "stream" ? answered : null;
    return {
      channel: candidate.deployment.channel.name,
      model: candidate.deployment.model,
      startedMs,
      endedMs: ended === null ? null : startedMs + ended.tookMs,
      outcome: ended?.outcome ?? "running",
      error: ended?.failure?.kind ?? null,
      hedge,
      firstContentMs: stream === null || stream.firstContentMs === 0 ? null : stream.firstContentMs,
      outputTokens: ended?.outputTokens ?? stream?.outputTokens ?? 0,
    };
  }

  /**
   * The record of the attempt. An attempt that still runs counts as the one that answers, unless it was abandoned before it had
   * output: the record of a call may be made before its attempt has noticed the cancellation.
   */
  get record(): AttemptRecord {
    if (this.ended !== null) return this.ended;
    const cause = this.answered === null ? (this.reason ?? this.cancellation.failure) : null;
    return this.line(cause === null ? "answered" : outcomeOf(cause), cause, this.ports.nowMs());
  }

  private end(outcome: AttemptRecord["outcome"], cause: Failure | null, nowMs: number): boolean {
    if (this.ended !== null) return false;
    this.ended = this.line(outcome, cause, nowMs);
    this.answered = null;
    return true;
  }

  /** Output tokens are only counted for chat. */
  private outputOf(whole: WholeAnswer): number {
    return operationSpecs[this.operation].unit === "tokens" ? outputEstimate(whole) : 0;
  }

  private line(outcome: AttemptRecord["outcome"], cause: Failure | null, nowMs: number): AttemptRecord {
    const { deployment } = this.candidate;
    const { answered } = this;
    return {
      channel: deployment.channel.name,
      provider: deployment.channel.provider,
      host: deployment.channel.address.host,
      model: deployment.model,
      startedMs: this.startedMs,
      waitedMs: this.waitedMs,
      outcome,
      failure: cause,
      tookMs: nowMs - this.startedMs,
      hedge: this.hedge,
      sent: this.exchange !== null && this.exchange.isUnsent !== true,
      expected: this.expected,
      usage: answered?.usage ?? null,
      outputTokens: answered === null ? 0 : answered.kind === "whole" ? this.outputOf(answered) : answered.outputTokens,
      longestGapMs: this.timeouts.longestGapMs,
      spanId: this.spanId ?? undefined,
    };
  }
}

function isJson(reply: Reply): boolean {
  return reply.header("content-type")?.toLowerCase().startsWith("application/json") ?? false;
}

/** A failure that the upstream did not cause counts as abandoned. */
function outcomeOf({ blame, kind }: Failure): "failed" | "abandoned" {
  return blame === "gateway" || kind === "client_gone" || kind === "key_revoked" ? "abandoned" : "failed";
}

/** The candidate of an attempt and whether it is a probe, as the plan chose it. */
export type AttemptChoice = Pick<Choice, "candidate" | "probe" | "lastResort">;

/** Starts a hedge when an attempt is slow. */
export interface HedgeTrigger {
  /** After how long without content `slow` is called; Infinity: never. */
  slowMs(candidate: Candidate, streamed: boolean): number;
  /** The attempt has no content yet. Returns after how long to be told again; Infinity: never. */
  slow(attempt: Attempt): number;
}

/** A function of its own, so that the closure is not allocated for every attempt. */
function slowOf(trigger: HedgeTrigger, attempt: Attempt): () => number {
  return () => trigger.slow(attempt);
}

/** The expected usage, as far as the request tells. */
function expectedOf(ask: CallRequest): MeteredUsage {
  return expectedUse(ask, anyTokens, unheard);
}

/** A rate of zero, so that tokens are included whatever they cost. */
const anyTokens = { input: 0, output: 0 };
const unheard = { outputAverage: null, ceiling: null };

/** How long to wait for the first sign of an answer. */
export function patienceMs(operation: Operation, stream: boolean, timeouts: Timeouts): number {
  return stream && operationSpecs[operation].startsEarly ? timeouts.firstContentMs : timeouts.firstByteMs;
}

const nothing: readonly string[] = [];
const noHeaders: Readonly<Record<string, string>> = {};

/** The headers of a client that a channel is told, but for those that others replace. */
export function forwardedHeaders(
  { headers: sent }: Pick<Call, "headers">,
  names: readonly string[],
  replaced: readonly string[] = nothing,
): Readonly<Record<string, string>> {
  if (names.length === 0) return noHeaders;
  const headers: Record<string, string> = {};
  for (const name of names) {
    const value = replaced.includes(name) ? null : sent.header(name);
    if (value !== null) headers[name] = value;
  }
  return headers;
}
