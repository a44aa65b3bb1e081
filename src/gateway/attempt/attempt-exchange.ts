import type { Codec, EncodedRequest, ExpectedStream, StreamReader, UpstreamRequest, ExpectedWhole } from "../../dialects/dialect.ts";
import { isLocalModel, type Candidate } from "../../channels/channel.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, ofLocalEngine, type Failure } from "../../operations/failure.ts";
import type { Cancellation, CancellationListener } from "../cancellation.ts";
import { LiveStream, type StreamOwner } from "./live-stream.ts";
import type { Exchange, Ports, Reply } from "../ports.ts";
import { AttemptTimeouts, type TimeoutKind, type TimeoutListener, type TimeoutLimits } from "./attempt-timeouts.ts";

/**
 * The exchange of one attempt with its upstream. It ends in exactly one of three ways: a whole answer, a stream whose first output has
 * arrived (the commit point), or a failure. Before that, nothing has been sent to the client.
 */
export class AttemptExchange implements CancellationListener, TimeoutListener, StreamOwner {
  private exchange: Exchange | null = null;
  private reader: StreamReader | null = null;
  readonly timeouts: AttemptTimeouts;
  /** Why the gateway ended the exchange. Errors that the network reports afterwards are consequences of that. */
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

  /** Why the attempt will fail, as soon as that is decided; null while it may still succeed. */
  get left(): Failure | null {
    return this.reason ?? this.options.cancellation.failure;
  }

  /** Sends the request and returns the head of the answer. */
  send(request: UpstreamRequest): Promise<Reply | Failure> | Failure {
    if (this.reason !== null) return this.reason;
    const { deployment, credential } = this.candidate;
    this.exchange = this.options.ports.send(request, deployment.channel, credential);
    return this.exchange.reply;
  }

  /** Reads the answer: all of it, or up to the first output of a stream. */
  async read(reply: Reply | Failure, answer: EncodedRequest["answer"]): Promise<Outcome> {
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

  /** The final outcome. Only a stream continues after this. */
  conclude(outcome: Outcome): Outcome {
    if (outcome instanceof LiveStream) return outcome;
    this.settle();
    // A failed exchange must not keep its connection.
    if (isFailure(outcome)) this.exchange?.abort();
    const ended = this.reason ?? outcome;
    return isFailure(ended) ? this.named(ended) : ended;
  }

  /** The failure under its public name: an engine on this machine is not reported as an upstream. */
  named(cause: Failure): Failure {
    return isLocalModel(this.candidate.deployment.channel.address) ? ofLocalEngine(cause) : cause;
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
  /** See `TimeoutListener`. */
  slow(): number;
  /** The failure without anything that must not be repeated to the client. */
  sanitized(cause: Failure): Failure;
}

/** What comes of an attempt. */
export type Outcome = WholeAnswer | LiveStream | Failure;

const refusalBytesMax = 64 * 1024;
const answerBytesMax = 16 * 1024 * 1024;

/** A function of its own, so that the closure is not allocated for every call. */
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

/** A connection that breaks inside the body is the deployment's fault, unlike a refused connection. */
function afterHead(cause: Failure): Failure {
  return cause.kind === "bad_response" ? cause : failure("disconnected", `${cause.detail} inside the answer`);
}
