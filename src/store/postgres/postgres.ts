import type { Database } from "../database.ts";
import { StatementTimeout, type QueryResult, type PostgresConnection } from "./postgres-connection.ts";
import { PostgresPool } from "./postgres-pool.ts";
import { ReadOnlyError, TransientError } from "./postgres-errors.ts";
import { sql, type Sql } from "../sql.ts";
import { TransactionScope } from "../transaction-scope.ts";

export interface PostgresOptions {
  /** The timeout of a statement, with the wait for a connection. Inside a transaction it applies to each statement. */
  readonly statementMs?: number;
  readonly connectionsMax?: number;
}

/**
 * A PostgreSQL server. Each promise settles within its timeout, and the next statement tries to connect again. If the connection
 * is lost between a statement and its reply, the statement may have been executed, so that callers may retry only statements
 * that are idempotent.
 */
export class PostgresDatabase implements Database {
  readonly engine = "postgres";
  private readonly statementMs: number;
  private readonly pool: PostgresPool;

  constructor(url: string, { statementMs = 2_000, connectionsMax = 8 }: PostgresOptions = {}) {
    this.statementMs = statementMs;
    this.pool = new PostgresPool(url, statementMs, connectionsMax);
  }

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    return (await this.runStatement(query)).rows as Row[];
  }

  async run(query: Sql): Promise<number> {
    return (await this.runStatement(query)).changed;
  }

  async transaction<T>(work: (database: Database) => Promise<T>): Promise<T> {
    return this.retrying(performance.now() + this.statementMs, async () =>
      this.pool.use(this.statementMs, async (connection) => this.runTransaction(connection, work)),
    );
  }

  async close(): Promise<void> {
    await this.pool.close();
  }

  private async runStatement(query: Sql): Promise<QueryResult> {
    const deadlineMs = performance.now() + this.statementMs;
    const leftMs = (): number => Math.max(0, deadlineMs - performance.now());
    return this.retrying(deadlineMs, async () => this.pool.use(leftMs(), async (connection) => connection.send(query, leftMs())));
  }

  private async runTransaction<T>(connection: PostgresConnection, work: (database: Database) => Promise<T>): Promise<T> {
    const send = async (query: Sql): Promise<QueryResult> => connection.send(query, this.statementMs);
    await connection.begin(this.statementMs);
    const scope = new TransactionScope("postgres", {
      all: async <Row extends object>(query: Sql): Promise<Row[]> => (await send(query)).rows as Row[],
      run: async (query) => (await send(query)).changed,
    });
    try {
      const result = await work(scope);
      scope.end();
      await send(commit);
      return result;
    } catch (error) {
      scope.abandon();
      // A connection that cannot roll back cannot be used again.
      await send(rollback).catch(() => connection.discard());
      throw scope.firstError instanceof TransientError || scope.firstError instanceof ReadOnlyError ? scope.firstError : error;
    }
  }

  /**
   * Retries conflicts a few times, and a server without free connections until the deadline. What a standby refused is tried once more,
   * because its connection may be older than a failover.
   */
  private async retrying<T>(deadlineMs: number, attempt: () => Promise<T>): Promise<T> {
    let tooManyConnections: TransientError | null = null;
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof ReadOnlyError && attempts === 1) continue;
        const pauseMs = Math.min(pauseMaxMs, pauseMinMs * 2 ** attempts) * (0.5 + Math.random() / 2);
        // If only the last retry ran out of time, the reason is still the lack of connections.
        if (!(error instanceof TransientError))
          throw error instanceof StatementTimeout && tooManyConnections !== null ? tooManyConnections : error;
        if (error.why === "too_many_connections") tooManyConnections = error;
        if (error.why === "conflict" ? attempts >= attemptsMax : performance.now() + pauseMs > deadlineMs) throw error;
        await new Promise<void>((resolve) => void setTimeout(resolve, pauseMs));
      }
    }
  }
}

const commit = sql`commit`;
const rollback = sql`rollback`;
const attemptsMax = 6;
const pauseMinMs = 4;
const pauseMaxMs = 200;
