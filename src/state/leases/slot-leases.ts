import { slotName, type DistributedCounts, type ReleasedSlots, type SlotLease } from "../../limits/distributed-counts.ts";
import type { LimitMemo, LimitRecord } from "../../limits/rate-limit-store.ts";
import type { StoreGuard } from "../store-guard.ts";

/**
 * The concurrency slots that this process holds. When a call ends, its slot stays here for a moment, so that the next call gets it
 * without a request to the store; then it is released, together with others. The leases are renewed regularly, so that those of a
 * dead process end soon, and the store learns of slots that were taken while it was lost.
 */
export class SlotLeases {
  /** By limit and name, in use or not. Those that were granted or renewed longest ago come first. */
  private readonly held = new Map<string, HeldSlot>();
  /** By limit, of those slots. */
  private readonly pools = new Map<string, SlotPool>();
  /** The pools that have idle slots. The one whose first slot has been idle longest comes first. */
  private readonly idlePools = new Set<SlotPool>();
  /** Slots that were taken without the store. They are not used again after their call. */
  private readonly unreported = new Set<string>();
  /** Slots that could not be released in the store. Their leases end there by themselves. */
  private readonly unreleased = new Map<string, { readonly lease: SlotLease; readonly untilMs: number }>();
  private renewing: Promise<void> | null = null;
  /** The store has lost them. */
  private renewsAll = false;
  private serial = 0;

  constructor(
    private readonly counts: Pick<DistributedCounts, "renew" | "release">,
    private readonly guard: Pick<StoreGuard, "run" | "open">,
    private readonly nowMs: () => number,
    readonly ttlMs: number,
    /** How long an idle slot stays here. It may be released a little earlier where that costs nothing. */
    private readonly idleMs: number,
    private readonly process: string = crypto.randomUUID(),
  ) {}

  /** Whether there is anything to renew or release. */
  get busy(): boolean {
    return this.held.size > 0 || this.unreleased.size > 0;
  }

  /** A request for one slot, and for more if other calls wait. */
  request(id: string, limit: number, more: number): SlotLease {
    return { id, limit, call: this.name(), ttlMs: this.ttlMs, more: Array.from({ length: more }, () => this.name()) };
  }

  /** The store granted so many of the requested slots. The first is in use, the others are idle. */
  granted({ id, limit, call, ttlMs, more = [] }: SlotLease, count: number): HeldSlot {
    const [first, ...others] = [call, ...more].slice(0, Math.max(1, count)).map((name): SlotLease => ({ id, limit, call: name, ttlMs }));
    for (const lease of others) makeIdle(this.idlePools, this.add(lease), this.nowMs());
    return this.add(first!);
  }

  /** A slot for a call that was admitted without the store. */
  unreportedSlot(id: string, limit: number): HeldSlot {
    const lease: SlotLease = { id, limit, call: this.name(), ttlMs: this.ttlMs };
    this.unreported.add(nameOf(lease));
    return this.add(lease);
  }

  /** The slots of a limit that are held here; undefined if none is. */
  pool(id: string, memo: LimitMemo | null = null): SlotPool | undefined {
    const known = memo?.held;
    if (known instanceof SlotPool && known.store === this && !known.isForgotten) return known;
    const pool = this.pools.get(id);
    if (memo !== null && pool !== undefined) memo.held = pool;
    return pool;
  }

  takeIdle(pool: SlotPool | undefined, limit: number): HeldSlot | null {
    if (!hasIdle(pool, limit)) return null;
    const slot = pool.idle.pop()!;
    if (pool.idle.length === 0) this.idlePools.delete(pool);
    return slot;
  }

  /** The call of the slot has ended, or was not admitted. */
  callEnded(slot: HeldSlot, nowMs = this.nowMs()): void {
    const { lease } = slot;
    if (this.unreported.size > 0 && this.unreported.delete(nameOf(lease))) {
      this.remove(slot);
      void this.release(lease.id, [lease], nowMs + this.ttlMs);
    } else makeIdle(this.idlePools, slot, nowMs);
  }

