import type { ChatDecoder, SseEvent } from "../adapters/adapter.ts";
import { SseReader } from "../adapters/sse.ts";
import type { ChatEmission } from "../operations/chat.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import type { Ports, Reply } from "./ports.ts";
import type { Watch } from "./watch.ts";

/**
 * A stream on its way from an upstream. `open` reads up to the first output, which commits the call to this channel;
 * `next` then gives what came with each read, until `null`: the stream said its own end. Anything else is a failure.
 */
export class LiveStream {
  readonly kind = "stream";
  /** What arrived before and with the first output. */
  first: ChatEmission[] = [];
  firstContentMs = 0;
  private readonly reader = new SseReader();
  private ended = false;
  private sniffed = false;
  /** A failure that came in one read with good events: they go first. */
  private pending: Failure | null = null;

  constructor(private readonly source: StreamSource) {}

  /** Reads to the commit point. Returns what went wrong before it, or null. */
  async open(): Promise<Failure | null> {
    let events = 0;
    let bytes = 0;
    for (;;) {
      const emissions = await this.read();
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
    if (!this.ended) this.source.watch.committed();
    return null;
  }

  async next(): Promise<readonly ChatEmission[] | Failure | null> {
    const emissions = await this.read();
    if (emissions === null || !isFailure(emissions)) return emissions;
    return emissions.blame === "client" || emissions.kind === "interrupted" || emissions.blame === "gateway"
      ? emissions
      : failure("interrupted", emissions.detail, { status: emissions.status });
  }

  abandon(reason: Failure): void {
    this.source.abandon(reason);
  }

  private async read(): Promise<readonly ChatEmission[] | Failure | null> {
    const { reply, watch, decoder } = this.source;
    if (this.ended) return null;
    if (this.pending !== null) return this.fail(this.pending);
    for (;;) {
      watch.readBegins();
      const chunk = await reply.next();
      if (chunk !== null && isFailure(chunk)) return this.broken(chunk);
      const events = chunk === null ? this.reader.close() : this.split(chunk);
      watch.readEnds(events.length > 0);
      if (typeof events === "string") return this.fail(failure("bad_response", events));
      const emissions = this.decode(events, chunk === null);
      if (isFailure(emissions)) return this.fail(emissions);
      if (this.ended) this.conclude(chunk === null);
      else if (decoder.finished) watch.finished();
      if (emissions.length > 0 || this.ended) return emissions;
    }
  }

  private split(chunk: Uint8Array): SseEvent[] | string {
    if (!this.sniffed && chunk.length > 0) {
      this.sniffed = true;
      if (!sniffsAsEvents(chunk)) return "the answer is not a stream of events";
    }
    const events = this.reader.push(chunk);
    return events === "too_large" ? "an event of the stream is too large" : events;
  }

  private decode(events: readonly SseEvent[], last: boolean): readonly ChatEmission[] | Failure {
    const { decoder } = this.source;
    if (events.length === 1 && !last) return this.noted(decoder.read(events[0]!));
    const all: ChatEmission[] = [];
    for (const event of events) {
      const emissions = this.noted(decoder.read(event));
      if (isFailure(emissions)) return this.after(all, emissions);
      all.push(...emissions);
    }
    if (!last) return all;
    const closing = this.noted(decoder.close());
    if (isFailure(closing)) return this.after(all, closing);
    return all.concat(closing);
  }

  private after(emissions: readonly ChatEmission[], broken: Failure): readonly ChatEmission[] | Failure {
    if (emissions.length === 0) return broken;
    this.pending = broken;
    return emissions;
  }

  private noted(emissions: readonly ChatEmission[] | Failure): readonly ChatEmission[] | Failure {
    if (!isFailure(emissions) && emissions.at(-1)?.kind === "end") this.ended = true;
    return emissions;
  }

  /** The read itself failed. After the last choice's finish, an upstream that merely fell silent has said it all. */
  private broken(cause: Failure): readonly ChatEmission[] | Failure {
    const reason = this.source.reason() ?? cause;
    if (reason.kind === "timed_out" && this.source.decoder.finished) {
      const closing = this.noted(this.source.decoder.close());
      if (!isFailure(closing)) return closing;
    }
    return this.fail(reason);
  }

  private fail(cause: Failure): Failure {
    this.source.abandon(cause);
    return cause;
  }

  /** After the end mark the client is done. The rest of the body is read aside, so that the connection can serve again. */
  private conclude(exhausted: boolean): void {
    this.source.settle();
    if (!exhausted) void drain(this.source);
  }
}

export interface StreamSource {
  readonly reply: Reply;
  readonly decoder: ChatDecoder;
  readonly watch: Watch;
  readonly reason: () => Failure | null;
  readonly settle: () => void;
  readonly abandon: (reason: Failure) => void;
  readonly nowMs: Ports["nowMs"];
  readonly after: Ports["after"];
}

const heldEventsMax = 32;
const heldBytesMax = 64 * 1024;
const drainedReadsMax = 4;
const drainMs = 1000;

function commits(emission: ChatEmission): boolean {
  return (emission.kind === "delta" && emission.output !== null) || emission.kind === "end";
}

/** Events start with a field name, a comment or a blank line. A stream under a wrong content type is still a stream. */
export function sniffsAsEvents(body: Uint8Array): boolean {
  if (body[0] === 0x7b) return false;
  let at = body[0] === 0xef ? 3 : 0;
  while (at < body.length && (body[at] === 10 || body[at] === 13)) at++;
  if (at >= body.length) return at > 0;
  const head = String.fromCharCode(...body.subarray(at, at + 6));
  return [":", "data", "event:", "id:", "retry:"].some((start) => start.startsWith(head) || head.startsWith(start));
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
