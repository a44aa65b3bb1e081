import { slotWaitMs } from "../limits/distributed-counts.ts";
import {
  claimsOf,
  ReservationRefused,
  type Claim,
  type LimitMemo,
  type LimitRecord,
  type LimitStatus,
  type RateLimitStore,
  type Reservation,
  type ReservationRequest,
  type ReservationResult,
} from "../limits/rate-limit-store.ts";
import { adjust, fits, resetMs, take, used, usedBySlot, waitMs, wholeAmount, windowMs, MinuteWindow } from "../limits/minute-window.ts";

/**
 * The rate limits of one process, in its memory. A limit that has not been used for a minute holds nothing and is forgotten: every
 * new limit checks a few of the oldest ones. When all are in use and there are too many, the one that was idle longest is removed.
 * A limit with running calls always stays.
 */
export class MemoryRateLimits implements RateLimitStore {
  private readonly entries = new Map<string, LimitEntry>();
  /** Where the next check continues, in a circle. Moving checked entries to the end instead would leave holes in the map. */
  private iterator = this.entries.entries();
  private lastSerial = 0;

  constructor(
    private readonly nowMs: () => number,
    /** Enough for all keys that are remembered, with a few limits each. */
    private readonly entriesMax = 200_000,
  ) {}

  reserve(request: ReservationRequest): ReservationResult {
    const nowMs = this.nowMs();
    for (let at = 0; at < request.slots; at += 1) {
      const { taken } = this.entryOf(request.slotMemo(at), request.slotId(at), nowMs);
      if (taken >= request.slotLimit(at)) return new ReservationRefused(request.slotId(at), slotWaitMs, this.statuses(request, nowMs));
    }
    for (let at = 0; at < request.claims; at += 1) {
      const window = this.entryOf(request.memo(at), request.id(at), nowMs);
      const amount = wholeAmount(request.amount(at), 0);
      foundWindows[at] = window;
      foundAmounts[at] = amount;
      if (!fits(window, request.limit(at), amount, nowMs)) {
        return new ReservationRefused(request.id(at), waitMs(window, request.limit(at), amount, nowMs), this.statuses(request, nowMs));
      }
    }
    let slot = 0;
    for (let at = 0; at < request.claims; at += 1) slot = take(foundWindows[at]!, foundAmounts[at]!, nowMs);
    for (let at = 0; at < request.slots; at += 1) this.entryOf(request.slotMemo(at), request.slotId(at), nowMs).taken += 1;
    return new MemoryReservation(this, request, nowMs, slot, this.lastSerial);
  }

  /** Frees the slots of a call that has ended, and replaces what it claimed. See `MemoryReservation`. */
  settled({ request, slot, lastSerial }: MemoryReservation, amounts: readonly number[]): void {
    for (let at = 0; at < request.slots; at += 1) {
      const entry = this.known(request.slotMemo(at), request.slotId(at));
      if (entry !== undefined) entry.taken -= 1;
    }
    for (let at = 0; at < request.claims; at += 1) {
      const claimed = wholeAmount(request.amount(at), 0);
      const actual = wholeAmount(amounts[at] ?? claimed, claimed);
      if (actual === claimed) continue;
      const entry = this.known(request.memo(at), request.id(at));
      // Since it was forgotten, the limit may have become known again. That one has not counted this call.
      if (entry !== undefined && entry.serial <= lastSerial) adjust(entry, slot, actual - claimed);
    }
  }

  /** The window of a limit of a call that was admitted a moment ago. */
  windowOf(request: ReservationRequest, at: number): MinuteWindow | null {
    return this.known(request.memo(at), request.id(at)) ?? null;
  }

  /** A window only becomes emptier with time, so its stored total is an upper bound. */
  surelyFits(request: ReservationRequest): boolean {
    for (let at = 0; at < request.claims; at += 1) {
      const used = this.known(request.memo(at), request.id(at))?.total ?? 0;
      if (used + wholeAmount(request.amount(at), 0) > request.limit(at)) return false;
    }
    return this.hasSlots(request);
  }

  /** Whether each limit on concurrent calls has a free slot. */
  hasSlots(request: ReservationRequest): boolean {
    for (let at = 0; at < request.slots; at += 1) {
      const taken = this.known(request.slotMemo(at), request.slotId(at))?.taken ?? 0;
      if (taken >= request.slotLimit(at)) return false;
    }
    return true;
  }

  status({ id, limit, amount }: Claim): LimitStatus {
    const entry = this.entries.get(id);
    if (entry === undefined) return { limit, remaining: limit, resetMs: 0, waitMs: amount > limit ? Infinity : 0 };
    const nowMs = this.nowMs();
    return {
      limit,
      remaining: left(entry, limit, nowMs),
      resetMs: resetMs(entry, nowMs),
      waitMs: waitMs(entry, limit, wholeAmount(amount, 0), nowMs),
    };
  }

