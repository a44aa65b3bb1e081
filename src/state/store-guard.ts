import { timerWithLagGrace } from "./lag-grace.ts";

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
  /** No store that is well takes so long. */
  readonly stalledMs?: number;
  readonly failuresMax?: number;
  readonly skipMs?: number;
}

/**
 * Stands between calls and a store that may be gone, slow or frozen, so that it costs few of them a deadline and the rest
 * nothing. After one failure it lets one through at a time; after a few in a row nobody, until a probe of its own was answered.
 * While replies fail to come only a few go on waiting: newcomers do not join them, and those that came with them are let go.
 */
export class StoreGuard {
  private readonly deadlineMs: number;
  private readonly failuresMax: number;
  private readonly skipMs: number;
  /** In the order in which they began. */
  private readonly waiting = new Map<symbol, Turn>();
  private failures = 0;
  private failedMs: number | null = null;
  private skipping = false;
  private stopped = false;
  private cancelTimer: () => void = () => {};
  private cancelThinning: (() => void) | null = null;
  readonly stalledMs: number;

  constructor(private readonly options: StoreGuardOptions) {
    this.deadlineMs = options.deadlineMs ?? 100;
    this.stalledMs = options.stalledMs ?? this.deadlineMs * stalledShare;
    this.failuresMax = options.failuresMax ?? 5;
    this.skipMs = options.skipMs ?? 10_000;
  }

  /** Whether asking the store makes sense now. */
  get open(): boolean {
    if (this.skipping || this.stopped) return false;
    if (this.failures > 0) return this.waiting.size === 0;
    if (this.waiting.size < waitersMax) return true;
    const [oldest] = this.waiting.values();
    return oldest === undefined || this.options.nowMs() - oldest.beganMs < this.stalledMs;
  }

  /** When the first failed after the last that was answered; null while all is well. */
  get lostSinceMs(): number | null {
    return this.failedMs;
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
    this.cancelThinning?.();
    for (const { letGo } of this.waiting.values()) letGo(new StoreLost("The gateway stops."));
    this.waiting.clear();
  }

  private attempt<T>(work: () => Promise<T>, late: (value: T) => void): Promise<T> {
    const turn = Symbol("turn");
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const cancel = timerWithLagGrace(this.options, this.deadlineMs, () => {
      if (!this.waiting.delete(turn)) return;
      const message = `The shared store did not answer within ${this.deadlineMs} ms.`;
      this.failed(message);
      reject(new StoreLost(message));
      this.options.overdue?.();
    });
    const letGo = (error: Error): void => {
      cancel();
      reject(error);
    };
    this.waiting.set(turn, { beganMs: this.options.nowMs(), letGo });
    if (this.waiting.size > waitersMax) this.thinLater(this.stalledMs);
    work().then(
      (value) => {
        if (!this.waiting.delete(turn)) return late(value);
        cancel();
        this.failures = 0;
        this.failedMs = null;
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

  private thinLater(ms: number): void {
    this.cancelThinning ??= timerWithLagGrace(this.options, ms, () => {
      this.cancelThinning = null;
      this.thin();
    });
  }

  /** When the first of many has waited for too long, all but the first few need not wait any longer. */
  private thin(): void {
    const [oldest] = this.waiting.values();
    if (this.waiting.size <= waitersMax || oldest === undefined) return;
    const leftMs = oldest.beganMs + this.stalledMs - this.options.nowMs();
    if (leftMs > 0) return this.thinLater(leftMs);
    for (const [turn, { letGo }] of [...this.waiting].slice(waitersMax)) {
      this.waiting.delete(turn);
      letGo(new StoreLost("The shared store keeps too many waiting."));
    }
  }

  private failed(reason: string): void {
    if (this.stopped) return;
    this.failures += 1;
    this.failedMs ??= this.options.nowMs();
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

interface Turn {
  readonly beganMs: number;
  readonly letGo: (error: Error) => void;
}

/** So many may wait for a store that has stopped answering; the others go on without it. */
const waitersMax = 5;
const stalledShare = 0.25;
