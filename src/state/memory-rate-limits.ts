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
import {
  adjust,
  fits,
  newMinuteWindow,
  resetMs,
  take,
  used,
  usedBySlot,
  waitMs,
  wholeAmount,
  windowMs,
  type MinuteWindow,
} from "../limits/minute-window.ts";

/**
 * The rate limits of one process, in its memory. A limit that has not been used for a minute holds nothing and is forgotten: every
 * new limit checks a few of the oldest ones. When all are in use and there are too many, the one that was idle longest is removed.
 * A limit with running calls always stays.
 */
export class MemoryRateLimits implements RateLimitStore {
  private readonly entries = new Map<string, LimitEntry>();
  /** Where the next check continues, in a circle. Moving checked entries to the end instead would leave holes in the map. */
  private iterator = this.entries.entries();

  constructor(
    private readonly nowMs: () => number,
    /** Enough for all keys that are remembered, with a few limits each. */
    private readonly entriesMax = 200_000,
  ) {}

  reserve(request: ReservationRequest): ReservationResult {
    const nowMs = this.nowMs();
    const reservation = new MemoryReservation(request, nowMs);
    for (let at = 0; at < request.slots; at += 1) {
      const slots = this.entryOf(request.slotMemo(at), request.slotId(at), nowMs);
      if (slots.taken >= request.slotLimit(at)) {
        return new ReservationRefused(request.slotId(at), slotWaitMs, this.statuses(request, nowMs));
      }
      reservation.addSlot(slots);
    }
    for (let at = 0; at < request.claims; at += 1) {
      const { window } = this.entryOf(request.memo(at), request.id(at), nowMs);
      const amount = wholeAmount(request.amount(at), 0);
      if (!fits(window, request.limit(at), amount, nowMs)) {
        return new ReservationRefused(request.id(at), waitMs(window, request.limit(at), amount, nowMs), this.statuses(request, nowMs));
      }
      reservation.add(window);
    }
    reservation.take();
    return reservation;
  }

  /** A window only becomes emptier with time, so its stored total is an upper bound. */
  surelyFits(request: ReservationRequest): boolean {
    for (let at = 0; at < request.claims; at += 1) {
      const used = this.known(request.memo(at), request.id(at))?.window.total ?? 0;
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
    const { window } = entry;
    return {
      limit,
      remaining: left(window, limit, nowMs),
      resetMs: resetMs(window, nowMs),
      waitMs: waitMs(window, limit, wholeAmount(amount, 0), nowMs),
    };
  }

  /** What was used of a limit in each slot of the window, and how many slots ago that was. */
  usedBySlot(id: string): readonly { readonly ago: number; readonly amount: number }[] {
    const entry = this.entries.get(id);
    return entry === undefined ? [] : usedBySlot(entry.window, this.nowMs());
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
      const { window } = this.entry(id, nowMs);
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
      this.entries.set(id, (entry = new LimitEntry(this)));
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
class LimitEntry implements LimitRecord {
  taken = 0;
  usedMs = 0;
  isForgotten = false;
  private made: MinuteWindow | null = null;

  constructor(readonly store: MemoryRateLimits) {}

  /** Allocated when it is first needed: a limit on concurrent calls never needs one. */
  get window(): MinuteWindow {
    return (this.made ??= newMinuteWindow());
  }

  /** A memo may keep the entry for as long as its key is known, but not the window. */
  forget(): void {
    this.isForgotten = true;
    this.made = null;
  }
}

/** What a call reserves. It keeps the windows, so that settling does not look them up again; statuses are those at the time of the reservation. */
class MemoryReservation implements Reservation {
  readonly ok = true;
  private open = true;
  private slot = 0;
  /** Nearly every key has two limits or fewer. */
  private first: MinuteWindow | null = null;
  private second: MinuteWindow | null = null;
  private others: MinuteWindow[] | null = null;
  private firstSlots: LimitEntry | null = null;
  private otherSlots: LimitEntry[] | null = null;

  constructor(
    private readonly request: ReservationRequest,
    private readonly nowMs: number,
  ) {}

  /** Adds the next limit on concurrent calls. */
  addSlot(slots: LimitEntry): void {
    if (this.firstSlots === null) this.firstSlots = slots;
    else (this.otherSlots ??= []).push(slots);
  }

  /** Adds the window of the next limit. */
  add(window: MinuteWindow): void {
    if (this.first === null) this.first = window;
    else if (this.second === null) this.second = window;
    else (this.others ??= []).push(window);
  }

  take(): void {
    const { request } = this;
    for (let at = 0; at < request.claims; at += 1) this.slot = take(this.window(at), wholeAmount(request.amount(at), 0), this.nowMs);
    this.countSlots(1);
  }

  remaining(at: number): number {
    return left(this.window(at), this.request.limit(at), this.nowMs);
  }

  resetMs(at: number): number {
    return resetMs(this.window(at), this.nowMs);
  }

  settle(amounts: readonly number[]): void {
    if (!this.open) throw new Error("a reservation of rate limits was settled twice");
    this.open = false;
    const { request } = this;
    this.countSlots(-1);
    for (let at = 0; at < request.claims; at += 1) {
      const claimed = wholeAmount(request.amount(at), 0);
      const actual = wholeAmount(amounts[at] ?? claimed, claimed);
      if (actual === claimed) continue;
      adjust(this.window(at), this.slot, actual - claimed);
    }
  }

  private countSlots(by: number): void {
    if (this.firstSlots !== null) this.firstSlots.taken += by;
    if (this.otherSlots !== null) for (const slots of this.otherSlots) slots.taken += by;
  }

  private window(at: number): MinuteWindow {
    return at === 0 ? this.first! : at === 1 ? this.second! : this.others![at - 2]!;
  }
}

function left(window: MinuteWindow, limit: number, nowMs: number): number {
  return Math.max(0, limit - used(window, nowMs));
}

const checksAlways = 3;
const checksWhenFull = 32;
