import { SQL } from "bun";
import { Database as SqliteFile } from "bun:sqlite";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Database } from "../../../src/store/database.ts";
import { openDatabase, storeFile } from "../../../src/store/open.ts";
import { freshDataDir, freshPostgresUrl } from "../databases.ts";
import type { RecordedWork } from "./sample-process.ts";
import { sampleMasterKey } from "./sample-store.ts";

const folder = resolve(import.meta.dir, "../../fixtures/stores");

/** The versions of the schema of which there is a store, by the number of their newest migration. */
export const fixtureVersions = readdirSync(folder)
  .filter((name) => /^\d{4}$/.test(name))
  .map(Number)
  .toSorted((one, other) => one - other);

/** A store as a version left it, written by its own code. */
export interface StoreFixture {
  readonly version: number;
  readonly engine: Database["engine"];
  readonly dump: string;
  /** What that version said about it. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The statements that a process of that version makes. */
  readonly process: readonly RecordedWork[];
  /** The journal of a process of that version that was killed. */
  readonly journal: Uint8Array;
}

export function storeFixture(version: number, engine: Database["engine"]): StoreFixture {
  const read = (name: string): Buffer => readFileSync(join(folder, String(version).padStart(4, "0"), name));
  return {
    version,
    engine,
    dump: read(`${engine}.sql`).toString(),
    facts: JSON.parse(read(`${engine}-facts.json`).toString()) as Record<string, unknown>,
    process: JSON.parse(read(`${engine}-process.json`).toString()) as RecordedWork[],
    journal: read("journal.segment"),
  };
}

/** A backup that the first version made with its master key. */
export const firstBackup = join(folder, "0001", "store.backup");

/** Where a store lies: what the configuration says about it. */
export interface StoreLocation {
  readonly store: string;
  readonly dataDir: string;
}

/** Makes a store of the dump. */
export async function loadFixture({ engine, dump }: Pick<StoreFixture, "engine" | "dump">): Promise<StoreLocation> {
  const dataDir = freshDataDir();
  if (engine === "sqlite") {
    const file = new SqliteFile(storeFile(dataDir));
    file.run(`begin; ${dump} commit`);
    file.close();
    return { store: "sqlite", dataDir };
  }
  const store = await freshPostgresUrl();
  await using client = new SQL({ url: store, max: 1 });
  await client.unsafe(dump);
  return { store, dataDir };
}

/** `threaded`: as the gateway opens it, in threads of its own. On a busy machine a statement may take its time. */
export async function openStoreAt(location: StoreLocation, threaded = false): Promise<Database> {
  return openDatabase({ ...location, threaded, statementMs: 60_000, givenMasterKey: sampleMasterKey });
}
