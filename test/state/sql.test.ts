// Needs: quiet, servers. It mostly waits for leases and deadlines of its store.
import { beforeAll, describe, expect, test } from "bun:test";
import { SqlCounts } from "../../src/store/tables/count-table.ts";
import type { Database } from "../../src/store/database.ts";
import { openDatabase, storeFile } from "../../src/store/open.ts";
import { SqliteDatabase } from "../../src/store/sqlite/sqlite.ts";
import { countsInThread } from "../../src/store/sqlite/storage-in-thread.ts";
import { ThreadDatabase } from "../../src/store/sqlite/thread-database.ts";
import { sql } from "../../src/store/sql.ts";
import { contractSlotMs, testCountsContract } from "../support/counts-contract.ts";
import { engines, freshDataDir, migratedDataDir, postgresServer } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { admitted, limitRig, slotClaim, requests, span, tokens, type LimitRig, type LimitRigOptions } from "../support/joint-rig.ts";
import { reserve } from "../support/reserve.ts";
import { slowed, slowness } from "../support/slowed.ts";

/**
 * A store that hesitates is no part of these promises: after a quarter of the deadline, a process goes on with its part of the limit
 * alone. The longest pause of a busy machine is shorter.
 */
const patientMs = 60_000;

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`counts in ${engine.name}`, () => {
    let opened: Promise<Database> | null = null;
    const database = async (): Promise<Database> => (opened ??= engine.open());

    // The server has to start first.
    beforeAll(async () => void (await database()), 60_000);

    testCountsContract({
      open: async () => new SqlCounts(await database(), { wallMs: () => Date.now(), span: span(contractSlotMs) }),
    });

    async function overSql(options: Partial<LimitRigOptions> = {}): Promise<LimitRig> {
      const counts = new SqlCounts(await database(), { wallMs: () => Date.now() });
      return limitRig({ counts, deadlineMs: patientMs, processes: 2, ...options });
    }

    test("hold a burst of two processes to the limit, with few requests", async () => {
      const pair = [await overSql(), await overSql()] as const;
      const results = await Promise.all(
        Array.from({ length: 400 }, async (_, call) =>
          admitted(pair[call % 10 < 7 ? 0 : 1].rates, [
            requests(`burst-${engine.name}`, 100),
            tokens(`burst-${engine.name}`, 1_000_000, 5),
          ]),
        ),
      );
      expect(results.filter(Boolean).length).toBeLessThanOrEqual(100);
      // What is leased and comes back too late for the burst is more where a question takes long.
      expect(results.filter(Boolean).length).toBeGreaterThanOrEqual(slowness() === 1 ? 95 : 75);
      await Promise.all(pair.map(async ({ rates }) => rates.stop()));
    });

    test("do not deadlock calls that take the same limits in another order", async () => {
      const { rates } = await overSql();
      const claims = [requests("crossed", 40), tokens("crossed", 45, 1)];
      const results = await Promise.all(
        Array.from({ length: 60 }, async (_, call) =>
          reserve(rates, call % 2 === 0 ? claims : claims.toReversed(), slotClaim("crossed", 100, `call-${call}`)),
        ),
      );
      expect(results.filter(({ ok }) => ok)).toHaveLength(40);
      await rates.stop();
    });

    test.each([1, 10])("hold a burst of four processes to exactly %d calls at the same time, also a second one at once", async (limit) => {
      const processes = await Promise.all(Array.from({ length: 4 }, () => overSql({ processes: 4 })));
      const room = `exact-${engine.name}-${limit}`;
      for (const round of [0, 1]) {
        const taken = await Promise.all(
          Array.from({ length: 60 }, async (_, call) =>
            reserve(processes[call % 4]!.rates, [], slotClaim(room, limit, `${round}-${call}`)),
          ),
        );
        expect(taken.filter(({ ok }) => ok)).toHaveLength(limit);
        for (const reservation of taken) if (reservation.ok) reservation.settle([]);
      }
      await Promise.all(processes.map(async ({ rates }) => rates.stop()));
    });

    test("leave nothing behind that is old", async () => {
      const counts = new SqlCounts(await database(), { wallMs: () => Date.now(), span: span(2), sweepMs: 50 });
      await counts.take([{ id: "swept rpm", limit: 10, need: 1, wish: 1, sharers: 1 }], []);
      await counts.take([], [{ id: "swept slots", limit: 1, call: "dead", ttlMs: 1 }]);
      await Bun.sleep(300);
      await eventually("the old rows are gone", async () => {
        await counts.take([{ id: "sweeper rpm", limit: 1_000, need: 1, wish: 1, sharers: 1 }], []);
        const left = await (await database()).all(sql`select id from shared_counts where id in (${"swept"}, ${"swept rpm"})`);
        const slots = await (await database()).all(sql`select id from shared_holds where id = ${"swept slots"}`);
        return left.length === 0 && slots.length === 0;
      });
    });
  });
}

