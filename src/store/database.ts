import type { Sql, Value } from "./sql.ts";

/** One database, whichever engine it is and wherever it runs. The same statements work on all; see the notes in sql.ts. */
export interface Database {
  readonly engine: "sqlite" | "postgres";
  all<Row extends object>(query: Sql): Promise<Row[]>;
  /** How many rows it changed. */
  run(query: Sql): Promise<number>;
  /**
   * The same statement once for each of many rows, whose values come in the place of its own, as `valuesOf` gives them. Says how
   * many rows each of them changed. It is there where it is quicker than one after the other, and only in a transaction.
   */
  runEach?(query: Sql, rows: readonly (readonly Value[])[]): Promise<readonly number[]>;
  /**
   * All of it or nothing. Writers of one SQLite file come one after the other; in PostgreSQL a conflict is tried again, so
   * the work must not do anything beside the database that cannot be done twice.
   */
  transaction<T>(work: (database: Database) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}
