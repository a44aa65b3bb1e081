import { Database, SQLiteError, type Statement } from "bun:sqlite";
import { textOf, valuesOf, type Sql, type Value } from "../sql.ts";
import { sqliteError } from "./sqlite-errors.ts";

export interface SqliteSettings {
  readonly readonly?: boolean;
  /** How long a statement waits for another process that is writing (`busy_timeout`). */
  readonly busyMs?: number;
  /** For large write transactions: a larger page cache. */
  readonly bulkWrites?: boolean;
}

type Prepared = Statement<object, Value[]>;

/** One connection to one file, used from one thread. It blocks the thread, but only for the disk and for other writers. */
export class SqliteConnection {
  private readonly statements = new Map<string, Prepared>();
  private keptCharacters = 0;

  protected constructor(
    private readonly database: Database,
    private readonly file: string,
  ) {}

  static open(file: string, { readonly = false, busyMs = 5_000, bulkWrites = false }: SqliteSettings = {}): SqliteConnection {
    let database: Database | undefined;
    try {
      database = new Database(file, readonly ? { readonly: true } : { readwrite: true, create: true });
      database.run(`pragma busy_timeout = ${busyMs}`);
      if (!readonly) {
        enterWal(database, busyMs);
        database.run("pragma synchronous = full");
        // The same for all: whoever writes little would otherwise make checkpoints for those who write much.
        database.run(`pragma wal_autocheckpoint = ${logPages}`);
        if (bulkWrites) database.run(`pragma cache_size = -${cacheKibibytes}`);
      }
      // The first query fails at once if this is not a database. It also takes the shared lock that a connection in WAL mode
      // keeps, by which a restore notices that the store is in use.
      database.query("select count(*) from sqlite_schema").all();
      return new SqliteConnection(database, file);
    } catch (error) {
      database?.close();
      throw sqliteError(error, file);
    }
  }

  all<Row extends object>(query: Sql): Row[] {
    return this.guarded(() => this.prepared(query).all(...valuesOf(query)) as Row[]);
  }

  run(query: Sql): number {
    return this.guarded(() => this.prepared(query).run(...valuesOf(query)).changes);
  }

  runEach(query: Sql, rows: readonly (readonly Value[])[]): readonly number[] {
    return this.guarded(() => {
      // Passing one array takes half the time of passing as many arguments.
      const statement = this.prepared(query) as unknown as { run(values: readonly Value[]): { readonly changes: number } };
      return rows.map((values) => statement.run(values).changes);
    });
  }

  /** Whether a transaction is on the disk when it is committed. One that is not is whole or absent after a power failure. */
  syncCommits(syncs: boolean): void {
    this.guarded(() => this.database.run(`pragma synchronous = ${syncs ? "full" : "normal"}`));
  }

  get inTransaction(): boolean {
    return this.database.inTransaction;
  }

  begin(): void {
    this.rollback();
    // `begin immediate` takes the write lock at once. Upgrading from a read lock later could deadlock two transactions.
    this.guarded(() => this.database.run("begin immediate"));
  }

  /** Runs some work that waits for another writer only for so long, and not for as long as other statements do (`busyMs`). */
  waitingOnly<T>(waitMs: number, busyMs: number, work: () => T): T {
    this.guarded(() => this.database.run(`pragma busy_timeout = ${waitMs}`));
    try {
      return work();
    } finally {
      this.guarded(() => this.database.run(`pragma busy_timeout = ${busyMs}`));
    }
  }

  commit(): void {
    this.guarded(() => this.database.run("commit"));
  }

  rollback(): void {
    // A full disk ends a transaction by itself, so that there may be none.
    if (this.database.inTransaction) this.guarded(() => this.database.run("rollback"));
  }

  close(): void {
    for (const statement of this.statements.values()) statement.finalize();
    this.statements.clear();
    this.database.close();
  }

  private guarded<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw sqliteError(error, this.file);
    }
  }

  private prepared(query: Sql): Prepared {
    const text = textOf(query, "?");
    const known = this.statements.get(text);
    if (known !== undefined) {
      this.statements.delete(text);
      this.statements.set(text, known);
      return known;
    }
    const statement: Prepared = this.database.prepare(text);
    this.statements.set(text, statement);
    this.keptCharacters += text.length;
    this.forgetOldest();
    return statement;
  }

  private forgetOldest(): void {
    for (const [text, statement] of this.statements) {
      if (this.statements.size === 1 || (this.statements.size <= statementsMax && this.keptCharacters <= charactersMax)) return;
      statement.finalize();
      this.statements.delete(text);
      this.keptCharacters -= text.length;
    }
  }
}

/**
 * The busy timeout does not cover every step of the change to WAL mode, and several processes may open a new file at the same
 * time.
 */
function enterWal(database: Database, busyMs: number): void {
  const deadlineMs = performance.now() + busyMs;
  for (;;) {
    try {
      database.run("pragma journal_mode = wal");
      return;
    } catch (error) {
      if (!(error instanceof SQLiteError && error.code?.startsWith("SQLITE_BUSY")) || performance.now() > deadlineMs) throw error;
      Bun.sleepSync(5);
    }
  }
}

/** Holds the sums of an hour and a day of some ten thousand keys. Memory is used only as needed. */
const cacheKibibytes = 32_768;
const logPages = 4_000;
/** Bounds of the statement cache: a batch insert is a long text, and the cache must stay within some megabytes. */
const statementsMax = 256;
const charactersMax = 1_000_000;
