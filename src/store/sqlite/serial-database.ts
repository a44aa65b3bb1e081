import { StorageError } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import type { Sql } from "../sql.ts";
import { TransactionScope, type StatementRunner } from "../transaction-scope.ts";
import { ConnectionMutex } from "./connection-mutex.ts";

/** A connection, on this thread or another, that statements and transactions use one after the other. */
export interface SerialConnection extends StatementRunner {
  begin(): void | Promise<void>;
  commit(): void | Promise<void>;
  rollback(): void | Promise<void>;
  rest?(): void;
  close(): void | Promise<void>;
}

export class SerialDatabase implements Database {
  readonly engine = "sqlite";
  protected readonly mutex = new ConnectionMutex();
  private closed: Promise<void> | null = null;

  constructor(private readonly connection: SerialConnection) {}

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    this.rejectIfClosed();
    return this.mutex.run(() => this.connection.all<Row>(query));
  }

  async run(query: Sql): Promise<number> {
    this.rejectIfClosed();
    return this.mutex.run(() => this.connection.run(query));
  }

  async transaction<T>(work: (database: Database) => Promise<T>): Promise<T> {
    this.rejectIfClosed();
    return this.mutex.runExclusive(async () => {
      const { connection } = this;
      await connection.begin();
      const scope = new TransactionScope("sqlite", connection);
      try {
        const result = await work(scope);
        scope.end();
        await connection.commit();
        return result;
      } catch (error) {
        scope.abandon();
        await rollbackQuietly(connection);
        throw error;
      }
    });
  }

  rest(): void {
    this.connection.rest?.();
  }

  /** Waits for all statements that were sent before. */
  close(): Promise<void> {
    this.closed ??= this.mutex.runExclusive(async () => {
      await this.connection.close();
    });
    return this.closed;
  }

  protected rejectIfClosed(): void {
    if (this.closed !== null) throw new StorageError("unavailable", "The store is closed.");
  }
}

/** Rolls back and ignores errors: the error that made the transaction fail matters more, and `begin` rolls back again. */
async function rollbackQuietly(connection: SerialConnection): Promise<void> {
  try {
    await connection.rollback();
  } catch {
    // See above.
  }
}
