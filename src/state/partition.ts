import type { DistributedAbsences, DistributedCounts } from "../limits/distributed-counts.ts";
import type { StoreGuard } from "./store-guard.ts";

export interface PartitionOptions {
  readonly absences: DistributedAbsences;
  readonly counts: Pick<DistributedCounts, "leave">;
  readonly guard: Pick<StoreGuard, "run" | "lostSinceMs">;
  /** Names this process among the others. */
  readonly process: string;
  /** How many processes share the counts, as of the last answer. */
  readonly processes: () => number;
  /** Counts them again, after one left. */
  readonly recount: () => Promise<unknown>;
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly everyMs?: number;
  /** How long use stays counted. */
  readonly windowMs?: number;
}

/**
 * Handles the case that some processes reach the shared counts and others do not. Those that do not announce it in the database,
 * and the others leave them their part of every limit, because otherwise all together would exceed it. The others may have used
 * all of a limit before they read the announcement, so a process without the counts uses only a small share at first. It gets its
 * whole part when what the others used before they knew has left the window, or before that if all processes lost the counts
 * together. One that loses them later may have used all of a limit in between, and one that loses them for a moment uses them again.
 */
export class Partition {
  private readonly everyMs: number;
  private readonly windowMs: number;
  /** The others that do not reach the counts, and those of them that were removed from the number of processes. */
  private absent: readonly string[] = [];
  private removed: readonly string[] = [];
  /** When this process first read that none of the others reaches the counts, and whether it has read it again since. */
  private allAbsentMs: number | null = null;
  private allStillAbsent = false;
  /** When this process announced that it does not reach the counts. */
  private notedMs: number | null = null;
  private inRound = false;
  private lastRoundMs = Number.NEGATIVE_INFINITY;
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: PartitionOptions) {
    this.everyMs = options.everyMs ?? 1_000;
    this.windowMs = options.windowMs ?? 61_000;
    this.later();
  }

  /** The number of processes, whether they reach the counts or not. */
  readonly allProcesses = (): number => this.options.processes() + this.removed.length;

  /** The share of a limit that belongs to the processes which reach the counts. */
  readonly share = (): number => {
    if (this.absent.length === 0) return 1;
    const all = this.allProcesses();
    return Math.max(1, all - this.absent.length) / all;
  };

  /** The share of a limit that this process may use without reporting it, while it does not reach the counts. */
  readonly unreportedShare = (): number => {
    const { guard, nowMs } = this.options;
    const others = this.allProcesses() - 1;
    const lostMs = guard.lostSinceMs;
    if (lostMs !== null && this.notedMs === null && nowMs() - lostMs >= this.everyMs * announceShare) this.roundNow();
    if (others <= 0) return Infinity;
    const sinceMs = this.notedMs ?? lostMs;
    if (this.absent.length >= others && this.allLostTogether(sinceMs)) return Infinity;
    if (sinceMs !== null && nowMs() - sinceMs >= this.windowMs + this.everyMs * roundsToHear) return Infinity;
    return excess / others;
  };

  private allLostTogether(sinceMs: number | null): boolean {
    if (this.allAbsentMs === null || !this.allStillAbsent) return false;
    return sinceMs === null || this.allAbsentMs - sinceMs <= this.everyMs * roundsTogether;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer();
    if (this.notedMs !== null) await this.options.absences.end(this.options.process).catch(() => {});
  }

  /** Announces it without waiting for the next round; but not too often. */
  private roundNow(): void {
    if (this.inRound || this.stopped || this.options.nowMs() - this.lastRoundMs < this.everyMs * announceShare) return;
    this.cancelTimer();
    void this.round().then(() => this.later());
  }

  private later(): void {
    if (!this.stopped) this.cancelTimer = this.options.after(this.everyMs, () => void this.round().then(() => this.later()));
  }

  private async round(): Promise<void> {
    this.inRound = true;
    try {
      await this.exchange();
    } catch {
      // Without the database, the last known state is used.
    }
    this.inRound = false;
    this.lastRoundMs = this.options.nowMs();
  }

  private async exchange(): Promise<void> {
    const { absences, guard, process, nowMs } = this.options;
    const lostMs = guard.lostSinceMs;
    if (lostMs !== null && nowMs() - lostMs >= this.everyMs * announceShare) {
      await absences.note(process, this.everyMs * roundsKept);
      this.notedMs ??= nowMs();
    } else if (lostMs === null && this.notedMs !== null) {
      await absences.end(process);
      this.notedMs = null;
    }
    const absent = (await absences.read()).filter((id) => id !== process);
    this.absent = absent;
    this.removed = this.removed.filter((id) => absent.includes(id));
    const allAbsent = absent.length >= this.allProcesses() - 1;
    this.allStillAbsent = allAbsent && this.allAbsentMs !== null;
    this.allAbsentMs = allAbsent ? (this.allAbsentMs ?? nowMs()) : null;
    if (guard.lostSinceMs === null && this.removed.length < absent.length) await this.removeAbsent();
  }

  /** Removes the absent processes from the number of processes. */
  private async removeAbsent(): Promise<void> {
    const { absent } = this;
    const { counts, guard, recount } = this.options;
    for (const id of absent) if (!this.removed.includes(id)) await guard.run(() => counts.leave(id));
    await recount();
    this.removed = absent;
  }
}

/** What all processes without the counts may use beyond a limit, together. */
const excess = 0.2;
/** A loss that is shorter than this part of a round is not announced. */
const announceShare = 0.3;
/** After so many rounds every process has read the announcement. */
const roundsToHear = 5;
/** Processes that lose the counts at the same time have announced it, and read of each other, after so many rounds. */
const roundsTogether = 3;
const roundsKept = 10;
