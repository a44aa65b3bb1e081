import type { Codec, Encoded, StreamedAnswer, StreamReader, WholeAnswer } from "../adapters/adapter.ts";
import type { Candidate } from "../channels/channel.ts";
import type { Whole } from "../operations/whole.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import type { Cancellation } from "./cancellation.ts";
import { LiveStream } from "./live-stream.ts";
import type { Exchange, Ports, Reply } from "./ports.ts";
import { Watch, type Alarm } from "./watch.ts";

/**
 * One try of one candidate. It ends with a whole answer, with a stream whose first output is in hand, or with a
 * failure, and never with two of them: that is the commit point. Until then nothing has been promised to the client.
 */
export class Attempt {
  private exchange: Exchange | null = null;
  private reader: StreamReader | null = null;
  private readonly watch: Watch;
  private unlisten: () => void = () => {};
  /** Why we ended it ourselves; whatever the network then says is a consequence. */
  private reason: Failure | null = null;

  constructor(
    readonly candidate: Candidate,
    private readonly options: AttemptOptions,
  ) {
    const { ports, cancellation, startedMs, stream, patienceMs, deadlineMs } = options;
    const { timeouts } = candidate.deployment.channel;
    this.watch = new Watch(ports, { startedMs, timeouts, stream, patienceMs, deadlineMs }, (alarm) => this.alarm(alarm));
    this.unlisten = cancellation.listen(() => this.abandon(cancellation.failure!));
  }

  /** The request was handed to the network. */
  get sent(): boolean {
    return this.exchange !== null;
  }

  async run({ request, answer }: Encoded): Promise<Whole | LiveStream | Failure> {
    const { ports } = this.options;
    const { deployment, credential } = this.candidate;
    if (this.reason !== null) return this.reason;
    this.exchange = ports.send(request, { channel: deployment.channel, credential });
    const reply = await this.exchange.reply;
    const reading = isFailure(reply)
      ? reply
      : answer.kind === "stream"
        ? this.readStream(reply, answer)
        : this.readWhole(reply, answer.read);
    const outcome = reading instanceof Promise ? await reading : reading;
    if (outcome instanceof LiveStream) return outcome;
    this.settle();
    if (!isFailure(outcome)) return this.reason ?? outcome;
    // Whatever is left of this exchange must not hold a connection.
    this.exchange.abort();
    return this.reason ?? outcome;
  }

  /** It could not even be asked. */
  never(cause: Failure): Failure {
    this.settle();
    return this.reason ?? cause;
  }

  /** Ends the attempt from outside: the client left, or another attempt won. */
  abandon(reason: Failure): void {
    this.reason ??= reason;
    this.settle();
    this.exchange?.abort();
  }

  private readWhole(reply: Reply, read: WholeAnswer["read"]): Whole | Failure | Promise<Whole | Failure> {
    this.watch.headArrived();
    if (!isSuccess(reply)) return this.refused(reply);
    const body = reply.bytes(answerBytesMax, () => this.watch.bytesArrived());
    const taken = (all: Uint8Array | Failure): ReturnType<typeof read> => (isFailure(all) ? afterHead(all) : read(all, reply));
    return body instanceof Promise ? body.then(taken) : taken(body);
  }

  private async readStream(reply: Reply, answer: StreamedAnswer): Promise<Whole | LiveStream | Failure> {
    // Errors come as JSON with status 200, too.
    if (isSuccess(reply) && isJson(reply)) return this.readWhole(reply, (body, head) => answer.instead(body, head));
    this.watch.headArrived();
    if (!isSuccess(reply)) return this.refused(reply);
    const { ports } = this.options;
    const reader = await answer.reader(reply, ports.tools);
    if (isFailure(reader)) return reader;
    this.reader = reader;
    const live = new LiveStream({
      reply,
      reader,
      watch: this.watch,
      reason: () => this.reason,
      settle: () => this.settle(),
      abandon: (reason) => this.abandon(reason),
      after: ports.after,
      nowMs: ports.nowMs,
    });
    // Whoever ended the attempt while it opened has moved on.
    return (await live.open()) ?? this.reason ?? live;
  }

  private async refused(reply: Reply): Promise<Failure> {
    const body = await reply.bytes(refusalBytesMax);
    const text = isFailure(body) ? "" : new TextDecoder().decode(body);
    return this.options.explain({ status: reply.status, header: (name) => reply.header(name), body: text });
  }

  private settle(): void {
    this.watch.stop();
    this.unlisten();
    this.reader?.destroy();
  }

  private alarm(alarm: Alarm): void {
    const { stream, patienceMs } = this.options;
    const { timeouts } = this.candidate.deployment.channel;
    switch (alarm) {
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

export interface AttemptOptions {
  readonly ports: Ports;
  readonly explain: Codec<never>["explain"];
  readonly cancellation: Cancellation;
  /** The answer is expected to stream. */
  readonly stream: boolean;
  /** Until its first content, or its first byte where it does not stream. */
  readonly patienceMs: number;
  readonly startedMs: number;
  /** What is left of the call's time before its first content. */
  readonly deadlineMs: number;
}

const refusalBytesMax = 64 * 1024;
const answerBytesMax = 16 * 1024 * 1024;

function isSuccess({ status }: Reply): boolean {
  return status >= 200 && status <= 299;
}

function isJson(reply: Reply): boolean {
  return reply.header("content-type")?.toLowerCase().startsWith("application/json") ?? false;
}

/** A connection that breaks inside the body gave half an answer: the deployment's fault, not a refusal to connect. */
function afterHead(cause: Failure): Failure {
  return cause.kind === "bad_response" ? cause : failure("disconnected", `${cause.detail} inside the answer`);
}
