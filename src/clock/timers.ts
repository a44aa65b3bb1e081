import type { Timer, TimerQueue } from "../gateway/ports.ts";

/**
 * Timers that are usually cancelled. Every call sets a few deadlines and cancels them all; a native timer for each would cost
 * more than the rest of its bookkeeping. Long timers share one native timer, which is set for the first tick that has any: they
 * fire within a tick after their time, never before. Short ones are native.
 *
 * A process that was stopped or starved finds all its timers due before it has read what arrived meanwhile, and would take its
 * own pause for the silence of an upstream. A timer that is late is therefore delayed a little more, so that the input is read first.
 */
export class Timers implements TimerQueue {
  private readonly ticks = new Map<number, Set<Timer>>();
  private readonly nativeTimers = new Map<Timer, ReturnType<typeof setTimeout>>();
  private running: ReturnType<typeof setTimeout> | null = null;
  /** The tick for which the shared timer is set. */
  private nextTick = Infinity;

  constructor(private readonly nowMs: () => number) {}

  /** Calls back once. The returned function cancels it. */
  after(ms: number, then: () => void): () => void {
    // Each call gets its own timer, also for the same function.
    const timer = { fire: then, slot: unset };
    this.set(timer, ms);
    return () => this.clear(timer);
  }

  set(timer: Timer, ms: number, nowMs = this.nowMs()): void {
    this.clear(timer);
    if (ms < coarseFromMs) return this.setNative(timer, ms, nowMs);
    const tick = Math.ceil((nowMs + ms) / tickMs);
    timer.slot = tick;
    const due = this.ticks.get(tick);
    if (due === undefined) this.ticks.set(tick, new Set([timer]));
    else due.add(timer);
    if (tick < this.nextTick) this.run(tick, nowMs);
  }

  clear(timer: Timer): void {
    const { slot } = timer;
    if (slot === unset) return;
    timer.slot = unset;
    if (slot !== native) return void this.ticks.get(slot)?.delete(timer);
    clearTimeout(this.nativeTimers.get(timer));
    this.nativeTimers.delete(timer);
  }

  private setNative(timer: Timer, ms: number, nowMs: number): void {
    timer.slot = native;
    const dueMs = nowMs + ms;
    const fire = (): void => {
      this.nativeTimers.delete(timer);
      timer.slot = unset;
      timer.fire();
    };
    const fireUnlessLate = (): void => {
      const lateMs = this.nowMs() - dueMs;
      if (lateMs < pauseMs) fire();
      else this.nativeTimers.set(timer, setTimeout(fire, graceOf(lateMs)));
    };
    this.nativeTimers.set(timer, setTimeout(fireUnlessLate, ms));
  }

  private run(tick: number, nowMs: number): void {
    if (this.running !== null) clearTimeout(this.running);
    // A pause that ends at the tick is noticed because this timer was due shortly before it.
    const wakeTick = tick - leadTicks > nowMs / tickMs ? tick - leadTicks : tick;
    // It also runs now and then to remove the empty ticks of cancelled timers.
    this.nextTick = Math.min(wakeTick, Math.ceil((nowMs + tidyMs) / tickMs));
    const dueMs = this.nextTick * tickMs;
    this.running = setTimeout(() => {
      const lateMs = this.nowMs() - dueMs;
      if (lateMs < pauseMs) return this.fireDue();
      this.running = setTimeout(() => this.fireDue(), graceOf(lateMs));
    }, dueMs - nowMs);
  }

  private fireDue(): void {
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
        timer.slot = unset;
        timer.fire();
      }
      this.ticks.delete(tick);
    }
    if (nextTick < this.nextTick) this.run(nextTick, nowMs);
  }
}

/** Values of `slot` for a timer that is not set and for a native one; any other is a tick. */
const unset = 0;
const native = -1;

/** Long enough to read what has arrived, and short for whoever waits for the timer. */
function graceOf(lateMs: number): number {
  return Math.min(lateMs, graceMaxMs);
}

const tickMs = 50;
const coarseFromMs = 2000;
const tidyMs = 1000;
/** Longer than the delay of a busy event loop, shorter than any timeout. */
const pauseMs = 250;
const leadTicks = pauseMs / tickMs;
const graceMaxMs = 500;
