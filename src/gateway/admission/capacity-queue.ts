import type { Cancellation } from "../cancellation.ts";
import type { Ports } from "../ports.ts";

/**
 * Calls wait here while every channel they could use is full. The newest call goes first: in a short burst all are served soon anyway,
 * and under lasting overload the calls that are served are served in time. First in, first out would make every call wait nearly as
 * long as the longest possible wait ("adaptive LIFO" in "Fail at Scale",
 * https://queue.acm.org/detail.cfm?id=2839461).
 */
export class CapacityQueue {
  /** Waiting calls by channel and by route, the newest last. */
  private readonly byChannel = new Map<string, CapacityWaiter[]>();
  private readonly byRoute = new Map<string, CapacityWaiter[]>();
  private count = 0;

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "after">,
    private readonly bounds: { readonly routeMax: number; readonly allMax: number } = { routeMax: 100, allMax: 1_000 },
  ) {}

  /** The number of waiting calls. */
  get size(): number {
    return this.count;
  }

  /**
   * Resolves with the channel that has capacity, or with null if none had in time or a newer call replaced this one. A caller that
   * does not use the capacity passes it on with `freed`.
   */
  wait({ route, channels, untilMs, cancellation }: CapacityRequest): Promise<string | null> {
    const waitMs = untilMs - this.ports.nowMs();
    if (waitMs <= 0 || channels.length === 0 || cancellation.failure !== null) return noChannel;
    const waiters = this.byRoute.get(route);
    // The oldest call is the least likely to be served in time.
    if (waiters !== undefined && waiters.length >= this.bounds.routeMax) waiters[0]!.leave(null);
    if (this.count >= this.bounds.allMax) return noChannel;
    return new Promise((resolve) => this.enter({ route, channels, waitMs, cancellation, resolve }));
  }

  /** A channel has capacity again. */
  freed(channel: string): void {
    this.byChannel.get(channel)?.at(-1)?.leave(channel);
  }

  private enter({ route, channels, waitMs, cancellation, resolve }: CapacityWait): void {
    let cancelTimer = (): void => {};
    let unlisten = (): void => {};
    let isWaiting = true;
    const waiter: CapacityWaiter = {
      leave: (channel) => {
        if (!isWaiting) return;
        isWaiting = false;
        cancelTimer();
        unlisten();
        this.count -= 1;
        remove(this.byRoute, route, waiter);
        for (const name of channels) remove(this.byChannel, name, waiter);
        resolve(channel);
      },
    };
    this.count += 1;
    append(this.byRoute, route, waiter);
    for (const name of channels) append(this.byChannel, name, waiter);
    cancelTimer = this.ports.after(waitMs, () => waiter.leave(null));
    unlisten = cancellation.listen(() => waiter.leave(null));
  }
}

export interface CapacityRequest {
  readonly route: string;
  /** The full channels, each once. */
  readonly channels: readonly string[];
  /** On the clock of `nowMs`. */
  readonly untilMs: number;
  readonly cancellation: Cancellation;
}

interface CapacityWait extends Omit<CapacityRequest, "untilMs"> {
  readonly waitMs: number;
  readonly resolve: (channel: string | null) => void;
}

interface CapacityWaiter {
  readonly leave: (channel: string | null) => void;
}

const noChannel = Promise.resolve(null);

function append(waitersByName: Map<string, CapacityWaiter[]>, name: string, waiter: CapacityWaiter): void {
  const waiters = waitersByName.get(name);
  if (waiters === undefined) waitersByName.set(name, [waiter]);
  else waiters.push(waiter);
}

function remove(waitersByName: Map<string, CapacityWaiter[]>, name: string, waiter: CapacityWaiter): void {
  const waiters = waitersByName.get(name);
  const at = waiters?.lastIndexOf(waiter) ?? -1;
  if (waiters === undefined || at < 0) return;
  waiters.splice(at, 1);
  if (waiters.length === 0) waitersByName.delete(name);
}
