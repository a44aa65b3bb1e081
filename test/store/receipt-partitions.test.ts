// Needs: servers. It uses a real PostgreSQL.
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Database } from "../../src/store/database.ts";
import { openDatabase } from "../../src/store/open.ts";
import { dropPartitions, makePartitions } from "../../src/store/postgres/receipt-partitions.ts";
import { idAt } from "../../src/store/receipts/receipt-conditions.ts";
import { addReceipts, makeReceiptStorage } from "../../src/store/receipts/receipt-table.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import { retain } from "../../src/store/retention.ts";
import { Sql, sql } from "../../src/store/sql.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { engines, freshDataDir, freshPostgresUrl } from "../support/databases.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";

setDefaultTimeout(60_000);

const dayMs = 86_400_000;
const now = Date.now();
const today = now - (now % dayMs);
const opened: Database[] = [];

afterAll(async () => {
  for (const database of opened) await database.close();
});

async function fresh(): Promise<Database> {
  const database = await openDatabase({ store: await freshPostgresUrl(), dataDir: freshDataDir(), statementMs: 60_000 });
  opened.push(database);
  return database;
}

let serial = 0;

/** A receipt whose id is of this time. */
function receiptAt(ms: number): Receipt {
  const end = (serial += 1).toString(16).padStart(12, "0");
  // Two attempts, so that they have rows of their own.
  const [attempt] = sampleReceipt().attempts;
  return sampleReceipt({ id: `${idAt(ms)}-7000-8000-${end}`, startedMs: ms, attempts: [attempt!, attempt!] });
}

async function add(database: Database, receipts: readonly Receipt[]): Promise<number> {
  return database.transaction(async (inside) => {
    const added = await addReceipts(inside, receipts);
    await addToSums(inside, added);
    return added.length;
  });
}

async function rowsIn(database: Database, table: string): Promise<number> {
  const [row] = await database.all<{ n: number }>(new Sql([`select count(*) as n from ${table}`], []));
  return row!.n;
}

async function tables(database: Database): Promise<readonly string[]> {
  const rows = await database.all<{ name: string }>(sql`
    select relname as name from pg_class where relispartition and relkind = 'r' and relnamespace = current_schema()::regnamespace order by relname`);
  return rows.map(({ name }) => name);
}

const nameOf = (ms: number): string => `receipts_${new Date(ms).toISOString().slice(0, 10).replaceAll("-", "")}`;

const skipped = engines.find(({ name }) => name === "postgres")!.skipped;

describe.skipIf(skipped !== null)(`receipts on PostgreSQL${skipped === null ? "" : ` (skipped: ${skipped})`}`, () => {
  test("are divided by day, made ahead, once by many processes, and a day is dropped as a whole without a row being deleted", async () => {
    const database = await fresh();
    await Promise.all([1, 2, 3].map(async () => makePartitions(database, now)));
    const later = today + 5 * dayMs;
    await makePartitions(database, later);
    const made = await tables(database);
    expect(made.filter((name) => name.startsWith("receipts_2"))).toHaveLength(11);
    expect(made.filter((name) => name.startsWith("attempts_2"))).toHaveLength(11);
    const days = [2, 3, 4].map((at) => today + at * dayMs);
    const receipts = days.flatMap((from) => [receiptAt(from), receiptAt(from + dayMs - 1)]);
    expect(await add(database, receipts)).toBe(6);
    for (const from of days) expect(await rowsIn(database, nameOf(from))).toBe(2);
    // Each receipt is stored once, whichever partition it is in.
    expect(await add(database, [...receipts, receiptAt(days[0]!)])).toBe(1);
    expect(await retain(database, { receiptsMs: dayMs, hoursMs: null, wallMs: days[2]! })).toEqual({ days: 2, receipts: 0, hours: 0 });
    expect(await tables(database)).not.toContain(nameOf(days[0]!));
    const storage = makeReceiptStorage(database);
    const left = await storage.list({
      keyId: "key-1",
      model: null,
      channel: null,
      state: null,
      sinceMs: null,
      untilMs: null,
      before: null,
      limit: 9,
    });
    expect(left.map(({ id }) => id)).toEqual(
      receipts
        .slice(2)
        .map(({ id }) => id)
        .toReversed(),
    );
    expect(left.every(({ attempts }) => attempts.length === 2)).toBeTrue();
    // The sums are not affected.
    const [usage] = await storage.usage({ by: [], sinceMs: null, untilMs: null, keyId: null, model: null, channel: null });
    expect(usage?.calls).toBe(7);
  });

  test("of a day without a partition are kept, move to it when it is made, and are deleted when they are too old", async () => {
    const database = await fresh();
    const early = receiptAt(today + 3 * dayMs);
    const wrong = receiptAt(today + 4_000 * dayMs);
    const old = receiptAt(today - 20 * dayMs);
    const recent = receiptAt(today - 2 * dayMs);
    expect(await add(database, [early, wrong, old, recent])).toBe(4);
    expect([await rowsIn(database, "receipts_default"), await rowsIn(database, "receipts_before")]).toEqual([2, 2]);
    await makePartitions(database, now);
    expect([await rowsIn(database, "receipts_default"), await rowsIn(database, nameOf(early.startedMs))]).toEqual([1, 1]);
    expect(await rowsIn(database, "attempts_default")).toBe(2);
    expect(await add(database, [early, wrong, old, recent])).toBe(0);
    expect(await retain(database, { receiptsMs: 10 * dayMs, hoursMs: null, wallMs: now })).toEqual({ days: 0, receipts: 1, hours: 0 });
    const storage = makeReceiptStorage(database);
    expect(await storage.find(old.id)).toBeNull();
    for (const { id } of [early, wrong, recent]) expect(await storage.find(id)).toMatchObject({ id, attempts: [{}, {}] });
    // What came before partitions is dropped as well, once all of it is too old.
    expect(await dropPartitions(database, today + 2 * dayMs)).toBe(1);
    expect(await tables(database)).not.toContain("receipts_before");
    expect(await retain(database, { receiptsMs: dayMs, hoursMs: null, wallMs: today + 4 * dayMs })).toMatchObject({ receipts: 0 });
  });

  test("are dropped another time if a long query is in the way, and writers go on", async () => {
    const database = await fresh();
    await makePartitions(database, now);
    const day = today + 3 * dayMs;
    await add(database, [receiptAt(day)]);
    let finish = (): void => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const { promise: reading, resolve: isReading } = Promise.withResolvers<void>();
    const query = database.transaction(async (inside) => {
      await inside.all(sql`select count(*) from receipts`);
      isReading();
      await finished;
    });
    await reading;
    const dropping = dropPartitions(database, day + dayMs).then(
      () => "dropped",
      () => "given up",
    );
    expect(await add(database, [receiptAt(day + dayMs)])).toBe(1);
    expect(await dropping).toBe("given up");
    finish();
    await query;
    expect(await dropPartitions(database, day + dayMs)).toBe(3);
  });
});
