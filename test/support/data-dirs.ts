import { afterAll } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase, storeFile } from "../../src/store/open.ts";

/** A new folder for a store; it goes with the test file. */
export function freshDataDir(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-store-"));
  folders.push(folder);
  return folder;
}

/** The same with a store of SQLite in it and all migrations done: a copy, because to migrate each one takes longer. */
export async function migratedDataDir(): Promise<string> {
  migrated ??= migratedOnce();
  const folder = freshDataDir();
  copyFileSync(storeFile(await migrated), storeFile(folder));
  return folder;
}

async function migratedOnce(): Promise<string> {
  const dataDir = freshDataDir();
  await (await openDatabase({ store: "sqlite", dataDir })).close();
  return dataDir;
}

let migrated: Promise<string> | null = null;
const folders: string[] = [];

afterAll(() => {
  migrated = null;
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}, 30_000);
