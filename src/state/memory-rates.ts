import { wholeAmount } from "../limits/amount.ts";
import type { Claim, Look, Place, RateKeeper, Taking } from "../limits/rate-keeper.ts";
import { adjust, fits, newWindow, resetMs, take, used, waitMs, windowMs, type Window } from "../limits/window.ts";

/**
 * The rates of one process, in its memory. Limits that have not been used for a minute say nothing any more and are
 * forgotten, as every newcomer has a look at the oldest ones; should all be in use and too many, the one that has been
 * quiet longest goes. Only one with a call under way stays in any case.
 */
export class MemoryRates implements RateKeeper {
  private readonly entries = new Map<string, Entry>();
  /** Where newcomers look next: round and round. To move what was looked at to the end instead would leave a trail of gaps to walk over. */
  private hand = this.entries.entries();

  constructor(
    private readonly nowMs: () => number,
    /** As many as the keys that are remembered have, with a few each. */
    private readonly entriesMax = 200_000,
  ) {}

  take(claims: readonly Claim[], place: Place | null): Taking {
    const nowMs = this.nowMs();
    const room = place === null ? null : this.entry(place.id, nowMs);
    if (place !== null && room !== null && room.taken >= place.limit) {
      return { ok: false, shortId: place.id, waitMs: placeWaitMs, looks: this.looks(claims, nowMs) };
    }
    const windows: Window[] = [];
    for (const { id, limit, amount } of claims) {
      const { window } = this.entry(id, nowMs);
      const whole = wholeAmount(amount, 0);
      if (!fits(window, limit, whole, nowMs)) {
        return { ok: false, shortId: id, waitMs: waitMs(window, limit, whole, nowMs), looks: this.looks(claims, nowMs) };
      }
      windows.push(window);
    }
    const looks: Look[] = [];
    let slot = 0;
    for (let at = 0; at < windows.length; at += 1) {
      const { limit, amount } = claims[at]!;
      slot = take(windows[at]!, wholeAmount(amount, 0), nowMs);
      looks.push(lookAt(windows[at]!, limit, nowMs));
    }
    if (room !== null) room.taken += 1;
    return new Took(claims, windows, slot, room, looks);
  }

  /** With time a window holds less, never more. */
  surelyFits({ id, limit, amount }: Claim): boolean {
    const used = this.entries.get(id)?.window.total ?? 0;
    return used + wholeAmount(amount, 0) <= limit;
  }

  look({ id, limit, amount }: Claim): Look {
    const entry = this.entries.get(id);
    if (entry === undefined) return { limit, remaining: limit, resetMs: 0, waitMs: amount > limit ? Infinity : 0 };
    const nowMs = this.nowMs();
    const { window } = entry;
    return {
      limit,
      remaining: Math.max(0, limit - used(window, nowMs)),
      resetMs: resetMs(window, nowMs),
      waitMs: waitMs(window, limit, wholeAmount(amount, 0), nowMs),
    };
  }

  placesTaken(id: string): number {
    return this.entries.get(id)?.taken ?? 0;
  }

  /** How many limits are remembered. */
  get size(): number {
    return this.entries.size;
  }

  private looks(claims: readonly Claim[], nowMs: number): readonly Look[] {
    return claims.map(({ id, limit }) => lookAt(this.entry(id, nowMs).window, limit, nowMs));
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

/** What a call took. It holds the counts themselves, so they need not be found again. */
class Took {
  readonly ok = true;
  private open = true;

  constructor(
    private readonly claims: readonly Claim[],
    private readonly windows: readonly Window[],
    private readonly slot: number,
    private readonly room: Entry | null,
    readonly looks: readonly Look[],
  ) {}

  settle(amounts: readonly number[]): void {
    if (!this.open) throw new Error("what a call took of its limits was settled twice");
    this.open = false;
    if (this.room !== null) this.room.taken -= 1;
    for (let at = 0; at < this.windows.length; at += 1) {
      const before = wholeAmount(this.claims[at]!.amount, 0);
      const truth = wholeAmount(amounts[at] ?? before, before);
      if (truth === before) continue;
      adjust(this.windows[at]!, this.slot, truth - before);
    }
  }
}

function lookAt(window: Window, limit: number, nowMs: number): Look {
  return { limit, remaining: Math.max(0, limit - used(window, nowMs)), resetMs: resetMs(window, nowMs) };
}

/** Nobody knows when a call ends; a second is the least that clients obey. */
const placeWaitMs = 1_000;
const looksAlways = 3;
const looksWhenFull = 32;