  /** The store granted slots too late, after the call had gone on without it; or its answer was lost, and it may have granted them. */
  late({ id, limit, call, ttlMs, more = [] }: SlotLease): void {
    const leases = [call, ...more].map((name): SlotLease => ({ id, limit, call: name, ttlMs }));
    void this.release(id, leases, this.nowMs() + this.ttlMs);
  }

  /** Idle slots that may be released with a request that is made anyway. It must call `notReleased` if that fails. */
  dueSlots(): readonly ReleasedSlots[] {
    // A renewal that is under way would take them again.
    if (this.renewing !== null) return [];
    const nowMs = this.nowMs();
    const due: ReleasedSlots[] = [];
    for (const pool of this.idlePools) {
      // Those that have been idle longest come first.
      if (due.length >= dueMax || nowMs - pool.idle[0]!.idleSinceMs < this.idleMs * dueShare) break;
      const leases = this.removeIdle(pool, nowMs, this.idleMs * dueShare);
      due.push({ id: pool.id, calls: leases.map(({ call }) => call) });
    }
    return due;
  }

  notReleased(slots: readonly ReleasedSlots[]): void {
    const untilMs = this.nowMs() + this.ttlMs;
    for (const { id, calls } of slots) {
      this.releaseLater(
        calls.map((call): SlotLease => ({ id, limit: 0, call, ttlMs: this.ttlMs })),
        untilMs,
      );
    }
  }

  /** Renews the leases when it is time, and releases idle slots and those that could not be released before. */
  async maintain(): Promise<void> {
    const nowMs = this.nowMs();
    for (const [name, { lease, untilMs }] of this.unreleased) {
      if (nowMs < untilMs && !this.guard.open) break;
      this.unreleased.delete(name);
      if (nowMs < untilMs) void this.release(lease.id, [lease], untilMs);
    }
    for (const pool of this.idlePools) this.freeIdle(pool, nowMs);
    if (!this.guard.open || this.renewing !== null) return;
    const leases = this.dueRenewals(nowMs);
    if (leases.length === 0) return;
    this.renewing = this.renew(leases, nowMs);
    await this.renewing;
    this.renewing = null;
  }

  /** The store has lost the leases, so they are renewed at once. */
  renewSoon(): void {
    this.renewsAll = true;
  }

  async releaseAll(): Promise<void> {
    const leases = [...this.held.values().map(({ lease }) => lease), ...this.unreleased.values().map(({ lease }) => lease)].slice(
      0,
      unreleasedMax,
    );
    for (const pool of this.pools.values()) pool.isForgotten = true;
    this.held.clear();
    this.pools.clear();
    this.idlePools.clear();
    this.unreleased.clear();
    const byId = Map.groupBy(leases, ({ id }) => id);
    await Promise.all([...byId].map(([id, some]) => this.release(id, some, 0)));
  }

  /**
   * None before the oldest needs it: a call that ends before costs no renewal. Then also those that would need it soon, in the same
   * command.
   */
  private dueRenewals(nowMs: number): readonly SlotLease[] {
    const oldest = this.held.values().next().value;
    if (oldest === undefined || !(this.renewsAll || nowMs - oldest.renewedMs >= this.ttlMs / 3)) return [];
    const leases: SlotLease[] = [];
    for (const { lease, renewedMs } of this.held.values()) {
      if (!this.renewsAll && nowMs - renewedMs < this.ttlMs / 12) break;
      leases.push(lease);
    }
    return leases;
  }

  /** If it fails, it is tried again soon. */
  private async renew(leases: readonly SlotLease[], nowMs: number): Promise<void> {
    const { renewsAll } = this;
    this.renewsAll = false;
    try {
      await this.guard.run(() => this.counts.renew(leases));
    } catch {
      this.renewsAll ||= renewsAll;
      return;
    }
    for (const lease of leases) {
      const name = nameOf(lease);
      const slot = this.held.get(name);
      if (slot === undefined) continue;
      slot.renewedMs = nowMs;
      this.held.delete(name);
      this.held.set(name, slot);
    }
  }

