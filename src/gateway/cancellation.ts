import type { Failure } from "../operations/failure.ts";

/** Whoever waits on behalf of a call. */
export interface CancellationListener {
  /** The call has to stop, and why. */
  cancelled(reason: Failure): void;
}

/**
 * The one reason a call has to stop early: its client left, or the gateway ends it. Every wait of the call listens
 * here, so that the upstream is closed in whatever phase the call is. The first reason stands.
 */
export class Cancellation {
  failure: Failure | null = null;
  /** Whose call it is; null until that is known. */
  keyId: string | null = null;
  /** Among the calls under way; null where it is none of them. */
  place: number | null = null;
  /** Mostly there is one, its attempt. */
  private only: CancellationListener | null = null;
  private others: CancellationListener[] | null = null;
  private over = false;
  private last: (() => void) | null = null;

  cancel(failure: Failure): void {
    if (this.failure !== null) return;
    this.failure = failure;
    const { only, others } = this;
    this.only = null;
    this.others = null;
    only?.cancelled(failure);
    if (others !== null) for (const listener of others) listener.cancelled(failure);
  }

  /** What is to be done when the call has ended, in whatever way: one thing at most, at once if it already has. */
  onceOver(then: () => void): void {
    if (this.over) then();
    else this.last = then;
  }

  ended(): void {
    this.over = true;
    const { last } = this;
    this.last = null;
    last?.();
  }

  /** Tells a listener when the call is cancelled, at once if it already was. */
  add(listener: CancellationListener): void {
    if (this.failure !== null) listener.cancelled(this.failure);
    else if (this.only === null) this.only = listener;
    else (this.others ??= []).push(listener);
  }

  remove(listener: CancellationListener): void {
    if (this.only === listener) this.only = null;
    else if (this.others !== null) this.others = this.others.filter((other) => other !== listener);
  }

  /** The same for a function. The returned one stops listening. */
  listen(cancelled: () => void): () => void {
    const listener = { cancelled };
    this.add(listener);
    return () => this.remove(listener);
  }
}
