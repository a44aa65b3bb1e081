/**
 * What one gateway asks of PostgreSQL and Redis, as figures for the arithmetic in docs/scale.md: `sh bin/bun bench/scale.ts`. It starts
 * servers of its own, as the tests do.
 */
import { RedisClient, SQL } from "bun";
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
import { entryOf } from "../src/store/receipts/receipt-entry.ts";
import { addEntries } from "../src/store/receipts/receipt-table.ts";
import { isThinned } from "../src/store/receipts/thinning.ts";
import { addToSums } from "../src/store/receipts/usage-sums.ts";
import { Sql } from "../src/store/sql.ts";
import { startGateway } from "../test/support/gateway.ts";
import { sampleReceipt } from "../test/support/journal-receipts.ts";
import { startPostgres, type TestPostgres } from "../test/support/servers/postgres.ts";
import { startRedis, type TestRedis } from "../test/support/servers/redis.ts";

const dayMs = 86_400_000;
const postgres = await startPostgres();
const redis = await startRedis();
if ("skipped" in postgres || "skipped" in redis) throw new Error("A PostgreSQL and a Redis are needed: sh bin/bun scripts/test-servers.ts");
try {
  await commandsOfConcurrency(redis);
  await storedReceipts(postgres, 1);
  await storedReceipts(postgres, 0.1);
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

const warmCalls = 400;
/** For more than twice as long as a slot is held without being renewed. */
const countedCalls = 4_600;

async function opened({ freshDatabase }: Pick<TestPostgres, "freshDatabase">): Promise<Database> {
  return openDatabase({ store: await freshDatabase(), dataDir: "", statementMs: 60_000 });
}

/** Batches of 200 receipts, as one process stores them once a second, of 2,000 keys. */
async function storedReceipts(server: TestPostgres, keptShare: number): Promise<void> {
  const database = await opened({ freshDatabase: () => server.freshDatabase() });
  const batches = 250;
  const [before] = await database.all<{ lsn: string }>(new Sql(["select pg_current_wal_lsn()::text as lsn"], []));
  const beganMs = performance.now();
  for (let batch = 0; batch < batches; batch += 1) {
    const entries = Array.from({ length: 200 }, (_, at) => {
      const id = Bun.randomUUIDv7();
      return entryOf(
        sampleReceipt({
          id,
          requestId: `req_${id.replaceAll("-", "")}`,
          keyId: `key-${String((batch * 200 + at) % 2_000).padStart(8, "0")}`,
          model: `model-${at % 5}`,
          startedMs: Date.now(),
        }),
      );
    });
    const kept = entries.filter((entry) => !isThinned(entry, keptShare));
    const thinned = entries.filter((entry) => isThinned(entry, keptShare));
    await database.transaction(async (inside) => addToSums(inside, await addEntries(inside, kept), thinned));
  }
  const receipts = batches * 200;
  const tookMs = performance.now() - beganMs;
  const [row] = await database.all<{ wal: number; receipts: number; sums: number }>(
    new Sql(
      [
        `select (pg_current_wal_lsn() - '${before!.lsn}'::pg_lsn)::bigint as wal,
          (pg_total_relation_size('receipts_before') + pg_total_relation_size('receipts_default'))::bigint as receipts,
          (pg_total_relation_size('usage_hours') + pg_total_relation_size('usage_days'))::bigint as sums`,
      ],
      [],
    ),
  );
  const of = `with receipts.sample ${keptShare}`;
  report(`PostgreSQL, bytes of disk a receipt, ${of}`, (row!.receipts / receipts).toFixed(0));
  report(`PostgreSQL, bytes of write-ahead log a receipt with its sums, ${of}`, (row!.wal / receipts).toFixed(0));
  report(`PostgreSQL, bytes of disk for the sums of 2,000 keys in one hour, ${of}`, String(row!.sums));
  report(`PostgreSQL, receipts/s of one connection in batches of 200, ${of}`, ((receipts * 1_000) / tookMs).toFixed(0));
  await database.close();
}

async function droppedDay(server: TestPostgres): Promise<void> {
  const database = await opened({ freshDatabase: () => server.freshDatabase() });
  const today = Date.now() - (Date.now() % dayMs);
  await makePartitions(database, today);
  const [from, rows] = [idAt(today + 3 * dayMs), 200_000];
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
  await Bun.sleep(5_000);
  const [transactions, commands] = await counted();
  await Bun.sleep(30_000);
  const [transactionsAfter, commandsAfter, connections] = await counted();
  report("PostgreSQL, transactions/s of an idle gateway", ((transactionsAfter - transactions) / 30).toFixed(2));
  report("PostgreSQL, connections of an idle gateway", String(connections));
  report("Redis, commands/s of an idle gateway", ((commandsAfter - commands) / 30).toFixed(2));
  client.close();
  await statistics.close({ timeout: 0 });
}
