import { BoundedMap } from "../../gateway/upstream-state/bounded-map.ts";
import type { CountCorrection, DistributedCounts } from "../../limits/distributed-counts.ts";
import type { StoreGuard } from "../store-guard.ts";

/**
 * What must still be reported to the store: amounts that were returned, amounts used beyond what was taken, and what was admitted
 * while the store was lost. It is sent in batches, one command for each limit.
 */
export class CountCorrections {
  private readonly pending = new BoundedMap<string, PendingCorrection>(pendingMax);
  /** The unreported amounts that are being sent. */
  private readonly sending = new Map<string, number>();

  constructor(
    private readonly counts: Pick<DistributedCounts, "correct">,
    private readonly guard: Pick<StoreGuard, "run" | "open">,
    private readonly nowMs: () => number,
    private readonly windowMs: number,
    /** What this process used of a limit in the last minute, which is an upper bound of what is unreported. */
    private readonly usedHere: (id: string) => number,
  ) {}

  get size(): number {
    return this.pending.size;
  }

  /** `slot`: the slot of time to correct; null is the current one. */
  add(id: string, slot: number | null, by: number): void {
    if (by === 0) return;
    const { bySlot } = this.entry(id);
    bySlot.set(slot, (bySlot.get(slot) ?? 0) + by);
  }

  /** Adds an amount that was admitted without the store. */
  addUnreported(id: string, amount: number): void {
    if (amount !== 0) this.entry(id).unreported += amount;
  }

  /** The store has lost its counts. Reports all that was used here, instead of the pending corrections. */
  resend(id: string, used: readonly { readonly ago: number; readonly amount: number }[]): void {
    this.pending.delete(id);
    if (used.length > 0) this.entry(id).used = used;
  }

  /** What was used of a limit that the store does not know of yet. */
  unreportedOf(id: string): number {
    const entry = this.pending.get(id);
    return (entry === undefined ? 0 : entry.unreported + excessOf(entry)) + (this.sending.get(id) ?? 0);
  }

  /** A call was settled for less than was admitted. */
  reduceUnreported(id: string, amount: number): void {
    const entry = this.pending.get(id);
    if (entry !== undefined) entry.unreported = Math.max(0, entry.unreported - amount);
  }

  async flushAll(): Promise<void> {
    while (this.pending.size > 0 && this.guard.open) await this.flush();
  }

  async flush(): Promise<void> {
    const nowMs = this.nowMs();
    const sent: Promise<void>[] = [];
    for (const [id, entry] of this.pending) {
      if (!this.guard.open || sent.length >= sentAtOnce) break;
      this.pending.delete(id);
      if (nowMs - entry.changedMs < this.windowMs) sent.push(this.send(id, entry));
    }
    await Promise.all(sent);
  }

  private async send(id: string, { bySlot, unreported, used }: PendingCorrection): Promise<void> {
    const stillUsed = Math.min(unreported, this.usedHere(id));
    const changes: readonly CountCorrection[] = [...bySlot].map(([slot, by]) => ({ slot, by })).filter(({ by }) => by !== 0);
    const resent = used.map(({ ago, amount }): CountCorrection => ({ slot: null, ago, by: amount }));
    const all: readonly CountCorrection[] = [...resent, ...changes, ...(stillUsed > 0 ? [{ slot: null, by: stillUsed }] : [])];
    if (all.length === 0) return;
    this.sending.set(id, stillUsed + excessOf({ bySlot }));
    try {
      await this.guard.run(() => this.counts.correct(id, all));
    } catch {
      // The store may have applied it all the same. Counting twice is safer than returning twice, and ends with the window.
      for (const { slot, by } of changes) if (by > 0) this.add(id, slot, by);
      this.addUnreported(id, stillUsed);
      if (used.length > 0) this.entry(id).used = used;
    }
    this.sending.delete(id);
  }

  private entry(id: string): PendingCorrection {
    let entry = this.pending.get(id);
    if (entry === undefined) {
      this.pending.set(id, (entry = { bySlot: new Map(), unreported: 0, used: [], changedMs: 0 }));
    }
    entry.changedMs = this.nowMs();
    return entry;
  }
}

interface PendingCorrection {
  readonly bySlot: Map<number | null, number>;
  unreported: number;
  used: readonly { readonly ago: number; readonly amount: number }[];
  changedMs: number;
}

/** What calls used beyond what was taken for them. */
function excessOf({ bySlot }: Pick<PendingCorrection, "bySlot">): number {
  return Math.max(0, bySlot.get(null) ?? 0);
}

const pendingMax = 50_000;
const sentAtOnce = 200;
