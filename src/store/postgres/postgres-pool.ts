import { StorageTrouble } from "../../gateway/storage.ts";
import { StatementTimeout, PostgresConnection } from "./postgres-connection.ts";

/** A bounded number of connections. Whoever finds all of them in use waits in a line, for a bounded time. */
export class PostgresPool {
  private readonly idle: PostgresConnection[] = [];
  private readonly queue: PoolWaiter[] = [];
  private used = 0;
  private closed = false;
  private onAllReturned: (() => void) | null = null;

  constructor(
    private readonly url: string,
    private readonly statementMs: number,
    private readonly connectionsMax: number,
  ) {}

  /** Does the work with a connection that nobody else uses. Rejects when it gets none within the time. */
  async use<T>(waitMs: number, work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    const deadlineMs = performance.now() + waitMs;
    await this.acquire(waitMs);
    let connection: PostgresConnection | undefined;
    try {
      connection =
        this.takeIdle() ?? (await PostgresConnection.open(this.url, this.statementMs, Math.min(connectMs, deadlineMs - performance.now())));
      return await work(connection);
    } catch (error) {
      // When one hangs, the others that have not spoken since are likely to.
      if (error instanceof StatementTimeout) this.discardIdle();
      throw error;
    } finally {
      this.release(connection);
    }
  }

  async close(): Promise<void> {
    this.closed = true;
    for (const { refuse } of this.queue.splice(0)) refuse(new StorageTrouble("unavailable", "The store is closed."));
    if (this.used > 0) await new Promise<void>((resolve) => void (this.onAllReturned = resolve));
    this.discardIdle();
  }

  private async acquire(waitMs: number): Promise<void> {
    if (this.closed) throw new StorageTrouble("unavailable", "The store is closed.");
    if (this.used < this.connectionsMax) {
      this.used += 1;
      return;
    }
    if (this.queue.length >= queueMax) throw new StorageTrouble("unavailable", "Too many wait for PostgreSQL already.");
    const { promise, resolve: go, reject: refuse } = Promise.withResolvers<void>();
    const waiting = { go, refuse };
    this.queue.push(waiting);
    const timer = setTimeout(() => {
      const at = this.queue.indexOf(waiting);
      if (at >= 0) this.queue.splice(at, 1);
      refuse(new StorageTrouble("unavailable", `All ${this.connectionsMax} connections to PostgreSQL were in use for ${waitMs} ms.`));
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

  /** The one used last, so that the others can be seen to be superfluous. */
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
/** Whoever has much time for a statement still need not wait long to learn that nobody is there. */
const connectMs = 10_000;
