import type { Key } from "../keys/key.ts";
import type { Failure } from "../operations/failure.ts";
import type { CallFacts } from "./call.ts";
import type { AttemptProgress } from "./attempt/attempt-progress.ts";

/** Whatever works or waits on behalf of a call, and has to stop with it. */
export interface Abandonable {
  abandon(reason: Failure): void;
}

/**
 * The one reason for which a call stops early: its client left, or the gateway ends it. Every wait of the call listens here, so that
 * the upstream connection is closed in any phase. Only the first reason counts.
 */
export class Cancellation {
  failure: Failure | null = null;
  /** The key of the call; null until it is known. */
  keyId: string | null = null;
  /** The key that this one has its permissions from, if it is a token of an issuer. */
  basisId: string | null = null;
  /** The key whose group it is in, if it is such a token. */
  placedById: string | null = null;
  /** The ids of the key's groups. */
  groupIds: readonly string[] = noGroupIds;
  /** What the call is about, for whoever watches the running calls. */
  facts: Readonly<CallFacts> | null = null;
  /** The attempts of the call so far; null before it is served. */
  attempts: readonly { readonly progress: AttemptProgress }[] | null = null;
  /** Its index among the live calls; null if it is not one of them. */
  index: number | null = null;
  /** Almost always there is one listener, the attempt. */
  private only: Abandonable | null = null;
  private others: Abandonable[] | null = null;
  private over = false;
  private last: (() => void) | null = null;

  /** Names the key of the call. */
  isOf({ id, basis, inGroupOfBasis, chain }: Pick<Key, "id" | "basis" | "inGroupOfBasis" | "chain">): void {
    this.keyId = id;
    if (basis !== undefined) this.basisId = basis;
    if (basis !== undefined && inGroupOfBasis === true) this.placedById = basis;
    if (chain !== undefined) this.groupIds = chain.ids;
  }

  cancel(failure: Failure): void {
    if (this.failure !== null) return;
    this.failure = failure;
    const { only, others } = this;
    this.only = null;
    this.others = null;
    only?.abandon(failure);
    if (others !== null) for (const listener of others) listener.abandon(failure);
  }

  /** Registers what to do when the call ends, in any way: one callback at most, called at once if the call has ended. */
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

  /** Adds a listener. It is called at once if the call is cancelled already. */
  add(listener: Abandonable): void {
    if (this.failure !== null) listener.abandon(this.failure);
    else if (this.only === null) this.only = listener;
    else (this.others ??= []).push(listener);
  }

  remove(listener: Abandonable): void {
    if (this.only === listener) this.only = null;
    else if (this.others !== null) this.others = without(this.others, listener);
  }

  /** The same as `add`, with a function. The returned one stops listening. */
  listen(abandon: (reason: Failure) => void): () => void {
    const listener = { abandon };
    this.add(listener);
    return () => this.remove(listener);
  }
}

const noGroupIds: readonly string[] = [];

function without(listeners: readonly Abandonable[], listener: Abandonable): Abandonable[] {
  return listeners.filter((other) => other !== listener);
}

/** Waits for `ms`, or until the call is cancelled. */
export function pause(
  ms: number,
  cancellation: Cancellation,
  { after }: { readonly after: (ms: number, then: () => void) => () => void },
): Promise<"paused"> {
  return new Promise((resolve) => {
    const wake = (): void => {
      disarm();
      unlisten();
      resolve("paused");
    };
    let unlisten = (): void => {};
    const disarm = after(ms, wake);
    unlisten = cancellation.listen(wake);
  });
}
