/**
 * Runs the garbage collector once a burst of calls is over. By itself, the runtime collects after new allocations, or else by the clock,
 * which may take a minute: 165 MB stayed for 10 to 65 s after 9,000 streams had ended at once (docs/decisions/performance.md). A collection takes
 * 20 to 90 ms, at a moment when few calls have to wait for it. The timer does not keep the process alive.
 */
export function gcAfterBursts(calls: { readonly size: number }): ReturnType<typeof setInterval> {
  const burst = new GcAfterBurst();
  const timer = setInterval(() => {
    if (burst.isOver(calls.size)) Bun.gc(true);
  }, lookMs);
  timer.unref();
  return timer;
}

const lookMs = 2_000;

/** Decides when a burst of calls is over. */
export class GcAfterBurst {
  private peakCalls = 0;
  private isEnding = false;

  /**
   * Takes the number of calls in flight, now and then, and returns whether to collect. True comes once for each burst, one look after its end
   * was first seen, because its last calls are still being torn down then.
   */
  isOver(calls: number): boolean {
    const isOver = this.isEnding && calls < burstMin;
    this.isEnding = this.peakCalls >= burstMin && calls <= this.peakCalls * endedShare;
    this.peakCalls = this.isEnding ? calls : Math.max(this.peakCalls, calls);
    return isOver;
  }
}

const burstMin = 1_000;
/** A collection takes longer the more objects are alive, and every call waits for it. */
const endedShare = 1 / 16;
