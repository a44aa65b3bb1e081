import type { Emission } from "../../operations/emission.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { imageUsage } from "../../operations/passthrough/passthrough-usage.ts";
import type { EventDecoder, SseEvent } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { parseUntrusted } from "../untrusted.ts";

/**
 * Reads the events of a stream of images without changing them: partial images, and one event for each that is complete. A stream that
 * ends before its first complete image is cut off.
 */
export class ImageStream implements EventDecoder {
  readonly keepsNames = true;
  private completed = 0;
  private hasOutput = false;
  private ended = false;

  constructor(private readonly images: number) {}

  get finished(): boolean {
    return this.completed >= this.images;
  }

  read(event: SseEvent): readonly Emission[] | Failure {
    if (this.ended) return none;
    if (event.data.startsWith("[DONE]")) return this.end(event.frame);
    const value = parseUntrusted(event.data, event.frame, dataAt(event), -2);
    if (typeof value !== "object" || value === null) return [{ kind: "skipped", detail: "an event is not a JSON object" }];
    const { type, error, usage } = value as ImageEvent;
    if ((error !== undefined && error !== null) || type === "error") return this.broken(explainInBand(error ?? value));
    const isImage = typeof type === "string" && type.startsWith("image_");
    const completes = isImage && type.endsWith(".completed");
    if (completes) this.completed++;
    if (isImage) this.hasOutput = true;
    const delta: Emission = { kind: "delta", frame: event.frame, output: isImage ? "image" : null, text: "", finishes: completes };
    return completes ? [delta, { kind: "usage", frame: null, usage: imageUsage(usage, this.completed) }] : [delta];
  }

  close(): readonly Emission[] | Failure {
    return this.ended ? none : this.end(nothing);
  }

  private end(frame: Uint8Array): readonly Emission[] | Failure {
    if (this.completed === 0) return this.broken(failure("bad_response", "the stream ended before its first complete image"));
    this.ended = true;
    return [{ kind: "end", frame, finish: null }];
  }

  /** Before the first output a failure keeps its kind, so that the attempt can be retried; after it, the answer was interrupted. */
  private broken(cause: Failure): Failure {
    return this.hasOutput ? failure("interrupted", cause.detail, { status: cause.status, upstreamWords: cause.upstreamWords }) : cause;
  }
}

/** Where the data of an event begins in its frame. */
function dataAt({ name, frame }: SseEvent): number {
  return "data: ".length + (name === "" ? 0 : frame.indexOf(lineFeed) + 1);
}

const lineFeed = 0x0a;

interface ImageEvent {
  readonly type?: unknown;
  readonly error?: unknown;
  readonly usage?: unknown;
}

const none: readonly Emission[] = [];
const nothing = new Uint8Array(0);
