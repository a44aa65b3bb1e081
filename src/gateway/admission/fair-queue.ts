import type { Cancellation } from "../cancellation.ts";
import type { Ports } from "../ports.ts";

/**
 * Where calls wait their turn while nobody may be asked (`routing.wait`), instead of being refused at once. Keys take
 * turns, and within a key who came first goes first. A route that opens again is not flooded: one call goes ahead, and
 * each that is served brings two more.
 */
export class FairQueue {
  private readonly queues = new Map<string, RouteQueue>();
  /** How many calls of a key wait, over all routes. */
  private readonly totals = new Map<string, number>();
  private count = 0;

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "after">,
    private readonly bounds: QueueBounds = { routeMax: 100, allMax: 1_000 },
  ) {}

  /** How many wait, in all. */
  get size(): number {
    return this.count;
  }

  /** How many wait for this route. While somebody does, a call that just came has to wait behind them. */
  waiting(route: string): number {
    return this.queues.get(route)?.count ?? 0;
  }

  /**
   * Waits for a turn. Whoever is told to go plans anew, and then tells how it went: `opened`, `failed`, or `wait` once
   * more with `again`, which gives back the place at the head.
   */
  wait(call: QueueRequest): Promise<QueueOutcome> {
    const { route, keyId, cancellation, again = false } = call;
    if (again) this.failed(route);
    if (cancellation.failure !== null) return Promise.resolve("gone");
    // Nobody is kept for what it cannot live to see.
    if (this.ports.nowMs() + call.soonestMs >= call.deadlineMs) return Promise.resolve("late");
    if (!again && !this.makeRoom(route, keyId)) return Promise.resolve("full");
    return new Promise((resolve) => {
      const queue = this.queueOf(route);
      this.enter(queue, call, resolve);
      this.release(queue, false);
    });
  }

  /** A call of this route was served, or has left its place to another: the next ones may follow, whatever they were told. */
  opened(route: string): void {
    const queue = this.queues.get(route);
    if (queue === undefined) return;
    queue.admissionWindow = Math.min(this.bounds.routeMax, queue.admissionWindow + 1);
    queue.admitted.shift()?.();
    this.release(queue, true);
  }

  /** A call that went ahead was not served, for whatever reason: again one at a time. */
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
      queue = { route, keys: new Map(), count: 0, admissionWindow: 1, admitted: [], disarm: null };
      this.queues.set(route, queue);
    }
    return queue;
  }

  private enter(queue: RouteQueue, call: QueueRequest, resolve: (turn: QueueOutcome) => void): void {
    const { keyId, cancellation, again = false } = call;
    const nowMs = this.ports.nowMs();
    const opensMs = nowMs + Math.max(call.soonestMs, soonestMsMin, queue.count * lookMs);
    const waiter: QueuedCall = { keyId, opensMs, again, leave: (turn) => this.leave(queue, waiter, turn), resolve, release: () => {} };
    const line = queue.keys.get(keyId) ?? [];
    line.splice(again ? returned(line) : line.length, 0, waiter);
    queue.keys = again ? inFront(queue.keys, keyId, line) : queue.keys.set(keyId, line);
    queue.count += 1;
    this.count += 1;
    this.totals.set(keyId, (this.totals.get(keyId) ?? 0) + 1);
    const disarm = this.ports.after(call.deadlineMs - nowMs, () => waiter.leave("late"));
    const unlisten = cancellation.listen(() => waiter.leave("gone"));
    waiter.release = () => {
      disarm();
      unlisten();
    };
  }

  private leave(queue: RouteQueue, waiter: QueuedCall, turn: QueueOutcome): void {
    const line = queue.keys.get(waiter.keyId);
    const at = line?.indexOf(waiter) ?? -1;
    if (line === undefined || at < 0) return;
    line.splice(at, 1);
    if (line.length === 0) queue.keys.delete(waiter.keyId);
    queue.count -= 1;
    this.count -= 1;
    const left = this.totals.get(waiter.keyId)! - 1;
    if (left === 0) this.totals.delete(waiter.keyId);
    else this.totals.set(waiter.keyId, left);
    waiter.release();
    waiter.resolve(turn);
    this.tidy(queue);
  }

  /** Lets go as many as may, and sets the clock for the next. `early`: also those whose time has not come. */
  private release(queue: RouteQueue, early: boolean): void {
    queue.disarm?.();
    queue.disarm = null;
    const nowMs = this.ports.nowMs();
    while (queue.admitted.length < queue.admissionWindow) {
      const next = nextOf(queue, early ? Number.POSITIVE_INFINITY : nowMs);
      if (next === null) break;
      this.letGo(queue, next);
    }
    // With nobody's place free, it is those ahead who will be heard of.
    if (queue.count > 0 && queue.admitted.length < queue.admissionWindow) {
      queue.disarm = this.ports.after(Math.max(0, soonestOf(queue) - nowMs), () => this.release(queue, false));
    }
    this.tidy(queue);
  }

  private letGo(queue: RouteQueue, waiter: QueuedCall): void {
    const { keyId } = waiter;
    // To the end of the round, with those of its calls that still wait.
    const line = queue.keys.get(keyId)!;
    queue.keys.delete(keyId);
    queue.keys.set(keyId, line);
    // One of whom nothing is heard was not refused either: it holds up the others for a while only.
    const forget = this.ports.after(silenceMs, () => {
      queue.admitted.splice(queue.admitted.indexOf(forget), 1);
      this.release(queue, false);
    });
    queue.admitted.push(forget);
    waiter.leave("go");
  }

  private tidy(queue: RouteQueue): void {
    if (queue.count > 0) return;
    queue.disarm?.();
    queue.disarm = null;
    if (queue.admitted.length === 0 && this.queues.get(queue.route) === queue) this.queues.delete(queue.route);
  }

  /** Whether there is a place. Where all are taken, whoever holds most of them has to give one to who holds fewer. */
  private makeRoom(route: string, keyId: string): boolean {
    const queue = this.queues.get(route);
    if (queue !== undefined && queue.count >= this.bounds.routeMax) {
      const lines = [...queue.keys].map(([key, line]): readonly [string, number] => [key, line.length]);
      const hog = most(lines, queue.keys.get(keyId)?.length ?? 0);
      if (hog === null) return false;
      queue.keys.get(hog)!.at(-1)!.leave("full");
    }
    if (this.count < this.bounds.allMax) return true;
    const hog = most([...this.totals], this.totals.get(keyId) ?? 0);
    const lines = hog === null ? [] : [...this.queues.values()].map(({ keys }) => keys.get(hog) ?? []);
    const longest = lines.toSorted((one, other) => other.length - one.length)[0]?.at(-1);
    longest?.leave("full");
    return longest !== undefined;
  }
}

