/**
 * What one gateway asks of its store and of Redis, as figures for the arithmetic in docs/scale.md: `sh bin/bun bench/scale.ts`. It starts
 * servers of its own, as the tests do. With `--quick` it only shows that it still runs, and its figures mean nothing.
 */
import { RedisClient, SQL } from "bun";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { groupIdPrefix } from "../src/keys/group.ts";
import { ListedReservationRequest } from "../src/limits/rate-limit-store.ts";
import { LeasedRateLimits } from "../src/state/leases/leased-rate-limits.ts";
import { MemoryRateLimits } from "../src/state/memory-rate-limits.ts";
import { RedisCounts } from "../src/state/redis/counts.ts";
import { RedisLink } from "../src/state/redis/link.ts";
import { StoreGuard } from "../src/state/store-guard.ts";
import type { Database } from "../src/store/database.ts";
import { openDatabase } from "../src/store/open.ts";
import { dropPartitions, makePartitions } from "../src/store/postgres/receipt-partitions.ts";
import { idAt } from "../src/store/receipts/receipt-conditions.ts";
import { entryOf, type ReceiptEntry } from "../src/store/receipts/receipt-entry.ts";
import { addEntries } from "../src/store/receipts/receipt-table.ts";
import { isThinned } from "../src/store/receipts/thinning.ts";
import { addToSums } from "../src/store/receipts/usage-sums.ts";
import { nameSql, Sql, sql } from "../src/store/sql.ts";
import { startGateway } from "../test/support/gateway.ts";
import { sampleReceipt } from "../test/support/journal-receipts.ts";
import { startPostgres, type TestPostgres } from "../test/support/servers/postgres.ts";
import { startRedis, type TestRedis } from "../test/support/servers/redis.ts";
import { quantile } from "./statistics.ts";

const { quick } = parseArgs({ options: { quick: { type: "boolean", default: false } } }).values;
const dayMs = 86_400_000;
const warmCalls = quick ? 20 : 400;
/** For more than twice as long as a slot is held without being renewed. */
const countedCalls = quick ? 100 : 4_600;
const batchReceipts = 200;
/** Less than five minutes with a batch a second, after which PostgreSQL makes a checkpoint by default. */
const batchesOfHalf = quick ? 2 : 250;
const droppedReceipts = quick ? 500 : 200_000;
const [settleSeconds, idleSeconds] = quick ? [0.2, 3] : [5, 30];
/** The last hour that is over, so that all is of one hour. */
const hourStartMs = Math.floor(Date.now() / 3_600_000 - 1) * 3_600_000;
const sumsOf = "2,000 keys and 222 groups in one hour";
/** Writers, receipts of a batch, and batches of all of them. */
const hotBatches: readonly (readonly [writers: number, receipts: number, batches: number])[] = quick
  ? [[2, 200, 2]]
  : [
      [1, 200, 200],
      [2, 200, 200],
      [4, 200, 200],
      [8, 200, 200],
      [1, 2_000, 40],
      [4, 2_000, 40],
    ];
const groupSums = "insert into owner_hours";
const postgres = await startPostgres();
const redis = await startRedis();
if ("skipped" in postgres || "skipped" in redis) throw new Error("A PostgreSQL and a Redis are needed: sh bin/bun scripts/test-servers.ts");
try {
  await commandsOfConcurrency(redis);
  for (const keptShare of [1, 0.1]) {
    await storedReceipts("SQLite", "sqlite", keptShare);
    await storedReceipts("PostgreSQL", await postgres.freshDatabase(), keptShare);
  }
  await hotRows(postgres);
  await droppedDay(postgres);
  await idleGateway(postgres, redis);
} finally {
  await postgres.stop();
  await redis.stop();
}

function report(name: string, figure: string): void {
  console.log(`${name.padEnd(76)} ${figure}`);
}

