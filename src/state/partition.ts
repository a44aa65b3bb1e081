import type { DistributedAbsences, DistributedCounts } from "../limits/distributed-counts.ts";
import type { StoreGuard } from "./store-guard.ts";

export interface PartitionOptions {
  readonly absences: DistributedAbsences;
  readonly counts: Pick<DistributedCounts, "leave">;
  readonly guard: Pick<StoreGuard, "run" | "lostSinceMs">;
  /** Names this process among the others. */
  readonly process: string;
  /** How many share the counts, as far as those told when they were last asked. */
  readonly processes: () => number;
  /** Has them counted anew, after somebody left. */
  readonly recount: () => Promise<unknown>;
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly everyMs?: number;
  /** For so long what was used counts. */
  readonly windowMs?: number;
}

/**
 * Where some replicas reach the shared counts and others do not, those without say so in the store, and the others leave them
 * their part of every limit: else all together would admit more than it. The others may have used all of a limit before they
 * heard of it, though. So a process without the counts uses only a little at first: as much as may be too much in any case. It
 * has its whole part as soon as nobody has the counts, or else when all that the others used before they heard no longer counts.
 */
export class Partition {
  private readonly everyMs: number;
  private readonly windowMs: number;
  /** The others that are without the counts, and those of them that are not among the processes any more. */
  private absent: readonly string[] = [];
  private left: readonly string[] = [];
  /** Since when the store has known that this process is without the counts. */
  private notedMs: number | null = null;
  private rounding = false;
  private roundedMs = Number.NEGATIVE_INFINITY;
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: PartitionOptions) {
    this.everyMs = options.everyMs ?? 1_000;
    this.windowMs = options.windowMs ?? 61_000;
    this.later();
  }

  /** How many there are, with the counts or without. */
  readonly everybody = (): number => this.options.processes() + this.left.length;

  /** Which part of a limit belongs to those who have the counts. */
  readonly share = (): number => {
    if (this.absent.length === 0) return 1;
    const everybody = this.everybody();
    return Math.max(1, everybody - this.absent.length) / everybody;
  };

  /** Which part of a limit this process may use that the counts do not know of, while it is without them. */
  readonly unseen = (): number => {
    const { guard, nowMs } = this.options;
    const others = this.everybody() - 1;
    const lostMs = guard.lostSinceMs;
    if (lostMs !== null && this.notedMs === null && nowMs() - lostMs >= this.everyMs * hurryShare) this.hurry();
    if (others <= 0 || this.absent.length >= others) return Infinity;
    const sinceMs = this.notedMs ?? lostMs;
    if (sinceMs !== null && nowMs() - sinceMs >= this.windowMs + this.everyMs * roundsToHear) return Infinity;
    return excess / others;
  };

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer();
    if (this.notedMs !== null) await this.options.absences.end(this.options.process).catch(() => {});
  }

  /** The sooner the others hear of it, the better; but not more often than that. */
  private hurry(): void {
    if (this.rounding || this.stopped || this.options.nowMs() - this.roundedMs < this.everyMs * hurryShare) return;
    this.cancelTimer();
    void this.round().then(() => this.later());
  }

  private later(): void {
    if (!this.stopped) this.cancelTimer = this.options.after(this.everyMs, () => void this.round().then(() => this.later()));
  }

  private async round(): Promise<void> {
    this.rounding = true;
    try {
      await this.exchange();
    } catch {
      // Without the store nobody knows better than before.
    }
    this.rounding = false;
    this.roundedMs = this.options.nowMs();
  }

  private async exchange(): Promise<void> {
    const { absences, guard, process, nowMs } = this.options;
    const lostMs = guard.lostSinceMs;
    if (lostMs !== null && nowMs() - lostMs >= this.everyMs * hurryShare) {
      await absences.note(process, this.everyMs * roundsKept);
      this.notedMs ??= nowMs();
    } else if (lostMs === null && this.notedMs !== null) {
      await absences.end(process);
      this.notedMs = null;
    }
    const absent = (await absences.read()).filter((id) => id !== process);
    this.absent = absent;
    this.left = this.left.filter((id) => absent.includes(id));
    if (guard.lostSinceMs === null && this.left.length < absent.length) await this.strike();
  }

  /** Those that were counted when they were last seen are not any more. */
  private async strike(): Promise<void> {
    const { absent } = this;
    const { counts, guard, recount } = this.options;
    for (const id of absent) if (!this.left.includes(id)) await guard.run(() => counts.leave(id));
    await recount();
    this.left = absent;
  }
}

/** What all those without the counts may use on top of a limit, together. */
const excess = 0.2;
/** A loss that is over so soon is not told to anybody. */
const hurryShare = 0.3;
/** By then all have heard who listen at all. */
const roundsToHear = 5;
const roundsKept = 10;
