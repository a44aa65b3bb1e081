import { BoundedMap } from "../../gateway/upstream-state/bounded-map.ts";
import type { CountCorrection, DistributedCounts } from "../../limits/distributed-counts.ts";
import type { StoreGuard } from "../store-guard.ts";

/**
 * What the store must still be told: what was given back, what was used beyond what was taken, and what was admitted without
 * asking while the store was lost. It goes out in batches, one command for each limit.
 */
export class CountCorrections {
  private readonly pending = new BoundedMap<string, Pending>(pendingMax);
  /** What the store is being told now of what is owed. */
  private readonly telling = new Map<string, number>();

  constructor(
    private readonly counts: Pick<DistributedCounts, "correct">,
    private readonly guard: Pick<StoreGuard, "run" | "open">,
    private readonly nowMs: () => number,
    private readonly windowMs: number,
    /** What this process itself used of a limit in the last minute: nobody owes more. */
    private readonly usedHere: (id: string) => number,
  ) {}

  get size(): number {
    return this.pending.size;
  }

  /** `slot` null is now. */
  add(id: string, slot: number | null, by: number): void {
    if (by === 0) return;
    const { bySlot } = this.entry(id);
    bySlot.set(slot, (bySlot.get(slot) ?? 0) + by);
  }

  /** Admitted without the store's knowledge. */
  owe(id: string, amount: number): void {
    if (amount !== 0) this.entry(id).owed += amount;
  }

  /** The store has lost its counts: it is told all that was used here, and nothing of what was to be put right before. */
  retell(id: string, used: readonly { readonly ago: number; readonly amount: number }[]): void {
    this.pending.delete(id);
    if (used.length > 0) this.entry(id).used = used;
  }

  /** What was admitted of a limit that the store does not know of yet. */
  owedOf(id: string): number {
    const entry = this.pending.get(id);
    return (entry === undefined ? 0 : entry.owed + beyondOf(entry)) + (this.telling.get(id) ?? 0);
  }

  /** A call was settled for less than was admitted. */
  forgive(id: string, amount: number): void {
    const entry = this.pending.get(id);
    if (entry !== undefined) entry.owed = Math.max(0, entry.owed - amount);
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

  private async send(id: string, { bySlot, owed, used }: Pending): Promise<void> {
    const owedStill = Math.min(owed, this.usedHere(id));
    const changes: readonly CountCorrection[] = [...bySlot].map(([slot, by]) => ({ slot, by })).filter(({ by }) => by !== 0);
    const retold = used.map(({ ago, amount }): CountCorrection => ({ slot: null, ago, by: amount }));
    const all: readonly CountCorrection[] = [...retold, ...changes, ...(owedStill > 0 ? [{ slot: null, by: owedStill }] : [])];
    if (all.length === 0) return;
    this.telling.set(id, owedStill + beyondOf({ bySlot }));
    try {
      await this.guard.run(() => this.counts.correct(id, all));
    } catch {
      // It may have been done all the same. To count twice is safer than to give back twice, and is over in a minute.
      for (const { slot, by } of changes) if (by > 0) this.add(id, slot, by);
      this.owe(id, owedStill);
      if (used.length > 0) this.entry(id).used = used;
    }
    this.telling.delete(id);
  }

  private entry(id: string): Pending {
    let entry = this.pending.get(id);
    if (entry === undefined) {
      this.pending.set(id, (entry = { bySlot: new Map(), owed: 0, used: [], changedMs: 0 }));
    }
    entry.changedMs = this.nowMs();
    return entry;
  }
}

interface Pending {
  readonly bySlot: Map<number | null, number>;
  owed: number;
  used: readonly { readonly ago: number; readonly amount: number }[];
  changedMs: number;
}

/** What calls used beyond what was taken for them. */
function beyondOf({ bySlot }: Pick<Pending, "bySlot">): number {
  return Math.max(0, bySlot.get(null) ?? 0);
}

const pendingMax = 50_000;
const sentAtOnce = 200;
