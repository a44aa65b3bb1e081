import { wholeAmount } from "../limits/amount.ts";
import { ReservationRefused } from "../limits/refusal.ts";
import { claimsOf } from "../limits/listed-need.ts";
import type {
  Claim,
  LimitStatus,
  ReservationRequest,
  RateLimitStore,
  LimitStatuses,
  ReservationResult,
} from "../limits/rate-limit-store.ts";
import { adjust, fits, newWindow, resetMs, take, used, usedBySlot, waitMs, windowMs, type Window } from "../limits/minute-window.ts";

/**
 * The rates of one process, in its memory. Limits that have not been used for a minute say nothing any more and are
 * forgotten, as every newcomer has a look at the oldest ones; should all be in use and too many, the one that has been
 * quiet longest goes. Only one with a call under way stays in any case.
 */
export class MemoryRateLimits implements RateLimitStore {
  private readonly entries = new Map<string, Entry>();
  /** Where newcomers look next: round and round. To move what was looked at to the end instead would leave a trail of gaps to walk over. */
  private hand = this.entries.entries();

  constructor(
    private readonly nowMs: () => number,
    /** As many as the keys that are remembered have, with a few each. */
    private readonly entriesMax = 200_000,
  ) {}

  take(need: ReservationRequest): ReservationResult {
    const nowMs = this.nowMs();
    const room = need.room === null ? null : this.entry(need.room.id, nowMs);
    if (need.room !== null && room !== null && room.taken >= need.room.limit) {
      return new ReservationRefused(need.room.id, placeWaitMs, this.looks(need, nowMs));
    }
    const took = new Took(need, room, nowMs);
    for (let at = 0; at < need.claims; at += 1) {
      const { window } = this.entry(need.id(at), nowMs);
      const amount = wholeAmount(need.amount(at), 0);
      if (!fits(window, need.limit(at), amount, nowMs)) {
        return new ReservationRefused(need.id(at), waitMs(window, need.limit(at), amount, nowMs), this.looks(need, nowMs));
      }
      took.add(window);
    }
    took.take();
    return took;
  }

  /** With time a window holds less, never more. */
  surelyFits({ id, limit, amount }: Claim): boolean {
    const used = this.entries.get(id)?.window.total ?? 0;
    return used + wholeAmount(amount, 0) <= limit;
  }

  look({ id, limit, amount }: Claim): LimitStatus {
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

  /** What was used of a limit within the window, and how many slots ago. */
  usedBySlot(id: string): readonly { readonly ago: number; readonly amount: number }[] {
    const entry = this.entries.get(id);
    return entry === undefined ? [] : usedBySlot(entry.window, this.nowMs());
  }

  placesTaken(id: string): number {
    return this.entries.get(id)?.taken ?? 0;
  }

  /** How many limits are remembered. */
  get size(): number {
    return this.entries.size;
  }

  private looks(need: ReservationRequest, nowMs: number): readonly LimitStatus[] {
    return claimsOf(need).map(({ id, limit }) => {
      const { window } = this.entry(id, nowMs);
      return { limit, remaining: left(window, limit, nowMs), resetMs: resetMs(window, nowMs) };
    });
  }

  private entry(id: string, nowMs: number): Entry {
    let entry = this.entries.get(id);
    if (entry === undefined) {
      this.makeRoom(nowMs);
      this.entries.set(id, (entry = new Entry()));
    }
    entry.seenMs = nowMs;
    return entry;
  }

  /** A few looks for each newcomer are enough to keep up with them, and cost it next to nothing. */
  private makeRoom(nowMs: number): void {
    const full = this.entries.size >= this.entriesMax;
    let forgotten = 0;
    let quietest: string | null = null;
    let quietestMs = Infinity;
    for (let looks = full ? looksWhenFull : looksAlways; looks > 0 && forgotten < looksAlways; looks -= 1) {
      const next = this.nextEntry();
      if (next === null) return;
      const [id, entry] = next;
      if (entry.taken === 0 && nowMs - entry.seenMs >= windowMs) {
        this.entries.delete(id);
        forgotten += 1;
        continue;
      }
      if (entry.taken === 0 && entry.seenMs < quietestMs) [quietest, quietestMs] = [id, entry.seenMs];
    }
    if (full && forgotten === 0 && quietest !== null) this.entries.delete(quietest);
  }

  private nextEntry(): readonly [string, Entry] | null {
    const next = this.hand.next();
    if (next.done !== true) return next.value;
    this.hand = this.entries.entries();
    const first = this.hand.next();
    return first.done === true ? null : first.value;
  }
}

/** One limit: what was used of it in the last minute, or how many calls have a place. */
class Entry {
  taken = 0;
  seenMs = 0;
  private made: Window | null = null;

  /** Made when it is needed: who limits calls at the same time needs none. */
  get window(): Window {
    return (this.made ??= newWindow());
  }
}

/** What a call takes. It holds the counts themselves, so they need not be found again; how they stand is asked in the moment of taking. */
class Took implements LimitStatuses {
  readonly ok = true;
  private open = true;
  private slot = 0;
  /** Nearly every key has two limits or fewer. */
  private first: Window | null = null;
  private second: Window | null = null;
  private others: Window[] | null = null;

  constructor(
    private readonly need: ReservationRequest,
    private readonly room: Entry | null,
    private readonly nowMs: number,
  ) {}

  /** The count of the next limit. */
  add(window: Window): void {
    if (this.first === null) this.first = window;
    else if (this.second === null) this.second = window;
    else (this.others ??= []).push(window);
  }

  take(): void {
    const { need } = this;
    for (let at = 0; at < need.claims; at += 1) this.slot = take(this.window(at), wholeAmount(need.amount(at), 0), this.nowMs);
    if (this.room !== null) this.room.taken += 1;
  }

  remaining(at: number): number {
    return left(this.window(at), this.need.limit(at), this.nowMs);
  }

  resetMs(at: number): number {
    return resetMs(this.window(at), this.nowMs);
  }

  settle(amounts: readonly number[]): void {
    if (!this.open) throw new Error("what a call took of its limits was settled twice");
    this.open = false;
    const { need } = this;
    if (this.room !== null) this.room.taken -= 1;
    for (let at = 0; at < need.claims; at += 1) {
      const before = wholeAmount(need.amount(at), 0);
      const truth = wholeAmount(amounts[at] ?? before, before);
      if (truth === before) continue;
      adjust(this.window(at), this.slot, truth - before);
    }
  }

  private window(at: number): Window {
    return at === 0 ? this.first! : at === 1 ? this.second! : this.others![at - 2]!;
  }
}

function left(window: Window, limit: number, nowMs: number): number {
  return Math.max(0, limit - used(window, nowMs));
}

/** Nobody knows when a call ends; a second is the least that clients obey. */
const placeWaitMs = 1_000;
const looksAlways = 3;
const looksWhenFull = 32;
