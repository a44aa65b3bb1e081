import type { Failure } from "../operations/failure.ts";

/**
 * The one reason a call has to stop early: its client left, or the gateway ends it. Every wait of the call listens
 * here, so that the upstream is closed in whatever phase the call is. The first reason stands.
 */
export class Cancellation {
  failure: Failure | null = null;
  /** Whose call it is; null until that is known. */
  keyId: string | null = null;
  private listeners: (() => void)[] = [];
  private over = false;
  private last: (() => void) | null = null;

  cancel(failure: Failure): void {
    if (this.failure !== null) return;
    this.failure = failure;
    const { listeners } = this;
    this.listeners = [];
    for (const listener of listeners) listener();
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

  /** Calls back when the call is cancelled, at once if it already was. The returned function stops listening. */
  listen(listener: () => void): () => void {
    if (this.failure !== null) {
      listener();
      return () => {};
    }
    this.listeners.push(listener);
    return () => {
      const at = this.listeners.indexOf(listener);
      if (at >= 0) this.listeners.splice(at, 1);
    };
  }
}
