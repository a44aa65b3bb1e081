import { StorageError, type Actor, type Storage } from "../../src/gateway/storage.ts";
import type { Database } from "../../src/store/database.ts";
import { openDatabase } from "../../src/store/open.ts";
import { idsBy, makeStorage } from "../../src/store/storage.ts";
import type { DamagedRow } from "../../src/store/tables/change.ts";
import { freshDataDir, migratedDataDir, migratedPostgresUrl, type Engine } from "./databases.ts";

export const ada: Actor = { kind: "cli", name: "ada" };

/** A new store, and everything a test wants to look at or turn. */
export interface StorageWorld extends AsyncDisposable {
  readonly database: Database;
  readonly storage: Storage;
  readonly damaged: DamagedRow[];
  readonly clock: { nowMs: number };
  /** Where the SQLite file lies; for PostgreSQL an empty folder. */
  readonly dataDir: string;
  /** The same store through a connection of its own, as another process has it. */
  another(): Promise<{ readonly database: Database; readonly storage: Storage }>;
}

/** `threaded`: as the gateway opens it; on one thread, two connections to one SQLite file would wait for each other. */
export async function storageWorld(engine: Engine, startMs = 1_000_000, threaded = false): Promise<StorageWorld> {
  const damaged: DamagedRow[] = [];
  const clock = { nowMs: startMs };
  const needs = { wallMs: () => clock.nowMs, newId: idsBy(() => clock.nowMs), damaged: (row: DamagedRow) => void damaged.push(row) };
  const [store, dataDir] = engine.name === "sqlite" ? ["sqlite", await migratedDataDir()] : [await migratedPostgresUrl(), freshDataDir()];
  const open = (): Promise<Database> => openDatabase({ store, dataDir, threaded });
  const opened = [await open()];
  return {
    database: opened[0]!,
    storage: makeStorage(opened[0]!, needs),
    damaged,
    clock,
    dataDir,
    another: async () => {
      const database = await open();
      opened.push(database);
      return { database, storage: makeStorage(database, needs) };
    },
    [Symbol.asyncDispose]: async () => {
      for (const database of opened) await database.close();
    },
  };
}

/** The kind of the `StorageError` that it rejects with, or `none`. */
export async function errorKind(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "none",
    (error: unknown) => (error instanceof StorageError ? error.kind : String(error)),
  );
}
