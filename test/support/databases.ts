import { afterAll } from "bun:test";
import type { Database } from "../../src/store/database.ts";
import { openDatabase } from "../../src/store/open.ts";
import { migratedDataDir } from "./data-dirs.ts";
import { findPostgres, lacking } from "./servers/obtain.ts";
import { startPostgres, type TestPostgres } from "./servers/postgres.ts";

export interface Engine {
  readonly name: "sqlite" | "postgres";
  /** A fresh database with all migrations done. What is not disposed of ends with the test file. */
  readonly open: () => Promise<Database & AsyncDisposable>;
  /** Why it cannot be had here. */
  readonly skipped: string | null;
}

/** Both engines; PostgreSQL is one real server for each test file, started when it is first needed. */
export const engines: readonly Engine[] = [
  { name: "sqlite", open: openSqlite, skipped: null },
  { name: "postgres", open: openPostgres, skipped: skippedPostgres() },
];

/** The address of a new, empty database of this file's server. */
export async function freshPostgresUrl(): Promise<string> {
  return (await postgresServer()).freshDatabase();
}

/** The same with all migrations done. */
export async function migratedPostgresUrl(): Promise<string> {
  migrated ??= migratedOnce();
  return (await postgresServer()).freshDatabase(await migrated);
}

async function migratedOnce(): Promise<string> {
  const store = await freshPostgresUrl();
  await (await openDatabase({ store, dataDir: "" })).close();
  return store;
}

let server: Promise<TestPostgres> | null = null;
/** A database of that server, which is copied: to migrate each one would take longer. */
let migrated: Promise<string> | null = null;

/** The server of this test file: it may be frozen and killed. */
export async function postgresServer(): Promise<TestPostgres> {
  server ??= startPostgres({ fsync: false }).then((started) => {
    if ("skipped" in started) throw new Error(started.skipped);
    return started;
  });
  return server;
}

export { freshDataDir, migratedDataDir } from "./data-dirs.ts";

async function openSqlite(): Promise<Database & AsyncDisposable> {
  return disposable(await openDatabase({ store: "sqlite", dataDir: await migratedDataDir() }));
}

async function openPostgres(): Promise<Database & AsyncDisposable> {
  return disposable(await openDatabase({ store: await migratedPostgresUrl(), dataDir: "" }));
}

/** One that is not disposed of ends with the test file. */
export function disposable(database: Database): Database & AsyncDisposable {
  leftovers.push(async () => database.close());
  return Object.assign(database, { [Symbol.asyncDispose]: async () => database.close() });
}

function skippedPostgres(): string | null {
  const found = findPostgres();
  return "skipped" in found ? lacking(found.skipped).skipped : null;
}

const leftovers: (() => Promise<void>)[] = [];

afterAll(async () => {
  for (const end of leftovers.splice(0).toReversed()) await end();
  await (await server?.catch(() => null))?.stop();
  server = null;
  migrated = null;
}, 30_000);
