import type { SlotLease, DistributedCounts } from "../../limits/distributed-counts.ts";
import type { StoreGuard } from "../store-guard.ts";

/**
 * The slots that this process holds. One that its call has left stays here for a moment, so that the next call has it without a
 * word to the store; then it goes back, together with others. The store is told of those that are held again and again, so that
 * those of a dead process come back soon, and so that it learns of the ones that were taken while it was lost or that it forgot.
 */
export class SlotLeases {
  /** By limit and name, in use or not. */
  private readonly held = new Map<string, SlotLease>();
  /** Those that no call uses, by limit, and since when; the last that came is the first to be used again. */
  private readonly idle = new Map<string, Idle[]>();
  /** TakeResult without the store's knowledge: nobody else may have them when their call is over. */
  private readonly unseen = new Set<string>();
  /** Freed here, but the store does not know. It will, by itself, when their life ends. */
  private readonly unreleased = new Map<string, { readonly lease: SlotLease; readonly untilMs: number }>();
  private keeping: Promise<void> | null = null;
  private keptMs = 0;
  private readonly process = crypto.randomUUID();
  private serial = 0;

  constructor(
    private readonly counts: Pick<DistributedCounts, "renew" | "release">,
    private readonly guard: Pick<StoreGuard, "run" | "open">,
    private readonly nowMs: () => number,
    readonly ttlMs: number,
    /** For so long a slot that nobody uses stays here. */
    private readonly idleMs: number,
  ) {}

  /** Whether there is anything to be told, now or later. */
  get busy(): boolean {
    return this.held.size > 0 || this.unreleased.size > 0;
  }

  /** A slot to be asked for, and so many more for those who wait behind. */
  wanted(id: string, limit: number, more: number): SlotLease {
    return { id, limit, call: this.name(), ttlMs: this.ttlMs, more: Array.from({ length: more }, () => this.name()) };
  }

  /** The store took so many of the slots it was asked for: the first is in use, the others are there for those who wait. */
  arrived({ id, limit, call, ttlMs, more = [] }: SlotLease, count: number): SlotLease {
    const [first, ...others] = [call, ...more].slice(0, Math.max(1, count)).map((name): SlotLease => ({ id, limit, call: name, ttlMs }));
    for (const lease of others) {
      this.add(lease);
      this.rest(lease);
    }
    this.add(first!);
    return first!;
  }

  /** A slot for a call that was admitted without the store. */
  unseenOf(id: string, limit: number): SlotLease {
    const lease: SlotLease = { id, limit, call: this.name(), ttlMs: this.ttlMs };
    this.add(lease);
    this.unseen.add(nameOf(lease));
    return lease;
  }

  /** Whether there is one that no call uses. What was granted under another limit than now is not used again. */
  hasIdle(id: string, limit: number): boolean {
    return this.idle.get(id)?.at(-1)?.lease.limit === limit;
  }

  takeIdle(id: string, limit: number): SlotLease | null {
    if (!this.hasIdle(id, limit)) return null;
    const resting = this.idle.get(id)!;
    const { lease } = resting.pop()!;
    if (resting.length === 0) this.idle.delete(id);
    return lease;
  }

  /** Its call is over, or was not admitted after all. */
  leave(lease: SlotLease): void {
    const name = nameOf(lease);
    if (this.unseen.delete(name)) {
      this.held.delete(name);
      void this.release(lease.id, [lease], this.nowMs() + this.ttlMs);
    } else this.rest(lease);
  }

  /** The store took slots for a call that went on, or not, without them. */
  late({ id, limit, call, ttlMs, more = [] }: SlotLease): void {
    const leases = [call, ...more].map((name): SlotLease => ({ id, limit, call: name, ttlMs }));
    void this.release(id, leases, this.nowMs() + this.ttlMs);
  }

  /** Prolongs the slots when it is time, and frees those that nobody uses or that could not be freed before. */
  async tend(): Promise<void> {
    const nowMs = this.nowMs();
    for (const [name, { lease, untilMs }] of this.unreleased) {
      if (nowMs < untilMs && !this.guard.open) break;
      this.unreleased.delete(name);
      if (nowMs < untilMs) void this.release(lease.id, [lease], untilMs);
    }
    for (const [id, resting] of this.idle) this.freeIdle(id, resting, nowMs);
    if (this.held.size === 0 || nowMs - this.keptMs < this.ttlMs / 3 || !this.guard.open || this.keeping !== null) return;
    const before = this.keptMs;
    this.keptMs = nowMs;
    this.keeping = this.guard
      .run(() => this.counts.renew([...this.held.values()]))
      // It is tried again soon.
      .catch(() => void (this.keptMs = before));
    await this.keeping;
    this.keeping = null;
  }

  /** The store knows of none of them any more. */
  forgotten(): void {
    this.keptMs = Number.NEGATIVE_INFINITY;
  }

  async releaseAll(): Promise<void> {
    const leases = [...this.held.values(), ...this.unreleased.values().map(({ lease }) => lease)].slice(0, unreleasedMax);
    this.held.clear();
    this.idle.clear();
    this.unreleased.clear();
    const byId = Map.groupBy(leases, ({ id }) => id);
    await Promise.all([...byId].map(([id, some]) => this.release(id, some, 0)));
  }

  private name(): string {
    return `${this.process}-${(this.serial += 1)}`;
  }

  private add(lease: SlotLease): void {
    if (this.held.size === 0) this.keptMs = Math.max(this.keptMs, this.nowMs());
    this.held.set(nameOf(lease), lease);
  }

  private rest(lease: SlotLease): void {
    const resting = this.idle.get(lease.id);
    const idle: Idle = { lease, sinceMs: this.nowMs() };
    if (resting === undefined) this.idle.set(lease.id, [idle]);
    else resting.push(idle);
  }

  /** The first of them have rested longest. */
  private freeIdle(id: string, resting: Idle[], nowMs: number): void {
    const staying = resting.findIndex(({ sinceMs }) => nowMs - sinceMs < this.idleMs);
    const gone = resting.splice(0, staying < 0 ? resting.length : staying).map(({ lease }) => lease);
    if (resting.length === 0) this.idle.delete(id);
    if (gone.length === 0) return;
    for (const lease of gone) this.held.delete(nameOf(lease));
    void this.release(id, gone, nowMs + this.ttlMs);
  }

  private async release(id: string, leases: readonly SlotLease[], untilMs: number): Promise<void> {
    // To be prolonged after it was freed would hold it for nobody.
    if (this.keeping !== null) await this.keeping;
    try {
      await this.guard.run(() =>
        this.counts.release(
          id,
          leases.map(({ call }) => call),
        ),
      );
    } catch {
      if (untilMs <= this.nowMs()) return;
      for (const lease of leases) if (this.unreleased.size < unreleasedMax) this.unreleased.set(nameOf(lease), { lease, untilMs });
    }
  }
}

interface Idle {
  readonly lease: SlotLease;
  readonly sinceMs: number;
}

function nameOf({ id, call }: SlotLease): string {
  return `${id} ${call}`;
}

const unreleasedMax = 10_000;
