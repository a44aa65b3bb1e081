import { detached, PartQueue } from "./part-queue.ts";

/** The connection that a body arrives on. */
export interface FlowControl {
  pause(): void;
  resume(): void;
}

export interface BodyQueueLimits {
  /** The longest part that is handed to the reader. */
  readonly partBytesMax: number;
  /** How much may be queued before the connection is paused. */
  readonly queuedBytesMax: number;
}

/**
 * A body that is arriving. It is read from the network only as fast as it is consumed: the connection is paused while too much
 * of it is queued. `Cause` says why a body will never be complete.
 */
export class BodyQueue<Cause> {
  /** The unread parts: usually one, else a queue of them. */
  private only: Uint8Array | null = null;
  private parts: PartQueue | null = null;
  private waiting: ((part: Uint8Array | null | Cause) => void) | null = null;
  private isEnded = false;
  private cause: Cause | null = null;
  /** The connection is paused on behalf of this body. */
  private isPaused = false;

  constructor(
    private readonly flow: FlowControl,
    private readonly limits: BodyQueueLimits,
  ) {}

  /** All of it has arrived, though it may not have been read. */
  get isComplete(): boolean {
    return this.isEnded;
  }

  /** The whole body, if it has arrived in one part, as most do; else null. */
  whole(): Uint8Array | null {
    if (!this.isEnded) return null;
    return this.parts === null ? (this.takeOnly() ?? nothing) : this.parts.sole();
  }

  /** The next part, if it has arrived; null if it has not, or there is none. */
  ready(): Uint8Array | null {
    const part = this.parts === null ? this.takeOnly() : this.parts.shift(this.limits.partBytesMax);
    if (this.isPaused && this.parts!.bytes <= this.limits.queuedBytesMax / 2) this.resume();
    return part;
  }

  /** The next part; null at the clean end. */
  next(): Promise<Uint8Array | null | Cause> {
    const part = this.ready();
    if (part !== null) return Promise.resolve(part);
    if (this.isEnded) return Promise.resolve(null);
    if (this.cause !== null) return Promise.resolve(this.cause);
    this.onWait();
    return new Promise((resolve) => (this.waiting = resolve));
  }

  push(bytes: Uint8Array): void {
    const { partBytesMax, queuedBytesMax } = this.limits;
    if (bytes.length <= partBytesMax) {
      if (this.hand(bytes)) return;
      if (this.parts === null && this.only === null && bytes.length <= queuedBytesMax) return void (this.only = bytes);
    }
    const parts = this.queued(bytes);
    if (this.waiting !== null) this.hand(parts.shift(partBytesMax));
    if (parts.bytes <= queuedBytesMax || this.isPaused) return;
    this.isPaused = true;
    this.flow.pause();
  }

  end(): void {
    this.isEnded = true;
    this.hand(null);
  }

  /** Nothing more will arrive. What has arrived can still be read. */
  fail(cause: Cause): void {
    this.cause = cause;
    this.hand(cause);
  }

  /** The parts will not be read soon: they must not keep larger chunks in memory. */
  detach(): void {
    if (this.only !== null) this.only = detached(this.only);
    this.parts?.detach();
  }

  /** Lets the connection go on reading, if it is paused on behalf of this body. */
  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.flow.resume();
  }

  /** Called when the reader begins to wait for bytes. */
  protected onWait(): void {}

  protected discardQueued(): void {
    this.only = null;
    this.parts = null;
    this.resume();
  }

  /** Returns whether a reader was waiting. */
  private hand(part: Uint8Array | null | Cause): boolean {
    const { waiting } = this;
    this.waiting = null;
    waiting?.(part);
    return waiting !== null;
  }

  private queued(bytes: Uint8Array): PartQueue {
    const parts = (this.parts ??= new PartQueue());
    const before = this.takeOnly();
    if (before !== null) parts.push(before);
    parts.push(bytes);
    return parts;
  }

  private takeOnly(): Uint8Array | null {
    const { only } = this;
    this.only = null;
    return only;
  }
}

const nothing = new Uint8Array();
