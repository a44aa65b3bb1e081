import { slotName, type DistributedCounts, type ReleasedSlots, type SlotLease } from "../../limits/distributed-counts.ts";
import type { StoreGuard } from "../store-guard.ts";

/**
 * The concurrency slots that this process holds. When a call ends, its slot stays here for a moment, so that the next call gets it
 * without a request to the store; then it is released, together with others. The leases are renewed regularly, so that those of a
 * dead process end soon, and the store learns of slots that were taken while it was lost.
 */
export class SlotLeases {
  /** By limit and name, in use or not. Those that were granted or renewed longest ago come first. */
  private readonly held = new Map<string, HeldSlot>();
  /** Slots that no call uses, by limit, and since when. The last one is used again first. */
  private readonly idle = new Map<string, IdleSlot[]>();
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
  granted({ id, limit, call, ttlMs, more = [] }: SlotLease, count: number): SlotLease {
    const [first, ...others] = [call, ...more].slice(0, Math.max(1, count)).map((name): SlotLease => ({ id, limit, call: name, ttlMs }));
    for (const lease of others) {
      this.add(lease);
      this.makeIdle(lease, this.nowMs());
    }
    this.add(first!);
    return first!;
  }

  /** A slot for a call that was admitted without the store. */
  unreportedSlot(id: string, limit: number): SlotLease {
    const lease: SlotLease = { id, limit, call: this.name(), ttlMs: this.ttlMs };
    this.add(lease);
    this.unreported.add(nameOf(lease));
    return lease;
  }

  /** Whether there is an idle slot. One that was granted under another limit is not used again. */
  hasIdle(id: string, limit: number): boolean {
    return this.idle.get(id)?.at(-1)?.lease.limit === limit;
  }

  takeIdle(id: string, limit: number): SlotLease | null {
    if (!this.hasIdle(id, limit)) return null;
    const idleSlots = this.idle.get(id)!;
    const { lease } = idleSlots.pop()!;
    if (idleSlots.length === 0) this.idle.delete(id);
    return lease;
  }

  /** The call of the slot has ended, or was not admitted. */
  callEnded(lease: SlotLease, nowMs = this.nowMs()): void {
    if (this.unreported.size > 0 && this.unreported.delete(nameOf(lease))) {
      this.held.delete(nameOf(lease));
      void this.release(lease.id, [lease], nowMs + this.ttlMs);
    } else this.makeIdle(lease, nowMs);
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
    for (const [id, idleSlots] of this.idle) {
      // Those that have been idle longest come first.
      if (due.length >= dueMax || nowMs - idleSlots[0]!.sinceMs < this.idleMs * dueShare) break;
      const leases = this.removeIdle(id, idleSlots, nowMs, this.idleMs * dueShare);
      due.push({ id, calls: leases.map(({ call }) => call) });
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
    for (const [id, idleSlots] of this.idle) this.freeIdle(id, idleSlots, nowMs);
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
    this.held.clear();
    this.idle.clear();
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
      if (this.held.delete(name)) this.held.set(name, { lease, renewedMs: nowMs });
    }
  }

  private name(): string {
    return slotName(this.process, (this.serial += 1));
  }

  private add(lease: SlotLease): void {
    this.held.set(nameOf(lease), { lease, renewedMs: this.nowMs() });
  }

  private makeIdle(lease: SlotLease, nowMs: number): void {
    const idleSlots = this.idle.get(lease.id);
    const idle: IdleSlot = { lease, sinceMs: nowMs };
    if (idleSlots === undefined) this.idle.set(lease.id, [idle]);
    else idleSlots.push(idle);
  }

  private freeIdle(id: string, idleSlots: IdleSlot[], nowMs: number): void {
    const released = this.removeIdle(id, idleSlots, nowMs, this.idleMs);
    if (released.length > 0) void this.release(id, released, nowMs + this.ttlMs);
  }

  /** The first ones have been idle longest, both of a limit and among the limits. */
  private removeIdle(id: string, idleSlots: IdleSlot[], nowMs: number, sinceMsMin: number): readonly SlotLease[] {
    const keptFrom = idleSlots.findIndex(({ sinceMs }) => nowMs - sinceMs < sinceMsMin);
    const removed = idleSlots.splice(0, keptFrom < 0 ? idleSlots.length : keptFrom).map(({ lease }) => lease);
    if (removed.length === 0) return removed;
    for (const lease of removed) this.held.delete(nameOf(lease));
    this.idle.delete(id);
    if (idleSlots.length > 0) this.idle.set(id, idleSlots);
    return removed;
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

interface HeldSlot {
  readonly lease: SlotLease;
  /** When it was granted or renewed. */
  readonly renewedMs: number;
}

interface IdleSlot {
  readonly lease: SlotLease;
  readonly sinceMs: number;
}

function nameOf({ id, call }: SlotLease): string {
  return `${id} ${call}`;
}

const unreleasedMax = 10_000;
/** The limits whose slots one request releases in passing. */
const dueMax = 50;
/** Of the time that an idle slot stays here: by then most keys that are busy have used it again. */
const dueShare = 0.75;