/** A limit on calls at the same time, at 200 calls a second: one process of fifty that serve 10,000. */
async function commandsOfConcurrency({ url }: TestRedis): Promise<void> {
  for (const keys of [1, 20, 1_000_000]) {
    const link = new RedisLink({ url });
    const counts = new RedisCounts(link, { prefix: `scale-${keys}:` });
    const nowMs = (): number => performance.now();
    const after = (ms: number, then: () => void): (() => void) => {
      const timer = setTimeout(then, ms);
      return () => clearTimeout(timer);
    };
    const guard = new StoreGuard({ nowMs, after, probe: () => counts.heartbeat("bench", 15_000), overdue: () => link.drop() });
    const rates = new LeasedRateLimits({ counts, guard, local: new MemoryRateLimits(nowMs), processes: () => 50, nowMs, after });
    const running: Promise<void>[] = [];
    const beganMs = nowMs();
    let before = 0;
    // Counted are the later ones: by then there is a connection, it has the scripts, and as many calls end as begin.
    for (let call = 0; call < warmCalls + countedCalls; call += 1) {
      await Bun.sleep(Math.max(0, beganMs + call * 5 - nowMs()));
      if (call === warmCalls) before = link.commands;
      const id = `key-${(call * 7_919) % keys} concurrency`;
      running.push(
        (async () => {
          const taken = await rates.reserve(new ListedReservationRequest([], [{ id, limit: 50 }], `call-${call}`));
          await Bun.sleep(500);
          if (taken.ok) taken.settle([]);
        })(),
      );
    }
    const commands = (link.commands - before) / countedCalls;
    await Promise.all(running);
    report(`Redis commands a call for a concurrency limit, 200 calls/s of ${keys} key(s)`, commands.toFixed(3));
    await rates.stop();
    guard.stop();
    link.close();
  }
}

async function opened(store: string, dataDir = ""): Promise<Database> {
  return openDatabase({ store, dataDir, statementMs: 60_000 });
}

/**
 * Batches of 200 receipts, as one process stores them once a second: 2,000 keys in 200 projects, 20 teams and 2 organisations. The second
 * half is counted for the write-ahead log: by then the rows of the sums are there, and the first change of each page after a checkpoint
 * writes all of it.
 */
async function storedReceipts(engine: "SQLite" | "PostgreSQL", store: string, keptShare: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-scale-"));
  const database = await opened(store, folder);
  const isPostgres = database.engine === "postgres";
  const before = await tableBytes(database);
  await storeBatches(database, 0, batchesOfHalf, keptShare);
  if (isPostgres) await database.run(sql`checkpoint`);
  const fromBytes = isPostgres ? await logBytes(database) : 0;
  const beganMs = performance.now();
  await storeBatches(database, batchesOfHalf, 2 * batchesOfHalf, keptShare);
  const tookMs = performance.now() - beganMs;
  const untilBytes = isPostgres ? await logBytes(database) : 0;
  const [after, calls] = [await tableBytes(database), 2 * batchesOfHalf * batchReceipts];
  const of = `with receipts.sample ${keptShare}`;
  report(`${engine}, bytes of disk a call for its receipt, ${of}`, ((after.receipts - before.receipts) / calls).toFixed(0));
  report(`${engine}, MB for the sums of ${sumsOf}, ${of}`, megabytes(after.sums - before.sums));
  if (isPostgres) {
    report(`${engine}, bytes of write-ahead log a call, ${of}`, ((untilBytes - fromBytes) / (calls / 2)).toFixed(0));
    await database.run(sql`vacuum full`);
    report(`${engine}, MB for the same sums after a vacuum full, ${of}`, megabytes((await tableBytes(database)).sums - before.sums));
  }
  const rows = await sumRows(database);
  report(`${engine}, rows of those sums, ${of}`, [...rows].map(([table, count]) => `${table} ${count}`).join(", "));
  report(`${engine}, receipts/s of one connection in batches of ${batchReceipts}, ${of}`, ((calls * 500) / tookMs).toFixed(0));
  await database.close();
  rmSync(folder, { recursive: true, force: true });
}

async function storeBatches(database: Database, from: number, until: number, keptShare = 1): Promise<void> {
  for (let batch = from; batch < until; batch += 1) {
    const entries = receiptsOf(batch);
    const kept = entries.filter((entry) => !isThinned(entry, keptShare));
    const thinned = entries.filter((entry) => isThinned(entry, keptShare));
    await database.transaction(async (inside) => addToSums(inside, await addEntries(inside, kept), thinned));
  }
}

