import { StorageError } from "../../gateway/storage.ts";
import { StatementTimeout, type PostgresConnection } from "./postgres-connection.ts";
import { ReadOnlyError } from "./postgres-errors.ts";
import { PostgresHosts } from "./postgres-hosts.ts";

/** A connection pool of a fixed size. When all connections are in use, callers wait in a queue for a bounded time. */
export class PostgresPool {
  private readonly idle: PostgresConnection[] = [];
  private readonly queue: PoolWaiter[] = [];
  private used = 0;
  private closed = false;
  private onAllReturned: (() => void) | null = null;
  private readonly hosts: PostgresHosts;

  constructor(
    url: string,
    private readonly statementMs: number,
    private readonly connectionsMax: number,
  ) {
    this.hosts = new PostgresHosts(url);
  }

  /** Runs the work with a connection of its own. Rejects if none becomes free in time. */
  async use<T>(waitMs: number, work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    const deadlineMs = performance.now() + waitMs;
    await this.acquire(waitMs);
    let connection: PostgresConnection | undefined;
    try {
      connection = this.takeIdle() ?? (await this.hosts.open(this.statementMs, Math.min(connectMs, deadlineMs - performance.now())));
      return await work(connection);
    } catch (error) {
      // If one connection hangs or leads to a standby, the idle ones probably do as well.
      if (error instanceof StatementTimeout || error instanceof ReadOnlyError) this.discardIdle();
      throw error;
    } finally {
      this.release(connection);
    }
  }

  async close(): Promise<void> {
    this.closed = true;
    for (const { refuse } of this.queue.splice(0)) refuse(new StorageError("unavailable", "The store is closed."));
    if (this.used > 0) await new Promise<void>((resolve) => void (this.onAllReturned = resolve));
    this.discardIdle();
  }

  private async acquire(waitMs: number): Promise<void> {
    if (this.closed) throw new StorageError("unavailable", "The store is closed.");
    if (this.used < this.connectionsMax) {
      this.used += 1;
      return;
    }
    if (this.queue.length >= queueMax)
      throw new StorageError("unavailable", "Too many statements are already waiting for a connection to PostgreSQL.");
    const { promise, resolve: go, reject: refuse } = Promise.withResolvers<void>();
    const waiting = { go, refuse };
    this.queue.push(waiting);
    const timer = setTimeout(() => {
      const at = this.queue.indexOf(waiting);
      if (at >= 0) this.queue.splice(at, 1);
      refuse(new StorageError("unavailable", `All ${this.connectionsMax} connections to PostgreSQL were in use for ${waitMs} ms.`));
    }, waitMs);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  private release(connection: PostgresConnection | undefined): void {
    if (connection !== undefined) {
      if (connection.closed || connection.hasTooManyStatements || this.closed) connection.discard();
      else this.idle.push(connection);
    }
    const next = this.queue.shift();
    if (next !== undefined) {
      next.go();
      return;
    }
    this.used -= 1;
    if (this.used === 0) this.onAllReturned?.();
  }

  /** Takes the connection that was used last, as the least likely to be stale. */
  private takeIdle(): PostgresConnection | undefined {
    for (;;) {
      const connection = this.idle.pop();
      if (connection === undefined || !connection.closed) return connection;
    }
  }

  private discardIdle(): void {
    for (const connection of this.idle.splice(0)) connection.discard();
  }
}

interface PoolWaiter {
  readonly go: () => void;
  readonly refuse: (error: Error) => void;
}

const queueMax = 10_000;
/** The connect timeout, for databases whose statement timeout is longer. */
const connectMs = 10_000;
