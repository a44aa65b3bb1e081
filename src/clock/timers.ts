import type { Timer, TimerQueue } from "../gateway/ports.ts";

/**
 * Timers for things that hardly ever happen. Every call sets a few deadlines and takes them all back; a native timer
 * for each would cost more than the rest of its bookkeeping. Long ones share one native timer, for the first tick that has
 * any: they ring within a tick after their time, never before. Short ones are native.
 *
 * A process that stood still finds all its timers due before it has read what came meanwhile, and would blame others for
 * a silence that was its own. So whatever rings late rings a moment later still, when that has been read.
 */
export class Timers implements TimerQueue {
  private readonly ticks = new Map<number, Set<Timer>>();
  private readonly soon = new Map<Timer, ReturnType<typeof setTimeout>>();
  private running: ReturnType<typeof setTimeout> | null = null;
  /** When the shared timer is to look. */
  private nextTick = Infinity;

  constructor(private readonly nowMs: () => number) {}

  /** Calls back once after a while; the returned function takes it back. */
  after(ms: number, then: () => void): () => void {
    // The same function may wait twice; each wait is its own.
    const timer = { fire: then, slot: nowhere };
    this.set(timer, ms);
    return () => this.clear(timer);
  }

  set(timer: Timer, ms: number, nowMs = this.nowMs()): void {
    this.clear(timer);
    if (ms < coarseFromMs) return this.setSoon(timer, ms, nowMs);
    const tick = Math.ceil((nowMs + ms) / tickMs);
    timer.slot = tick;
    const due = this.ticks.get(tick);
    if (due === undefined) this.ticks.set(tick, new Set([timer]));
    else due.add(timer);
    if (tick < this.nextTick) this.run(tick, nowMs);
  }

  clear(timer: Timer): void {
    const { slot } = timer;
    if (slot === nowhere) return;
    timer.slot = nowhere;
    if (slot !== isSoon) return void this.ticks.get(slot)?.delete(timer);
    clearTimeout(this.soon.get(timer));
    this.soon.delete(timer);
  }

  private setSoon(timer: Timer, ms: number, nowMs: number): void {
    timer.slot = isSoon;
    const dueMs = nowMs + ms;
    const ring = (): void => {
      this.soon.delete(timer);
      timer.slot = nowhere;
      timer.fire();
    };
    const look = (): void => {
      const lateMs = this.nowMs() - dueMs;
      if (lateMs < standstillMs) ring();
      else this.soon.set(timer, setTimeout(ring, graceOf(lateMs)));
    };
    this.soon.set(timer, setTimeout(look, ms));
  }

  private run(tick: number, nowMs: number): void {
    if (this.running !== null) clearTimeout(this.running);
    // A standstill that ends with the tick shows in a look that was to be shortly before it.
    const lookTick = tick - leadTicks > nowMs / tickMs ? tick - leadTicks : tick;
    // Now and then a look is due at any rate: what was taken back leaves empty ticks behind.
    this.nextTick = Math.min(lookTick, Math.ceil((nowMs + tidyMs) / tickMs));
    const dueMs = this.nextTick * tickMs;
    this.running = setTimeout(() => {
      const lateMs = this.nowMs() - dueMs;
      if (lateMs < standstillMs) return this.look();
      this.running = setTimeout(() => this.look(), graceOf(lateMs));
    }, dueMs - nowMs);
  }

  private look(): void {
    this.running = null;
    this.nextTick = Infinity;
    const nowMs = this.nowMs();
    const now = nowMs / tickMs;
    let nextTick = Infinity;
    for (const [tick, due] of this.ticks) {
      if (due.size > 0 && tick > now) {
        nextTick = Math.min(nextTick, tick);
        continue;
      }
      for (const timer of due) {
        due.delete(timer);
        timer.slot = nowhere;
        timer.fire();
      }
      this.ticks.delete(tick);
    }
    if (nextTick < this.nextTick) this.run(nextTick, nowMs);
  }
}

/** Where a timer is that does not wait, or that waits for a time of its own; otherwise the tick it waits for. */
const nowhere = 0;
const isSoon = -1;

/** Enough to read what waits, and no more than a moment for whoever was to be told. */
function graceOf(lateMs: number): number {
  return Math.min(lateMs, graceMaxMs);
}

const tickMs = 50;
const coarseFromMs = 2000;
const tidyMs = 1000;
/** Longer than a busy loop is late, shorter than any time-out. */
const standstillMs = 250;
const leadTicks = standstillMs / tickMs;
const graceMaxMs = 500;
