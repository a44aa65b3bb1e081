import type { StreamReader } from "../adapters/adapter.ts";
import { DeltaRun } from "../operations/delta-run.ts";
import type { Emission } from "../operations/emission.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import type { Metered } from "../operations/usage.ts";
import { TokenCount } from "../usage/token-estimate.ts";
import type { Ports, Reply } from "./ports.ts";
import type { Watch } from "./watch.ts";

/**
 * A stream on its way from an upstream. `open` reads up to the first output, which commits the call to this channel;
 * `next` then gives what came with each read, until `null`: the stream said its own end. Anything else is a failure.
 */
export class LiveStream {
  readonly kind = "stream";
  /** What arrived before and with the first output. */
  first: Emission[] = [];
  firstContentMs = 0;
  /** What its upstream said that it used: the last word on it counts. */
  usage: Metered | null = null;
  private ended = false;
  private committed = false;
  private outputs = 0;
  private readonly spoken = new TokenCount();

  constructor(private readonly source: StreamSource) {}

  /** Roughly how many tokens of output arrived. Most upstreams send each on its own; some gather them. */
  get outputTokens(): number {
    return Math.max(this.outputs, this.spoken.tokens);
  }

  /** Reads to the commit point. Returns what went wrong before it, or null. */
  async open(): Promise<Failure | null> {
    let events = 0;
    let bytes = 0;
    for (;;) {
      const emissions = await this.next();
      if (emissions === null) break;
      if (isFailure(emissions)) return emissions;
      for (const emission of emissions) {
        this.first.push(emission);
        events++;
        bytes += "frame" in emission ? (emission.frame?.length ?? 0) : 0;
      }
      // An upstream that talks this long without saying anything is held back no longer.
      if (this.first.some(commits) || events > heldEventsMax || bytes > heldBytesMax) break;
    }
    this.firstContentMs = this.source.nowMs();
    this.committed = true;
    if (!this.ended) this.source.watch.committed();
    return null;
  }

  /** The media type of its frames, and how a failure after the first of them is told. */
  get type(): string {
    return this.source.reader.type;
  }

  get shape(): StreamReader["shape"] {
    return this.source.reader.shape;
  }

  abandon(reason: Failure): void {
    this.source.abandon(reason);
  }

  async next(): Promise<readonly Emission[] | Failure | null> {
    const { reply, watch, reader } = this.source;
    if (this.ended) return null;
    if (reader.pending !== null) return this.fail(reader.pending);
    for (;;) {
      watch.readBegins();
      const chunk = reader.hasMore === true ? nothing : await reply.next();
      if (chunk !== null && isFailure(chunk)) return this.broken(chunk);
      const read = chunk === null ? reader.close() : reader.push(chunk);
      const emissions = read instanceof Promise ? await read : read;
      watch.readEnds(isFailure(emissions) || emissions.length > 0);
      if (isFailure(emissions)) return this.fail(this.source.reason() ?? emissions);
      this.note(emissions);
      if (this.ended) this.conclude(chunk === null);
      else if (reader.finished) watch.finished();
      if (emissions.length > 0 || this.ended) return emissions;
    }
  }

  private note(emissions: readonly Emission[]): void {
    for (const emission of emissions) {
      if (emission.kind === "usage") this.usage = tellsMore(this.usage, emission.usage);
      if (emission.kind !== "delta" || emission.output === null || emission.output === "finish") continue;
      if (emission instanceof DeltaRun) {
        this.outputs += emission.count;
        this.spoken.pushRun(emission);
      } else {
        this.outputs++;
        this.spoken.push(emission.text);
      }
    }
    if (emissions.at(-1)?.kind === "end") this.ended = true;
  }

  /** The read itself failed. After the last choice's finish, an upstream that merely fell silent has said it all. */
  private async broken(cause: Failure): Promise<readonly Emission[] | Failure> {
    const { reader } = this.source;
    const reason = this.source.reason() ?? cause;
    if (reason.kind === "timed_out" && reader.finished) {
      const closing = await reader.close();
      if (!isFailure(closing)) {
        this.note(closing);
        return closing;
      }
    }
    return this.fail(reason);
  }

  /** What breaks after the commit interrupts the answer, whatever it was; unless it was not the upstream. */
  private fail(cause: Failure): Failure {
    this.source.abandon(cause);
    if (!this.committed || cause.blame === "client" || cause.kind === "interrupted" || cause.blame === "gateway") return cause;
    return failure("interrupted", cause.detail, { status: cause.status });
  }

  /** After the end mark the client is done. The rest of the body is read aside, so that the connection can serve again. */
  private conclude(exhausted: boolean): void {
    this.source.settle();
    if (!exhausted) void drain(this.source);
  }
}

export interface StreamSource {
  readonly reply: Reply;
  readonly reader: StreamReader;
  readonly watch: Watch;
  readonly reason: () => Failure | null;
  readonly settle: () => void;
  readonly abandon: (reason: Failure) => void;
  readonly nowMs: Ports["nowMs"];
  readonly after: Ports["after"];
}

const nothing = new Uint8Array(0);
const heldEventsMax = 32;
const heldBytesMax = 64 * 1024;
const drainedReadsMax = 4;
const drainMs = 1000;

/** The later word, unless it says nothing that can be counted. */
function tellsMore(earlier: Metered | null, later: Metered): Metered {
  const { promptTokens, completionTokens, audioSeconds, characters } = later;
  return earlier === null || (promptTokens ?? completionTokens ?? audioSeconds ?? characters) != null ? later : earlier;
}

function commits(emission: Emission): boolean {
  return (emission.kind === "delta" && emission.output !== null) || emission.kind === "end";
}

async function drain({ reply, after }: StreamSource): Promise<void> {
  const disarm = after(drainMs, () => reply.cancel());
  for (let reads = 0; reads < drainedReadsMax; reads++) {
    const chunk = await reply.next();
    if (chunk === null || isFailure(chunk)) return disarm();
  }
  disarm();
  reply.cancel();
}
