import { failure, type Failure } from "../../operations/failure.ts";
import { memoryShareOf, type MemoryShare } from "./memory-share.ts";
import { ProcessorTime } from "./processor-time.ts";

/** How hard the process is pressed. */
export interface Pressure {
  /**
   * How late the event loop is by its own work, as a rule, over the last second; or by a single block of two seconds and more.
   * Nothing where calls do not pile up meanwhile.
   */
  readonly loopDelayMs: number;
  /** Of the memory it may have, from 0 to 1. */
  readonly memoryShare: number;
}

/** What is asked for. Whether the process is well (`/healthz`, `/readyz`) and the admin's questions are always answered. */
export type WorkKind = "call" | "upload";

/** Why new work is turned away, to be said in the log; null where it is taken. */
export type Shed = "loop_delay" | "memory_short" | "memory_out" | null;

/**
 * Whether new work is to be turned away. A late event loop turns away some of the calls, the more the later it is, so
 * that the rest is served in time; never all of them, for then nobody would notice that it is over. Memory is kept for the
 * calls under way: large bodies are refused first, then everything, and then connections should not be kept either.
 */
export function shed({ loopDelayMs, memoryShare }: Pressure, work: WorkKind, dice: () => number): Shed {
  if (memoryShare >= memoryOutShare) return "memory_out";
  if (memoryShare >= memoryShortShare && work === "upload") return "memory_short";
  return loopDelayMs > loopDelayMsMax && dice() < shedShare(loopDelayMs) ? "loop_delay" : null;
}

/** What a caller that was turned away is told. */
export function shedFailure(why: Exclude<Shed, null>): Failure {
  return failure("saturated", `too much to do: ${why}`, { message: why === "loop_delay" ? tooMuch : noMemory });
}

const tooMuch = "The gateway has more to do than it can at the moment. Try again later.";
export const noMemory = "The gateway is short of memory at the moment. Try again later.";

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

/** What is to be known of the process to tell whose fault it is that its event loop is late. */
export interface LoopFacts {
  /** The processor's time that this thread has used so far. */
  usedMs(): number;
  /** Of what was charged as used lately, the share that the host of a virtual machine took away. */
  stolenShare(): number;
  /** Calls under way. */
  underWay(): number;
}

/**
 * How late a timer that should ring every `tickMs` was, over the last second. That it is late is overload only where
 * this thread itself used the processor for most of that time: a host that gives us little of it, a debugger or a laptop
 * that sleeps make it late as well, and then to turn work away would help nobody.
 */
export class LoopDelay {
  private readonly samples: LoopSample[] = [];
  private dueMs: number;
  private tickedMs: number;
  private usedMs: number;

  constructor(
    nowMs: number,
    private readonly facts: LoopFacts,
    private readonly tickMs = loopTickMs,
  ) {
    this.dueMs = nowMs + tickMs;
    this.tickedMs = nowMs;
    this.usedMs = facts.usedMs();
  }

  tick(nowMs: number): void {
    const lateMs = Math.max(0, nowMs - this.dueMs);
    this.samples.push({ atMs: nowMs, lateMs, ownLateMs: this.isOwn(lateMs, nowMs) ? lateMs : 0, underWay: this.facts.underWay() });
    this.dueMs = nowMs + this.tickMs;
    this.tickedMs = nowMs;
    this.usedMs = this.facts.usedMs();
    this.forget(nowMs);
  }

  /** By our own work. */
  delayMs(nowMs: number): number {
    this.forget(nowMs);
    // After a long block requests may be handled before the timer is: then it is late already, and nobody has said so.
    const overdueMs = nowMs - this.dueMs;
    let worstMs = overdueMs > loopDelayMsMax && this.isOwn(overdueMs, nowMs) ? overdueMs : 0;
    for (const { ownLateMs } of this.samples) worstMs = Math.max(worstMs, ownLateMs);
    // Where it was never late enough to matter, it was not so as a rule.
    if (worstMs <= loopDelayMsMax) return 0;
    if (worstMs >= blockMs) return worstMs;
    const sorted = this.samples.map(({ ownLateMs }) => ownLateMs).toSorted((one, other) => one - other);
    // One short block, such as a reload, is over when it is noticed; a loop that is late most of the time has too much to do.
    return sorted[Math.floor(sorted.length / 2)] ?? 0;
  }

  /** There are many calls, and no fewer than there were: a late loop that catches up needs no help. */
  isPiling(): boolean {
    const underWay = this.facts.underWay();
    return underWay >= crowdMin && underWay >= (this.samples[0]?.underWay ?? 0);
  }

  /** For how long nobody looked at the connections at a time, at most, since then; whoever is to blame. */
  standstillMs(sinceMs: number, nowMs: number): number {
    let worstMs = Math.max(0, nowMs - this.dueMs);
    for (const { atMs, lateMs } of this.samples) if (atMs > sinceMs) worstMs = Math.max(worstMs, lateMs);
    return worstMs;
  }

  private isOwn(lateMs: number, nowMs: number): boolean {
    if (lateMs <= loopDelayMsMax) return true;
    const usedMs = this.facts.usedMs() - this.usedMs;
    const halfMs = (nowMs - this.tickedMs) * ownShareMin;
    return usedMs >= halfMs && usedMs * (1 - this.facts.stolenShare()) >= halfMs;
  }

  private forget(nowMs: number): void {
    while (this.samples.length > 0 && this.samples[0]!.atMs <= nowMs - spanMs) this.samples.shift();
  }
}

interface LoopSample {
  readonly atMs: number;
  readonly lateMs: number;
  /** As far as it was our own doing. */
  readonly ownLateMs: number;
  readonly underWay: number;
}

/** Most of the time. */
const ownShareMin = 0.5;
/** Fewer calls than this do not keep a loop busy: something else does. */
const crowdMin = 64;
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
  /** For how long the process did not look at its connections at a time, at most, since then. */
  readonly standstillMs: (sinceMs: number) => number;
  stop(): void;
}

/** Watches the process, by timers that do not keep it alive. */
export function watchPressure(
  nowMs: () => number,
  underWay: () => number,
  memoryShare: MemoryShare = memoryShareOf(),
  processor: ProcessorTime = new ProcessorTime(nowMs),
): PressureGauge {
  const loop = new LoopDelay(nowMs(), { usedMs: () => processor.usedMs(), stolenShare: () => processor.stolenShare(), underWay });
  const known = { loopDelayMs: 0, memoryShare: memoryShare() };
  let delayMs = 0;
  let measuredMs = nowMs();
  const timer = setInterval(() => loop.tick(nowMs()), loopTickMs);
  timer.unref();
  const memoryTimer = setInterval(() => {
    known.memoryShare = memoryShare();
    processor.look();
  }, memoryTickMs);
  memoryTimer.unref();
  return {
    pressure: (askedMs) => {
      // Within a moment only a block could change it, and a block shows in the clock.
      if (askedMs - measuredMs >= momentMs) {
        delayMs = loop.delayMs(askedMs);
        measuredMs = askedMs;
      }
      known.loopDelayMs = delayMs > 0 && loop.isPiling() ? delayMs : 0;
      return known;
    },
    hasRoom: (bytes) => memoryShare(bytes) < memoryShortShare,
    standstillMs: (sinceMs) => loop.standstillMs(sinceMs, nowMs()),
    stop: () => {
      clearInterval(timer);
      clearInterval(memoryTimer);
    },
  };
}

const memoryTickMs = 500;
const momentMs = 20;
