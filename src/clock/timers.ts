/**
 * Timers for things that hardly ever happen. Every call sets a few deadlines and takes them all back; a native timer
 * for each would cost more than the rest of its bookkeeping. Long ones share one native timer a tick: they ring within
 * a tick after their time, never before. Short ones are native.
 */
export class Timers {
  private readonly ticks = new Map<number, Set<() => void>>();
  private running: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly nowMs: () => number) {}

  /** Calls back once after a while; the returned function takes it back. */
  after(ms: number, then: () => void): () => void {
    if (ms < coarseFromMs) {
      const timer = setTimeout(then, ms);
      return () => clearTimeout(timer);
    }
    const tick = Math.ceil((this.nowMs() + ms) / tickMs);
    let due = this.ticks.get(tick);
    if (due === undefined) this.ticks.set(tick, (due = new Set()));
    // The same function may wait twice; each wait is its own.
    const ring = (): void => then();
    due.add(ring);
    this.run();
    return () => due.delete(ring);
  }

  private run(): void {
    this.running ??= setTimeout(() => this.look(), tickMs);
  }

  private look(): void {
    this.running = null;
    const now = this.nowMs() / tickMs;
    for (const [tick, due] of this.ticks) {
      if (due.size > 0 && tick > now) continue;
      this.ticks.delete(tick);
      for (const ring of due) ring();
    }
    if (this.ticks.size > 0) this.run();
  }
}

const tickMs = 50;
const coarseFromMs = 2000;
