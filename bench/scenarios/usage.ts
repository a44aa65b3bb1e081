import { mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Database } from "../../src/store/database.ts";
import { openDatabase, storeFile } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { newId, makeStorage } from "../../src/store/storage.ts";
import type { Storage } from "../../src/gateway/storage.ts";
import { startPostgres } from "../../test/support/servers/postgres.ts";
import type { Bench, Scenario } from "../bench.ts";
import { scratch } from "../processes.ts";
import { median } from "../statistics.ts";
import { keyOfYear, type Year, yearOf, type YearPlace, writeYear } from "../year.ts";

/** Questions about a year of ten million calls, asked as the command line and the admin API ask them. */
export const usage: Scenario = async (bench) => {
  const calls = bench.options.quick ? 200_000 : 10_000_000;
  // As long as receipts are kept unless somebody says otherwise.
  const year = yearOf(calls, Math.min(calls, bench.options.receipts ?? Math.ceil((calls * 90) / 365)));
  await inSqlite(bench, year);
  await inPostgres(bench, year);
  return [];
};

async function inSqlite(bench: Bench, year: Year): Promise<void> {
  const dataDir = join(scratch, "year");
  mkdirSync(dataDir, { recursive: true });
  try {
    await asked(bench, "SQLite", year, { store: "sqlite", dataDir });
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function inPostgres(bench: Bench, year: Year): Promise<void> {
  const server = await startPostgres({
    fsync: false,
    settings: {
      shared_buffers: "256MB",
      work_mem: "64MB",
      maintenance_work_mem: "512MB",
      max_wal_size: "1GB",
      wal_level: "minimal",
      max_wal_senders: "0",
    },
  });
  if ("skipped" in server) return bench.remark(`usage: PostgreSQL is left out: ${server.skipped}`);
  try {
    const store = await server.freshDatabase();
    await asked(bench, `PostgreSQL ${server.version}`, year, { store, dataDir: scratch });
  } finally {
    await server.stop();
  }
}

async function asked(bench: Bench, name: string, year: Year, place: YearPlace): Promise<void> {
  console.error(`usage, writing ${year.calls} calls into ${name}`);
  const beganMs = performance.now();
  await writeYear(year, place);
  const writeSeconds = (performance.now() - beganMs) / 1_000;
  const database = await openDatabase({ ...place, threaded: true, statementMs: 60_000, connectionsMax: 3 });
  const storage = makeStorage(database, { wallMs: Date.now, newId });
  try {
    const lines: (readonly (string | number)[])[] = [];
    for (const question of questions(year)) {
      console.error(`usage, ${name}, ${question.name}`);
      const tookMs: number[] = [];
      let rows = 0;
      for (let round = 0; round < (bench.options.quick ? 3 : 7); round += 1) {
        const askedMs = performance.now();
        rows = await question.ask(storage);
        tookMs.push(performance.now() - askedMs);
      }
      lines.push([question.name, rows, tookMs[0] ?? 0, median(tookMs), Math.max(...tookMs)]);
    }
    const size = await sizeOf(database, place);
    bench.show({
      title: `Questions to a year of ${year.calls} calls (sums of all, the newest ${year.receipts} receipts) in ${name}: written in ${writeSeconds.toFixed(0)} s, ${(size / 1e9).toFixed(2)} GB`,
      columns: ["question", "rows", "first, ms", "p50, ms", "most, ms"],
      lines,
    });
  } finally {
    await storage.close();
  }
}

async function sizeOf(database: Database, { dataDir }: YearPlace): Promise<number> {
  if (database.engine === "sqlite") return statSync(storeFile(dataDir)).size;
  const [row] = await database.all<{ readonly bytes: number | bigint }>(sql`select pg_database_size(current_database()) as bytes`);
  return Number(row?.bytes ?? 0);
}

interface Question {
  readonly name: string;
  /** How many rows came. */
  readonly ask: (storage: Storage) => Promise<number>;
}

function questions(year: Year): readonly Question[] {
  const { sinceMs, untilMs } = year;
  const monthMs = untilMs - 30 * 86_400_000;
  const all = { sinceMs, untilMs, keyId: null, model: null, channel: null };
  const list = { keyId: null, model: null, channel: null, state: null, sinceMs: null, untilMs: null, before: null, limit: 100 };
  const busy = keyOfYear(0);
  let found = { id: "", requestId: "" };
  let chosen = "";
  return [
    {
      name: "by day, over the year",
      ask: async ({ receipts }) => {
        const rows = await receipts.usage({ ...all, by: ["day"] });
        const sum = rows.reduce((calls, row) => calls + row.calls, 0);
        if (sum !== year.calls) throw new Error(`of ${year.calls} calls the sums know ${sum}`);
        return rows.length;
      },
    },
    { name: "by key, over a month", ask: async ({ receipts }) => (await receipts.usage({ ...all, by: ["key"], sinceMs: monthMs })).length },
    { name: "by key, over the year", ask: async ({ receipts }) => (await receipts.usage({ ...all, by: ["key"] })).length },
    {
      name: "by model and day, over the year",
      ask: async ({ receipts }) => (await receipts.usage({ ...all, by: ["model", "day"] })).length,
    },
    {
      name: "by channel and hour, over a week",
      ask: async ({ receipts }) => (await receipts.usage({ ...all, by: ["channel", "hour"], sinceMs: untilMs - 7 * 86_400_000 })).length,
    },
    {
      name: "one key by day, over the year",
      ask: async ({ receipts }) => (await receipts.usage({ ...all, by: ["day"], keyId: busy })).length,
    },
    {
      name: "the newest 100 receipts of a busy key",
      ask: async ({ receipts }) => {
        const rows = await receipts.list({ ...list, keyId: busy });
        found = rows.at(-1) ?? found;
        chosen = rows.find(({ requestId }) => requestId.startsWith("client-"))?.requestId ?? chosen;
        return rows.length;
      },
    },
    {
      name: "the newest 100 receipts of a rare key",
      ask: async ({ receipts }) => (await receipts.list({ ...list, keyId: keyOfYear(199) })).length,
    },
    {
      name: "the newest 100 receipts that failed",
      ask: async ({ receipts }) => (await receipts.list({ ...list, state: "failed" })).length,
    },
    { name: "one receipt by its id", ask: async ({ receipts }) => ((await receipts.find(found.id)) === null ? 0 : 1) },
    {
      name: "one receipt by the request's name that we gave",
      ask: async ({ receipts }) => ((await receipts.find(found.requestId)) === null ? 0 : 1),
    },
    {
      name: "one receipt by the request's name that its client gave",
      ask: async ({ receipts }) => ((await receipts.find(chosen)) === null ? 0 : 1),
    },
  ];
}
