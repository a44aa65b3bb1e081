import type { Database } from "./database.ts";
import { backupBeforeMigration } from "./backup/before-migration.ts";
import { migrate, newestStep, pending } from "./migrate.ts";
import { refuseUnnamedPooler } from "./postgres/pooler-probe.ts";
import { PostgresDatabase } from "./postgres/postgres.ts";
import { SqliteDatabase, storeFile } from "./sqlite/sqlite.ts";
import { ThreadDatabase } from "./sqlite/thread-database.ts";

export interface OpenOptions {
  /** `sqlite`, or the URL of a PostgreSQL database. */
  readonly store: string;
  /** The folder of the SQLite file. It is created if it does not exist. */
  readonly dataDir: string;
  /** Runs SQLite in a worker thread, so that the calling thread never waits for the disk. PostgreSQL needs none. */
  readonly threaded?: boolean;
  /** Ends the worker thread when it had nothing to do for so long; the next statement starts it again. */
  readonly restMs?: number;
  /** Tunes a SQLite connection for large write transactions. */
  readonly bulkWrites?: boolean;
  /** The statement timeout on PostgreSQL. */
  readonly statementMs?: number;
  /** The size of the PostgreSQL connection pool. */
  readonly connectionsMax?: number;
  /** The master key, if the environment sets one. It encrypts the backup that is made before a migration. */
  readonly givenMasterKey?: string | null;
  /** Another connection of this process has found before that no pooler mixes up the statements of clients. */
  readonly poolerChecked?: boolean;
}

export { storeFile } from "./sqlite/sqlite.ts";

/** Opens the store and migrates it to this version. */
export async function openDatabase(options: OpenOptions): Promise<Database> {
  const database = connectDatabase(options);
  try {
    if (database.engine === "postgres" && options.poolerChecked !== true) await refuseUnnamedPooler(options.store, options.statementMs);
    if ((await pending(database)).length > 0) await runMigrations(database, options);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** A store that was opened before, so that it needs no migration. Nothing is connected and no thread is started before the first statement. */
export function connectDatabase(options: OpenOptions): Database {
  return options.store === "sqlite" ? sqlite(options) : postgres(options);
}

function sqlite({ dataDir, threaded = false, restMs, bulkWrites = false }: OpenOptions): Database {
  const file = storeFile(dataDir);
  return threaded ? new ThreadDatabase(file, {}, restMs) : new SqliteDatabase(file, { bulkWrites });
}

function postgres({ store, statementMs, connectionsMax }: OpenOptions): Database {
  return new PostgresDatabase(store, {
    ...(statementMs === undefined ? {} : { statementMs }),
    ...(connectionsMax === undefined ? {} : { connectionsMax }),
  });
}

async function runMigrations(database: Database, { store, dataDir, threaded, givenMasterKey = null }: OpenOptions): Promise<void> {
  if (database.engine === "sqlite") {
    const file = storeFile(dataDir);
    if (threaded === true && (await newestStep(database)) === 0) await makeStore(file);
    await migrate(database, { beforeStep: async ({ number }) => backupBeforeMigration(database, file, number, givenMasterKey) });
    return;
  }
  // A migration may rewrite a large table, which takes longer than the usual statement timeout.
  const migrating = new PostgresDatabase(store, { statementMs: migrationMs, connectionsMax: 1 });
  try {
    await migrate(migrating);
  } finally {
    await migrating.close();
  }
}

/** On this thread, because a new store takes more than a hundred statements: through another thread, each is two messages. */
async function makeStore(file: string): Promise<void> {
  const making = new SqliteDatabase(file);
  try {
    await migrate(making);
  } finally {
    await making.close();
  }
}

const migrationMs = 3_600_000;