  private name(): string {
    return slotName(this.process, (this.serial += 1));
  }

  private add(lease: SlotLease): HeldSlot {
    let pool = this.pools.get(lease.id);
    if (pool === undefined) this.pools.set(lease.id, (pool = new SlotPool(this, lease.id)));
    const nowMs = this.nowMs();
    const slot: HeldSlot = { lease, pool, renewedMs: nowMs, idleSinceMs: nowMs };
    pool.held += 1;
    this.held.set(nameOf(lease), slot);
    return slot;
  }

  private remove({ lease, pool }: HeldSlot): void {
    // Those that were released when the process ended are gone already.
    if (!this.held.delete(nameOf(lease))) return;
    pool.held -= 1;
    if (pool.held > 0) return;
    pool.isForgotten = true;
    this.pools.delete(pool.id);
  }

  private freeIdle(pool: SlotPool, nowMs: number): void {
    const released = this.removeIdle(pool, nowMs, this.idleMs);
    if (released.length > 0) void this.release(pool.id, released, nowMs + this.ttlMs);
  }

  /** The first ones have been idle longest, both of a limit and among the limits. */
  private removeIdle(pool: SlotPool, nowMs: number, sinceMsMin: number): readonly SlotLease[] {
    const { idle } = pool;
    const keptFrom = idle.findIndex(({ idleSinceMs }) => nowMs - idleSinceMs < sinceMsMin);
    const removed = idle.splice(0, keptFrom < 0 ? idle.length : keptFrom);
    if (removed.length === 0) return [];
    for (const slot of removed) this.remove(slot);
    this.idlePools.delete(pool);
    if (idle.length > 0) this.idlePools.add(pool);
    return removed.map(({ lease }) => lease);
  }

  private async release(id: string, leases: readonly SlotLease[], untilMs: number): Promise<void> {
    // A renewal after the release would take the slot again.
    if (this.renewing !== null) await this.renewing;
    try {
      await this.guard.run(() =>
        this.counts.release(
          id,
          leases.map(({ call }) => call),
        ),
      );
    } catch {
      if (untilMs > this.nowMs()) this.releaseLater(leases, untilMs);
    }
  }

  private releaseLater(leases: readonly SlotLease[], untilMs: number): void {
    for (const lease of leases) if (this.unreleased.size < unreleasedMax) this.unreleased.set(nameOf(lease), { lease, untilMs });
  }
}

/** A slot that this process holds. */
export interface HeldSlot {
  readonly lease: SlotLease;
  readonly pool: SlotPool;
  /** When it was granted or renewed. */
  renewedMs: number;
  /** When its last call ended. */
  idleSinceMs: number;
}

/** The slots of one limit that this process holds. */
export class SlotPool implements LimitRecord {
  /** Those that no call uses. The last one is used again first. */
  readonly idle: HeldSlot[] = [];
  /** How many there are, in use or not. */
  held = 0;
  isForgotten = false;

  constructor(
    readonly store: SlotLeases,
    readonly id: string,
  ) {}
}

/** Whether there is an idle slot. One that was granted under another limit is not used again. */
export function hasIdle(pool: SlotPool | undefined, limit: number): pool is SlotPool {
  return pool !== undefined && pool.idle.length > 0 && pool.idle.at(-1)!.lease.limit === limit;
}

function makeIdle(idlePools: Set<SlotPool>, slot: HeldSlot, nowMs: number): void {
  const { pool } = slot;
  slot.idleSinceMs = nowMs;
  pool.idle.push(slot);
  if (pool.idle.length === 1) idlePools.add(pool);
}

function nameOf({ id, call }: SlotLease): string {
  return `${id} ${call}`;
}

const unreleasedMax = 10_000;
/** The limits whose slots one request releases in passing. */
const dueMax = 50;
/** Of the time that an idle slot stays here: by then most keys that are busy have used it again. */
const dueShare = 0.75;
