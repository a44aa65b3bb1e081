import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { errorEvent } from "./errors.ts";

/** Where the bytes of a stream come from: frames ready to be sent, a failure to be told in-band, or `null` at its end. */
export interface ByteSource {
  next(): Promise<Uint8Array | Failure | null>;
  /** The client is gone, or is being cut off. */
  cancel(reason: Failure): void;
}

export interface StreamOptions {
  readonly requestId: string;
  readonly headers: Headers;
  /** A failure among `events` is told in-band; `bytes` can only be cut off, or a short answer would look like a whole one. */
  readonly shape: "events" | "bytes";
  readonly keepAliveMs: number;
  readonly writeStallMs: number;
  /** Begin with a comment, so that the head leaves before there is content. */
  readonly early: boolean;
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Tells the server that the connection is in use (true), or may be reaped when idle (false), or must go (`cut`). */
  readonly connection: (use: "live" | "idle" | "cut") => void;
}

/**
 * A response body that hands on each piece as it comes and asks for the next only when the client took the last one.
 * In silence it sends a comment; a client that takes nothing is cut off.
 */
export function streamResponse(source: ByteSource, options: StreamOptions): Response {
  return new Response(new OutgoingStream(source, options).readable, { headers: options.headers });
}

class OutgoingStream {
  readonly readable: ReadableStream<Uint8Array>;
  private controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  /** The client is ready and waits for us; otherwise we wait for the client. */
  private pulling = false;
  private over = false;
  private wroteMs: number;
  private disarm: (() => void) | null = null;

  constructor(
    private readonly source: ByteSource,
    private readonly options: StreamOptions,
  ) {
    this.wroteMs = options.nowMs();
    options.connection("live");
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.controller = controller;
          if (options.early) this.write(keepAlive);
          this.arm();
        },
        pull: () => this.pull(),
        cancel: () => this.end(failure("client_gone", "the client left during the stream")),
      },
      { highWaterMark: 0 },
    );
  }

  private async pull(): Promise<void> {
    this.pulling = true;
    const part = await this.next();
    this.pulling = false;
    if (this.over) return;
    if (part !== null && !isFailure(part)) return this.write(part);
    if (part !== null && this.options.shape === "bytes") return this.cut();
    // An error is told in-band and no end mark follows it; the transport itself ends cleanly, so that it arrives.
    if (part !== null && part.kind !== "client_gone") this.write(errorEvent(part, this.options.requestId));
    this.end(null);
    this.controller?.close();
  }

  /** Whatever is wrong with a source must not leave its call open. */
  private next(): Promise<Uint8Array | Failure | null> {
    return this.source.next().catch((error: unknown) => {
      const detail = error instanceof Error ? error.message : String(error);
      const bug = failure("internal", `a stream broke: ${detail}`);
      this.source.cancel(bug);
      return bug;
    });
  }

  /** The connection is reset. Given no reason, the runtime prints none. */
  private cut(): void {
    this.end(null);
    this.controller?.error(undefined);
  }

  private write(bytes: Uint8Array): void {
    this.wroteMs = this.options.nowMs();
    this.controller?.enqueue(bytes);
  }

  private arm(): void {
    const { keepAliveMs, writeStallMs, nowMs, after } = this.options;
    const patienceMs = Math.min(keepAliveMs > 0 ? keepAliveMs : Infinity, writeStallMs);
    const silentMs = nowMs() - this.wroteMs;
    const waitMs = silentMs >= patienceMs ? patienceMs : patienceMs - silentMs;
    this.disarm = after(waitMs, () => this.look());
  }

  private look(): void {
    if (this.over) return;
    const { keepAliveMs, writeStallMs, nowMs, connection } = this.options;
    const silentMs = nowMs() - this.wroteMs;
    if (this.pulling && keepAliveMs > 0 && silentMs >= keepAliveMs) this.write(keepAlive);
    if (!this.pulling && silentMs >= writeStallMs) {
      const reason = failure("client_gone", `the client took no bytes for ${writeStallMs} ms`, { message: stalledMessage });
      if (this.options.shape === "bytes") {
        this.end(reason);
        return this.cut();
      }
      // A client that wakes up in time for the last bytes must not take the cut for the end of the answer.
      this.write(errorEvent(reason, this.options.requestId));
      this.end(reason);
      connection("cut");
      this.controller?.close();
      return;
    }
    this.arm();
  }

  private end(reason: Failure | null): void {
    if (this.over) return;
    this.over = true;
    this.disarm?.();
    if (reason !== null) this.source.cancel(reason);
    this.options.connection("idle");
  }
}

const stalledMessage = "The stream was cut off because nothing was read from it for too long.";
const keepAlive = new TextEncoder().encode(": keep-alive\n\n");