/** `late`: the deadline came, or will come before anybody may be asked. `gone`: the call was cancelled. */
export type QueueOutcome = "go" | "full" | "late" | "gone";

export interface QueueRequest {
  readonly route: string;
  readonly keyId: string;
  /** How long until the first candidate may be asked again. */
  readonly soonestMs: number;
  /** Until when the call may wait, on the clock of `nowMs`. */
  readonly deadlineMs: number;
  readonly cancellation: Cancellation;
  /** It was told to go, and still found nobody. */
  readonly again?: boolean;
}

export interface QueueBounds {
  readonly routeMax: number;
  readonly allMax: number;
}

interface RouteQueue {
  readonly route: string;
  /** Those who wait, by key, in the order in which the keys have their turn. */
  keys: Map<string, QueuedCall[]>;
  count: number;
  /** How many may be under way at once of whom nothing was heard yet. */
  admissionWindow: number;
  /** Those: each is the timer by which it is forgotten. */
  readonly admitted: (() => void)[];
  disarm: (() => void) | null;
}

interface QueuedCall {
  readonly keyId: string;
  /** When somebody may be asked, by what it knows: not all calls of a route have the same candidates. */
  readonly opensMs: number;
  readonly again: boolean;
  readonly leave: (turn: QueueOutcome) => void;
  readonly resolve: (turn: QueueOutcome) => void;
  /** Takes back its timer and its ear. */
  release: () => void;
}

/** A half-open channel that somebody is trying may open at any time: then we look from time to time. */
const soonestMsMin = 100;
/** Looking costs a plan: the more wait, the less often each of them looks. */
const lookMs = 10;
/** Upstreams refuse quickly; who has heard nothing for so long was taken. */
const silenceMs = 2_000;

/** How many at the head were sent back: the next who is comes behind them, and so they keep their order. */
function returned(line: readonly QueuedCall[]): number {
  const at = line.findIndex(({ again }) => !again);
  return at < 0 ? line.length : at;
}

/** The key has its turn next, but after those who were sent back before it. */
function inFront(keys: ReadonlyMap<string, QueuedCall[]>, keyId: string, line: QueuedCall[]): Map<string, QueuedCall[]> {
  const others = [...keys].filter(([key]) => key !== keyId);
  const before = others.findIndex(([, [head]]) => head?.again !== true);
  return new Map(others.toSpliced(before < 0 ? others.length : before, 0, [keyId, line]));
}

/** The first whose time has come, in the order of the keys. */
function nextOf(queue: RouteQueue, nowMs: number): QueuedCall | null {
  for (const line of queue.keys.values()) {
    const waiter = line.find(({ opensMs }) => opensMs <= nowMs);
    if (waiter !== undefined) return waiter;
  }
  return null;
}

function soonestOf(queue: RouteQueue): number {
  let soonestMs = Number.POSITIVE_INFINITY;
  for (const line of queue.keys.values()) for (const { opensMs } of line) soonestMs = Math.min(soonestMs, opensMs);
  return soonestMs;
}

/** Who has the most, if that is more than the newcomer would have. */
function most(shares: readonly (readonly [keyId: string, count: number])[], own: number): string | null {
  let best: readonly [string, number] | null = null;
  for (const share of shares) if (best === null || share[1] > best[1]) best = share;
  return best !== null && best[1] > own + 1 ? best[0] : null;
}
