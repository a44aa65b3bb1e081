import type { Failure } from "../../operations/failure.ts";
import { stoppedComing, tooLittle, tooSlow } from "./form-errors.ts";
import type { UploadSlot } from "./uploads.ts";

export interface PaceLimits {
  /** For an upload of up to 25 MiB. Larger ones get more time, in proportion to the bytes that have arrived. */
  readonly readMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Its slot among the concurrent uploads, which it may lose to another key. */
  readonly slot?: UploadSlot;
}

/**
 * Measures how fast an upload arrives, and stops one that is too slow (compare Slowloris attacks). Only bytes that arrived
 * count, not the declared length: a client that declares much could otherwise hold its slot for hours with a byte now and then.
 */
export class UploadPace {
  /** Why it was stopped; null if it was not. */
  failure: Failure | null = null;
  readonly #limits: PaceLimits;
  readonly #stop: () => void;
  #bytes = 0;
  /** It waits for the client, not for the disk. */
  #isWaiting = false;
  #disarmTotal: () => void = nothing;
  #disarmIdle: () => void = nothing;
  #disarmPace: () => void = nothing;

  constructor(limits: PaceLimits, stop: () => void) {
    this.#limits = limits;
    this.#stop = stop;
    this.#watch(0);
    // The start may be slow.
    this.#watchPace(-paceBytes);
    if (limits.slot !== undefined) limits.slot.onEnd = (why) => this.#fail(why);
  }

  /** The next bytes are awaited. While the disk is busy with the last ones, the client is not to blame. */
  waits(): void {
    this.#isWaiting = true;
    this.#disarmIdle = this.#limits.after(idleMs, () => this.#fail(stoppedComing(idleMs)));
  }

  came(bytes: number): void {
    this.#disarmIdle();
    this.#isWaiting = false;
    this.#bytes += bytes;
    if (this.#limits.slot !== undefined) this.#limits.slot.bytes = this.#bytes;
  }

  /** Stops measuring. */
  end(): void {
    this.#disarmTotal();
    this.#disarmIdle();
    this.#disarmPace();
  }

  #watch(passedMs: number): void {
    const { readMs, after } = this.#limits;
    const allowedMs = readMs * Math.max(1, this.#bytes / usualBytes);
    if (allowedMs <= passedMs) return this.#fail(tooSlow(passedMs));
    // An upload that is just fast enough is not checked all the time.
    const nextMs = Math.max(allowedMs, passedMs + Math.min(readMs, lookMs));
    this.#disarmTotal = after(nextMs - passedMs, () => this.#watch(nextMs));
  }

  /** `before`: how much had arrived at the last check. */
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

/** In 300 seconds, that is 85 KiB each second. */
const usualBytes = 25 * 1024 * 1024;
const idleMs = 20_000;
/** 1 KiB each second: a slower upload holds its slot for nothing. */
const paceMs = 15_000;
const paceBytes = 15 * 1024;
const lookMs = 1_000;

function nothing(): void {}
