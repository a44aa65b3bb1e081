import type { SharedAbsences } from "../limits/joint-absences.ts";
import type { SharedCounts } from "../limits/joint-counts.ts";
import type { StoreGuard } from "./store-guard.ts";

export interface PartitionOptions {
  readonly absences: SharedAbsences;
  readonly counts: Pick<SharedCounts, "leave">;
  readonly guard: Pick<StoreGuard, "run" | "health">;
  /** Names this process among the others. */
  readonly process: string;
  /** How many have the counts, as far as those tell. */
  readonly processes: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly everyMs?: number;
}

/**
 * Where some replicas reach the shared counts and others do not, those without go by their part of every limit, of which the
 * counts know nothing. They say so in the store, and the others leave those parts to them: else all together would admit
 * more than the limit.
 */
export class Partition {
  private readonly everyMs: number;
  private absent: readonly string[] = [];
  private noted = false;
  private stopped = false;
  private cancelTimer: () => void = () => {};

  constructor(private readonly options: PartitionOptions) {
    this.everyMs = options.everyMs ?? 2_000;
    this.later();
  }

  /** Which part of a limit belongs to those who have the counts. */
  readonly share = (): number => {
    if (this.absent.length === 0) return 1;
    const processes = this.options.processes();
    return processes / (processes + this.absent.length);
  };

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer();
    if (this.noted) await this.options.absences.end(this.options.process).catch(() => {});
  }

  private later(): void {
    if (!this.stopped) this.cancelTimer = this.options.after(this.everyMs, () => void this.round().then(() => this.later()));
  }

  private async round(): Promise<void> {
    const { absences, counts, guard, process } = this.options;
    try {
      if (guard.health() !== "ok") {
        await absences.note(process, this.everyMs * roundsKept);
        this.noted = true;
        return;
      }
      if (this.noted) {
        await absences.end(process);
        this.noted = false;
      }
      const absent = (await absences.read()).filter((id) => id !== process);
      // Those that were counted when they were last seen are not any more.
      const fresh = absent.filter((id) => !this.absent.includes(id));
      this.absent = absent;
      for (const id of fresh) await guard.run(() => counts.leave(id)).catch(() => {});
    } catch {
      // Without the store nobody knows better than before.
    }
  }
}

const roundsKept = 4;
