import type { Codec, Encoded, ExpectedStream, StreamReader, UpstreamRequest, ExpectedWhole } from "../../dialects/dialect.ts";
import { runsHere, type Candidate } from "../../channels/channel.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, ofLocalEngine, type Failure } from "../../operations/failure.ts";
import type { Cancellation, CancellationListener } from "../cancellation.ts";
import { LiveStream, type StreamOwner } from "./live-stream.ts";
import type { Exchange, Ports, Reply } from "../ports.ts";
import { AttemptTimeouts, type TimeoutKind, type TimeoutListener, type TimeoutLimits } from "./attempt-timeouts.ts";

/**
 * One try of one candidate. It ends with a whole answer, with a stream whose first output is in hand, or with a
 * failure, and never with two of them: that is the commit point. Until then nothing has been promised to the client.
 */
export class AttemptExchange implements CancellationListener, TimeoutListener, StreamOwner {
  private exchange: Exchange | null = null;
  private reader: StreamReader | null = null;
  readonly timeouts: AttemptTimeouts;
  /** Why we ended it ourselves; whatever the network then says is a consequence. */
  reason: Failure | null = null;

  constructor(
    readonly candidate: Candidate,
    private readonly options: ExchangeOptions,
  ) {
    this.timeouts = new AttemptTimeouts(options.ports, options, this);
    options.cancellation.add(this);
  }

  get ports(): Ports {
    return this.options.ports;
  }

  /** The request was handed to the network. */
  get sent(): boolean {
    return this.exchange !== null;
  }

  /** Why it will come to nothing, from the moment that is decided; null while it may still answer. */
  get left(): Failure | null {
    return this.reason ?? this.options.cancellation.failure;
  }

  /** Asks, and gives the head of the answer. */
  send(request: UpstreamRequest): Promise<Reply | Failure> | Failure {
    if (this.reason !== null) return this.reason;
    const { deployment, credential } = this.candidate;
    this.exchange = this.options.ports.send(request, deployment.channel, credential);
    return this.exchange.reply;
  }

  /** Reads the answer: all of it, or up to the first output of a stream. */
  async read(reply: Reply | Failure, answer: Encoded["answer"]): Promise<Outcome> {
    if (isFailure(reply)) return reply;
    this.timeouts.headArrived();
    if (!isSuccess(reply)) return this.refused(reply);
    if (answer.kind !== "stream") return readWhole(reply, answer.read, this.timeouts);
    // Some upstreams answer a streaming request with JSON and status 200, mostly to report an error.
    if (isJson(reply)) return readWhole(reply, insteadOf(answer), this.timeouts);
    const reader = await answer.reader(reply, this.ports.tools);
    if (isFailure(reader)) return reader;
    this.reader = reader;
    const stream = new LiveStream(reply, reader, this);
    const trouble = await stream.open();
    // The attempt may have been ended from outside while the stream opened.
    return trouble ?? this.reason ?? stream;
  }

  /** What came of it, after all. Nothing but a stream goes on. */
  conclude(outcome: Outcome): Outcome {
    if (outcome instanceof LiveStream) return outcome;
    this.settle();
    // Whatever is left of this exchange must not hold a connection.
    if (isFailure(outcome)) this.exchange?.abort();
    const ended = this.reason ?? outcome;
    return isFailure(ended) ? this.named(ended) : ended;
  }

  /** What a failure is called: an engine of this machine is no upstream. */
  named(cause: Failure): Failure {
    return runsHere(this.candidate.deployment.channel.address) ? ofLocalEngine(cause) : cause;
  }

  cancelled(reason: Failure): void {
    this.abandon(reason);
  }

  /** Ends the attempt from outside: the client left, or another attempt won. */
  abandon(reason: Failure): void {
    this.reason ??= reason;
    this.settle();
    this.exchange?.abort();
  }

  private async refused(reply: Reply): Promise<Failure> {
    const body = await reply.bytes(refusalBytesMax);
    const text = isFailure(body) ? "" : new TextDecoder().decode(body);
    return this.options.codec.explain({ status: reply.status, header: (name) => reply.header(name), body: text });
  }

  sanitized(cause: Failure): Failure {
    return this.options.sanitized(cause);
  }

  settle(): void {
    this.timeouts.stop();
    this.options.cancellation.remove(this);
    this.reader?.destroy();
  }

  slow(): number {
    return this.options.slow();
  }

  timedOut(kind: Exclude<TimeoutKind, "slow">): void {
    const { stream, patienceMs, timeouts } = this.options;
    switch (kind) {
      case "first":
        return this.abandon(failure("timed_out", `no ${stream ? "content" : "answer"} within ${patienceMs} ms`));
      case "deadline":
        return this.abandon(failure("deadline", "the call's own time ran out"));
      case "idle":
        return this.abandon(failure("timed_out", `silent for ${timeouts.idleMs} ms`));
      case "progress":
        return this.abandon(failure("timed_out", `no event for ${timeouts.progressMs} ms`));
      case "total":
        return this.abandon(failure("timed_out", `not complete within ${timeouts.totalMs} ms`));
      case "lingering":
        return this.abandon(failure("timed_out", "silent after the last choice was finished"));
    }
  }
}

export interface ExchangeOptions extends TimeoutLimits {
  readonly ports: Ports;
  readonly codec: Pick<Codec<never>, "explain">;
  readonly cancellation: Cancellation;
  /** As in `TimeoutListener`. */
  slow(): number;
  /** What an upstream said, as far as it may be repeated. */
  sanitized(cause: Failure): Failure;
}

/** What comes of an attempt. */
export type Outcome = WholeAnswer | LiveStream | Failure;

const refusalBytesMax = 64 * 1024;
const answerBytesMax = 16 * 1024 * 1024;

/** Here and not where it is needed: whoever makes a function pays for it in every call. */
function insteadOf(answer: ExpectedStream): ExpectedWhole["read"] {
  return (body, head) => answer.instead(body, head);
}

function isSuccess({ status }: Reply): boolean {
  return status >= 200 && status <= 299;
}

function isJson(reply: Reply): boolean {
  return reply.header("content-type")?.toLowerCase().startsWith("application/json") ?? false;
}

async function readWhole(reply: Reply, read: ExpectedWhole["read"], progress: AttemptTimeouts): Promise<WholeAnswer | Failure> {
  const body = await reply.bytes(answerBytesMax, progress);
  return isFailure(body) ? afterHead(body) : read(body, reply);
}

/** A connection that breaks inside the body gave half an answer: the deployment's fault, not a refusal to connect. */
function afterHead(cause: Failure): Failure {
  return cause.kind === "bad_response" ? cause : failure("disconnected", `${cause.detail} inside the answer`);
}
