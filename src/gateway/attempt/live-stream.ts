import type { Emissions, StreamReader } from "../../dialects/dialect.ts";
import type { Emission } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { OutputCount } from "../../usage/token-estimate.ts";
import type { Ports, Reply } from "../ports.ts";
import type { AttemptTimeouts } from "./attempt-timeouts.ts";

/**
 * A stream that is being read from an upstream. `open` reads up to the first output, which commits the call to this channel. After
 * that, `next` returns what arrived with each read, and `null` at the stream's own end. Anything else is a failure.
 */
export class LiveStream {
  readonly kind = "stream";
  /** What arrived up to and with the first output. */
  first: Emission[] = [];
  firstContentMs = 0;
  /** The usage that the upstream reported last. */
  usage: MeteredUsage | null = null;
  private ended = false;
  private committed = false;
  private heldBytes = 0;
  /** A read that was started before the commit point and had not finished by then. */
  private ahead: ReturnType<LiveStream["next"]> | null = null;
  private readonly output = new OutputCount();

  constructor(
    private readonly reply: Reply,
    private readonly reader: StreamReader,
    private readonly owner: StreamOwner,
    /** The client speaks another API: what the stream says is written anew. */
    readonly translated = false,
  ) {}

  /** Roughly how many tokens of output arrived. */
  get outputTokens(): number {
    return this.output.tokens;
  }

  /** Reads up to the commit point. Returns what went wrong before it, or null. */
  async open(): Promise<Failure | null> {
    for (;;) {
      const emissions = await this.next();
      if (emissions === null) break;
      if (isFailure(emissions)) return emissions;
      if (this.hold(emissions)) break;
    }
    return this.begun();
  }

  /**
   * The first output has arrived. A short audio answer is read a little further, because whether it is complete can be checked before
   * any byte is sent. If it is broken, another candidate can still be asked.
   */
  private begun(): null | Promise<Failure | null> {
    const { declaredBytes = null, shape } = this.reader;
    if (this.ended || (declaredBytes === null && shape === "events")) return this.commit();
    return this.foresee(declaredBytes !== null && declaredBytes <= foreseenBytesMax ? foreseenMs : 0);
  }

  private async foresee(ms: number): Promise<Failure | null> {
    const { ports, timeouts } = this.owner;
    // The first-content timeout is over; from now on the idle timeout counts.
    timeouts.committed();
    let disarm = (): void => {};
    const late = new Promise<"late">((resolve) => (disarm = ports.after(ms, () => resolve("late"))));
    while (!this.ended && this.heldBytes <= foreseenBytesMax) {
      const reading = this.next();
      const emissions = await Promise.race([reading, late]);
      if (emissions === "late") {
        this.ahead = reading;
        // The next read reports the error.
        reading.catch(() => {});
        break;
      }
      if (emissions === null) break;
      if (isFailure(emissions)) {
        disarm();
        return emissions;
      }
      this.hold(emissions);
    }
    disarm();
    return this.commit();
  }

  /** Keeps what arrived before the commit point. Returns whether the commit point is reached. */
  private hold(emissions: readonly Emission[]): boolean {
    let isReached = false;
    for (const emission of emissions) {
      this.first.push(emission);
      this.heldBytes += "frame" in emission ? (emission.frame?.length ?? 0) : 0;
      isReached ||= commits(emission);
    }
    // An upstream that sends this much without output is passed on anyway.
    return isReached || this.first.length > heldEventsMax || this.heldBytes > heldBytesMax;
  }

  private commit(): null {
    this.firstContentMs = this.owner.ports.nowMs();
    this.committed = true;
    if (!this.ended) this.owner.timeouts.committed();
    return null;
  }

  /** The media type of the frames. */
  get type(): string {
    return this.reader.type;
  }

  get shape(): StreamReader["shape"] {
    return this.reader.shape;
  }

  abandon(reason: Failure): void {
    this.owner.abandon(reason);
  }

  async next(): Promise<readonly Emission[] | Failure | null> {
    const { reply, reader } = this;
    const { timeouts } = this.owner;
    const { ahead } = this;
    if (ahead !== null) {
      this.ahead = null;
      return ahead;
    }
    if (this.ended) return null;
    if (reader.pending !== null) return this.fail(reader.pending);
    for (;;) {
      timeouts.readBegins();
      const chunk = reader.hasMore === true ? nothing : (reply.ready?.() ?? (await reply.next()));
      if (chunk !== null && isFailure(chunk)) return this.broken(chunk);
      const read = chunk === null ? reader.close() : reader.push(chunk);
      const emissions = this.look(read instanceof Promise ? await read : read, chunk === null);
      if (isFailure(emissions) || emissions.length > 0 || this.ended) return emissions;
    }
  }

