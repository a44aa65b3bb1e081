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
  /** Called when an answer did not come in time. The connection should not be used any more. */
  readonly overdue?: () => void;
  /** Called when the store counts as lost, and when it is back. */
  readonly notice?: (lost: boolean, reason: string) => void;
  readonly deadlineMs?: number;
  /** No healthy store takes this long. */
  readonly stalledMs?: number;
  readonly failuresMax?: number;
  readonly skipMs?: number;
}

/**
 * A circuit breaker for a store that may be gone, slow or frozen, so that few calls wait for a deadline. After one failure it
 * lets one request through at a time; after a few in a row none, until its own probe was answered. While replies are overdue, only
 * a few requests go on waiting: new ones are rejected, and those beyond the first few are abandoned.
 */
export class StoreGuard {
  private readonly deadlineMs: number;
  private readonly failuresMax: number;
  private readonly skipMs: number;
  /** Requests without an answer, in the order in which they began. */
  private readonly waiting = new Map<symbol, WaitingRequest>();
  private failures = 0;
  private failedMs: number | null = null;
  private skipping = false;
  private stopped = false;
  private cancelTimer: () => void = () => {};
  private cancelAbandon: (() => void) | null = null;
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
    if (this.waiting.size < waitingMax) return true;
    const [oldest] = this.waiting.values();
    return oldest === undefined || this.options.nowMs() - oldest.beganMs < this.stalledMs;
  }

  /** When the first request failed since the last answer; null if none did. */
  get lostSinceMs(): number | null {
    return this.failedMs;
  }

  health(): "ok" | "degraded" {
    return this.skipping || this.failures > 0 ? "degraded" : "ok";
  }

  /** Rejects with `StoreLost` if there is no answer in time. An answer that comes later is handed to `late`, to be undone. */
  async run<T>(work: () => Promise<T>, late: (value: T) => void = () => {}): Promise<T> {
    if (!this.open) throw new StoreLost("The shared store is not asked at the moment.");
    return this.attempt(work, late);
  }

  stop(): void {
    this.stopped = true;
    this.cancelTimer();
    this.cancelAbandon?.();
    for (const { abandon } of this.waiting.values()) abandon(new StoreLost("The gateway stops."));
    this.waiting.clear();
  }

  private attempt<T>(work: () => Promise<T>, late: (value: T) => void): Promise<T> {
    const id = Symbol("request");
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const cancel = timerWithLagGrace(this.options, this.deadlineMs, () => {
      if (!this.waiting.delete(id)) return;
      const message = `The shared store did not answer within ${this.deadlineMs} ms.`;
      this.failed(message);
      reject(new StoreLost(message));
      this.options.overdue?.();
    });
    const abandon = (error: Error): void => {
      cancel();
      reject(error);
    };
    this.waiting.set(id, { beganMs: this.options.nowMs(), abandon });
    if (this.waiting.size > waitingMax) this.abandonLater(this.stalledMs);
    work().then(
      (value) => {
        if (!this.waiting.delete(id)) return late(value);
        cancel();
        this.failures = 0;
        this.failedMs = null;
        resolve(value);
      },
      (error: unknown) => {
        if (!this.waiting.delete(id)) return;
        cancel();
        const message = `The shared store failed: ${error instanceof Error ? error.message : String(error)}`;
        this.failed(message);
        reject(new StoreLost(message));
      },
    );
    return promise;
  }

  private abandonLater(ms: number): void {
    this.cancelAbandon ??= timerWithLagGrace(this.options, ms, () => {
      this.cancelAbandon = null;
      this.abandonMost();
    });
  }

  /** If the first of many requests has waited too long, all but the first few are abandoned. */
  private abandonMost(): void {
    const [oldest] = this.waiting.values();
    if (this.waiting.size <= waitingMax || oldest === undefined) return;
    const leftMs = oldest.beganMs + this.stalledMs - this.options.nowMs();
    if (leftMs > 0) return this.abandonLater(leftMs);
    for (const [id, { abandon }] of [...this.waiting].slice(waitingMax)) {
      this.waiting.delete(id);
      abandon(new StoreLost("The shared store keeps too many waiting."));
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

interface WaitingRequest {
  readonly beganMs: number;
  readonly abandon: (error: Error) => void;
}

/** How many requests may wait for a store that has stopped answering. */
const waitingMax = 5;
const stalledShare = 0.25;
