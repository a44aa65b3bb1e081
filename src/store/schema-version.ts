import { existsSync } from "node:fs";
import type { Database } from "./database.ts";
import { newestStep, pending } from "./migrate.ts";
import { PostgresDatabase } from "./postgres/postgres.ts";
import { SerialDatabase } from "./sqlite/serial-database.ts";
import { storeFile } from "./sqlite/sqlite.ts";
import { SqliteConnection } from "./sqlite/sqlite-connection.ts";

export interface SchemaVersion {
  /** The newest migration that the store has; 0 for an empty database. */
  readonly schema: number;
  /** How many of this version's migrations are missing. */
  readonly missing: number;
}

/** The schema of a store that is only looked at; null if there is none yet. Rejects if it cannot be reached or is too new. */
export async function schemaVersion({
  store,
  dataDir,
}: {
  readonly store: string;
  readonly dataDir: string;
}): Promise<SchemaVersion | null> {
  if (store === "sqlite" && !existsSync(storeFile(dataDir))) return null;
  const database: Database =
    store === "sqlite"
      ? new SerialDatabase(SqliteConnection.open(storeFile(dataDir), { readonly: true }))
      : new PostgresDatabase(store, { connectionsMax: 1, statementMs: lookMs });
  try {
    return { schema: await newestStep(database), missing: (await pending(database)).length };
  } finally {
    await database.close();
  }
}

const lookMs = 5_000;
