import { StorageTrouble } from "../gateway/storage.ts";
import type { Database } from "./database.ts";
import type { Sql, Value } from "./sql.ts";

/**
 * The database as the work of a transaction sees it. The first statement that fails spoils the transaction on every engine,
 * as it does on PostgreSQL: on a full disk SQLite ends it by itself, and what came after would stand alone.
 */
export class TransactionScope implements Database {
  /** What the first failed statement met. */
  trouble: Error | null = null;
  readonly runEach?: NonNullable<Database["runEach"]>;
  private ended = false;

  constructor(
    readonly engine: Database["engine"],
    private readonly connection: StatementRunner,
  ) {
    if (connection.runEach !== undefined) this.runEach = async (query, rows) => this.watched(() => connection.runEach!(query, rows));
  }

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    return this.watched(() => this.connection.all<Row>(query));
  }

  async run(query: Sql): Promise<number> {
    return this.watched(() => this.connection.run(query));
  }

  transaction<T>(): Promise<T> {
    return Promise.reject(
      new StorageTrouble("unavailable", "A transaction inside of a transaction is not supported: use the one at hand."),
    );
  }

  close(): Promise<void> {
    return Promise.reject(new StorageTrouble("unavailable", "A transaction's database is closed by the end of the transaction."));
  }

  /** Nothing can be added any more. Throws what a statement of it met, also where the work went on as if it had not. */
  end(): void {
    this.abandon();
    if (this.trouble !== null) throw this.trouble;
  }

  abandon(): void {
    this.ended = true;
  }

  private async watched<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.ended) throw new StorageTrouble("unavailable", "The transaction is over: its work must await all of its statements.");
    if (this.trouble !== null) throw this.trouble;
    try {
      return await work();
    } catch (error) {
      this.trouble ??= error instanceof Error ? error : new Error(String(error));
      throw error;
    }
  }
}

export interface StatementRunner {
  all<Row extends object>(query: Sql): Row[] | Promise<Row[]>;
  run(query: Sql): number | Promise<number>;
  /** Only where it is quicker than one after the other. */
  runEach?(query: Sql, rows: readonly (readonly Value[])[]): readonly number[];
}
