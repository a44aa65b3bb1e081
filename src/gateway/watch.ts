import type { Timeouts } from "../channels/channel.ts";
import type { Bell, Ports } from "./ports.ts";

export type Alarm = "first" | "deadline" | "idle" | "progress" | "total" | "lingering";

/**
 * Every timer of one attempt in a single one. It is armed for the next thing that could be due and looks again when
 * it rings, so that a stream of a thousand chunks moves two numbers a chunk and touches no timer. While nobody reads
 * (the client is slow, not the upstream) the upstream's silence does not count.
 */
export class Watch implements Bell {
  place = 0;
  private phase: "waiting" | "reading" | "committed" | "finished" | "over" = "waiting";
  private readonly startedMs: number;
  private byteMs: number;
  private eventMs: number;
  private pausedMs: number | null = null;
  private armedMs = Infinity;

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "bells">,
    private readonly limits: WatchLimits,
    private readonly watched: Watched,
  ) {
    this.startedMs = limits.startedMs;
    this.byteMs = this.startedMs;
    this.eventMs = this.startedMs;
    this.arm(this.startedMs);
  }

  /** The head of the answer is here. A whole answer is now read; a stream still owes its first content. */
  headArrived(): void {
    this.byteMs = this.ports.nowMs();
    this.phase = "reading";
    this.arm(this.byteMs);
  }

  /** A part of a whole answer: an upstream that sends blank space while it works on it is not silent. */
  bytesArrived(): void {
    this.byteMs = this.ports.nowMs();
  }

  committed(): void {
    this.phase = "committed";
    this.eventMs = this.byteMs;
    this.arm();
  }

  /** Every choice is finished; an upstream that then says nothing more has said it all. */
  finished(): void {
    if (this.phase !== "committed") return;
    this.phase = "finished";
    this.arm();
  }

  readBegins(): void {
    const nowMs = this.ports.nowMs();
    if (this.pausedMs !== null) this.eventMs += nowMs - this.pausedMs;
    this.pausedMs = null;
    this.byteMs = nowMs;
  }

  readEnds(withEvents: boolean): void {
    const nowMs = this.ports.nowMs();
    this.byteMs = nowMs;
    this.pausedMs = nowMs;
    if (withEvents) this.eventMs = nowMs;
  }

  stop(): void {
    this.phase = "over";
    if (this.armedMs === Infinity) return;
    this.armedMs = Infinity;
    this.ports.bells.clear(this);
  }

  private arm(nowMs?: number): void {
    const { atMs } = this.due();
    if (atMs >= this.armedMs || this.phase === "over") return;
    this.armedMs = atMs;
    this.ports.bells.set(this, Math.max(0, atMs - (nowMs ?? this.ports.nowMs())));
  }

  /** Looks what is due. */
  ring(): void {
    this.armedMs = Infinity;
    if (this.phase === "over") return;
    const { atMs, alarm } = this.due();
    if (atMs <= this.ports.nowMs()) {
      this.phase = "over";
      this.watched.alarm(alarm);
    }
    this.arm();
  }

  private due(): { readonly atMs: number; readonly alarm: Alarm } {
    const { timeouts, stream, patienceMs, deadlineMs } = this.limits;
    const first = this.startedMs + Math.min(deadlineMs, patienceMs);
    const firstAlarm: Alarm = deadlineMs < patienceMs ? "deadline" : "first";
    const total = this.startedMs + timeouts.totalMs;
    switch (this.phase) {
      case "waiting":
        return { atMs: first, alarm: firstAlarm };
      case "reading": {
        if (stream) return { atMs: first, alarm: firstAlarm };
        const idle = this.byteMs + timeouts.idleMs;
        const end = Math.min(total, this.startedMs + deadlineMs);
        return idle < end ? { atMs: idle, alarm: "idle" } : { atMs: end, alarm: end === total ? "total" : "deadline" };
      }
      case "committed":
      case "finished": {
        const silentMs = this.phase === "finished" ? Math.min(lingerMs, timeouts.idleMs) : timeouts.idleMs;
        // While nobody reads only the total can be due; a look before anything else could be is soon enough.
        if (this.pausedMs !== null)
          return { atMs: Math.min(total, this.ports.nowMs() + Math.min(silentMs, timeouts.progressMs)), alarm: "total" };
        const idle = this.byteMs + silentMs;
        if (this.phase === "finished") return { atMs: idle, alarm: "lingering" };
        const progress = this.eventMs + timeouts.progressMs;
        if (total <= idle && total <= progress) return { atMs: total, alarm: "total" };
        return idle <= progress ? { atMs: idle, alarm: "idle" } : { atMs: progress, alarm: "progress" };
      }
      case "over":
        return { atMs: Infinity, alarm: "total" };
    }
  }
}

/** Whoever is watched, and told when it takes too long. */
export interface Watched {
  alarm(alarm: Alarm): void;
}

export interface WatchLimits {
  readonly startedMs: number;
  readonly timeouts: Timeouts;
  readonly stream: boolean;
  /** Until the first content, or the first byte where the answer does not stream. */
  readonly patienceMs: number;
  /** What is left of the call's own time before its first content. */
  readonly deadlineMs: number;
}

/** How long a finished stream may take to send its usage and its end mark. */
const lingerMs = 10_000;
