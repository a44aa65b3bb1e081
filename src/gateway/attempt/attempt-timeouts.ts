import type { Timeouts } from "../../channels/channel.ts";
import type { Timer, Ports } from "../ports.ts";

export type TimeoutKind = "slow" | "first" | "deadline" | "idle" | "progress" | "total" | "lingering";

/**
 * Every timer of one attempt in a single one. It is armed for the next thing that could be due and looks again when
 * it rings, so that a stream of a thousand chunks moves two numbers a chunk and touches no timer. While nobody reads
 * (the client is slow, not the upstream) the upstream's silence does not count.
 */
export class AttemptTimeouts implements Timer {
  slot = 0;
  private phase: "waiting" | "reading" | "committed" | "finished" | "over" = "waiting";
  private readonly startedMs: number;
  private byteMs: number;
  private eventMs: number;
  private pausedMs: number | null = null;
  private armedMs = Infinity;
  /** What could be due next, and when. */
  private next: TimeoutKind = "first";
  private nextMs = Infinity;
  /** When somebody wants to know that there is still no content. */
  private slowMs: number;

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "timers">,
    private readonly limits: TimeoutLimits,
    private readonly listener: TimeoutListener,
  ) {
    this.startedMs = limits.startedMs;
    this.byteMs = this.startedMs;
    this.eventMs = this.startedMs;
    this.slowMs = this.startedMs + limits.slowMs;
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
    this.ports.timers.clear(this);
  }

  private arm(knownMs?: number): void {
    this.look();
    if (this.nextMs >= this.armedMs || this.phase === "over") return;
    this.armedMs = this.nextMs;
    const nowMs = knownMs ?? this.ports.nowMs();
    this.ports.timers.set(this, Math.max(0, this.nextMs - nowMs), nowMs);
  }

  /** Looks what is due. */
  fire(): void {
    this.armedMs = Infinity;
    if (this.phase === "over") return;
    this.look();
    const nowMs = this.ports.nowMs();
    if (this.nextMs <= nowMs) {
      if (this.next === "slow") this.slowMs = nowMs + this.listener.slow();
      else {
        this.phase = "over";
        this.listener.timedOut(this.next);
      }
    }
    this.arm();
  }

  private look(): void {
    const { timeouts, stream, patienceMs, deadlineMs } = this.limits;
    const first = this.startedMs + Math.min(deadlineMs, patienceMs);
    const firstKind: TimeoutKind = deadlineMs < patienceMs ? "deadline" : "first";
    const { slowMs } = this;
    const total = this.startedMs + timeouts.totalMs;
    switch (this.phase) {
      case "waiting":
        return slowMs < first ? this.expect("slow", slowMs) : this.expect(firstKind, first);
      case "reading": {
        if (stream) return slowMs < first ? this.expect("slow", slowMs) : this.expect(firstKind, first);
        const idle = this.byteMs + timeouts.idleMs;
        const end = Math.min(total, this.startedMs + deadlineMs);
        if (slowMs < idle && slowMs < end) return this.expect("slow", slowMs);
        return idle < end ? this.expect("idle", idle) : this.expect(end === total ? "total" : "deadline", end);
      }
      case "committed":
      case "finished": {
        const silentMs = this.phase === "finished" ? Math.min(lingerMs, timeouts.idleMs) : timeouts.idleMs;
        // While nobody reads only the total can be due; a look before anything else could be is soon enough.
        if (this.pausedMs !== null)
          return this.expect("total", Math.min(total, this.ports.nowMs() + Math.min(silentMs, timeouts.progressMs)));
        const idle = this.byteMs + silentMs;
        if (this.phase === "finished") return this.expect("lingering", idle);
        const progress = this.eventMs + timeouts.progressMs;
        if (total <= idle && total <= progress) return this.expect("total", total);
        return idle <= progress ? this.expect("idle", idle) : this.expect("progress", progress);
      }
      case "over":
        return this.expect("total", Infinity);
    }
  }

  private expect(kind: TimeoutKind, atMs: number): void {
    this.next = kind;
    this.nextMs = atMs;
  }
}

/** Whoever is listener, and told when it takes too long. */
export interface TimeoutListener {
  timedOut(kind: Exclude<TimeoutKind, "slow">): void;
  /** There is no content yet. Says after how long it wants to be told again; Infinity: never. */
  slow(): number;
}

export interface TimeoutLimits {
  readonly startedMs: number;
  readonly timeouts: Timeouts;
  readonly stream: boolean;
  /** Until the first content, or the first byte where the answer does not stream. */
  readonly patienceMs: number;
  /** What is left of the call's own time before its first content. */
  readonly deadlineMs: number;
  /** After how long without content to say so; Infinity: nobody wants to know. */
  readonly slowMs: number;
}

/** How long a finished stream may take to send its usage and its end mark. */
const lingerMs = 10_000;
