import { failure, type Failure } from "../../operations/failure.ts";
import { memoryShareOf, type MemoryShare } from "./memory-share.ts";
import { ProcessorTime } from "./processor-time.ts";

/** The load of the process. */
export interface Pressure {
  /**
   * How late the event loop is because of its own work: the median over the last second, or a single block of two seconds and
   * more. 0 if calls do not pile up meanwhile.
   */
  readonly loopDelayMs: number;
  /** The used share of the available memory, from 0 to 1. */
  readonly memoryShare: number;
}

/** The kind of work that is asked for. Health checks (`/healthz`, `/readyz`) and the admin API are always served. */
export type WorkKind = "call" | "upload";

/** Why new work is rejected, for the log; null if it is accepted. */
export type Shed = "loop_delay" | "memory_short" | "memory_out" | null;

/**
 * Decides whether new work is rejected (load shedding). A late event loop rejects a part of the calls, more the later it is, so
 * that the rest is served in time; never all, or nothing would show that the overload has ended. Memory is reserved for the
 * calls in flight: uploads are rejected first, then everything, and then connections are closed as well.
 */
export function shed({ loopDelayMs, memoryShare }: Pressure, work: WorkKind, dice: () => number): Shed {
  if (memoryShare >= memoryOutShare) return "memory_out";
  if (memoryShare >= memoryShortShare && work === "upload") return "memory_short";
  return loopDelayMs > loopDelayMsMax && dice() < shedShare(loopDelayMs) ? "loop_delay" : null;
}

/** Why a request is rejected under the present load; null if it is not. Where memory runs out, its connection is closed as well. */
export function overloadOf(request: LoadedRequest, work: WorkKind, nowMs: number): Failure | null {
  const { head, services } = request;
  const { dice } = services.gateway.ports;
  const why = shed(services.pressure(nowMs), work, dice);
  if (why === null) return null;
  if (why === "memory_out") head.closesConnection = true;
  return shedFailure(why, dice);
}

/** What this needs of a request and of the process that serves it. */
interface LoadedRequest {
  readonly head: { closesConnection: boolean };
  readonly services: {
    readonly gateway: { readonly ports: { readonly dice: () => number } };
    readonly pressure: (nowMs: number) => Pressure;
  };
}

/** The failure for a caller that was rejected. It says when to retry: spread, so that rejected clients do not return all at once. */
export function shedFailure(why: Exclude<Shed, null>, dice: () => number): Failure {
  return failure("saturated", `too much to do: ${why}`, {
    message: why === "loop_delay" ? tooMuch : noMemory,
    retryAfterMs: retryMsMin + dice() * retryMsSpread,
  });
}

const tooMuch = "The gateway is overloaded at the moment. Try again later.";
export const noMemory = "The gateway is short of memory at the moment. Try again later.";

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

/** What must be known of the process to tell why its event loop is late. */
export interface LoopFacts {
  /** The CPU time that this thread has used so far. */
  usedMs(): number;
  /** The share of the recent CPU time that the host of a virtual machine took away. */
  stolenShare(): number;
  /** Calls in flight. */
  underWay(): number;
}

/**
 * How late a timer with an interval of `tickMs` was, over the last second. That is overload only if this thread used the CPU for
 * most of that time: a busy host, a debugger or a sleeping laptop make the timer late as well, and then to reject work would not
 * help.
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

  /** Only the delay that is caused by our own work. */
  delayMs(nowMs: number): number {
    this.forget(nowMs);
    // After a long block, requests may be handled before the timer, which is overdue and has not been counted yet.
    const overdueMs = nowMs - this.dueMs;
    let worstMs = overdueMs > loopDelayMsMax && this.isOwn(overdueMs, nowMs) ? overdueMs : 0;
    for (const { ownLateMs } of this.samples) worstMs = Math.max(worstMs, ownLateMs);
    // If the worst delay does not matter, the median does not either.
    if (worstMs <= loopDelayMsMax) return 0;
    if (worstMs >= blockMs) return worstMs;
    const sorted = this.samples.map(({ ownLateMs }) => ownLateMs).toSorted((one, other) => one - other);
    // A single short block, such as a reload, is over when it is noticed; a loop that is late most of the time is overloaded.
    return sorted[Math.floor(sorted.length / 2)] ?? 0;
  }

  /** There are many calls, and no fewer than before: a late loop that catches up needs no help. */
  isPiling(): boolean {
    const underWay = this.facts.underWay();
    return underWay >= crowdMin && underWay >= (this.samples[0]?.underWay ?? 0);
  }

  /** The longest time since `sinceMs` for which the event loop did not handle its connections, for whatever reason. */
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
  /** The part that was caused by our own work. */
  readonly ownLateMs: number;
  readonly underWay: number;
}

/** Most of the time. */
const ownShareMin = 0.5;
/** Fewer calls than this do not keep the event loop busy: something else does. */
const crowdMin = 64;
/** Often enough to see delays that matter, and seldom enough for an idle process to stay idle. */
const loopTickMs = 50;
const spanMs = 1_000;
/** A single block of this length counts as overload. */
const blockMs = 2_000;

export interface PressureGauge {
  /** The current load. Cheap enough for every request: as long as nothing changes, it is a comparison. */
  readonly pressure: (nowMs: number) => Pressure;
  /**
   * Whether there is memory for so many more bytes. Measured on each call, because a few large bodies fill the memory within a
   * moment.
   */
  readonly hasRoom: (bytes: number) => boolean;
  /** The longest time since then for which the event loop did not handle its connections. */
  readonly standstillMs: (sinceMs: number) => number;
  stop(): void;
}

/** Monitors the process, by timers that do not keep it alive. */
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
      // Within this time only a block could change the result, and a block shows on the clock.
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
