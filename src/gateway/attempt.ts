import type { ChatCodec, EncodedChat } from "../adapters/adapter.ts";
import type { Candidate } from "../channels/channel.ts";
import type { ChatWhole } from "../operations/chat.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import type { Cancellation } from "./cancellation.ts";
import { LiveStream, sniffsAsEvents } from "./live-stream.ts";
import type { Exchange, Ports, Reply } from "./ports.ts";
import { Watch, type Alarm } from "./watch.ts";

/**
 * One try of one candidate. It ends with a whole answer, with a stream whose first output is in hand, or with a
 * failure, and never with two of them: that is the commit point. Until then nothing has been promised to the client.
 */
export class Attempt {
  private exchange: Exchange | null = null;
  private readonly watch: Watch;
  private readonly unlisten: () => void;
  /** Why we ended it ourselves; whatever the network then says is a consequence. */
  private reason: Failure | null = null;

  constructor(
    readonly candidate: Candidate,
    private readonly options: AttemptOptions,
  ) {
    const { ports, cancellation, startedMs, stream, deadlineMs } = options;
    const { timeouts } = candidate.deployment.channel;
    this.watch = new Watch(ports, { startedMs, timeouts, stream, deadlineMs }, (alarm) => this.alarm(alarm));
    this.unlisten = cancellation.listen(() => this.abandon(cancellation.failure!));
  }

  async run({ request, hidesUsage }: EncodedChat): Promise<ChatWhole | LiveStream | Failure> {
    const { ports, stream } = this.options;
    const { deployment, credential } = this.candidate;
    if (this.reason !== null) return this.reason;
    this.exchange = ports.send(request, { channel: deployment.channel, credential });
    const reply = await this.exchange.reply;
    const outcome = isFailure(reply) ? reply : await (stream ? this.readStream(reply, hidesUsage) : this.readWhole(reply));
    if (outcome instanceof LiveStream) return outcome;
    this.settle();
    if (!isFailure(outcome)) return outcome;
    // Whatever is left of this exchange must not hold a connection.
    this.exchange.abort();
    return this.reason ?? outcome;
  }

  /** Ends the attempt from outside: the client left, or another attempt won. */
  abandon(reason: Failure): void {
    this.reason ??= reason;
    this.settle();
    this.exchange?.abort();
  }

  private async readWhole(reply: Reply): Promise<ChatWhole | Failure> {
    this.watch.headArrived();
    if (!isSuccess(reply)) return this.refused(reply);
    const body = await reply.bytes(answerBytesMax, () => this.watch.bytesArrived());
    if (isFailure(body)) return afterHead(body);
    if (sniffsAsEvents(body)) return failure("bad_response", "a stream came where a whole answer was asked for", { status: reply.status });
    return this.options.codec.whole(body);
  }

  private async readStream(reply: Reply, hidesUsage: boolean): Promise<LiveStream | Failure> {
    if (isSuccess(reply) && isJson(reply)) return this.wholeInsteadOfStream(reply);
    this.watch.headArrived();
    if (!isSuccess(reply)) return this.refused(reply);
    const { ports, codec, choices } = this.options;
    const live = new LiveStream({
      reply,
      decoder: codec.decoder({ hidesUsage, choices }),
      watch: this.watch,
      reason: () => this.reason,
      settle: () => this.settle(),
      abandon: (reason) => this.abandon(reason),
      nowMs: ports.nowMs,
      after: ports.after,
    });
    return (await live.open()) ?? live;
  }

  /** Errors come as JSON with status 200, too. A good answer that is not streamed is not what was asked for either. */
  private async wholeInsteadOfStream(reply: Reply): Promise<Failure> {
    const whole = await this.readWhole(reply);
    return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for", { status: reply.status });
  }

  private async refused(reply: Reply): Promise<Failure> {
    const body = await reply.bytes(refusalBytesMax);
    const text = isFailure(body) ? "" : new TextDecoder().decode(body);
    return this.options.codec.explain({ status: reply.status, header: (name) => reply.header(name), body: text });
  }

  private settle(): void {
    this.watch.stop();
    this.unlisten();
  }

  private alarm(alarm: Alarm): void {
    const { stream } = this.options;
    const { timeouts } = this.candidate.deployment.channel;
    switch (alarm) {
      case "first":
        return this.abandon(
          failure("timed_out", `no ${stream ? `content within ${timeouts.firstContentMs}` : `answer within ${timeouts.firstByteMs}`} ms`),
        );
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
  readonly codec: ChatCodec;
  readonly cancellation: Cancellation;
  readonly stream: boolean;
  readonly choices: number;
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
