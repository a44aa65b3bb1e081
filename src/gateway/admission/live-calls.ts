import type { Failure } from "../../operations/failure.ts";
import type { AttemptProgress } from "../attempt/attempt-progress.ts";
import type { CallFacts } from "../call.ts";
import type { Cancellation } from "../cancellation.ts";
import type { Admission } from "./limiter.ts";

/** An admitted call while it runs. */
export interface RunningCall {
  readonly facts: Readonly<CallFacts>;
  readonly admission: Admission;
  readonly attempts: readonly { readonly progress: AttemptProgress }[];
}

/** The running calls: counted to limit them, listed to end them, and awaited at shutdown. */
export class LiveCalls {
  /** Unordered. Each call knows its index, so that it can be removed in constant time. */
  private readonly calls: Cancellation[] = [];
  private idle: (() => void)[] = [];

  get size(): number {
    return this.calls.length;
  }

  begin(call: Cancellation): void {
    call.index = this.calls.length;
    this.calls.push(call);
  }

  end(call: Cancellation): void {
    call.ended();
    if (!this.remove(call) || this.calls.length > 0) return;
    const { idle } = this;
    this.idle = [];
    for (const wake of idle) wake();
  }

  /** The last call takes the index of the removed one. */
  private remove(call: Cancellation): boolean {
    const { index } = call;
    if (index === null) return false;
    const last = this.calls.pop()!;
    if (last !== call) {
      this.calls[index] = last;
      last.index = index;
    }
    call.index = null;
    return true;
  }

  /** The running calls that were admitted, in no order. */
  *admitted(): IterableIterator<RunningCall> {
    for (const { facts, attempts } of this.calls) {
      const admission = facts?.admission ?? null;
      if (facts !== null && admission !== null) yield { facts, admission, attempts: attempts ?? [] };
    }
  }

  /** The keys that have running calls, and those that they have their permissions from. */
  keyIds(): ReadonlySet<string> {
    return new Set(this.calls.flatMap(({ keyId, basisId }) => [keyId, basisId].filter((id) => id !== null)));
  }

  /** Ends every call of a key. */
  cancelKey(keyId: string, failure: Failure): void {
    for (const call of [...this.calls]) if (call.keyId === keyId) call.cancel(failure);
  }

  /** Ends every call of a key, and of all tokens that have their permissions from it. */
  cancelKeyAndTokens(keyId: string, failure: Failure): void {
    for (const call of [...this.calls]) if (call.keyId === keyId || call.basisId === keyId) call.cancel(failure);
  }

  /** Ends every call of a key, and of all tokens that are in its group because of it. */
  cancelKeyWithGroup(keyId: string, failure: Failure): void {
    for (const call of [...this.calls]) if (call.keyId === keyId || call.placedById === keyId) call.cancel(failure);
  }

  /** Ends every call of a group for which there is a failure. */
  cancelGroups(failureOf: (groupId: string) => Failure | null): void {
    for (const call of [...this.calls]) {
      for (const id of call.groupIds) {
        const failure = failureOf(id);
        if (failure !== null) call.cancel(failure);
      }
    }
  }

  cancelAll(failure: Failure): void {
    for (const call of [...this.calls]) call.cancel(failure);
  }

  whenIdle(): Promise<void> {
    return this.calls.length === 0 ? Promise.resolve() : new Promise((resolve) => this.idle.push(resolve));
  }
}