  /** What was used of a limit in each slot of the window, and how many slots ago that was. */
  usedBySlot(id: string): readonly { readonly ago: number; readonly amount: number }[] {
    const entry = this.entries.get(id);
    return entry === undefined ? [] : usedBySlot(entry, this.nowMs());
  }

  slotsTaken(id: string): number {
    return this.entries.get(id)?.taken ?? 0;
  }

  /** The number of limits that are remembered. */
  get size(): number {
    return this.entries.size;
  }

  private statuses(request: ReservationRequest, nowMs: number): readonly LimitStatus[] {
    return claimsOf(request).map(({ id, limit }) => {
      const window = this.entry(id, nowMs);
      return { limit, remaining: left(window, limit, nowMs), resetMs: resetMs(window, nowMs) };
    });
  }

  private entryOf(memo: LimitMemo | null, id: string, nowMs: number): LimitEntry {
    const known = this.known(memo, id);
    if (known !== undefined) {
      known.usedMs = nowMs;
      return known;
    }
    const entry = this.entry(id, nowMs);
    if (memo !== null) memo.counts = entry;
    return entry;
  }

  private known(memo: LimitMemo | null, id: string): LimitEntry | undefined {
    const known = memo?.counts;
    if (known instanceof LimitEntry && known.store === this && !known.isForgotten) return known;
    const entry = this.entries.get(id);
    if (memo !== null && entry !== undefined) memo.counts = entry;
    return entry;
  }

  private entry(id: string, nowMs: number): LimitEntry {
    let entry = this.entries.get(id);
    if (entry === undefined) {
      this.evict(nowMs);
      this.entries.set(id, (entry = new LimitEntry(this, (this.lastSerial += 1))));
    }
    entry.usedMs = nowMs;
    return entry;
  }

  /** A few checks for each new limit are enough to keep up with them, and cost little. */
  private evict(nowMs: number): void {
    const full = this.entries.size >= this.entriesMax;
    let evicted = 0;
    let idlest: readonly [string, LimitEntry] | null = null;
    for (let checks = full ? checksWhenFull : checksAlways; checks > 0 && evicted < checksAlways; checks -= 1) {
      const next = this.nextEntry();
      if (next === null) return;
      const [id, entry] = next;
      if (entry.taken === 0 && nowMs - entry.usedMs >= windowMs) {
        this.forget(id, entry);
        evicted += 1;
        continue;
      }
      if (entry.taken === 0 && (idlest === null || entry.usedMs < idlest[1].usedMs)) idlest = next;
    }
    if (full && evicted === 0 && idlest !== null) this.forget(...idlest);
  }

  private forget(id: string, entry: LimitEntry): void {
    this.entries.delete(id);
    entry.forget();
  }

  private nextEntry(): readonly [string, LimitEntry] | null {
    const next = this.iterator.next();
    if (next.done !== true) return next.value;
    this.iterator = this.entries.entries();
    const first = this.iterator.next();
    return first.done === true ? null : first.value;
  }
}

/** One limit: what was used of it in the last minute, or how many calls hold a slot. */
class LimitEntry extends MinuteWindow implements LimitRecord {
  taken = 0;
  usedMs = 0;
  isForgotten = false;

  constructor(
    readonly store: MemoryRateLimits,
    /** Limits that became known later have higher ones. */
    readonly serial: number,
  ) {
    super();
  }

  /** A memo may keep the entry for as long as its key is known. Its slots need not stay. */
  forget(): void {
    this.isForgotten = true;
    this.older = null;
  }
}

/**
 * What a call reserves. It has no list of its limits: the request finds them, as it did when they were reserved. A limit
 * on concurrent calls is not forgotten while any of them runs, and a window that was forgotten meanwhile has nothing to be corrected.
 */
class MemoryReservation implements Reservation {
  readonly ok = true;
  private open = true;

  constructor(
    private readonly store: MemoryRateLimits,
    readonly request: ReservationRequest,
    private readonly nowMs: number,
    /** The slot of the windows in which it was counted. */
    readonly slot: number,
    /** The serial number of the newest limit which was known then. */
    readonly lastSerial: number,
  ) {}

  remaining(at: number): number {
    const window = this.store.windowOf(this.request, at);
    const limit = this.request.limit(at);
    return window === null ? limit : left(window, limit, this.nowMs);
  }

  resetMs(at: number): number {
    const window = this.store.windowOf(this.request, at);
    return window === null ? 0 : resetMs(window, this.nowMs);
  }

  settle(amounts: readonly number[]): void {
    if (!this.open) throw new Error("a reservation of rate limits was settled twice");
    this.open = false;
    this.store.settled(this, amounts);
  }
}

function left(window: MinuteWindow, limit: number, nowMs: number): number {
  return Math.max(0, limit - used(window, nowMs));
}

/** What was found for the claims of the request that is being reserved. One list for all requests, because reserving is synchronous. */
const foundWindows: MinuteWindow[] = [];
const foundAmounts: number[] = [];
const checksAlways = 3;
const checksWhenFull = 32;
