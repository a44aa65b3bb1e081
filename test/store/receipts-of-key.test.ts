// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { ReceiptQuery } from "../../src/gateway/storage.ts";
import type { Database } from "../../src/store/database.ts";
import { migrate } from "../../src/store/migrate.ts";
import { migrations } from "../../src/store/migrations/index.ts";
import { PostgresDatabase } from "../../src/store/postgres/postgres.ts";
import { idAt } from "../../src/store/receipts/receipt-conditions.ts";
import { addReceipts, makeReceiptStorage } from "../../src/store/receipts/receipt-table.ts";
import { retain } from "../../src/store/retention.ts";
import { sql } from "../../src/store/sql.ts";
import { SqliteDatabase, storeFile } from "../../src/store/sqlite/sqlite.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { engines, freshDataDir, freshPostgresUrl } from "../support/databases.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";

// A real server is started and stopped; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const beganMs = Date.UTC(2026, 5, 1);
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const all = { model: null, channel: null, state: null, sinceMs: null, untilMs: null, before: null, limit: 100 };

async function add(database: Database, receipts: readonly Receipt[]): Promise<void> {
  await database.transaction(async (inside) => void (await addToSums(inside, await addReceipts(inside, receipts))));
}

/** As the version before wrote it down, which knows of nothing but sums. */
async function addAsBefore(database: Database, receipts: readonly Receipt[]): Promise<void> {
  await database.transaction(async (inside) => {
    await addReceipts(inside, receipts);
    for (const { startedMs, keyId, model, channel, state } of receipts) {
      for (const [table, spanMs] of [[sql`usage_hours`, hourMs] as const, [sql`usage_days`, dayMs] as const]) {
        await inside.run(sql`insert into ${table} (key_id, at_ms, model, channel, operation, calls, failed, prompt_tokens, cached_tokens,
            completion_tokens, reasoning_tokens, audio_ms, characters, nanos, unpriced, uncertain, estimated)
          values (${keyId}, ${startedMs - (startedMs % spanMs)}, ${model}, ${channel ?? ""}, 'chat', 1, ${state === "complete" ? 0 : 1},
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          on conflict (key_id, at_ms, model, channel, operation) do update set
            calls = ${table}.calls + excluded.calls, failed = ${table}.failed + excluded.failed`);
      }
    }
  });
}

/** What a list of all of them, each looked at, would give. */
function expected(receipts: readonly Receipt[], query: ReceiptQuery): readonly string[] {
  const { keyId, model, channel, state, sinceMs, untilMs, before } = query;
  return receipts
    .filter((receipt) => keyId === null || receipt.keyId === keyId)
    .filter((receipt) => model === null || receipt.model === model)
    .filter((receipt) => channel === null || receipt.channel === channel)
    .filter((receipt) => state === null || receipt.state === state)
    .filter(({ id, startedMs }) => sinceMs === null || (startedMs >= sinceMs && id >= idAt(sinceMs - 60_000)))
    .filter(({ id, startedMs }) => untilMs === null || (startedMs < untilMs && id < idAt(untilMs + 60_000)))
    .map(({ id }) => id)
    .filter((id) => before === null || id < before)
    .sort((one, other) => (one < other ? 1 : -1))
    .slice(0, query.limit);
}

const moment = fc.nat(3 * dayMs).map((ms) => beganMs + ms);
/** How much earlier than its call an id was made: nearly always a moment, with an upload more, with a clock that was set anything. */
const early = fc.oneof(
  { weight: 8, arbitrary: fc.nat(2_000) },
  { weight: 1, arbitrary: fc.nat(600_000) },
  { weight: 1, arbitrary: fc.integer({ min: -2 * dayMs, max: 2 * dayMs }) },
);
const receipt = fc
  .record({
    startedMs: moment,
    early,
    keyId: fc.constantFrom("key-1", "key-1", "key-2"),
    model: fc.constantFrom("model-1", "model-2"),
    channel: fc.constantFrom("channel-1", null),
    state: fc.constantFrom("complete", "complete", "failed", "unknown"),
  })
  .map(({ early: earlyMs, ...facts }) => sampleReceipt({ ...facts, id: Bun.randomUUIDv7("hex", facts.startedMs - earlyMs) }));

