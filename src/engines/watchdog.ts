export interface WatchdogOptions {
  /** How long an engine that has work may give no sign of life. */
  readonly stuckMs: number;
  readonly onStuck: () => void;
  /** For how long, in all, the engine could not run although it wanted to. That time does not count against it. */
  readonly starvedMs: () => number;
  /** Milliseconds on a clock that never jumps. */
  readonly nowMs?: () => number;
  /** Calls again and again until the returned function is called. */
  readonly every?: (ms: number, act: () => void) => () => void;
}

/**
 * Notices an engine that has work and gives no sign of life any more. It expects signs from the first one until a rest. Only
 * time in which the engine could have given one counts: neither time that it waited for a processor, nor time in which this
 * process stood still itself and read no signs.
 */
export class Watchdog {
  private stopLooking: (() => void) | null = null;
  private lookedMs = 0;
  private starvedMs = 0;
  /** Since the last sign: what counts, and all of it. */
  private silentMs = 0;
  private passedMs = 0;

  constructor(private readonly options: WatchdogOptions) {}

  beat(): void {
    const { nowMs = monotonicMs, starvedMs, every = interval } = this.options;
    this.lookedMs = nowMs();
    this.silentMs = 0;
    this.passedMs = 0;
    if (this.stopLooking !== null) return;
    this.starvedMs = starvedMs();
    this.stopLooking = every(this.lookMs, () => this.look());
  }

  rest(): void {
    this.stopLooking?.();
    this.stopLooking = null;
  }

  private get lookMs(): number {
    return this.options.stuckMs / looks;
  }

  private look(): void {
    const { nowMs = monotonicMs, starvedMs, stuckMs, onStuck } = this.options;
    const now = nowMs();
    const starved = starvedMs();
    // A look that comes late: it was us who stood still, and the signs of that time are yet to be read.
    const passedMs = Math.min(now - this.lookedMs, 2 * this.lookMs);
    this.silentMs += Math.max(0, passedMs - Math.max(0, starved - this.starvedMs));
    this.passedMs += passedMs;
    this.lookedMs = now;
    this.starvedMs = starved;
    if (this.silentMs < stuckMs && this.passedMs < stuckMs * starvedPatience) return;
    this.rest();
    onStuck();
  }
}

const looks = 20;
/** However starved it is, an engine that gives no sign for so many times as long serves nobody. */
const starvedPatience = 10;

function monotonicMs(): number {
  return performance.now();
}

function interval(ms: number, act: () => void): () => void {
  const timer = setInterval(act, ms);
  timer.unref();
  return () => clearInterval(timer);
}
