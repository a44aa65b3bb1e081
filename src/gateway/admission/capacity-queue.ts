import type { Cancellation } from "../cancellation.ts";
import type { Ports } from "../ports.ts";

/**
 * Where calls wait for a place while every channel they could go to is full. Whoever came last goes first: in a burst all
 * are served soon anyway, and under a load that lasts those who are served are served in time, while with the first in
 * front everybody would wait for nearly as long as anybody can.
 */
export class CapacityQueue {
  /** Who waits for a channel, and who for a route; the newest are last. */
  private readonly byChannel = new Map<string, CapacityWaiter[]>();
  private readonly byRoute = new Map<string, CapacityWaiter[]>();
  private count = 0;

  constructor(
    private readonly ports: Pick<Ports, "nowMs" | "after">,
    private readonly bounds: { readonly routeMax: number; readonly allMax: number } = { routeMax: 100, allMax: 1_000 },
  ) {}

  /** How many wait, in all. */
  get size(): number {
    return this.count;
  }

  /**
   * The channel that has a place now; null: none had one in time, or others took the place in here. Whoever is told of a
   * place that it does not take says so, with `freed`.
   */
  wait({ route, channels, untilMs, cancellation }: CapacityRequest): Promise<string | null> {
    const waitMs = untilMs - this.ports.nowMs();
    if (waitMs <= 0 || channels.length === 0 || cancellation.failure !== null) return nobody;
    const line = this.byRoute.get(route);
    // The eldest has the least chance of all to be served.
    if (line !== undefined && line.length >= this.bounds.routeMax) line[0]!.leave(null);
    if (this.count >= this.bounds.allMax) return nobody;
    return new Promise((resolve) => this.enter({ route, channels, waitMs, cancellation, resolve }));
  }

  /** A channel has a place again. */
  freed(channel: string): void {
    this.byChannel.get(channel)?.at(-1)?.leave(channel);
  }

  private enter({ route, channels, waitMs, cancellation, resolve }: CapacityWait): void {
    let disarm = (): void => {};
    let unlisten = (): void => {};
    let waits = true;
    const waiter: CapacityWaiter = {
      leave: (channel) => {
        if (!waits) return;
        waits = false;
        disarm();
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
    disarm = this.ports.after(waitMs, () => waiter.leave(null));
    unlisten = cancellation.listen(() => waiter.leave(null));
  }
}

export interface CapacityRequest {
  readonly route: string;
  /** Those that are full, each once. */
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

const nobody = Promise.resolve(null);

function append(lines: Map<string, CapacityWaiter[]>, name: string, waiter: CapacityWaiter): void {
  const line = lines.get(name);
  if (line === undefined) lines.set(name, [waiter]);
  else line.push(waiter);
}

function remove(lines: Map<string, CapacityWaiter[]>, name: string, waiter: CapacityWaiter): void {
  const line = lines.get(name);
  const at = line?.lastIndexOf(waiter) ?? -1;
  if (line === undefined || at < 0) return;
  line.splice(at, 1);
  if (line.length === 0) lines.delete(name);
}
