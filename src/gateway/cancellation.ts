import type { Failure } from "../operations/failure.ts";

/**
 * The one reason a call has to stop early: its client left, or the gateway ends it. Every wait of the call listens
 * here, so that the upstream is closed in whatever phase the call is. The first reason stands.
 */
export class Cancellation {
  failure: Failure | null = null;
  private listeners: (() => void)[] = [];

  cancel(failure: Failure): void {
    if (this.failure !== null) return;
    this.failure = failure;
    const { listeners } = this;
    this.listeners = [];
    for (const listener of listeners) listener();
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
