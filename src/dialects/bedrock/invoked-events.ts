import { isFailure, type Failure } from "../../operations/failure.ts";
import type { Emissions, EventDecoder, SseEvent, StreamReader } from "../dialect.ts";
import { parseUntrusted, objectOf, textOf } from "../untrusted.ts";
import type { EventStreamMessage } from "./event-stream.ts";
import { EventStreamReader, type MessageDecoder } from "./event-stream-reader.ts";

/**
 * Reads the stream of a model that is invoked in its maker's own API: each message holds one event of that API, in base64. The events
 * are given to the decoder of the API as if they had come as server-sent events.
 */
export function invokedEvents(decoder: EventDecoder): StreamReader {
  return new EventStreamReader(new InvokedEvents(decoder));
}

class InvokedEvents implements MessageDecoder {
  constructor(private readonly decoder: EventDecoder) {}

  get finished(): boolean {
    return this.decoder.finished;
  }

  read({ headers, payload }: EventStreamMessage): Emissions {
    const body = objectOf(parseUntrusted(textDecoder.decode(payload), payload));
    switch (headers.get(":message-type")) {
      case "exception":
        return this.decoder.read(this.error(headers.get(":exception-type") ?? "", textOf(body?.["message"])));
      case "error":
        return this.decoder.read(this.error(headers.get(":error-code") ?? "", headers.get(":error-message") ?? ""));
      default: {
        const event = headers.get(":event-type") === "chunk" ? this.eventIn(textOf(body?.["bytes"])) : null;
        return event === null ? [{ kind: "skipped", detail: "an event of an unknown type" }] : this.decoder.read(event);
      }
    }
  }

  close(): Emissions {
    return this.decoder.close();
  }

  /** The decoder knows what an error means after what it has read. */
  broken(cause: Failure): Failure {
    const known = this.decoder.read(this.error("internal_server_error", cause.detail));
    return isFailure(known) ? known : cause;
  }

  /** The form of errors in the APIs that are served this way. */
  private error(type: string, message: string): SseEvent {
    return this.event("error", JSON.stringify({ type: "error", error: { type, message } }));
  }

  private eventIn(base64: string): SseEvent | null {
    const text = fromBase64(base64);
    // A line break would end the line of an event. In JSON it can only stand between values.
    const data = text?.replace(/[\r\n]+/g, " ").trim() ?? "";
    const name = /^\{"type": ?"([a-z_]{1,64})"/.exec(data)?.[1] ?? typeOf(data);
    return name === null ? null : this.event(name, data);
  }

  private event(name: string, data: string): SseEvent {
    const line = this.decoder.keepsNames === true ? `event: ${name}\n` : "";
    return { name, data, frame: textEncoder.encode(`${line}data: ${data}\n\n`) };
  }
}

function fromBase64(base64: string): string | null {
  try {
    return textDecoder.decode(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)));
  } catch {
    return null;
  }
}

function typeOf(data: string): string | null {
  const type = objectOf(parseUntrusted(data, textEncoder.encode(data)))?.["type"];
  return typeof type === "string" && /^[a-z_]{1,64}$/.test(type) ? type : null;
}

const textDecoder = new TextDecoder();
const textEncoder = new TextEncoder();
