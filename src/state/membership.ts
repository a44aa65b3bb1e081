import type { DistributedCounts } from "../limits/distributed-counts.ts";
import type { StoreGuard } from "./store-guard.ts";

export interface MembershipOptions {
  readonly counts: Pick<DistributedCounts, "heartbeat" | "leave">;
  readonly guard: Pick<StoreGuard, "run">;
  /** Names this process among the others. */
  readonly process: string;
  /** How many processes, with this one, start together. They count before they have announced themselves. */
  readonly startTogether?: number;
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly everyMs?: number;
}

/**
 * How many processes share the counts: the highest number that was seen lately. A store that was restarted empty does not know the
 * others for a moment, and a lost one does not answer; neither must make a process assume that it is alone.
 */
export class Membership {
  private readonly everyMs: number;
  private seen: readonly { readonly count: number; readonly atMs: number }[];
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: MembershipOptions) {
    this.everyMs = options.everyMs ?? 2_000;
    this.seen = [{ count: options.startTogether ?? 1, atMs: options.nowMs() }];
    void this.round();
  }

  readonly count = (): number => Math.max(1, ...this.seen.map(({ count }) => count));

  /** Announces this process. It is also the probe of the guard. */
  async heartbeat(): Promise<void> {
    const count = await this.options.counts.heartbeat(this.options.process, this.everyMs * roundsKept);
    const atMs = this.options.nowMs();
    this.seen = [...this.seen.filter((earlier) => atMs - earlier.atMs < this.everyMs * roundsKept), { count, atMs }];
  }

  /** A process is known to have left, so earlier numbers do not count any more. */
  readonly recount = async (): Promise<void> => {
    const before = this.seen;
    await this.options.guard.run(() => this.heartbeat());
    this.seen = this.seen.filter((one) => !before.includes(one));
  };

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer();
    await this.options.guard.run(() => this.options.counts.leave(this.options.process)).catch(() => {});
  }

  private async round(): Promise<void> {
    // The guard handles a lost store. The last count stays.
    await this.options.guard.run(() => this.heartbeat()).catch(() => {});
    if (!this.stopped) this.cancelTimer = this.options.after(this.everyMs, () => void this.round());
  }
}

/** A process that is busy for a few rounds is still counted. */
const roundsKept = 6;
