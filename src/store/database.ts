import type { Sql, Value } from "./sql.ts";

/** A SQLite or PostgreSQL database. The same statements work on both; sql.ts describes the common subset. */
export interface Database {
  readonly engine: "sqlite" | "postgres";
  all<Row extends object>(query: Sql): Promise<Row[]>;
  /** Returns the number of rows that the statement changed. */
  run(query: Sql): Promise<number>;
  /**
   * Runs one prepared statement once for each row of values, and returns the number of rows that each run changed. The values
   * must already have gone through `valuesOf`. Only inside a transaction, and only on engines where it is faster than `run`.
   */
  runEach?(query: Sql, rows: readonly (readonly Value[])[]): Promise<readonly number[]>;
  /**
   * Commits all of the work or none of it. SQLite runs the writers of one file one after the other; on PostgreSQL a conflict is
   * retried, so `work` must have no side effect outside the database that may not happen twice.
   */
  transaction<T>(work: (database: Database) => Promise<T>): Promise<T>;
  /** Nothing more is wanted soon: gives back a thread that is kept only for that. The next statement starts it again. */
  rest?(): void;
  close(): Promise<void>;
}

/** For statements that differ between the engines. */
export type SqlByEngine = Readonly<Record<Database["engine"], Sql>>;
