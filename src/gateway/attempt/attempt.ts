import { codecOf, encode, type Codec, type EncodedRequest } from "../../dialects/dialect.ts";
import type { Candidate, Timeouts } from "../../channels/channel.ts";
import { type CallRequest, maxOutputTokensOf } from "../../operations/call-request.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { type Operation, operationSpecs } from "../../operations/operation.ts";
import { requestText } from "../../operations/request-text.ts";
import type { Choice } from "../../routing/plan.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { expectedUse } from "../../usage/demand.ts";
import { AttemptExchange, type ExchangeOptions, type Outcome } from "./attempt-exchange.ts";
import type { Ticket } from "../upstream-state/upstream-state.ts";
import type { Call } from "../call.ts";
import type { Cancellation } from "../cancellation.ts";
import type { Gateway } from "../gateway.ts";
import { sanitizedFailure, isEcho } from "./sanitized-failure.ts";
import { lessonIn, lower, subtitlesLesson, together, type CallLesson } from "../upstream-state/lessons.ts";
import { LiveStream } from "./live-stream.ts";
import { outputEstimate } from "./output-estimate.ts";
import type { Ports } from "../ports.ts";
import { lostRace, type AttemptRecord } from "../settlement/record.ts";

/** One request to one candidate. It is encoded in the candidate's dialect, counted in the upstream state, and ended exactly once. */
export class Attempt implements ExchangeOptions {
  readonly candidate: Candidate;
  readonly cancellation: Cancellation;
  readonly codec: Pick<Codec<never>, "explain">;
  readonly stream: boolean;
  readonly patienceMs: number;
  readonly slowMs: number;
  readonly clampedTo: number | null;
  readonly voice: string | null;
  readonly dropped: readonly string[];
  private readonly ticket: Ticket;
  private readonly exchange: AttemptExchange;
  private readonly operation: Operation;
  private readonly askedTokens: number;
  private readonly asksSubtitles: boolean;
  /** The request, until the answer begins: a long stream must not hold it in memory. */
  private ask: CallRequest | null;
  private readonly forwarded: Readonly<Record<string, string>>;
  /** What can be learned from the rejection of this attempt. */
  lesson: CallLesson | null = null;
  private readonly expected: MeteredUsage;
  private encoded: EncodedRequest | Failure | null;
  private ended: AttemptRecord | null = null;
  private answered: LiveStream | WholeAnswer | null = null;

  constructor(
    call: Call,
    ask: CallRequest,
    private readonly gateway: Gateway,
    choice: AttemptChoice,
    readonly startedMs: number,
    /** How much is left of the call's deadline for first content. */
    readonly deadlineMs: number,
    private readonly hedge: boolean,
    private readonly hedgeTrigger: HedgeTrigger | null = null,
    /** What this call has learned about the deployment before. */
    private readonly taught: CallLesson | null = null,
  ) {
    const { candidate } = choice;
    const { channel } = candidate.deployment;
    const dialect = gateway.dialects.get(channel.dialect);
    const lesson = together(gateway.upstreams.lessonOf(candidate), taught);
    this.candidate = candidate;
    this.ask = ask;
    this.forwarded = forwarded(call, channel.forwardHeaders);
    const encoded = encode(dialect, ask, {
      channel,
      model: candidate.deployment.model,
      ceiling: lower(channel.maxTokensCeiling, lesson.ceiling),
      meterStream: channel.quirks.streamOptions && lesson.streamOptions,
      subtitles: lesson.subtitles,
      forwarded: this.forwarded,
    });
    const sendable = isFailure(encoded) ? null : encoded;
    this.stream = sendable?.answer.kind === "stream";
    this.patienceMs = patienceMs(ask.operation, this.stream, channel.timeouts);
    this.slowMs = hedgeTrigger === null ? Infinity : hedgeTrigger.slowMs(candidate, this.stream);
    this.codec = codecOf(dialect, ask.operation);
    this.cancellation = call.cancellation;
    this.encoded = encoded;
    this.clampedTo = sendable?.clampedTo ?? null;
    this.voice = sendable?.voice ?? null;
    this.dropped = sendable?.dropped ?? nothing;
    this.askedTokens = maxOutputTokensOf(ask);
    this.operation = ask.operation;
    this.asksSubtitles = sendable?.subtitles === true;
    this.expected = expectedOf(ask);
    this.ticket = gateway.upstreams.begin(choice, call.route.model, startedMs, this.stream);
    this.exchange = new AttemptExchange(candidate, this);
  }

