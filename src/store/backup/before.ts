import { readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { partFile, removeAbandoned, wholeFile } from "./file.ts";
import { ownKey, type BackupKey } from "./key.ts";
import { sealFile } from "./seal.ts";
import type { Database } from "../database.ts";
import { newestStep } from "../migrate.ts";
import { sql } from "../sql.ts";
import { SqliteDatabase } from "../sqlite/sqlite.ts";

/**
 * Keeps the store as it is before a step of the schema, beside it, and forgets the oldest of such copies. It is encrypted with
 * the store's master key where that is at hand: a start must not fail for want of it, and the store beside it is plain.
 */
export async function keepBefore(database: Database, file: string, number: number, given: string | null = null): Promise<void> {
  const copy = `${file}.before-${String(number).padStart(4, "0")}`;
  const key = await ownKey({ dataDir: dirname(file), given }, database).catch(() => null);
  await wholeFile(copy, (part) => (key === null ? copyBefore(database, part, number) : sealedBefore(database, part, number, key)));
  const folder = dirname(file);
  const copies = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.before-`) && /\.before-\d+$/.test(name));
  for (const name of copies.sort().slice(0, -copiesMax)) rmSync(join(folder, name), { force: true });
  removeAbandoned(file);
}

async function sealedBefore(database: Database, part: string, number: number, key: BackupKey): Promise<boolean> {
  return partFile(part, async (plain) => {
    if (!(await copyBefore(database, plain, number))) return false;
    await sealFile(plain, part, key);
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
