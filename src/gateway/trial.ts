import type { ChatCodec, EncodedChat } from "../adapters/adapter.ts";
import type { Candidate } from "../channels/channel.ts";
import type { ChatAsk, ChatWhole } from "../operations/chat.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { Attempt } from "./attempt.ts";
import type { Ticket } from "./board.ts";
import type { Call } from "./call.ts";
import type { Gateway } from "./gateway.ts";
import { LiveStream } from "./live-stream.ts";
import type { Try } from "./record.ts";

/** One attempt with its bookkeeping: encoded for its candidate, booked on the board, ended exactly once. */
export class Trial {
  readonly candidate: Candidate;
  readonly clampedTo: number | null;
  private readonly startedMs: number;
  private readonly ticket: Ticket;
  private readonly attempt: Attempt;
  private readonly askedTokens: number;
  private encoded: EncodedChat | null;
  private ended: Try | null = null;

  constructor(
    call: Call,
    ask: ChatAsk,
    private readonly gateway: Gateway,
    private readonly options: TrialOptions,
  ) {
    const { candidate } = options.choice;
    const { channel } = candidate.deployment;
    const codec = codecOf(gateway, channel.dialect);
    const lesson = gateway.board.lessonOf(candidate);
    this.candidate = candidate;
    this.encoded = codec.encode(ask, {
      channel,
      model: candidate.deployment.model,
      ceiling: lower(channel.maxTokensCeiling, lesson.ceiling),
      meterStream: channel.quirks.streamOptions && lesson.streamOptions,
      forwarded: forwarded(call, channel.forwardHeaders),
    });
    this.clampedTo = this.encoded.clampedTo;
    this.askedTokens = Math.max(ask.maxTokens ?? 0, ask.maxCompletionTokens ?? 0);
    this.startedMs = gateway.ports.nowMs();
    this.ticket = gateway.board.begin(options.choice, call.route.model, this.startedMs);
    this.attempt = new Attempt(candidate, {
      ports: gateway.ports,
      codec,
      cancellation: call.cancellation,
      stream: ask.stream,
      choices: ask.choices,
      startedMs: this.startedMs,
      deadlineMs: options.deadlineMs,
    });
  }

  /** A whole answer or a failure ends the trial; a stream ends it through `succeed` or `fail`, whenever it does. */
  async run(): Promise<ChatWhole | LiveStream | Failure> {
    const encoded = this.encoded!;
    // A long stream must not hold its request in memory.
    this.encoded = null;
    const outcome = await this.attempt.run(encoded);
    if (outcome instanceof LiveStream) {
      this.ticket.firstContent(this.gateway.ports.nowMs());
    } else if (isFailure(outcome)) {
      this.gateway.board.learn(this.candidate, outcome, this.askedTokens);
      this.fail(outcome);
    } else {
      const nowMs = this.gateway.ports.nowMs();
      this.ticket.firstContent(nowMs);
      this.succeed(nowMs);
    }
    return outcome;
  }

  succeed(nowMs = this.gateway.ports.nowMs()): void {
    if (this.end("answered", null, nowMs)) this.ticket.succeeded(nowMs);
  }

  /** Ends it with a failure, charged to whoever it belongs to, or to nobody when the upstream had no part in it. */
  fail(cause: Failure): void {
    const abandoned = cause.blame === "gateway" || cause.kind === "client_gone";
    const nowMs = this.gateway.ports.nowMs();
    if (!this.end(abandoned ? "abandoned" : "failed", cause, nowMs)) return;
    if (abandoned) this.ticket.abandoned();
    else this.ticket.failed(cause, nowMs);
  }

  /** Another attempt won. */
  lose(): void {
    this.attempt.abandon(lost);
    this.fail(lost);
  }

  /** How it stands in the record. An attempt that is still running is the one that answers. */
  get try(): Try {
    return this.ended ?? this.line("answered", null, this.gateway.ports.nowMs());
  }

  private end(outcome: Try["outcome"], cause: Failure | null, nowMs: number): boolean {
    if (this.ended !== null) return false;
    this.ended = this.line(outcome, cause, nowMs);
    return true;
  }

  private line(outcome: Try["outcome"], cause: Failure | null, nowMs: number): Try {
    const { deployment } = this.candidate;
    return {
      channel: deployment.channel.name,
      model: deployment.model,
      outcome,
      failure: cause,
      tookMs: nowMs - this.startedMs,
      hedge: this.options.hedge,
    };
  }
}

export interface TrialOptions {
  readonly choice: { readonly candidate: Candidate; readonly probe: boolean };
  /** What is left of the call's time before its first content. */
  readonly deadlineMs: number;
  readonly hedge: boolean;
}

const lost = failure("deadline", "another attempt was quicker");

function codecOf(gateway: Gateway, dialect: string): ChatCodec {
  const codec = gateway.adapters.get(dialect)?.chat;
  if (codec === undefined) throw new Error(`the configuration let a channel through whose dialect has no chat: ${dialect}`);
  return codec;
}

function lower(a: number | null, b: number | null): number | null {
  if (a === null) return b;
  return b === null ? a : Math.min(a, b);
}

const noHeaders: Readonly<Record<string, string>> = {};

function forwarded(call: Call, names: readonly string[]): Readonly<Record<string, string>> {
  if (names.length === 0) return noHeaders;
  const headers: Record<string, string> = {};
  for (const name of names) {
    const value = call.header(name);
    if (value !== null) headers[name] = value;
  }
  return headers;
}
