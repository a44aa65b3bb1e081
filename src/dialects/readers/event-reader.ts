import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Emission } from "../../operations/emission.ts";
import type { Emissions, EventDecoder, SseEvent, StreamReader } from "../dialect.ts";
import { SseReader, type SseVisitor } from "./sse.ts";

/** Reads a stream of server-sent events. Good events that arrive together with a bad one are returned first. */
export class EventReader implements StreamReader {
  readonly type = "text/event-stream; charset=utf-8";
  readonly shape = "events";
  pending: Failure | null = null;
  private readonly events: SseReader;
  private readonly collector: EmissionCollector;
  private sniffed = false;

  constructor(private readonly decoder: EventDecoder) {
    this.events = new SseReader(undefined, decoder.keepsNames);
    this.collector = new EmissionCollector(decoder);
  }

  get finished(): boolean {
    return this.decoder.finished;
  }

  push(chunk: Uint8Array): Emissions {
    const { collector } = this;
    if (!this.sniffed && chunk.length > 0) {
      this.sniffed = true;
      if (!sniffsAsEvents(chunk)) return failure("bad_response", "the answer is not a stream of events");
    }
    if (this.events.visit(chunk, collector) === "too_large")
      collector.broken ??= failure("bad_response", "an event of the stream is too large");
    return this.taken();
  }

  close(): Emissions {
    const { collector } = this;
    for (const event of this.events.close()) if (!collector.event(event)) break;
    if (collector.broken === null) collector.add(this.decoder.close());
    return this.taken();
  }

  destroy(): void {}

  private taken(): Emissions {
    const { collector } = this;
    this.decoder.batchRead?.();
    const emissions = collector.take();
    const { broken } = collector;
    collector.broken = null;
    if (emissions.length === 0) return broken ?? none;
    this.pending = broken;
    return emissions;
  }
}

/** Collects what the events of a chunk mean. */
class EmissionCollector implements SseVisitor {
  /** The first thing that is wrong with the events; nothing is read after it. */
  broken: Failure | null = null;
  private emissions: Emission[] = [];

  constructor(private readonly decoder: EventDecoder) {}

  event(event: SseEvent): boolean {
    return this.add(this.decoder.read(event));
  }

  /** Returns whether more events may follow. */
  add(emissions: Emissions): boolean {
    if (isFailure(emissions)) this.broken = emissions;
    else for (const emission of emissions) this.emissions.push(emission);
    return this.broken === null;
  }

  /** What was collected since the last time. */
  take(): readonly Emission[] {
    const { emissions } = this;
    if (emissions.length > 0) this.emissions = [];
    return emissions;
  }
}

const none: readonly Emission[] = [];

/** Events start with a field name, a comment or a blank line. Some streams have a wrong content type. */
export function sniffsAsEvents(body: Uint8Array): boolean {
  if (body[0] === 0x7b) return false;
  let at = body[0] === 0xef ? 3 : 0;
  while (at < body.length && (body[at] === 10 || body[at] === 13)) at++;
  if (at >= body.length) return at > 0;
  const head = String.fromCharCode(...body.subarray(at, at + 6));
  for (const start of eventStarts) if (start.startsWith(head) || head.startsWith(start)) return true;
  return false;
}

const eventStarts = [":", "data", "event:", "id:", "retry:"];
