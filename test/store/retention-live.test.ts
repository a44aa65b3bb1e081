// Needs: servers. It uses a real PostgreSQL.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDurable, startRetention } from "../../src/app/durable.ts";
import { Timers } from "../../src/clock/timers.ts";
import { loadConfig } from "../../src/config/load.ts";
import type { Database } from "../../src/store/database.ts";
import { openDatabase } from "../../src/store/open.ts";
import { idAt } from "../../src/store/receipts/receipt-conditions.ts";
import { addReceipts } from "../../src/store/receipts/receipt-table.ts";
import { sql } from "../../src/store/sql.ts";
import { Log } from "../../src/telemetry/log.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { disposable, engines, migratedPostgresUrl } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";

// A real server is started and stopped; how long that takes on a busy machine is not judged.
setDefaultTimeout(120_000);

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const now = Date.now();
const today = now - (now % dayMs);
/** The days that retention gives a partition, without those that the tables from before the migration hold, also if midnight passes meanwhile. */
const comingDays = [3, 4, 5, 6, 7].map((days) => today + days * dayMs);

const skipped = engines.find(({ name }) => name === "postgres")!.skipped;

describe.skipIf(skipped !== null)(`days of receipts on PostgreSQL${skipped === null ? "" : ` (skipped: ${skipped})`}`, () => {
  test("have partitions before they come, made by the gateway that runs, so that no receipt of theirs is in the default one", async () => {
    const store = await migratedPostgresUrl();
    await using database = disposable(await openDatabase({ store, dataDir: "" }));
    expect(await partitionsAmong(database, comingDays)).toEqual([]);
    await using gateway = await openGateway(store);
    // What a round of retention writes after its partitions.
    await eventually("the first round of retention", async () => (await lookedAt(database)) !== null, 5_000);
    expect(await partitionsAmong(database, comingDays)).toEqual(comingDays.flatMap(partitionsOf).toSorted());
    const receipts = comingDays.flatMap((from) => [receiptAt(from), receiptAt(from + dayMs - 1)]);
    for (const receipt of receipts) await gateway.receipts.close(receipt);
    await eventually("the receipts are in the store", async () => (await homesOf(database, receipts)).length === receipts.length);
    expect(await homesOf(database, receipts)).toEqual(receipts.map(ownHome));
  });

  test("are dropped as a whole when they are past their retention, while new ones are made", async () => {
    const store = await migratedPostgresUrl();
    await using database = disposable(await openDatabase({ store, dataDir: "" }));
    await using retention = hourlyRetention(database, dayMs);
    // From here on the clock is believed.
    for (let hour = 0; hour <= 24; hour += 1) await retention.round(now + hour * hourMs);
    const [third, fourth] = comingDays as [number, number];
    const old = [receiptAt(third), receiptAt(third + dayMs - 1)];
    const recent = [receiptAt(fourth), receiptAt(fourth + dayMs - 1)];
    await database.transaction(async (inside) => addReceipts(inside, [...old, ...recent]));
    await retention.round(now + 3 * dayMs);
    expect(await homesOf(database, [...old, ...recent])).toEqual([...old, ...recent].map(ownHome));
    await retention.round(now + 5 * dayMs);
    expect(await partitionsAmong(database, [third, fourth])).toEqual(partitionsOf(fourth).toSorted());
    expect(await homesOf(database, [...old, ...recent])).toEqual(recent.map(ownHome));
    // Not one row was deleted for it.
    expect(retention.logged.at(-1)).toEqual(["forgotten", { days: expect.any(Number), receipts: 0, hours: 0 }]);
    const latest = receiptAt(today + 12 * dayMs);
    await database.transaction(async (inside) => addReceipts(inside, [latest]));
    expect(await homesOf(database, [latest])).toEqual([ownHome(latest)]);
  });
});

