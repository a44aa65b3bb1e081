import { failure, isFailure, type Failure } from "../operations/failure.ts";
import type { Emission } from "../operations/emission.ts";
import type { Emissions, EventDecoder, SseEvent, StreamReader } from "./adapter.ts";
import { SseReader } from "./sse.ts";

/** A stream of server-sent events, read event by event. Good events that came together with a bad one go first. */
export class EventReader implements StreamReader {
  readonly type = "text/event-stream; charset=utf-8";
  readonly shape = "events";
  pending: Failure | null = null;
  private readonly events = new SseReader();
  private sniffed = false;

  constructor(private readonly decoder: EventDecoder) {}

  get finished(): boolean {
    return this.decoder.finished;
  }

  push(chunk: Uint8Array): Emissions {
    if (!this.sniffed && chunk.length > 0) {
      this.sniffed = true;
      if (!sniffsAsEvents(chunk)) return failure("bad_response", "the answer is not a stream of events");
    }
    const events = this.events.push(chunk);
    if (events === "too_large") return failure("bad_response", "an event of the stream is too large");
    return events.length === 1 ? this.decoder.read(events[0]!) : this.decoded(events);
  }

  close(): Emissions {
    const last = this.decoded(this.events.close());
    if (isFailure(last) || this.pending !== null) return last;
    const closing = this.decoder.close();
    if (isFailure(closing)) return this.after(last, closing);
    return last.length === 0 ? closing : last.concat(closing);
  }

  destroy(): void {}

  private decoded(events: readonly SseEvent[]): Emissions {
    const all: Emission[] = [];
    for (const event of events) {
      const emissions = this.decoder.read(event);
      if (isFailure(emissions)) return this.after(all, emissions);
      all.push(...emissions);
    }
    return all;
  }

  private after(emissions: readonly Emission[], broken: Failure): Emissions {
    if (emissions.length === 0) return broken;
    this.pending = broken;
    return emissions;
  }
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
