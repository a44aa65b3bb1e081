import type { DistributedCounts } from "../limits/distributed-counts.ts";
import type { StoreGuard } from "./store-guard.ts";

export interface MembershipOptions {
  readonly counts: Pick<DistributedCounts, "heartbeat" | "leave">;
  readonly guard: Pick<StoreGuard, "run">;
  /** Names this process among the others. */
  readonly process: string;
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly everyMs?: number;
}

/**
 * How many processes share the counts. The most that were seen of late: a store that restarts empty forgets the others for
 * a moment, and a lost one says nothing at all, which must not make anybody think it is alone.
 */
export class Membership {
  private readonly everyMs: number;
  private seen: readonly { readonly count: number; readonly atMs: number }[] = [];
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: MembershipOptions) {
    this.everyMs = options.everyMs ?? 2_000;
    void this.round();
  }

  readonly count = (): number => Math.max(1, ...this.seen.map(({ count }) => count));

  /** Says that this process is there. For the guard's probe too. */
  async heartbeat(): Promise<void> {
    const count = await this.options.counts.heartbeat(this.options.process, this.everyMs * roundsKept);
    const atMs = this.options.nowMs();
    this.seen = [...this.seen.filter((earlier) => atMs - earlier.atMs < this.everyMs * roundsKept), { count, atMs }];
  }

  /** Somebody is known to have left: what was seen before does not count any more. */
  readonly recount = async (): Promise<void> => {
    const before = this.seen;
    await this.options.guard.run(() => this.heartbeat());
    this.seen = this.seen.filter((look) => !before.includes(look));
  };

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer();
    await this.options.guard.run(() => this.options.counts.leave(this.options.process)).catch(() => {});
  }

  private async round(): Promise<void> {
    // A lost store is the guard's concern; the last count stands.
    await this.options.guard.run(() => this.heartbeat()).catch(() => {});
    if (!this.stopped) this.cancelTimer = this.options.after(this.everyMs, () => void this.round());
  }
}

/** One that is busy for a while is not forgotten. */
const roundsKept = 6;
