import { failure, isFailure, type Failure } from "../operations/failure.ts";
import type { OutputSource } from "../gateway/call-result.ts";
import type { ErrorFormat } from "../operations/conversation/surface.ts";
import type { Timer, Ports } from "../gateway/ports.ts";
import { errorEvent } from "./errors.ts";
import type { ResponseBodyStream, ResponseWriter } from "../net/server/http-response.ts";

export interface StreamOptions {
  readonly requestId: string;
  /** How the API that the client speaks reports errors. */
  readonly errors: ErrorFormat;
  /** A failure among `events` is reported in the stream; `bytes` can only be cut off, or a truncated body would look complete. */
  readonly shape: "events" | "bytes";
  readonly keepAliveMs: number;
  readonly writeStallMs: number;
  /** Begin with a comment, so that the head is sent before there is content. */
  readonly early: boolean;
  readonly ports: Pick<Ports, "nowMs" | "timers">;
}

/** The call that a stream belongs to. */
export interface ResponseStreamOwner {
  /** The client is gone, or is being cut off. */
  cancelled(reason: Failure): void;
  /** The stream is over, for whatever reason. */
  ended(): void;
}

/**
 * Sends each part as it comes, and asks for the next only when the client has taken the last one. In silence it sends a comment
 * to keep the connection alive; a client that takes nothing is cut off.
 */
export class ResponseStream implements ResponseBodyStream {
  private out: ResponseWriter | null = null;
  /** The client is ready and waits for the source; otherwise the stream waits for the client. */
  private pulling = false;
  private over = false;
  /** Something of the source was sent. */
  private hasContent = false;
  /** Bytes that are sent unless the source reports a failure in the same turn of the event loop. */
  private held: Uint8Array | null = null;
  /** The client has not taken what was sent. */
  private blocked = false;
  private wroteMs: number;
  private readonly timer: Timer = new SilenceTimer(this);

  constructor(
    private readonly source: OutputSource,
    private readonly owner: ResponseStreamOwner,
    private readonly options: StreamOptions,
  ) {
    this.wroteMs = options.ports.nowMs();
    source.unsentBytes = () => (this.held?.length ?? 0) + (this.out?.unsentBytes ?? 0);
  }

  begin(out: ResponseWriter): void {
    this.out = out;
    this.arm();
    if (this.options.early) this.sendKeepAlive();
    void this.pull();
  }

  onDrain(): void {
    this.blocked = false;
    this.flushHeld();
    if (!this.pulling && !this.over && !this.blocked) void this.pull();
  }

  sendKeepAlive(): boolean {
    if (this.options.shape !== "events") return false;
    const { keepAlive, earlyKeepAlive = keepAlive } = this.options.errors;
    this.write(this.hasContent ? keepAlive : earlyKeepAlive);
    return true;
  }

  onClose(): void {
    this.end(failure("client_gone", "the client left during the stream"));
  }

  /** Sends parts as long as the client takes them. */
  private async pull(): Promise<void> {
    do {
      this.pulling = true;
      let part: Uint8Array | Failure | null;
      try {
        part = await this.source.next();
      } catch (error) {
        part = this.bugOf(error);
      }
      this.pulling = false;
      if (this.over) return;
      if (part === null || isFailure(part)) return this.finish(part);
      this.forward(part);
    } while (!this.blocked && !this.over);
  }

  private finish(part: Failure | null): void {
    if (part !== null && this.options.shape === "bytes") {
      this.held = null;
      this.end(null);
      this.out?.abort(false);
      return;
    }
    this.flushHeld();
    // The error is sent in the stream and no end mark follows it; the HTTP body itself ends properly, so that the error arrives.
    if (part !== null && part.kind !== "client_gone") this.write(this.errorOf(part));
    this.end(null);
    this.out?.end();
  }

  /**
   * Events were validated before. The last bytes of audio may be an error text that an upstream sent in the middle of it: the
   * failure follows at once, and the client must not hear it.
   */
  private forward(part: Uint8Array): void {
    this.hasContent = true;
    if (this.options.shape === "events") this.blocked = !this.write(part);
    else {
      this.flushHeld();
      this.held = part;
      this.flushHeldSoon();
    }
  }

  private flushHeldSoon(): void {
    setImmediate(() => this.flushHeld());
  }

  private flushHeld(): void {
    const { held } = this;
    if (held === null || this.over || this.blocked) return;
    this.held = null;
    this.blocked = !this.write(held);
  }

  /** An exception in a source must not leave its call open. */
  private bugOf(error: unknown): Failure {
    const detail = error instanceof Error ? error.message : String(error);
    const bug = failure("internal", `a stream broke: ${detail}`);
    this.cancel(bug);
    return bug;
  }

  private errorOf(cause: Failure): Uint8Array {
    return errorEvent(cause, this.options.requestId, this.options.errors, this.source.place);
  }

  private write(bytes: Uint8Array): boolean {
    this.wroteMs = this.options.ports.nowMs();
    return this.out?.write(bytes) ?? true;
  }

  private arm(): void {
    const { keepAliveMs, writeStallMs, ports } = this.options;
    const nowMs = ports.nowMs();
    const patienceMs = Math.min(keepAliveMs > 0 ? keepAliveMs : Infinity, writeStallMs);
    const silentMs = nowMs - this.wroteMs;
    ports.timers.set(this.timer, silentMs >= patienceMs ? patienceMs : patienceMs - silentMs, nowMs);
  }

  /** Sends a keep-alive if the source has been silent for long, and cuts off a client that has been. */
  checkSilence(): void {
    if (this.over) return;
    const { keepAliveMs, writeStallMs, ports, shape } = this.options;
    if (!this.pulling) this.wroteMs = Math.max(this.wroteMs, this.out?.flush() ?? 0);
    const silentMs = ports.nowMs() - this.wroteMs;
    if (this.pulling && keepAliveMs > 0 && silentMs >= keepAliveMs) this.sendKeepAlive();
    if (!this.pulling && silentMs >= writeStallMs) {
      const reason = failure("client_gone", `the client took no bytes for ${writeStallMs} ms`, { message: stalledMessage });
      // A client that resumes in time for the last bytes must not take the cut for the end of the response.
      if (shape === "events") this.write(this.errorOf(reason));
      this.end(reason);
      this.out?.abort(shape === "events");
      return;
    }
    this.arm();
  }

  private end(reason: Failure | null): void {
    if (this.over) return;
    this.over = true;
    this.options.ports.timers.clear(this.timer);
    if (reason !== null) this.cancel(reason);
    this.owner.ended();
  }

  /**
   * Cancels the call before the source: the source writes the record, and an attempt that is about to take over must be cancelled by
   * then.
   */
  private cancel(reason: Failure): void {
    this.owner.cancelled(reason);
    this.source.cancel(reason);
  }
}

/** Without a closure, because a gateway may hold thousands of streams. */
class SilenceTimer implements Timer {
  slot = 0;

  constructor(private readonly stream: { checkSilence(): void }) {}

  fire(): void {
    this.stream.checkSilence();
  }
}

const stalledMessage = "The stream was closed because the client read nothing for too long.";
