import type { Database } from "./database.ts";
import { backupBeforeMigration } from "./backup/before-migration.ts";
import { migrate, pending } from "./migrate.ts";
import { PostgresDatabase } from "./postgres/postgres.ts";
import { SqliteDatabase, storeFile } from "./sqlite/sqlite.ts";
import { ThreadDatabase } from "./sqlite/thread-database.ts";

export interface OpenOptions {
  /** `sqlite`, or the address of a PostgreSQL database. */
  readonly store: string;
  /** Holds the SQLite file; made where it is missing. */
  readonly dataDir: string;
  /** SQLite in a thread of its own, so that nothing on this one waits for the disk. PostgreSQL never makes it wait. */
  readonly threaded?: boolean;
  /** SQLite on this thread, for who writes much at a time. */
  readonly writesMuch?: boolean;
  /** How long a statement may take on PostgreSQL. */
  readonly statementMs?: number;
  /** How many connections there may be to PostgreSQL. */
  readonly connectionsMax?: number;
  /** The master key where the environment gives it, for the copy before a step of the schema. */
  readonly givenMasterKey?: string | null;
}

export { storeFile } from "./sqlite/sqlite.ts";

/** The store, brought up to this version. */
export async function openDatabase(options: OpenOptions): Promise<Database> {
  const database = options.store === "sqlite" ? sqlite(options) : postgres(options);
  try {
    if ((await pending(database)).length > 0) await migrated(database, options);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

function sqlite({ dataDir, threaded = false, writesMuch = false }: OpenOptions): Database {
  return threaded ? new ThreadDatabase(storeFile(dataDir)) : new SqliteDatabase(storeFile(dataDir), { writesMuch });
}

function postgres({ store, statementMs, connectionsMax }: OpenOptions): Database {
  return new PostgresDatabase(store, {
    ...(statementMs === undefined ? {} : { statementMs }),
    ...(connectionsMax === undefined ? {} : { connectionsMax }),
  });
}

async function migrated(database: Database, { store, dataDir, givenMasterKey = null }: OpenOptions): Promise<void> {
  if (database.engine === "sqlite") {
    await migrate(database, { before: async ({ number }) => backupBeforeMigration(database, storeFile(dataDir), number, givenMasterKey) });
    return;
  }
  // A step may have to rewrite a large table, which the deadline of an ordinary statement would forbid.
  const patient = new PostgresDatabase(store, { statementMs: migrationMs, connectionsMax: 1 });
  try {
    await migrate(patient);
  } finally {
    await patient.close();
  }
}

const migrationMs = 3_600_000;
