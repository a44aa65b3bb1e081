/** Why a shared store was not asked, or did not answer in time. */
export class StoreLost extends Error {
  constructor(message: string) {
    super(message);
    this.name = "StoreLost";
  }
}

export interface StoreGuardOptions {
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Finds out whether the store is back. Calls never do: they go on without it until it is. */
  readonly probe: () => Promise<unknown>;
  /** Is told that an answer did not come in time: the connection that it would have come on is no good any more. */
  readonly overdue?: () => void;
  /** Is told when the store is given up, and when it is back. */
  readonly notice?: (lost: boolean, reason: string) => void;
  readonly deadlineMs?: number;
  readonly failuresMax?: number;
  readonly skipMs?: number;
}

/**
 * Stands between calls and a store that may be gone, slow or frozen, so that it costs few of them a deadline and the rest
 * nothing. After one failure it lets one through at a time; after a few in a row nobody, until a probe of its own was answered.
 * While replies fail to come and some already wait, newcomers do not join them.
 */
export class StoreGuard {
  private readonly deadlineMs: number;
  private readonly failuresMax: number;
  private readonly skipMs: number;
  /** In the order in which they began. */
  private readonly waiting = new Map<symbol, { readonly beganMs: number; readonly fail: (error: Error) => void }>();
  private failures = 0;
  private skipping = false;
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: StoreGuardOptions) {
    this.deadlineMs = options.deadlineMs ?? 100;
    this.failuresMax = options.failuresMax ?? 5;
    this.skipMs = options.skipMs ?? 10_000;
  }

  /** Whether asking the store makes sense now. */
  get open(): boolean {
    if (this.skipping || this.stopped) return false;
    if (this.failures > 0) return this.waiting.size === 0;
    if (this.waiting.size < waitersMax) return true;
    const [oldest] = this.waiting.values();
    return oldest === undefined || this.options.nowMs() - oldest.beganMs < this.deadlineMs * stalledShare;
  }

  health(): "ok" | "degraded" {
    return this.skipping || this.failures > 0 ? "degraded" : "ok";
  }

  /** Rejects with `StoreLost` when there is no answer in time. One that comes later is handed to `late`, to be undone. */
  async run<T>(work: () => Promise<T>, late: (value: T) => void = () => {}): Promise<T> {
    if (!this.open) throw new StoreLost("The shared store is not asked at the moment.");
    return this.attempt(work, late);
  }

  stop(): void {
    this.stopped = true;
    this.cancelTimer();
    for (const fail of this.waiting.values().map((turn) => turn.fail)) fail(new StoreLost("The gateway stops."));
    this.waiting.clear();
  }

  private attempt<T>(work: () => Promise<T>, late: (value: T) => void): Promise<T> {
    const turn = Symbol("turn");
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.waiting.set(turn, { beganMs: this.options.nowMs(), fail: reject });
    const cancel = this.options.after(this.deadlineMs, () => {
      if (!this.waiting.delete(turn)) return;
      const message = `The shared store did not answer within ${this.deadlineMs} ms.`;
      this.failed(message);
      reject(new StoreLost(message));
      this.options.overdue?.();
    });
    work().then(
      (value) => {
        if (!this.waiting.delete(turn)) return late(value);
        cancel();
        this.failures = 0;
        resolve(value);
      },
      (error: unknown) => {
        if (!this.waiting.delete(turn)) return;
        cancel();
        const message = `The shared store failed: ${error instanceof Error ? error.message : String(error)}`;
        this.failed(message);
        reject(new StoreLost(message));
      },
    );
    return promise;
  }

  private failed(reason: string): void {
    if (this.stopped) return;
    this.failures += 1;
    if (this.skipping || this.failures < this.failuresMax) return;
    this.skipping = true;
    this.options.notice?.(true, reason);
    this.probeLater();
  }

  private probeLater(): void {
    this.cancelTimer = this.options.after(this.skipMs, () => void this.probe());
  }

  private async probe(): Promise<void> {
    try {
      await this.attempt(this.options.probe, () => {});
    } catch {
      if (!this.stopped) this.probeLater();
      return;
    }
    if (this.stopped) return;
    this.skipping = false;
    this.options.notice?.(false, "It answers again.");
  }
}

/** So many may wait for a store that has stopped answering; those that come later go on without it. */
const waitersMax = 5;
/** No store that is well needs this part of the deadline. */
const stalledShare = 0.25;
