import type { Failure } from "../../operations/failure.ts";
import type { Cancellation } from "../cancellation.ts";

/** The calls under way: counted to bound them, listed to end them, and waited for when the process goes down. */
export class LiveCalls {
  /** In no order. Each knows its place, so that it is found as quickly as it is put here. */
  private readonly calls: Cancellation[] = [];
  private idle: (() => void)[] = [];

  get size(): number {
    return this.calls.length;
  }

  begin(call: Cancellation): void {
    call.place = this.calls.length;
    this.calls.push(call);
  }

  end(call: Cancellation): void {
    call.ended();
    if (!this.remove(call) || this.calls.length > 0) return;
    const { idle } = this;
    this.idle = [];
    for (const wake of idle) wake();
  }

  /** The last one takes its place. */
  private remove(call: Cancellation): boolean {
    const { place } = call;
    if (place === null) return false;
    const last = this.calls.pop()!;
    if (last !== call) {
      this.calls[place] = last;
      last.place = place;
    }
    call.place = null;
    return true;
  }

  /** Whose calls are under way. */
  keyIds(): ReadonlySet<string> {
    return new Set(this.calls.flatMap(({ keyId }) => keyId ?? []));
  }

  /** Ends every call of a key. */
  cancelKey(keyId: string, failure: Failure): void {
    for (const call of [...this.calls]) if (call.keyId === keyId) call.cancel(failure);
  }

  cancelAll(failure: Failure): void {
    for (const call of [...this.calls]) call.cancel(failure);
  }

  whenIdle(): Promise<void> {
    return this.calls.length === 0 ? Promise.resolve() : new Promise((resolve) => this.idle.push(resolve));
  }
}
