import { readdirSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { wholeFile } from "./backup-file.ts";
import type { Database } from "./database.ts";
import { newestStep } from "./migrate.ts";
import { sql } from "./sql.ts";
import { SqliteDatabase } from "./sqlite.ts";

/** Keeps the store as it is before a step of the schema, beside it, and forgets the oldest of such copies. */
export async function keepBefore(database: Database, file: string, number: number): Promise<void> {
  await wholeFile(`${file}.before-${String(number).padStart(4, "0")}`, async (part) => {
    await database.run(sql`vacuum into ${part}`);
    const copy = new SqliteDatabase(part);
    try {
      // Another process may have taken the step in the meantime, and has the copy from before it.
      return (await newestStep(copy)) < number;
    } finally {
      await copy.close();
    }
  });
  const folder = dirname(file);
  const names = readdirSync(folder).filter((name) => name.startsWith(`${basename(file)}.before-`));
  const copies = names.filter((name) => /\.before-\d+$/.test(name)).sort();
  // Half a copy is what a process left that was killed over it.
  const halves = names.filter((name) => name.endsWith(".part") && Date.now() - changedMs(join(folder, name)) > abandonedMs);
  for (const name of [...copies.slice(0, -copiesMax), ...halves]) rmSync(join(folder, name), { force: true });
}

function changedMs(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
}

const copiesMax = 3;
const abandonedMs = 3_600_000;