/** Each batch is of another second of the same hour, and begins where the keys of the one before it ended. */
function receiptsOf(batch: number, receipts = batchReceipts): readonly ReceiptEntry[] {
  const startedMs = hourStartMs + batch * 1_000;
  return Array.from({ length: receipts }, (_, at) => {
    const key = (batch * receipts + at) % 2_000;
    const id = Bun.randomUUIDv7("hex", startedMs);
    return entryOf(
      sampleReceipt({
        id,
        requestId: `req_${id.replaceAll("-", "")}`,
        keyId: nameOf("key", key),
        model: `model-${Math.floor(key / 400)}`,
        startedMs,
        // Where caches are used, nearly each call saves something, which is summed as well.
        cacheSavedNanos: 400,
        owners: [groupOf("project", key % 200), groupOf("team", key % 20), groupOf("organisation", key % 2)],
      }),
    );
  });
}

function groupOf(kind: string, number: number): string {
  return `${groupIdPrefix}${nameOf(kind, number)}`;
}

/** As long as a real id, and as random: sums are sorted by it. */
function nameOf(kind: string, number: number): string {
  return Bun.hash(`${kind} ${number}`).toString(36).padStart(12, "0").slice(0, 12);
}

/** All that grows beside receipts are sums. */
async function tableBytes(database: Database): Promise<{ readonly receipts: number; readonly sums: number }> {
  const tables = await database.all<{ name: string; bytes: number }>(
    database.engine === "sqlite"
      ? sql`select tbl_name as name, sum(pgsize) as bytes from dbstat join sqlite_master using (name) group by tbl_name`
      : sql`select relname as name, pg_total_relation_size(oid) as bytes from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
  );
  const bytesOf = (isWanted: (name: string) => boolean): number =>
    tables.filter(({ name }) => isWanted(name)).reduce((sum, { bytes }) => sum + bytes, 0);
  return { receipts: bytesOf(isOfReceipts), sums: bytesOf((name) => !isOfReceipts(name)) };
}

function isOfReceipts(table: string): boolean {
  return /^(receipts|attempts|stray_receipts)/.test(table);
}

async function sumRows(database: Database): Promise<ReadonlyMap<string, number>> {
  const tables = await database.all<{ name: string }>(
    database.engine === "sqlite"
      ? sql`select name from sqlite_master where type = 'table'`
      : sql`select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
  );
  const rows = new Map<string, number>();
  for (const { name } of tables.filter((table) => /_(hours|days)$/.test(table.name))) {
    const [row] = await database.all<{ n: number }>(sql`select count(*) as n from ${nameSql(name)}`);
    rows.set(name, row!.n);
  }
  return rows;
}

