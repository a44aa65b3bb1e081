import type { Cancellation } from "../cancellation.ts";
import type { Ports } from "../ports.ts";

/**
 * Calls wait here while no candidate may be asked (`routing.wait`), instead of being rejected at once. Keys take turns; within a key,
 * the first call goes first. A route that recovers is not flooded: one call is admitted, and each one that is served admits two more
 * (slow start).
 */
export class FairQueue {
  private readonly queues = new Map<string, RouteQueue>();
  /** The number of waiting calls of each key, over all routes. */
  private readonly totals = new Map<string, number>();
  private count = 0;

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "after">,
    private readonly bounds: QueueBounds = { routeMax: 100, allMax: 1_000 },
  ) {}

  /** The number of waiting calls. */
  get size(): number {
    return this.count;
  }

  /** The number of calls that wait for this route. While there are any, a new call queues behind them. */
  waiting(route: string): number {
    return this.queues.get(route)?.count ?? 0;
  }

  /**
   * Waits to be admitted. A call that is told to go plans again and reports how it went: with `opened`, with `failed`, or by calling
   * `wait` with `again`, which returns it to the head of the queue.
   */
  wait(call: QueueRequest): Promise<QueueOutcome> {
    const { route, keyId, cancellation, again = false } = call;
    if (again) this.failed(route);
    if (cancellation.failure !== null) return Promise.resolve("gone");
    // A call is not queued if its deadline comes before any candidate may be asked.
    if (this.ports.nowMs() + call.soonestMs >= call.deadlineMs) return Promise.resolve("late");
    if (!again && !this.makeRoom(route, keyId)) return Promise.resolve("full");
    return new Promise((resolve) => {
      const queue = this.queueOf(route);
      this.enter(queue, call, resolve);
      this.release(queue, false);
    });
  }

  /** A call of this route was served, or left its place: the next calls may follow, even before their time. */
  opened(route: string): void {
    const queue = this.queues.get(route);
    if (queue === undefined) return;
    queue.admissionWindow = Math.min(this.bounds.routeMax, queue.admissionWindow + 1);
    queue.admitted.shift()?.();
    this.release(queue, true);
  }

  /** An admitted call was not served: the window shrinks to one call at a time. */
  failed(route: string): void {
    const queue = this.queues.get(route);
    if (queue === undefined) return;
    queue.admissionWindow = 1;
    queue.admitted.shift()?.();
    this.release(queue, false);
  }

  private queueOf(route: string): RouteQueue {
    let queue = this.queues.get(route);
    if (queue === undefined) {
      queue = { route, keys: new Map(), count: 0, admissionWindow: 1, admitted: [], cancelTimer: null };
      this.queues.set(route, queue);
    }
    return queue;
  }

  private enter(queue: RouteQueue, call: QueueRequest, resolve: (outcome: QueueOutcome) => void): void {
    const { keyId, cancellation, again = false } = call;
    const nowMs = this.ports.nowMs();
    const opensMs = nowMs + Math.max(call.soonestMs, soonestMsMin, queue.count * recheckMs);
    const waiter: QueuedCall = {
      keyId,
      opensMs,
      again,
      leave: (outcome) => this.leave(queue, waiter, outcome),
      resolve,
      release: () => {},
    };
    const waiters = queue.keys.get(keyId) ?? [];
    waiters.splice(again ? returnedCount(waiters) : waiters.length, 0, waiter);
    queue.keys = again ? movedToFront(queue.keys, keyId, waiters) : queue.keys.set(keyId, waiters);
    queue.count += 1;
    this.count += 1;
    this.totals.set(keyId, (this.totals.get(keyId) ?? 0) + 1);
    const cancelTimer = this.ports.after(call.deadlineMs - nowMs, () => waiter.leave("late"));
    const unlisten = cancellation.listen(() => waiter.leave("gone"));
    waiter.release = () => {
      cancelTimer();
      unlisten();
    };
  }

  private leave(queue: RouteQueue, waiter: QueuedCall, outcome: QueueOutcome): void {
    const waiters = queue.keys.get(waiter.keyId);
    const at = waiters?.indexOf(waiter) ?? -1;
    if (waiters === undefined || at < 0) return;
    waiters.splice(at, 1);
    if (waiters.length === 0) queue.keys.delete(waiter.keyId);
    queue.count -= 1;
    this.count -= 1;
    const left = this.totals.get(waiter.keyId)! - 1;
    if (left === 0) this.totals.delete(waiter.keyId);
    else this.totals.set(waiter.keyId, left);
    waiter.release();
    waiter.resolve(outcome);
    this.removeIfEmpty(queue);
  }

  /** Admits as many calls as the window allows and sets the timer for the next. `early`: also calls whose time has not come. */
  private release(queue: RouteQueue, early: boolean): void {
    queue.cancelTimer?.();
    queue.cancelTimer = null;
    const nowMs = this.ports.nowMs();
    while (queue.admitted.length < queue.admissionWindow) {
      const next = nextOf(queue, early ? Number.POSITIVE_INFINITY : nowMs);
      if (next === null) break;
      this.admit(queue, next);
    }
    // If the window is full, the next call is admitted when an admitted one reports.
    if (queue.count > 0 && queue.admitted.length < queue.admissionWindow) {
      queue.cancelTimer = this.ports.after(Math.max(0, soonestOf(queue) - nowMs), () => this.release(queue, false));
    }
    this.removeIfEmpty(queue);
  }

  private admit(queue: RouteQueue, waiter: QueuedCall): void {
    const { keyId } = waiter;
    // The key moves to the end of the round, with its calls that still wait.
    const waiters = queue.keys.get(keyId)!;
    queue.keys.delete(keyId);
    queue.keys.set(keyId, waiters);
    // An admitted call that does not report was not rejected either. It occupies the window for a limited time only.
    const forget = this.ports.after(reportTimeoutMs, () => {
      queue.admitted.splice(queue.admitted.indexOf(forget), 1);
      this.release(queue, false);
    });
    queue.admitted.push(forget);
    waiter.leave("go");
  }

  private removeIfEmpty(queue: RouteQueue): void {
    if (queue.count > 0) return;
    queue.cancelTimer?.();
    queue.cancelTimer = null;
    if (queue.admitted.length === 0 && this.queues.get(queue.route) === queue) this.queues.delete(queue.route);
  }

  /** Makes room for a call if possible. If the queue is full, the key with the most waiting calls gives one up for a key with fewer. */
  private makeRoom(route: string, keyId: string): boolean {
    const queue = this.queues.get(route);
    if (queue !== undefined && queue.count >= this.bounds.routeMax) {
      const waitersByKey = [...queue.keys].map(([key, waiters]): readonly [string, number] => [key, waiters.length]);
      const busiestKey = busiest(waitersByKey, queue.keys.get(keyId)?.length ?? 0);
      if (busiestKey === null) return false;
      queue.keys.get(busiestKey)!.at(-1)!.leave("full");
    }
    if (this.count < this.bounds.allMax) return true;
    const busiestKey = busiest([...this.totals], this.totals.get(keyId) ?? 0);
    const waitersByKey = busiestKey === null ? [] : [...this.queues.values()].map(({ keys }) => keys.get(busiestKey) ?? []);
    const longest = waitersByKey.toSorted((one, other) => other.length - one.length)[0]?.at(-1);
    longest?.leave("full");
    return longest !== undefined;
  }
}