describe("two processes on one SQLite file", () => {
  test("keep a limit between them", async () => {
    const dataDir = freshDataDir();
    // Each in a thread of its own, as in the gateway: one that waits for the file must not keep the other from finishing.
    const open = async (): Promise<Database> => openDatabase({ store: "sqlite", dataDir, threaded: true });
    const databases = [await open(), await open()];
    const rigs = databases.map((database) =>
      limitRig({ counts: countsInThread(database as ThreadDatabase), deadlineMs: patientMs, processes: 2 }),
    );
    const results = await Promise.all(
      Array.from({ length: 80 }, async (_, call) => admitted(rigs[call % 2]!.rates, [requests("file", 40)])),
    );
    expect(results.filter(Boolean)).toHaveLength(40);
    await Promise.all(rigs.map(async ({ rates }) => rates.stop()));
    for (const database of databases) await database.close();
  });

  test("do not lock it for each other while the thread that asked has something else to do", async () => {
    const dataDir = await migratedDataDir();
    const database = new ThreadDatabase(storeFile(dataDir));
    const counts = countsInThread(database);
    const asked = [{ id: "busy rpm", limit: 10, need: 1, wish: 1, sharers: 1 }];
    await counts.take(asked, []);
    const other = new SqliteDatabase(storeFile(dataDir), { busyMs: 200 });
    const taken = counts.take(asked, []);
    Bun.sleepSync(300);
    // This waits on the thread that asked.
    expect(await other.run(sql`insert into processes (id, seen_ms) values (${"other"}, ${1})`)).toBe(1);
    expect(await taken).toMatchObject({ ok: true, granted: [{ remaining: 8 }] });
    await other.close();
    await database.close();
  });

  test("do not make each other's queries wait, whatever they write", async () => {
    const dataDir = await migratedDataDir();
    const database = new ThreadDatabase(storeFile(dataDir));
    const counts = countsInThread(database);
    const other = new SqliteDatabase(storeFile(dataDir));
    await database.all(sql`select 1`);
    let ended = 0;
    const written = await other.transaction(async (inside) => {
      await inside.run(sql`insert into processes (id, seen_ms) values (${"other"}, ${1})`);
      const writers = [
        counts.heartbeat("own", 60_000),
        counts.release("key slots", ["own-1"]),
        database.run(sql`delete from processes where id = ${"nobody"}`),
        database.all(sql`delete from processes where id = ${"nobody"} returning id`),
      ].map((writer) => writer.finally(() => (ended += 1)));
      const all = Promise.all(writers);
      await database.all(sql`select 1`);
      // The query was answered while all writers still waited for the other one.
      expect(ended).toBe(0);
      return { all };
    });
    expect((await written.all)[0]).toBe(1);
    await other.close();
    await database.close();
  });
});

describe.skipIf(engines.some(({ name, skipped }) => name === "postgres" && skipped !== null))("a frozen PostgreSQL", () => {
  test("costs five calls a deadline and the others nothing, and comes back by itself", async () => {
    const server = await postgresServer();
    const database = await engines.find(({ name }) => name === "postgres")!.open();
    const counts = new SqlCounts(database, { wallMs: () => Date.now() });
    const { rates, guard } = limitRig({ counts, deadlineMs: 100, skipMs: 300 });
    await eventually("it is asked", async () => (await admitted(rates, [requests("frozen", 40)])) && guard.health() === "ok");
    await server.pause();
    const took: number[] = [];
    try {
      for (let call = 0; call < 60; call += 1) {
        const beganMs = performance.now();
        await admitted(rates, [requests("frozen", 40)]);
        took.push(performance.now() - beganMs);
      }
    } finally {
      server.resume();
    }
    expect(took.filter((ms) => ms > 80).length).toBeLessThanOrEqual(5);
    expect(Math.max(...took)).toBeLessThan(slowed(250));
    await eventually("it is asked again", () => guard.health() === "ok", 12_000);
    await rates.stop();
  }, 120_000);
});
