import { readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { withTempFile, removeAbandoned, writeAtomically } from "./atomic-file.ts";
import { storeMasterKey, type BackupKey } from "./key.ts";
import { encryptFile } from "./encrypted-file.ts";
import type { Database } from "../database.ts";
import { newestStep, paddedNumber } from "../migrate.ts";
import { sql } from "../sql.ts";
import { SqliteDatabase } from "../sqlite/sqlite.ts";

/**
 * Copies the store to a file beside it before a migration, and deletes the oldest such copies. The copy is encrypted with the master
 * key if that is available. If not, the copy is plain, as the store beside it is: the start must not fail because of it.
 */
export async function backupBeforeMigration(database: Database, file: string, number: number, given: string | null = null): Promise<void> {
  const copy = `${file}.before-${paddedNumber(number)}`;
  const key = await storeMasterKey({ dataDir: dirname(file), given }, database).catch(() => null);
  await writeAtomically(copy, (part) =>
    key === null ? copyBefore(database, part, number) : encryptedCopyBefore(database, part, number, key),
  );
  const folder = dirname(file);
  const copies = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.before-`) && /\.before-\d+$/.test(name));
  for (const name of copies.sort().slice(0, -copiesMax)) rmSync(join(folder, name), { force: true });
  removeAbandoned(file);
}

async function encryptedCopyBefore(database: Database, part: string, number: number, key: BackupKey): Promise<boolean> {
  return withTempFile(part, async (plain) => {
    if (!(await copyBefore(database, plain, number))) return false;
    await encryptFile(plain, part, key);
    return true;
  });
}

/** Returns false if another process has applied the migration in the meantime. That process has made the copy. */
async function copyBefore(database: Database, to: string, number: number): Promise<boolean> {
  await database.run(sql`vacuum into ${to}`);
  const copy = new SqliteDatabase(to);
  try {
    return (await newestStep(copy)) < number;
  } finally {
    await copy.close();
  }
}

const copiesMax = 3;
