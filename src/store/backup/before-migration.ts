import { readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { withTempFile, removeAbandoned, writeAtomically } from "./atomic-file.ts";
import { storeMasterKey, type BackupKey } from "./key.ts";
import { encryptFile } from "./encrypted-file.ts";
import type { Database } from "../database.ts";
import { newestStep } from "../migrate.ts";
import { sql } from "../sql.ts";
import { SqliteDatabase } from "../sqlite/sqlite.ts";

/**
 * Keeps the store as it is before a step of the schema, beside it, and forgets the oldest of such copies. It is encrypted with
 * the store's master key where that is at hand: a start must not fail for want of it, and the store beside it is plain.
 */
export async function backupBeforeMigration(database: Database, file: string, number: number, given: string | null = null): Promise<void> {
  const copy = `${file}.before-${String(number).padStart(4, "0")}`;
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

/** Another process may have taken the step in the meantime, and has the copy from before it. */
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