async function logBytes(database: Database): Promise<number> {
  const [row] = await database.all<{ bytes: number }>(sql`select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint as bytes`);
  return row!.bytes;
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

/**
 * All processes add to the same rows: those of large groups, and those of everybody. Such a row is locked until its transaction ends, so
 * that a store takes no more batches a second than fit one after the other into the time for which they hold it: then receipts wait in the
 * journals, and batches become larger. Each writer stores one batch after the other.
 */
async function hotRows(server: TestPostgres): Promise<void> {
  const store = await server.freshDatabase();
  await (await opened(store)).close();
  // A connection that has stored nothing yet has compiled nothing either.
  for (const [writers, receipts, batches] of [[1, 200, quick ? 1 : 100] as const, ...hotBatches]) {
    const held: number[] = [];
    const waited: number[] = [];
    const beganMs = performance.now();
    const eachBatches = Math.ceil(batches / writers);
    await Promise.all(
      Array.from({ length: writers }, async (_, writer) => {
        const database = await opened(store);
        for (let batch = 0; batch < eachBatches; batch += 1) {
          const entries = receiptsOf(writer * eachBatches + batch, receipts);
          let [askedMs, lockedMs] = [0, 0];
          await database.transaction(async (inside) => {
            const added = await addEntries(inside, entries);
            await addToSums(
              watched(inside, groupSums, (fromMs, untilMs) => {
                if (lockedMs === 0) [askedMs, lockedMs] = [fromMs, untilMs];
              }),
              added,
            );
          });
          held.push(performance.now() - lockedMs);
          waited.push(lockedMs - askedMs);
        }
        await database.close();
      }),
    );
    const perSecond = (held.length * 1_000) / (performance.now() - beganMs);
    const ms = (values: readonly number[]): string => `${quantile(values, 0.5).toFixed(1)} (p99 ${quantile(values, 0.99).toFixed(1)})`;
    const of = `PostgreSQL, ${writers} writer(s) of ${receipts}`;
    report(`${of}: batches a second in all, and receipts`, `${perSecond.toFixed(1)}, ${(perSecond * receipts).toFixed(0)}`);
    report(`${of}: ms until a batch has the rows of its groups`, ms(waited));
    report(`${of}: ms from there to the end of its commit`, ms(held));
  }
}

/** Tells when a statement that begins like this was sent, and when it was answered. */
function watched(database: Database, beginning: string, onAnswer: (fromMs: number, untilMs: number) => void): Database {
  const timed = async <T>(query: Sql, run: () => Promise<T>): Promise<T> => {
    const fromMs = performance.now();
    const result = await run();
    if (query.texts[0]!.startsWith(beginning)) onAnswer(fromMs, performance.now());
    return result;
  };
  return {
    engine: database.engine,
    all: (query) => timed(query, () => database.all(query)),
    run: (query) => timed(query, () => database.run(query)),
    transaction: (work) => database.transaction(work),
    close: () => database.close(),
  };
}

async function droppedDay(server: TestPostgres): Promise<void> {
  const database = await opened(await server.freshDatabase());
  const today = Date.now() - (Date.now() % dayMs);
  await makePartitions(database, today);
  const [from, rows] = [idAt(today + 3 * dayMs), droppedReceipts];
  // Copies of one row under other ids.
  await database.transaction(async (inside) => void (await addEntries(inside, [entryOf(sampleReceipt())])));
  const columns = Object.keys((await database.all<Record<string, unknown>>(new Sql(["select * from receipts limit 1"], [])))[0]!);
  const values = columns.map((name) => (name === "id" ? `'${from}-7000-8000-' || lpad(to_hex(n), 12, '0')` : name)).join(", ");
  await database.run(
    new Sql([`insert into receipts (${columns.join(", ")}) select ${values} from receipts, generate_series(1, ${rows}) as n`], []),
  );
  const beganMs = performance.now();
  await dropPartitions(database, today + 4 * dayMs);
  report(`PostgreSQL, ms to drop the days up to one of ${rows} receipts`, (performance.now() - beganMs).toFixed(0));
  await database.close();
}

async function idleGateway(server: TestPostgres, { url }: TestRedis): Promise<void> {
  const store = await server.freshDatabase();
  await using gateway = await startGateway({
    config: { store, state: url, keys: [{ name: "a", key: "sk-scale-0123456789abcdef0123" }], channels: [] },
  });
  const statistics = new SQL({ url: server.url, max: 1 });
  const client = new RedisClient(url);
  const name = new URL(store).pathname.slice(1);
  if (gateway.url === "") throw new Error("The gateway did not start.");
  const counted = async (): Promise<readonly [number, number, number]> => {
    const [row] =
      (await statistics`select xact_commit + xact_rollback as n, numbackends as c from pg_stat_database where datname = ${name}`) as [
        { n: string; c: number },
      ];
    const stats = String(await client.send("INFO", ["commandstats"]));
    const commands = [...stats.matchAll(/cmdstat_(evalsha|eval|get|set|ping|zrem):calls=(\d+)/g)].reduce(
      (sum, [, , n]) => sum + Number(n),
      0,
    );
    return [Number(row.n), commands, row.c];
  };
  await Bun.sleep(settleSeconds * 1_000);
  const [transactions, commands] = await counted();
  await Bun.sleep(idleSeconds * 1_000);
  const [transactionsAfter, commandsAfter, connections] = await counted();
  report("PostgreSQL, transactions/s of an idle gateway", ((transactionsAfter - transactions) / idleSeconds).toFixed(2));
  report("PostgreSQL, connections of an idle gateway", String(connections));
  report("Redis, commands/s of an idle gateway", ((commandsAfter - commands) / idleSeconds).toFixed(2));
  client.close();
  await statistics.close({ timeout: 0 });
}
