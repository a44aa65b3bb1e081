export interface WatchdogOptions {
  /** How long a busy engine may send no heartbeat. */
  readonly stuckMs: number;
  readonly onStuck: () => void;
  /** For how long in total the engine was runnable without a CPU. That time is not counted. */
  readonly starvedMs: () => number;
  /** Milliseconds of a monotonic clock. */
  readonly nowMs?: () => number;
  /** Calls `act` repeatedly until the returned function is called. */
  readonly every?: (ms: number, act: () => void) => () => void;
}

/**
 * Detects a busy engine that hangs. Heartbeats are expected from the first one until `rest`. Time in which the engine waited
 * for a CPU is not counted, nor time in which this process itself was stalled and could not read heartbeats.
 */
export class Watchdog {
  private stopChecking: (() => void) | null = null;
  private checkedMs = 0;
  private starvedMs = 0;
  /** Time since the last heartbeat: the part that counts, and all of it. */
  private silentMs = 0;
  private passedMs = 0;

  constructor(private readonly options: WatchdogOptions) {}

  beat(): void {
    const { nowMs = monotonicMs, starvedMs, every = interval } = this.options;
    this.checkedMs = nowMs();
    this.silentMs = 0;
    this.passedMs = 0;
    if (this.stopChecking !== null) return;
    this.starvedMs = starvedMs();
    this.stopChecking = every(this.checkEveryMs, () => this.check());
  }

  rest(): void {
    this.stopChecking?.();
    this.stopChecking = null;
  }

  private get checkEveryMs(): number {
    return this.options.stuckMs / checks;
  }

  private check(): void {
    const { nowMs = monotonicMs, starvedMs, stuckMs, onStuck } = this.options;
    const now = nowMs();
    const starved = starvedMs();
    // When this timer is late, this process was stalled, and heartbeats of that time are still unread.
    const passedMs = Math.min(now - this.checkedMs, 2 * this.checkEveryMs);
    this.silentMs += Math.max(0, passedMs - Math.max(0, starved - this.starvedMs));
    this.passedMs += passedMs;
    this.checkedMs = now;
    this.starvedMs = starved;
    if (this.silentMs < stuckMs && this.passedMs < stuckMs * starvedFactor) return;
    this.rest();
    onStuck();
  }
}

const checks = 20;
/** An engine that is silent for this many times `stuckMs` is killed even if it had no CPU. */
const starvedFactor = 10;

function monotonicMs(): number {
  return performance.now();
}

function interval(ms: number, act: () => void): () => void {
  const timer = setInterval(act, ms);
  timer.unref();
  return () => clearInterval(timer);
}