/** What a running gateway has of a store. Its timers are a hundred times faster: the first round of retention is due after a minute. */
async function openGateway(store: string) {
  const dataDir = await mkdtemp(join(tmpdir(), "sluice-retention-"));
  const text = JSON.stringify({ store, data_dir: dataDir, channels: [] });
  const loaded = await loadConfig({ path: null, text, env: {}, nofile: 20_000 });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const nowMs = (): number => performance.now();
  class HurriedTimers extends Timers {
    override after(ms: number, then: () => void): () => void {
      return super.after(ms / 100, then);
    }
  }
  const durable = await openDurable({
    settings: loaded.settings,
    givenMasterKey: null,
    workers: 1,
    log: new Log((bytes) => bytes.length),
    timers: new HurriedTimers(nowMs),
    nowMs,
    onHint: () => {},
  });
  return Object.assign(durable, {
    [Symbol.asyncDispose]: async () => {
      await durable.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  });
}

/** The retention of a gateway whose rounds come when the test says, at the time that it says. */
function hourlyRetention(database: Database, keepMs: number) {
  const clock = { wallMs: now };
  const logged: unknown[] = [];
  const say = (event: string, fields: object = {}): void => void logged.push([event, fields]);
  let armed = Promise.withResolvers<() => void>();
  const after = (_: number, then: () => void): (() => void) => {
    armed.resolve(then);
    return () => undefined;
  };
  const receipts = { sync: false, keepMs, keepHoursMs: keepMs, keptShare: 1 };
  const stop = startRetention(database, { receipts }, { info: say, warn: say }, after, () => clock.wallMs);
  return {
    logged,
    round: async (wallMs: number): Promise<void> => {
      const run = await armed.promise;
      armed = Promise.withResolvers();
      clock.wallMs = wallMs;
      run();
      await armed.promise;
    },
    [Symbol.asyncDispose]: async () => stop(),
  };
}

let serial = 0;

/** A receipt whose id is of this time. Of two attempts each has a row of its own. */
function receiptAt(ms: number): Receipt {
  const end = (serial += 1).toString(16).padStart(12, "0");
  const [attempt] = sampleReceipt().attempts;
  return sampleReceipt({ id: `${idAt(ms)}-7000-8000-${end}`, startedMs: ms, attempts: [attempt!, attempt!] });
}

const dayText = (ms: number): string => new Date(ms).toISOString().slice(0, 10).replaceAll("-", "");
const partitionsOf = (dayFromMs: number): readonly string[] => [`attempts_${dayText(dayFromMs)}`, `receipts_${dayText(dayFromMs)}`];

/** Those of the partitions of these days that the catalogue has, attached to their tables. */
async function partitionsAmong(database: Database, days: readonly number[]): Promise<readonly string[]> {
  const rows = await database.all<{ readonly name: string }>(sql`
    select child.relname as name from pg_inherits
    join pg_class as child on child.oid = pg_inherits.inhrelid join pg_class as parent on parent.oid = pg_inherits.inhparent
    where parent.relname in ('receipts', 'attempts') and parent.relkind = 'p' and child.relispartition order by 1`);
  const wanted = days.flatMap(partitionsOf);
  return rows.map(({ name }) => name).filter((name) => wanted.includes(name));
}

interface Home {
  readonly id: string;
  readonly receipt: string;
  readonly attempts: string;
}

const ownHome = ({ id, startedMs }: Receipt): Home => {
  const [attempts, receipt] = partitionsOf(startedMs) as [string, string];
  return { id, receipt, attempts };
};

/** In which tables the rows of these receipts really are, in the order of the receipts. */
async function homesOf(database: Database, receipts: readonly Receipt[]): Promise<readonly Home[]> {
  const rows = await database.all<Home>(sql`
    select r.id, r.tableoid::regclass::text as receipt, string_agg(distinct a.tableoid::regclass::text, ' ') as attempts
    from receipts as r join attempts as a on a.receipt_id = r.id group by r.id, r.tableoid`);
  return receipts.flatMap(({ id }) => rows.find((row) => row.id === id) ?? []);
}

async function lookedAt(database: Database): Promise<string | null> {
  const [row] = await database.all<{ readonly value: string }>(sql`select value from settings where name = 'retention_clock'`);
  return row?.value ?? null;
}
