import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Database } from "../src/store/database.ts";
import { migrate, newestStep } from "../src/store/migrate.ts";
import { storeFile } from "../src/store/open.ts";
import { PostgresDatabase } from "../src/store/postgres/postgres.ts";
import { SqliteDatabase } from "../src/store/sqlite/sqlite.ts";
import { startPostgres } from "../test/support/servers/postgres.ts";
import { dumpOf } from "../test/support/stores/dump.ts";
import { RecordingDatabase } from "../test/support/stores/recording-database.ts";
import { factsOf } from "../test/support/stores/sample-facts.ts";
import { recordProcess } from "../test/support/stores/sample-process.ts";
import { killedHolder, killedOpening, killedReceipts, sampleMs, segmentOf } from "../test/support/stores/sample-receipts.ts";
import { fillSample, openSample } from "../test/support/stores/sample-store.ts";

/**
 * Writes the store of this version into test/fixtures/stores, which later versions must be able to upgrade. To be run before a
 * migration is added; test/fixtures/stores/README.md tells the rest.
 */
const folder = mkdtempSync(join(tmpdir(), "sluice-store-fixture-"));
const postgres = await startPostgres({ fsync: false });
if ("skipped" in postgres) throw new Error(`A fixture needs a PostgreSQL as well: ${postgres.skipped}`);
try {
  await write("sqlite", new SqliteDatabase(storeFile(folder)));
  await write("postgres", new PostgresDatabase(await postgres.freshDatabase()));
} finally {
  await postgres.stop();
  rmSync(folder, { recursive: true });
}

async function write(engine: string, database: Database): Promise<void> {
  const migrating = new RecordingDatabase(database);
  await migrate(migrating, { nowMs: () => sampleMs });
  const opened = await openSample(database, folder);
  await fillSample(opened, join(folder, `journal-${engine}`));
  const facts = await factsOf(opened);
  const dump = await dumpOf(database, migrating.steps);
  const process = await recordProcess(database, folder, join(folder, `running-${engine}`));
  const target = resolve(import.meta.dir, "../test/fixtures/stores", String(await newestStep(database)).padStart(4, "0"));
  mkdirSync(target, { recursive: true });
  writeFileSync(join(target, `${engine}.sql`), dump);
  writeFileSync(join(target, `${engine}-facts.json`), `${JSON.stringify(facts, null, 1)}\n`);
  writeFileSync(join(target, `${engine}-process.json`), `${JSON.stringify(process, null, 1)}\n`);
  writeFileSync(join(target, "journal.segment"), segmentOf(killedHolder, "segment-of-the-killed", [killedOpening], killedReceipts));
  await database.close();
  console.log(`${join(target, `${engine}.sql`)}: ${dump.split("\n").length} lines`);
}
