import type { Bell, Bells } from "../gateway/ports.ts";

/**
 * Timers for things that hardly ever happen. Every call sets a few deadlines and takes them all back; a native timer
 * for each would cost more than the rest of its bookkeeping. Long ones share one native timer a tick: they ring within
 * a tick after their time, never before. Short ones are native.
 *
 * A process that stood still finds all its timers due before it has read what came meanwhile, and would blame others for
 * a silence that was its own. So whatever rings late rings a moment later still, when that has been read.
 */
export class Timers implements Bells {
  private readonly ticks = new Map<number, Set<Bell>>();
  private readonly soon = new Map<Bell, ReturnType<typeof setTimeout>>();
  private running: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly nowMs: () => number) {}

  /** Calls back once after a while; the returned function takes it back. */
  after(ms: number, then: () => void): () => void {
    // The same function may wait twice; each wait is its own.
    const bell = { ring: then, place: nowhere };
    this.set(bell, ms);
    return () => this.clear(bell);
  }

  set(bell: Bell, ms: number, nowMs = this.nowMs()): void {
    this.clear(bell);
    if (ms < coarseFromMs) return this.setSoon(bell, ms, nowMs);
    const tick = Math.ceil((nowMs + ms) / tickMs);
    bell.place = tick;
    const due = this.ticks.get(tick);
    if (due === undefined) this.ticks.set(tick, new Set([bell]));
    else due.add(bell);
    if (this.running === null) this.run();
  }

  clear(bell: Bell): void {
    const { place } = bell;
    if (place === nowhere) return;
    bell.place = nowhere;
    if (place !== isSoon) return void this.ticks.get(place)?.delete(bell);
    clearTimeout(this.soon.get(bell));
    this.soon.delete(bell);
  }

  private setSoon(bell: Bell, ms: number, nowMs: number): void {
    bell.place = isSoon;
    const dueMs = nowMs + ms;
    const ring = (): void => {
      this.soon.delete(bell);
      bell.place = nowhere;
      bell.ring();
    };
    const look = (): void => {
      const lateMs = this.nowMs() - dueMs;
      if (lateMs < standstillMs) ring();
      else this.soon.set(bell, setTimeout(ring, graceOf(lateMs)));
    };
    this.soon.set(bell, setTimeout(look, ms));
  }

  private run(): void {
    if (this.running !== null) return;
    const dueMs = this.nowMs() + tickMs;
    this.running = setTimeout(() => {
      const lateMs = this.nowMs() - dueMs;
      if (lateMs < standstillMs) return this.look();
      this.running = setTimeout(() => this.look(), graceOf(lateMs));
    }, tickMs);
  }

  private look(): void {
    this.running = null;
    const now = this.nowMs() / tickMs;
    for (const [tick, due] of this.ticks) {
      if (due.size > 0 && tick > now) continue;
      for (const bell of due) {
        due.delete(bell);
        bell.place = nowhere;
        bell.ring();
      }
      this.ticks.delete(tick);
    }
    if (this.ticks.size > 0) this.run();
  }
}

/** Where a bell is that does not wait, or that waits for a time of its own; otherwise the tick it waits for. */
const nowhere = 0;
const isSoon = -1;

/** Enough to read what waits, and no more than a moment for whoever was to be told. */
function graceOf(lateMs: number): number {
  return Math.min(lateMs, graceMaxMs);
}

const tickMs = 50;
const coarseFromMs = 2000;
/** Longer than a busy loop is late, shorter than any time-out. */
const standstillMs = 250;
const graceMaxMs = 500;
