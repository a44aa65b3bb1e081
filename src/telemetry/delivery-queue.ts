/** What waits to be sent to another system, and is sent in batches. It is bounded, and never makes anybody wait. */
export class DeliveryQueue<Item> {
  /** Items that arrived at their destination. */
  delivered = 0;
  /** Items that found the queue full. */
  dropped = 0;
  /** Items that were given up: refused, or tried too often. */
  failed = 0;
  private waiting: Item[] = [];
  private sending: Promise<void> | null = null;
  private disarm: (() => void) | null = null;
  /** Ends the wait between two tries. */
  private endPause: (() => void) | null = null;
  /** It takes nothing more. */
  private closed = false;
  /** Nothing is tried again. */
  private stopped = false;
  private stopping: Promise<void> | null = null;
  /** What is being sent, or waits for its next try. */
  private onItsWay: readonly Item[] = [];
  /** Nobody waits for what becomes of it any more. */
  private abandoned = false;

  constructor(private readonly options: DeliveryOptions<Item>) {}

  get size(): number {
    return this.waiting.length;
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /** Returns false if there was no room for it, or the queue is closed. An item that matters less is given a lower limit. */
  offer(item: Item, waitingMax = this.options.waitingMax): boolean {
    const { batchMax, batchMs, after } = this.options;
    if (this.waiting.length >= waitingMax || this.closed) {
      this.dropped += 1;
      return false;
    }
    this.waiting.push(item);
    if (this.sending !== null) return true;
    if (this.waiting.length >= batchMax) this.begin();
    else this.disarm ??= after(batchMs, () => this.begin());
    return true;
  }

  /** Takes no more, and delivers what waits as ever, with all tries. What is left after a while is lost for this reason. */
  async drain(reason: string): Promise<void> {
    this.closed = true;
    const cancel = this.options.after(drainMaxMs, () => void this.stop(reason));
    do {
      this.begin();
      await this.sending;
    } while (this.waiting.length > 0 && !this.stopped);
    cancel();
    await this.stopping;
  }

  /**
   * Takes no more, and tries once more to send what waits, now: there is no later. The first failure that may pass ends it, and the rest is
   * lost for this reason.
   */
  stop(reason: string): Promise<void> {
    return (this.stopping ??= this.sendOnce(reason));
  }

  private async sendOnce(reason: string): Promise<void> {
    const { batchMax, onLoss } = this.options;
    this.closed = this.stopped = true;
    this.disarm?.();
    this.disarm = null;
    this.endPause?.();
    await this.sending;
    let last: DeliveryResult["kind"] = "delivered";
    while (this.waiting.length > 0 && last !== "retry") last = await this.deliver(this.waiting.splice(0, batchMax));
    const left = this.waiting.splice(0);
    this.dropped += left.length;
    if (left.length > 0) onLoss(left.length, reason, left);
  }

  /** Gives up what is left, also what is on its way: the process ends and waits no longer. */
  abandon(): void {
    this.closed = this.stopped = true;
    this.abandoned = true;
    this.disarm?.();
    const left = [...this.onItsWay, ...this.waiting.splice(0)];
    this.onItsWay = [];
    this.dropped += left.length;
    if (left.length > 0) this.options.onLoss(left.length, abandonedReason, left);
  }

  private begin(): void {
    this.disarm?.();
    this.disarm = null;
    this.sending ??= this.send().finally(() => {
      this.sending = null;
      if (this.waiting.length > 0 && !this.stopped) this.disarm ??= this.options.after(this.options.batchMs, () => this.begin());
    });
  }

  private async send(): Promise<void> {
    const { batchMax } = this.options;
    do {
      const items = this.waiting.splice(0, batchMax);
      if (items.length > 0) await this.deliver(items);
    } while (this.waiting.length >= batchMax && !this.stopped);
  }

  private async deliver(items: readonly Item[]): Promise<DeliveryResult["kind"]> {
    this.onItsWay = items;
    const became = await this.tryToDeliver(items);
    this.onItsWay = [];
    return became;
  }

  /** Returns what became of the last try. */
  private async tryToDeliver(items: readonly Item[]): Promise<DeliveryResult["kind"]> {
    for (let tries = 1; ; tries += 1) {
      const result = await this.options.deliver(items);
      // Given up already, and told so.
      if (this.abandoned) return "retry";
      if (result.kind === "delivered") {
        // One item may consist of several that the other side counts.
        const rejected = Math.min(result.rejected, items.length);
        this.delivered += items.length - rejected;
        this.failed += rejected;
        if (rejected > 0) this.options.onLoss(rejected, result.reason, items);
        return result.kind;
      }
      if (result.kind === "refused" || tries >= this.options.triesMax || this.stopped) {
        this.failed += items.length;
        this.options.onLoss(items.length, result.reason, items);
        return result.kind;
      }
      // Never sooner than by our own reckoning: `Retry-After: 0` would use up all tries in a moment.
      await this.pause(Math.max(result.afterMs ?? 0, this.backoffMs(tries)));
    }
  }

  /** Grows with each try, and is random, so that many gateways do not return together. */
  private backoffMs(tries: number): number {
    return Math.min(backoffMaxMs, backoffFirstMs * 2 ** (tries - 1)) * (0.5 + this.options.dice());
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.options.after(Math.min(ms, askedWaitMaxMs), resolve);
      this.endPause = () => {
        cancel();
        resolve();
      };
    });
  }
}

export interface DeliveryOptions<Item> {
  /** Never rejects. */
  readonly deliver: (items: readonly Item[]) => Promise<DeliveryResult>;
  /** Called when items are given up: so many of these. */
  readonly onLoss: (count: number, reason: string, items: readonly Item[]) => void;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly dice: () => number;
  readonly waitingMax: number;
  readonly batchMax: number;
  /** How long an item waits for others. */
  readonly batchMs: number;
  readonly triesMax: number;
}

export type DeliveryResult =
  /** `rejected`: how many of them the other side left out, for this reason. */
  | { readonly kind: "delivered"; readonly rejected: number; readonly reason: string }
  /** It may succeed later. `afterMs`: how long the other side asked to wait. */
  | { readonly kind: "retry"; readonly afterMs: number | null; readonly reason: string }
  | { readonly kind: "refused"; readonly reason: string };

/** Why something was lost that was not even tried at the end. */
export const endedReason = "the gateway ended before they could be sent";
/** Why something was lost that may still have arrived. */
export const abandonedReason = "the gateway ended before they were delivered";
const backoffFirstMs = 1_000;
const backoffMaxMs = 60_000;
const drainMaxMs = 600_000;
/** The longest wait that another system can ask for. */
export const askedWaitMaxMs = 300_000;
