import { memoryShareOf, type MemoryShare } from "./memory-share.ts";

/** How hard the process is pressed. */
export interface Pressure {
  /** How late the event loop is, as a rule, over the last second; or by a single block of two seconds and more. */
  readonly loopDelayMs: number;
  /** Of the memory it may have, from 0 to 1. */
  readonly memoryShare: number;
}

/** What is asked for. Whether the process is well (`/healthz`, `/readyz`) and the admin's questions are always answered. */
export type Work = "call" | "upload";

/** Why new work is turned away, to be said in the log; null where it is taken. */
export type Shed = "loop_delay" | "memory_short" | "memory_out" | null;

/**
 * Whether new work is to be turned away. A late event loop turns away some of the calls, the more the later it is, so
 * that the rest is served in time; never all of them, for then nobody would notice that it is over. Memory is kept for the
 * calls under way: large bodies are refused first, then everything, and then connections should not be kept either.
 */
export function shed({ loopDelayMs, memoryShare }: Pressure, work: Work, dice: () => number): Shed {
  if (memoryShare >= memoryOutShare) return "memory_out";
  if (memoryShare >= memoryShortShare && work === "upload") return "memory_short";
  return loopDelayMs > loopDelayMsMax && dice() < shedShare(loopDelayMs) ? "loop_delay" : null;
}

/** When to come back: spread, so that those turned away do not return as one. */
export function shedRetryMs(dice: () => number): number {
  return retryMsMin + dice() * retryMsSpread;
}

function shedShare(loopDelayMs: number): number {
  const severity = (loopDelayMs - loopDelayMsMax) / (loopDelayWorstMs - loopDelayMsMax);
  return shareMin + (shareMax - shareMin) * Math.min(1, severity);
}

const loopDelayMsMax = 250;
const loopDelayWorstMs = 1_000;
const shareMin = 0.1;
const shareMax = 0.9;
const memoryShortShare = 0.85;
const memoryOutShare = 0.95;
const retryMsMin = 1_000;
const retryMsSpread = 4_000;

/** How late a timer that should ring every `tickMs` was, over the last second. */
export class LoopDelay {
  private readonly samples: { readonly atMs: number; readonly lateMs: number }[] = [];
  private dueMs: number;

  constructor(
    nowMs: number,
    private readonly tickMs = loopTickMs,
  ) {
    this.dueMs = nowMs + tickMs;
  }

  tick(nowMs: number): void {
    this.samples.push({ atMs: nowMs, lateMs: Math.max(0, nowMs - this.dueMs) });
    this.dueMs = nowMs + this.tickMs;
    this.forget(nowMs);
  }

  delayMs(nowMs: number): number {
    this.forget(nowMs);
    // After a long block requests may be handled before the timer is: then it is late already, and nobody has said so.
    let worstMs = Math.max(0, nowMs - this.dueMs);
    for (const { lateMs } of this.samples) worstMs = Math.max(worstMs, lateMs);
    // Where it was never late enough to matter, it was not so as a rule.
    if (worstMs <= loopDelayMsMax) return 0;
    if (worstMs >= blockMs) return worstMs;
    const sorted = this.samples.map(({ lateMs }) => lateMs).toSorted((one, other) => one - other);
    // One short block, such as a reload, is over when it is noticed; a loop that is late most of the time has too much to do.
    return sorted[Math.floor(sorted.length / 2)] ?? 0;
  }

  private forget(nowMs: number): void {
    while (this.samples.length > 0 && this.samples[0]!.atMs <= nowMs - spanMs) this.samples.shift();
  }
}

/** Often enough for a lateness that matters, and seldom enough for a process that has nothing to do to rest. */
const loopTickMs = 50;
const spanMs = 1_000;
/** A single block of this length is trouble enough. */
const blockMs = 2_000;

export interface PressureGauge {
  /** At this moment. Cheap enough for every request: as long as nothing changes, it is a comparison. */
  readonly pressure: (nowMs: number) => Pressure;
  /** Whether there is memory for so much more. Measured when it is asked for: a few large bodies fill it within a moment. */
  readonly hasRoom: (bytes: number) => boolean;
  stop(): void;
}

/** Watches the process, by a timer that does not keep it alive. */
export function watchPressure(nowMs: () => number, memoryShare: MemoryShare = memoryShareOf()): PressureGauge {
  const loop = new LoopDelay(nowMs());
  const known = { loopDelayMs: 0, memoryShare: memoryShare() };
  let measuredMs = nowMs();
  const timer = setInterval(() => loop.tick(nowMs()), loopTickMs);
  timer.unref();
  const memoryTimer = setInterval(() => {
    known.memoryShare = memoryShare();
  }, memoryTickMs);
  memoryTimer.unref();
  return {
    pressure: (askedMs) => {
      // Within a moment only a block could change it, and a block shows in the clock.
      if (askedMs - measuredMs >= momentMs) {
        known.loopDelayMs = loop.delayMs(askedMs);
        measuredMs = askedMs;
      }
      return known;
    },
    hasRoom: (bytes) => memoryShare(bytes) < memoryShortShare,
    stop: () => {
      clearInterval(timer);
      clearInterval(memoryTimer);
    },
  };
}

const memoryTickMs = 500;
const momentMs = 20;
