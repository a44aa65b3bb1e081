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
  private stopped = false;

  constructor(private readonly options: DeliveryOptions<Item>) {}

  get size(): number {
    return this.waiting.length;
  }

  offer(item: Item): void {
    const { waitingMax, batchMax, batchMs, after } = this.options;
    if (this.waiting.length >= waitingMax || this.stopped) {
      this.dropped += 1;
      return;
    }
    this.waiting.push(item);
    if (this.sending !== null) return;
    if (this.waiting.length >= batchMax) this.begin();
    else this.disarm ??= after(batchMs, () => this.begin());
  }

  /** Takes no more, and tries once more to send what waits. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.sending;
    if (this.waiting.length > 0) await this.send(1);
    this.dropped += this.waiting.length;
    this.waiting = [];
  }

  private begin(): void {
    this.disarm?.();
    this.disarm = null;
    this.sending ??= this.send(this.options.triesMax).finally(() => {
      this.sending = null;
      if (this.waiting.length > 0 && !this.stopped) this.disarm ??= this.options.after(this.options.batchMs, () => this.begin());
    });
  }

  private async send(triesMax: number): Promise<void> {
    const { batchMax } = this.options;
    do {
      const items = this.waiting.splice(0, batchMax);
      if (items.length > 0) await this.deliver(items, triesMax);
    } while (this.waiting.length >= batchMax && !this.stopped);
  }

  private async deliver(items: readonly Item[], triesMax: number): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const result = await this.options.deliver(items);
      if (result.kind === "delivered") {
        // One item may consist of several that the other side counts.
        const rejected = Math.min(result.rejected, items.length);
        this.delivered += items.length - rejected;
        this.failed += rejected;
        return;
      }
      if (result.kind === "refused" || tries >= triesMax || this.stopped) {
        this.failed += items.length;
        this.options.onLoss(items.length, result.reason);
        return;
      }
      await this.pause(result.afterMs ?? this.backoffMs(tries));
    }
  }

  /** Grows with each try, and is random, so that many gateways do not return together. */
  private backoffMs(tries: number): number {
    return Math.min(backoffMaxMs, backoffFirstMs * 2 ** (tries - 1)) * (0.5 + this.options.dice());
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.options.after(Math.min(ms, askedWaitMaxMs), resolve));
  }
}

export interface DeliveryOptions<Item> {
  /** Never rejects. */
  readonly deliver: (items: readonly Item[]) => Promise<DeliveryResult>;
  /** Called when items are given up. */
  readonly onLoss: (items: number, reason: string) => void;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly dice: () => number;
  readonly waitingMax: number;
  readonly batchMax: number;
  /** How long an item waits for others. */
  readonly batchMs: number;
  readonly triesMax: number;
}

export type DeliveryResult =
  | { readonly kind: "delivered"; readonly rejected: number }
  /** It may succeed later. `afterMs`: how long the other side asked to wait. */
  | { readonly kind: "retry"; readonly afterMs: number | null; readonly reason: string }
  | { readonly kind: "refused"; readonly reason: string };

const backoffFirstMs = 1_000;
const backoffMaxMs = 60_000;
const askedWaitMaxMs = 300_000;
