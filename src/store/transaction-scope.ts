import { StorageError } from "../gateway/storage.ts";
import type { Database } from "./database.ts";
import type { Sql, Value } from "./sql.ts";

/**
 * The database as it is passed to the work of a transaction. After the first failed statement all others fail too, on both engines:
 * PostgreSQL does that by itself, but SQLite ends a transaction on a full disk and would run the rest outside of it.
 */
export class TransactionScope implements Database {
  /** The error of the first failed statement. */
  firstError: Error | null = null;
  readonly runEach?: NonNullable<Database["runEach"]>;
  private ended = false;

  constructor(
    readonly engine: Database["engine"],
    private readonly connection: StatementRunner,
  ) {
    if (connection.runEach !== undefined) this.runEach = async (query, rows) => this.track(() => connection.runEach!(query, rows));
  }

  async all<Row extends object>(query: Sql): Promise<Row[]> {
    return this.track(() => this.connection.all<Row>(query));
  }

  async run(query: Sql): Promise<number> {
    return this.track(() => this.connection.run(query));
  }

  transaction<T>(): Promise<T> {
    return Promise.reject(new StorageError("unavailable", "Nested transactions are not supported: use the current one."));
  }

  close(): Promise<void> {
    return Promise.reject(new StorageError("unavailable", "The database of a transaction cannot be closed: it ends with the transaction."));
  }

  /** Ends the scope before the commit. Throws the error of a failed statement even if the work caught and ignored it. */
  end(): void {
    this.abandon();
    if (this.firstError !== null) throw this.firstError;
  }

  abandon(): void {
    this.ended = true;
  }

  private async track<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.ended) throw new StorageError("unavailable", "The transaction is over: its work must await all of its statements.");
    if (this.firstError !== null) throw this.firstError;
    try {
      return await work();
    } catch (error) {
      this.firstError ??= error instanceof Error ? error : new Error(String(error));
      throw error;
    }
  }
}

/** A database whose transactions are part of the one that is open. */
export function joinedTransaction(transaction: Database): Database {
  const joined: Database = {
    engine: transaction.engine,
    all: (query) => transaction.all(query),
    run: (query) => transaction.run(query),
    ...(transaction.runEach === undefined ? {} : { runEach: (query, rows) => transaction.runEach!(query, rows) }),
    transaction: (work) => work(joined),
    close: () => transaction.close(),
  };
  return joined;
}

export interface StatementRunner {
  all<Row extends object>(query: Sql): Row[] | Promise<Row[]>;
  run(query: Sql): number | Promise<number>;
  /** Only if it is faster than single runs. */
  runEach?(query: Sql, rows: readonly (readonly Value[])[]): readonly number[];
}
