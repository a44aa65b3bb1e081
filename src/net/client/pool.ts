import type { Connection, Origin } from "./connection.ts";

/** Idle connections, ready for the next request to the same origin. The most recently used one is taken first. */
export class Pool {
  private readonly idle = new Map<string, Connection[]>();
  private sweeper: ReturnType<typeof setInterval> | null = null;

  constructor(private readonly nowMs: () => number) {}

  take(origin: Origin): Connection | null {
    const connections = this.idle.get(origin.key);
    for (let last = connections?.pop(); last !== undefined; last = connections?.pop()) {
      if (last.isOpen && !this.isStale(last)) return last;
      last.destroy();
    }
    return null;
  }

  put(connection: Connection): void {
    if (!connection.isOpen) return;
    connection.idleSinceMs = this.nowMs();
    const { key } = connection.origin;
    const connections = this.idle.get(key);
    if (connections === undefined) this.idle.set(key, [connection]);
    else if (connections.length < idleMax) connections.push(connection);
    else return connection.destroy();
    if (this.sweeper === null) this.startSweeper();
  }

  private startSweeper(): void {
    this.sweeper = setInterval(() => this.sweep(), sweepMs);
    this.sweeper.unref();
  }

  private isStale({ idleSinceMs, keepAliveMs }: Connection): boolean {
    return this.nowMs() - idleSinceMs > Math.min(idleMs, keepAliveMs);
  }

  private sweep(): void {
    for (const [key, connections] of this.idle) {
      const kept = connections.filter((connection) => connection.isOpen && !this.isStale(connection));
      for (const connection of connections) if (!kept.includes(connection)) connection.destroy();
      if (kept.length === 0) this.idle.delete(key);
      else this.idle.set(key, kept);
    }
    if (this.idle.size > 0 || this.sweeper === null) return;
    clearInterval(this.sweeper);
    this.sweeper = null;
  }
}

/** Shorter than upstreams keep theirs, so that we close first. */
const idleMs = 25_000;
const idleMax = 512;
const sweepMs = 5_000;