/** `late`: the deadline has passed, or will pass before any candidate may be asked. `gone`: the call was cancelled. */
export type QueueOutcome = "go" | "full" | "late" | "gone";

export interface QueueRequest {
  readonly route: string;
  readonly keyId: string;
  /** How long until the first candidate may be asked again. */
  readonly soonestMs: number;
  /** Until when the call may wait, on the clock of `nowMs`. */
  readonly deadlineMs: number;
  readonly cancellation: Cancellation;
  /** The call was admitted before and found no candidate. */
  readonly again?: boolean;
}

export interface QueueBounds {
  readonly routeMax: number;
  readonly allMax: number;
}

interface RouteQueue {
  readonly route: string;
  /** Waiting calls by key, in the order in which the keys take turns. */
  keys: Map<string, QueuedCall[]>;
  count: number;
  /** How many admitted calls may be running whose result is not known yet. */
  admissionWindow: number;
  /** Those calls, each as the cancel function of the timer that removes it. */
  readonly admitted: (() => void)[];
  cancelTimer: (() => void) | null;
}

interface QueuedCall {
  readonly keyId: string;
  /** When a candidate of this call may be asked. Calls of one route may have different candidates. */
  readonly opensMs: number;
  readonly again: boolean;
  readonly leave: (outcome: QueueOutcome) => void;
  readonly resolve: (outcome: QueueOutcome) => void;
  /** Cancels its timer and stops listening for cancellation. */
  release: () => void;
}

/** A half-open channel may close at any time, so the queue checks regularly. */
const soonestMsMin = 100;
/** Each check makes a plan, so calls check less often the more of them wait. */
const recheckMs = 10;
/** Upstreams reject quickly; no news for this long means that the call was accepted. */
const reportTimeoutMs = 2_000;

/** How many calls at the head were returned to the queue. The next one comes behind them, so that they keep their order. */
function returnedCount(waiters: readonly QueuedCall[]): number {
  const at = waiters.findIndex(({ again }) => !again);
  return at < 0 ? waiters.length : at;
}

/** The key is next, but after keys whose calls were returned before. */
function movedToFront(keys: ReadonlyMap<string, QueuedCall[]>, keyId: string, waiters: QueuedCall[]): Map<string, QueuedCall[]> {
  const others = [...keys].filter(([key]) => key !== keyId);
  const before = others.findIndex(([, [head]]) => head?.again !== true);
  return new Map(others.toSpliced(before < 0 ? others.length : before, 0, [keyId, waiters]));
}

/** The first call whose time has come, in the order of the keys. */
function nextOf(queue: RouteQueue, nowMs: number): QueuedCall | null {
  for (const waiters of queue.keys.values()) {
    const waiter = waiters.find(({ opensMs }) => opensMs <= nowMs);
    if (waiter !== undefined) return waiter;
  }
  return null;
}

function soonestOf(queue: RouteQueue): number {
  let soonestMs = Number.POSITIVE_INFINITY;
  for (const waiters of queue.keys.values()) for (const { opensMs } of waiters) soonestMs = Math.min(soonestMs, opensMs);
  return soonestMs;
}

/** The key with the most calls, if that is more than the new call's key would have. */
function busiest(shares: readonly (readonly [keyId: string, count: number])[], own: number): string | null {
  let best: readonly [string, number] | null = null;
  for (const share of shares) if (best === null || share[1] > best[1]) best = share;
  return best !== null && best[1] > own + 1 ? best[0] : null;
}
