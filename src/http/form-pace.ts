import type { Failure } from "../operations/failure.ts";
import { stoppedComing, tooSlow } from "./form-refusals.ts";

export interface PaceLimits {
  /** For an upload of up to 25 MiB. A larger one has more, as far as its bytes have come. */
  readonly readMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
}

/**
 * Watches how fast an upload comes, and stops one that is too slow. What counts is what came and not what was announced:
 * whoever announces much could otherwise hold its place for hours with a byte now and then.
 */
export class FormPace {
  /** Why it was stopped; null as long as it was not. */
  failure: Failure | null = null;
  readonly #limits: PaceLimits;
  readonly #stop: () => void;
  #bytes = 0;
  #disarmTotal: () => void = nothing;
  #disarmIdle: () => void = nothing;

  constructor(limits: PaceLimits, stop: () => void) {
    this.#limits = limits;
    this.#stop = stop;
    this.#watch(0);
  }

  /** The next bytes are waited for. While the disk is busy with the last ones, the client is not to blame. */
  waits(): void {
    this.#disarmIdle = this.#limits.after(idleMs, () => this.#fail(stoppedComing(idleMs)));
  }

  came(bytes: number): void {
    this.#disarmIdle();
    this.#bytes += bytes;
  }

  /** Ends the watch. */
  end(): void {
    this.#disarmTotal();
    this.#disarmIdle();
  }

  #watch(passedMs: number): void {
    const { readMs, after } = this.#limits;
    const allowedMs = readMs * Math.max(1, this.#bytes / usualBytes);
    if (allowedMs <= passedMs) return this.#fail(tooSlow(passedMs));
    // Whoever is only just fast enough is not looked at all the time.
    const nextMs = Math.max(allowedMs, passedMs + Math.min(readMs, lookMs));
    this.#disarmTotal = after(nextMs - passedMs, () => this.#watch(nextMs));
  }

  #fail(failure: Failure): void {
    this.failure ??= failure;
    this.end();
    this.#stop();
  }
}

/** In 300 seconds, 85 KiB in each. */
const usualBytes = 25 * 1024 * 1024;
const idleMs = 20_000;
const lookMs = 1_000;

function nothing(): void {}