  get ports(): Ports {
    return this.gateway.ports;
  }

  get timeouts(): Timeouts {
    return this.candidate.deployment.channel.timeouts;
  }

  /** Sends the request, reads the answer and concludes the attempt. */
  async run(): Promise<Outcome> {
    const encoded = this.encoded!;
    // A long stream must not hold its request in memory.
    this.encoded = null;
    if (isFailure(encoded)) return this.conclude(encoded);
    const reply = await this.exchange.send(encoded.request);
    return this.conclude(await this.exchange.read(reply, encoded.answer));
  }

  /** A whole answer or a failure ends the attempt. A stream ends it later, through `succeed` or `fail`. */
  private conclude(read: Outcome): Outcome {
    const concluded = this.exchange.conclude(read);
    const outcome = isFailure(concluded) ? this.sanitized(concluded) : concluded;
    this.ask = null;
    if (isFailure(outcome)) {
      const cause = this.adapted(outcome);
      this.fail(cause);
      return cause;
    }
    if (this.taught !== null) this.gateway.upstreams.learn(this.candidate, this.taught);
    if (outcome instanceof LiveStream) {
      this.answered = outcome;
      this.ticket.firstContent(this.gateway.ports.nowMs());
    } else {
      const nowMs = this.gateway.ports.nowMs();
      this.answered = outcome;
      this.ticket.firstContent(nowMs);
      this.succeed(nowMs);
    }
    return outcome;
  }

  slow(): number {
    return this.hedgeTrigger === null ? Infinity : this.hedgeTrigger.slow(this);
  }

  /** The failure without anything that must not be repeated to the client. */
  sanitized(cause: Failure): Failure {
    if (cause.upstreamWords === null) return cause;
    const { ask, gateway, candidate } = this;
    const text = ask === null ? null : requestText(ask, Object.values(this.forwarded));
    if (text !== null) this.lesson = lessonIn(cause, this.askedTokens, isEcho(cause, text));
    return sanitizedFailure(cause, text, (words) => gateway.ports.redact?.(candidate.deployment.channel, words) ?? words);
  }

  /** The same failure, marked if the request can be written in another way. */
  private adapted(cause: Failure): Failure {
    const lesson = this.asksSubtitles ? subtitlesLesson(cause) : null;
    if (lesson === null) return cause;
    this.lesson = lesson;
    return { ...cause, retryAdapted: true };
  }

  succeed(nowMs = this.gateway.ports.nowMs()): void {
    if (this.end("answered", null, nowMs)) this.ticket.succeeded(nowMs);
  }

  /** Ends the attempt with a failure. It is charged to its scope, or to nothing if the upstream had no part in it. */
  fail(cause: Failure): void {
    const outcome = outcomeOf(cause);
    const nowMs = this.gateway.ports.nowMs();
    if (!this.end(outcome, cause, nowMs)) return;
    if (outcome === "abandoned") this.ticket.abandoned();
    else this.ticket.failed(cause, nowMs);
  }

  /** Another attempt won. */
  lose(): void {
    this.exchange.abandon(lostRace);
    this.fail(lostRace);
  }

  /**
   * The record of the attempt. An attempt that still runs counts as the one that answers, unless it was abandoned before it had
   * output: the record of a call may be made before its attempt has noticed the cancellation.
   */
  get record(): AttemptRecord {
    if (this.ended !== null) return this.ended;
    const cause = this.answered === null ? this.exchange.left : null;
    return this.line(cause === null ? "answered" : outcomeOf(cause), cause, this.gateway.ports.nowMs());
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
      model: deployment.model,
      startedMs: this.startedMs,
      outcome,
      failure: cause,
      tookMs: nowMs - this.startedMs,
      hedge: this.hedge,
      sent: this.exchange.sent,
      expected: this.expected,
      usage: answered?.usage ?? null,
      outputTokens: answered === null ? 0 : answered.kind === "whole" ? this.outputOf(answered) : answered.outputTokens,
    };
  }
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

function forwarded(call: Call, names: readonly string[]): Readonly<Record<string, string>> {
  if (names.length === 0) return noHeaders;
  const headers: Record<string, string> = {};
  for (const name of names) {
    const value = call.headers.header(name);
    if (value !== null) headers[name] = value;
  }
  return headers;
}