  /** Interprets one part of the body. `isLast`: nothing follows. */
  private look(read: Emissions, isLast: boolean): readonly Emission[] | Failure {
    const { reader } = this;
    const { timeouts } = this.owner;
    timeouts.readEnds(isFailure(read) || read.length > 0);
    if (isFailure(read)) return this.fail(this.owner.reason ?? read);
    this.note(read);
    if (this.ended) this.conclude(isLast);
    else if (reader.finished) timeouts.finished();
    return read;
  }

  private note(emissions: readonly Emission[]): void {
    for (const emission of emissions) {
      if (emission.kind === "usage") this.usage = tellsMore(this.usage, emission.usage);
      if (emission.kind !== "delta" || emission.output === null || emission.output === "finish") continue;
      this.output.push(emission.unsaid === undefined ? emission.text : emission.text + emission.unsaid);
    }
    if (emissions.at(-1)?.kind === "end") this.ended = true;
  }

  /** The read failed. If every choice is finished and the upstream merely went silent, the stream is complete. */
  private async broken(cause: Failure): Promise<readonly Emission[] | Failure> {
    const { reader } = this;
    const reason = this.owner.reason ?? cause;
    if (reason.kind === "timed_out" && reader.finished) {
      const closing = await reader.close();
      if (!isFailure(closing)) {
        this.note(closing);
        return closing;
      }
    }
    return this.fail(reason);
  }

  /** A failure of the upstream after the commit point is an interruption, whatever the cause was. */
  private fail(reason: Failure): Failure {
    const cause = this.owner.sanitized(reason);
    this.owner.abandon(cause);
    if (!this.committed || cause.blame === "client" || cause.kind === "interrupted" || cause.blame === "gateway") {
      return this.owner.named(cause);
    }
    return this.owner.named(failure("interrupted", cause.detail, { status: cause.status }));
  }

  /**
   * The client has everything after the end marker. The rest of the body is read in the background, so that the connection can be
   * reused.
   */
  private conclude(exhausted: boolean): void {
    this.owner.release();
    if (!exhausted) void drain(this.reply, this.owner.ports);
  }
}

/** The attempt that the stream belongs to. */
export interface StreamOwner {
  readonly timeouts: AttemptTimeouts;
  /** Why the gateway ended the exchange. Errors that the network reports afterwards are consequences of that. */
  readonly reason: Failure | null;
  readonly ports: Pick<Ports, "nowMs" | "after">;
  /** Nothing more is read: the timeouts stop, and the reader is freed. */
  release(): void;
  abandon(reason: Failure): void;
  /** The failure under its public name. */
  named(cause: Failure): Failure;
  /** The failure without anything that must not be repeated to the client. */
  sanitized(cause: Failure): Failure;
}

const nothing = new Uint8Array(0);
const heldEventsMax = 32;
/** The first events of some APIs repeat the request, with its instructions and tools. */
const heldBytesMax = 256 * 1024;
/** Two minutes of speech as MP3. */
const foreseenBytesMax = 2 * 1024 * 1024;
/** How long the client waits at most while the rest of a short audio answer is read. */
const foreseenMs = 2_000;
const drainedReadsMax = 4;
const drainMs = 1000;

/** The later report, unless it has no figures. */
function tellsMore(earlier: MeteredUsage | null, later: MeteredUsage): MeteredUsage {
  const { promptTokens, completionTokens, audioSeconds, characters, images } = later;
  return earlier === null || (promptTokens ?? completionTokens ?? audioSeconds ?? characters ?? images) != null ? later : earlier;
}

function commits(emission: Emission): boolean {
  return (emission.kind === "delta" && emission.output !== null) || emission.kind === "end";
}

async function drain(reply: Reply, ports: StreamOwner["ports"]): Promise<void> {
  const disarm = ports.after(drainMs, () => reply.cancel());
  for (let reads = 0; reads < drainedReadsMax; reads++) {
    const chunk = await reply.next();
    if (chunk === null || isFailure(chunk)) return disarm();
  }
  disarm();
  reply.cancel();
}