function queryOf(receipts: readonly Receipt[]): fc.Arbitrary<ReceiptQuery> {
  const maybe = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(one, { nil: null });
  return fc.record({
    keyId: fc.constantFrom("key-1", "key-2", "key-3"),
    model: maybe(fc.constantFrom("model-1", "model-3")),
    channel: maybe(fc.constant("channel-1")),
    state: maybe(fc.constantFrom("complete" as const, "failed" as const)),
    sinceMs: maybe(moment),
    untilMs: maybe(moment),
    before: maybe(fc.constantFrom(...receipts.map(({ id }) => id))),
    limit: fc.integer({ min: 1, max: 40 }),
  });
}

describe.each(engines)("the receipts of a key on $name", (engine) => {
  const it = test.skipIf(engine.skipped !== null);
  const runs = engine.name === "sqlite" ? 12 : 4;

  it("are complete for each query, whichever version wrote them, and also after their hours were deleted", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(receipt, { minLength: 1, maxLength: 120 }),
        fc.array(fc.record({ startedMs: moment }), { maxLength: 20 }),
        fc.gen(),
        fc.nat(3),
        async (receipts, before, gen, keptDays) => {
          await using database = await engine.open();
          const storage = makeReceiptStorage(database);
          const half = receipts.length >> 1;
          // The version before is still at work when this one begins, on the same sums.
          const old = before.map(({ startedMs }) => sampleReceipt({ startedMs, id: Bun.randomUUIDv7("hex", startedMs) }));
          await add(database, receipts.slice(0, half));
          await addAsBefore(database, old);
          await add(database, receipts.slice(half));
          const everything = [...receipts, ...old];
          for (const query of Array.from({ length: 12 }, () => gen(queryOf, everything))) {
            expect((await storage.list(query)).map(({ id }) => id)).toEqual([...expected(everything, query)]);
          }
          await retain(database, { receiptsMs: null, hoursMs: keptDays * dayMs, wallMs: beganMs + 3 * dayMs + hourMs / 2 });
          for (const query of Array.from({ length: 6 }, () => gen(queryOf, everything))) {
            expect((await storage.list(query)).map(({ id }) => id)).toEqual([...expected(everything, query)]);
          }
        },
      ),
      { numRuns: runs, endOnFailure: true },
    );
  });

  it("are listed in pages even if it used thousands of channels in an hour", async () => {
    await using database = await engine.open();
    const storage = makeReceiptStorage(database);
    const receipts = Array.from({ length: 1_400 }, (_, at) => {
      const startedMs = beganMs + (at % 3) * hourMs + at * 1_000;
      return sampleReceipt({ startedMs, id: Bun.randomUUIDv7("hex", startedMs), channel: `channel-${at}`, keyId: "key-1" });
    });
    await add(database, receipts);
    const found: string[] = [];
    for (let before: string | null = null; ;) {
      const page: readonly Receipt[] = await storage.list({ ...all, keyId: "key-1", before, limit: 200 });
      found.push(...page.map(({ id }) => id));
      before = page.at(-1)?.id ?? null;
      if (before === null) break;
    }
    expect(found).toEqual([...expected(receipts, { ...all, keyId: "key-1", limit: 2_000 })]);
  });

  it("are listed as strays only if their hour does not lead to them, and are deleted with the others", async () => {
    await using database = await engine.open();
    const strays = async () => (await database.all<{ id: string }>(sql`select id from stray_receipts order by id`)).map(({ id }) => id);
    const startedMs = beganMs + hourMs;
    const usual = sampleReceipt({ startedMs, id: Bun.randomUUIDv7("hex", startedMs) });
    const uploaded = sampleReceipt({ startedMs, id: Bun.randomUUIDv7("hex", startedMs - 1) });
    const later = sampleReceipt({ startedMs, id: Bun.randomUUIDv7("hex", startedMs + hourMs) });
    const other = sampleReceipt({ startedMs, id: "zz of another kind" });
    await add(database, [usual, uploaded, later, other]);
    expect(await strays()).toEqual([uploaded.id, later.id, other.id]);
    const listed = async () => (await makeReceiptStorage(database).list({ ...all, keyId: usual.keyId })).map(({ id }) => id);
    expect(await listed()).toEqual([other.id, later.id, usual.id, uploaded.id]);
    await retain(database, { receiptsMs: hourMs, hoursMs: null, wallMs: startedMs + hourMs + 1 });
    expect(await strays()).toEqual([later.id, other.id]);
    expect(await listed()).toEqual([other.id, later.id]);
  });

  it("are found if the id is later than the call, and the call is the last one of the query", async () => {
    await using database = await engine.open();
    const startedMs = beganMs + 10;
    const set = sampleReceipt({ startedMs, id: Bun.randomUUIDv7("hex", startedMs + 5), keyId: "key-1" });
    await add(database, [set]);
    const query = { ...all, keyId: "key-1", untilMs: startedMs + 2 };
    expect((await makeReceiptStorage(database).list(query)).map(({ id }) => id)).toEqual([set.id]);
  });

  it("of a store of the first version are found after the migration, and its sums are unchanged", async () => {
    const first =
      engine.name === "sqlite"
        ? new SqliteDatabase(storeFile(freshDataDir()))
        : new PostgresDatabase(await freshPostgresUrl(), { statementMs: 20_000 });
    try {
      await migrate(first, { migrations: migrations.slice(0, 1) });
      const drawn = fc.sample(fc.array(receipt, { minLength: 150, maxLength: 150 }), 1)[0]!;
      // This version writes some columns more than the first had; without them the rows are as they were.
      const later = [sql`warning`, sql`owners`, sql`channel_tags`, sql`marks`, sql`cache_saved_nanos`];
      const texts = later.slice(0, -1);
      for (const column of texts) await first.run(sql`alter table receipts add column ${column} text`);
      await first.run(sql`alter table receipts add column cache_saved_nanos bigint`);
      await addAsBefore(first, drawn);
      for (const column of later) await first.run(sql`alter table receipts drop column ${column}`);
      const sums = async (table: "hours" | "days") =>
        first.all(sql`select key_id, at_ms, model, channel, operation, calls, failed, nanos from ${table === "hours" ? sql`usage_hours` : sql`usage_days`}
          order by key_id, at_ms, model, channel, operation`);
      const sumsBefore = [await sums("hours"), await sums("days")];
      expect((await migrate(first)).map(({ number }) => number)).toEqual(migrations.slice(1).map(({ number }) => number));
      expect([await sums("hours"), await sums("days")]).toEqual(sumsBefore);
      const added = [sampleReceipt({ startedMs: drawn[0]!.startedMs, id: Bun.randomUUIDv7("hex", drawn[0]!.startedMs) })];
      await add(first, added);
      for (const keyId of ["key-1", "key-2"]) {
        const query = { ...all, keyId, limit: 200 };
        expect((await makeReceiptStorage(first).list(query)).map(({ id }) => id)).toEqual([...expected([...drawn, ...added], query)]);
      }
      const usage = await makeReceiptStorage(first).usage({
        by: ["key"],
        sinceMs: null,
        untilMs: null,
        keyId: null,
        model: null,
        channel: null,
      });
      expect(usage.reduce((sum, { calls }) => sum + calls, 0)).toBe(drawn.length + 1);
    } finally {
      await first.close();
    }
  });
});
