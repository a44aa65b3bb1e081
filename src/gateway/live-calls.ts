import type { Failure } from "../operations/failure.ts";
import type { Cancellation } from "./cancellation.ts";

/** The calls under way: counted to bound them, listed to end them, and waited for when the process goes down. */
export class LiveCalls {
  private readonly calls = new Set<Cancellation>();
  private idle: (() => void)[] = [];

  get size(): number {
    return this.calls.size;
  }

  begin(call: Cancellation): void {
    this.calls.add(call);
  }

  end(call: Cancellation): void {
    call.ended();
    if (!this.calls.delete(call) || this.calls.size > 0) return;
    const { idle } = this;
    this.idle = [];
    for (const wake of idle) wake();
  }

  /** Whose calls are under way. */
  keyIds(): ReadonlySet<string> {
    return new Set([...this.calls].flatMap(({ keyId }) => keyId ?? []));
  }

  /** Ends every call of a key. */
  cancelKey(keyId: string, failure: Failure): void {
    for (const call of [...this.calls]) if (call.keyId === keyId) call.cancel(failure);
  }

  cancelAll(failure: Failure): void {
    for (const call of [...this.calls]) call.cancel(failure);
  }

  whenIdle(): Promise<void> {
    return this.calls.size === 0 ? Promise.resolve() : new Promise((resolve) => this.idle.push(resolve));
  }
}
