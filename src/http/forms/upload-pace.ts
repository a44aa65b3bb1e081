import type { Failure } from "../../operations/failure.ts";
import { stoppedComing, tooLittle, tooSlow } from "./form-errors.ts";
import type { UploadSlot } from "./uploads.ts";

export interface PaceLimits {
  /** For an upload of up to 25 MiB. A larger one has more, as far as its bytes have come. */
  readonly readMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Its place among others, which it may lose to one of them. */
  readonly place?: UploadSlot;
}

/**
 * Watches how fast an upload comes, and stops one that is too slow. What counts is what came and not what was announced:
 * whoever announces much could otherwise hold its place for hours with a byte now and then.
 */
export class UploadPace {
  /** Why it was stopped; null as long as it was not. */
  failure: Failure | null = null;
  readonly #limits: PaceLimits;
  readonly #stop: () => void;
  #bytes = 0;
  /** Of the client. */
  #isWaiting = false;
  #disarmTotal: () => void = nothing;
  #disarmIdle: () => void = nothing;
  #disarmPace: () => void = nothing;

  constructor(limits: PaceLimits, stop: () => void) {
    this.#limits = limits;
    this.#stop = stop;
    this.#watch(0);
    // Its beginning may be slow.
    this.#watchPace(-paceBytes);
    if (limits.place !== undefined) limits.place.onEnd = (why) => this.#fail(why);
  }

  /** The next bytes are waited for. While the disk is busy with the last ones, the client is not to blame. */
  waits(): void {
    this.#isWaiting = true;
    this.#disarmIdle = this.#limits.after(idleMs, () => this.#fail(stoppedComing(idleMs)));
  }

  came(bytes: number): void {
    this.#disarmIdle();
    this.#isWaiting = false;
    this.#bytes += bytes;
    if (this.#limits.place !== undefined) this.#limits.place.bytes = this.#bytes;
  }

  /** Ends the watch. */
  end(): void {
    this.#disarmTotal();
    this.#disarmIdle();
    this.#disarmPace();
  }

  #watch(passedMs: number): void {
    const { readMs, after } = this.#limits;
    const allowedMs = readMs * Math.max(1, this.#bytes / usualBytes);
    if (allowedMs <= passedMs) return this.#fail(tooSlow(passedMs));
    // Whoever is only just fast enough is not looked at all the time.
    const nextMs = Math.max(allowedMs, passedMs + Math.min(readMs, lookMs));
    this.#disarmTotal = after(nextMs - passedMs, () => this.#watch(nextMs));
  }

  /** `before`: what had come when it was looked at last. */
  #watchPace(before: number): void {
    this.#disarmPace = this.#limits.after(paceMs, () => {
      if (this.#isWaiting && this.#bytes - before < paceBytes) return this.#fail(tooLittle(paceBytes, paceMs));
      this.#watchPace(this.#bytes);
    });
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
/** 1 KiB a second: whoever is slower holds its place for nothing. */
const paceMs = 15_000;
const paceBytes = 15 * 1024;
const lookMs = 1_000;

function nothing(): void {}
