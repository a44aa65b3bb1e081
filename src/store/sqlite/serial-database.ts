import { StorageTrouble } from "../../gateway/storage.ts";
import type { Database } from "../database.ts";
import type { Sql } from "../sql.ts";
import { TransactionScope, type StatementRunner } from "../transaction-scope.ts";
import { ConnectionMutex } from "./connection-mutex.ts";

/** One connection that statements and transactions take turns on, on this thread or another. */
export interface SerialConnection extends StatementRunner {
  begin(): void | Promise<void>;
  commit(): void | Promise<void>;
  rollback(): void | Promise<void>;
  close(): void | Promise<void>;
}

export class SerialDatabase implements Database {
  readonly engine = "sqlite";
  private readonly mutex = new ConnectionMutex();
  private closed: Promise<void> | null = null;

  constructor(private readonly connection: SerialConnection) {}

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    this.refuseClosed();
    return this.mutex.run(() => this.connection.all<Row>(query));
  }

  async run(query: Sql): Promise<number> {
    this.refuseClosed();
    return this.mutex.run(() => this.connection.run(query));
  }

  async transaction<T>(work: (database: Database) => Promise<T>): Promise<T> {
    this.refuseClosed();
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

  /** After what was asked for before. */
  close(): Promise<void> {
    this.closed ??= this.mutex.runExclusive(async () => {
      await this.connection.close();
    });
    return this.closed;
  }

  private refuseClosed(): void {
    if (this.closed !== null) throw new StorageTrouble("unavailable", "The store is closed.");
  }
}

/** Why the transaction failed is worth more than why it could not be undone: the next one begins with undoing, too. */
async function rollbackQuietly(connection: SerialConnection): Promise<void> {
  try {
    await connection.rollback();
  } catch {
    // See above.
  }
}
