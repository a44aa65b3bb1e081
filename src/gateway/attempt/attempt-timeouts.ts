import type { Timeouts } from "../../channels/channel.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import type { Abandonable } from "../cancellation.ts";
import type { Timer, Ports } from "../ports.ts";

type TimeoutKind = "slow" | "first" | "deadline" | "idle" | "progress" | "total" | "unread" | "lingering";

/**
 * All timeouts of one attempt on a single timer. The timer is set for the next timeout that could be due and checks again when it
 * fires, so that a chunk of a stream updates two numbers and sets no timer. Time in which nothing is read (the client is slow, not the
 * upstream) does not count as silence.
 */
export class AttemptTimeouts implements Timer {
  slot = 0;
  /** The longest time between two events since the first content, without that in which nothing was read; null if there was no second one. */
  longestGapMs: number | null = null;
  private phase: "waiting" | "reading" | "committed" | "finished" | "over" = "waiting";
  private readonly startedMs: number;
  private byteMs: number;
  private eventMs: number;
  private pausedMs: number | null = null;
  private armedMs = Infinity;
  /** The timeout that could be due next, and when. */
  private next: TimeoutKind = "first";
  private nextMs = Infinity;
  /** When `slow` is called if there is no content yet. */
  private slowMs: number;

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "timers">,
    private readonly limits: TimeoutLimits,
    private readonly attempt: Abandonable,
    /** There is no content yet. Returns after how long to be called again; Infinity: never. */
    private readonly slow: () => number = never,
  ) {
    this.startedMs = limits.startedMs;
    this.byteMs = this.startedMs;
    this.eventMs = this.startedMs;
    this.slowMs = this.startedMs + limits.slowMs;
    this.arm(this.startedMs);
  }

  /** The head has arrived. A whole answer is now read; a stream must still send its first content. */
  headArrived(nowMs = this.ports.nowMs()): void {
    if (this.phase === "over") return;
    this.byteMs = nowMs;
    this.phase = "reading";
    this.arm(this.byteMs);
  }

  /** Part of a whole answer arrived. Some upstreams send white space while they work, which counts as activity. */
  bytesArrived(): void {
    this.byteMs = this.ports.nowMs();
  }

  committed(): void {
    this.phase = "committed";
    this.eventMs = this.byteMs;
    this.arm();
  }

  /** Every choice is finished. An upstream that goes silent after that has sent everything. */
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
    if (!withEvents) return;
    if (this.phase === "committed" || this.phase === "finished") {
      const gapMs = nowMs - this.eventMs;
      if (this.longestGapMs === null || gapMs > this.longestGapMs) this.longestGapMs = gapMs;
    }
    this.eventMs = nowMs;
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

  /** Checks what is due. */
  fire(): void {
    this.armedMs = Infinity;
    if (this.phase === "over") return;
    this.look();
    const nowMs = this.ports.nowMs();
    if (this.nextMs <= nowMs) {
      if (this.next === "slow") this.slowMs = nowMs + this.slow();
      else {
        this.phase = "over";
        this.attempt.abandon(this.reasonFor(this.next));
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
        // While nothing is read, only the total timeout can be due. Checking again before any other could be is soon enough.
        if (this.pausedMs !== null)
          return this.expect("unread", Math.min(total, this.ports.nowMs() + Math.min(silentMs, timeouts.progressMs)));
        const idle = this.byteMs + silentMs;
        // Comments are bytes, but no event: they do not keep a finished stream open.
        if (this.phase === "finished") return this.expect("lingering", Math.min(idle, this.eventMs + silentMs, total));
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

  private reasonFor(kind: Exclude<TimeoutKind, "slow">): Failure {
    const { stream, patienceMs, timeouts } = this.limits;
    switch (kind) {
      case "first":
        return failure("timed_out", `no ${stream ? "content" : "answer"} within ${patienceMs} ms`);
      case "deadline":
        return failure("deadline", "the call's own time ran out");
      case "idle":
        return failure("timed_out", `silent for ${timeouts.idleMs} ms`);
      case "progress":
        return failure("timed_out", `no event for ${timeouts.progressMs} ms`);
      case "total":
        return failure("timed_out", `not complete within ${timeouts.totalMs} ms`);
      case "unread":
        // It is the client that takes so long: no channel is blamed, and none goes on with the answer.
        return failure("deadline", `not read completely within ${timeouts.totalMs} ms`);
      case "lingering":
        return failure("timed_out", "silent after the last choice was finished");
    }
  }
}

export interface TimeoutLimits {
  readonly startedMs: number;
  readonly timeouts: Timeouts;
  readonly stream: boolean;
  /** Until the first content, or the first byte if the answer is not streamed. */
  readonly patienceMs: number;
  /** How much is left of the call's deadline for first content. */
  readonly deadlineMs: number;
  /** After how long without content `slow` is called; Infinity: never. */
  readonly slowMs: number;
}

const never = (): number => Infinity;

/** How long a finished stream may take to send its usage and its end marker. */
const lingerMs = 10_000;
