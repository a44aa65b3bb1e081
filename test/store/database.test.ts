// Needs: quiet, servers. It mostly waits for a store that is held up; what it says of times, it compares with each other.
import { Database as BunDatabase } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StorageError } from "../../src/gateway/storage.ts";
import type { Database } from "../../src/store/database.ts";
import { BulkInsert } from "../../src/store/receipts/bulk-insert.ts";
import { retain } from "../../src/store/retention.ts";
import { openDatabase, storeFile } from "../../src/store/open.ts";
import { Sql, sql } from "../../src/store/sql.ts";
import { SerialDatabase } from "../../src/store/sqlite/serial-database.ts";
import { SqliteDatabase } from "../../src/store/sqlite/sqlite.ts";
import { storageInThread } from "../../src/store/sqlite/storage-in-thread.ts";
import { ThreadConnection, ThreadDatabase } from "../../src/store/sqlite/thread-database.ts";
import { newId } from "../../src/store/storage.ts";
import { engines, freshDataDir } from "../support/databases.ts";
import { eventually } from "../support/eventually.ts";
import { newKey } from "../support/new-key.ts";
import { anyText } from "../support/properties.ts";

const ways: readonly { readonly name: string; readonly skipped: string | null; readonly open: () => Promise<Database> }[] = [
  ...engines,
  {
    name: "sqlite in a thread",
    skipped: null,
    open: async () => openDatabase({ store: "sqlite", dataDir: freshDataDir(), threaded: true }),
  },
];

for (const { name, skipped, open } of ways) {
  describe.skipIf(skipped !== null)(`${name}${skipped === null ? "" : ` (skipped: ${skipped})`}`, () => {
    test("returns values exactly as they were stored", async () => {
      const database = await open();
      await database.run(sql`create table things (id integer primary key, amount bigint, words text)`);
      let id = 0;
      await fc.assert(
        fc.asyncProperty(fc.option(fc.maxSafeInteger()), fc.option(anyText()), async (amount, words) => {
          id += 1;
          expect(await database.run(sql`insert into things (id, amount, words) values (${id}, ${amount}, ${words})`)).toBe(1);
          const found = await database.all<object>(sql`select amount, words from things where id = ${id}`);
          // No engine keeps a NUL, nor half of a character.
          expect(found).toEqual([{ amount, words: words?.replaceAll("\0", "\uFFFD").toWellFormed() ?? null }]);
        }),
        { numRuns: 60 },
      );
      await database.close();
    });

    test("returns sums, counts and differences as numbers beyond 32 bits", async () => {
      const database = await open();
      await database.run(sql`create table sums (amount bigint not null, label text not null)`);
      await database.run(sql`insert into sums (amount, label) values (${3_000_000_000_000}, ${"7"}), (${2 ** 31}, ${"8"})`);
      const rows = await database.all<object>(
        sql`select sum(amount) as total, count(*) as many, max(amount) - ${1} as less, min(label) as label from sums`,
      );
      expect(rows).toEqual([{ total: 3_002_147_483_648, many: 2, less: 2_999_999_999_999, label: "7" }]);
      expect(await database.all<object>(sql`select sum(amount) as total from sums where amount > ${2 ** 50}`)).toEqual([{ total: null }]);
      await database.close();
    });

    test("rejects a number that is not an integer, instead of rounding it", async () => {
      const database = await open();
      for (const number of [0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
        expect(await kindOf(database.run(sql`update revision set value = ${number}`))).toBe("damaged");
      }
      expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 0 }]);
      await database.close();
    });

    test("distinguishes a unique violation from other errors", async () => {
      const database = await open();
      await database.run(sql`insert into settings (name, value) values ('one', '1')`);
      expect(await kindOf(database.run(sql`insert into settings (name, value) values ('one', '2')`))).toBe("conflict");
      expect(await kindOf(database.run(sql`insert into settings (name, value) values ('two', null)`))).toBe("damaged");
      expect(await kindOf(database.all(sql`select * from nowhere`))).toBe("damaged");
      expect(await kindOf(database.all(new Sql(["selec 1"], [])))).toBe("damaged");
      await database.close();
    });

    test("returns the rows of an upsert, and counts changes", async () => {
      const database = await open();
      const set = (value: string): Sql =>
        sql`insert into settings (name, value) values ('a', ${value}) on conflict (name) do update set value = excluded.value returning value`;
      expect(await database.all<object>(set("1"))).toEqual([{ value: "1" }]);
      expect(await database.all<object>(set("2"))).toEqual([{ value: "2" }]);
      expect(await database.run(sql`insert into settings (name, value) values ('a', '3') on conflict (name) do nothing`)).toBe(0);
      expect(await database.run(sql`delete from settings`)).toBe(1);
      await database.close();
    });

    test("commits all of a transaction or nothing", async () => {
      const database = await open();
      const result = database.transaction(async (inner) => {
        await inner.run(sql`update revision set value = 9`);
        throw new StorageError("missing", "there is no such thing");
      });
      expect(await messageOf(result)).toBe("there is no such thing");
      expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 0 }]);
      expect(
        await database.transaction(async (inner) => {
          await inner.run(sql`update revision set value = value + 1`);
          return inner.all<object>(sql`select value from revision`);
        }),
      ).toEqual([{ value: 1 }]);
      await database.close();
    });

    test("runs one statement for many rows, returns the changes of each, and rolls all of them back together", async () => {
      const database = await open();
      await database.run(sql`create table things (id text primary key, amount bigint)`);
      const rows = new BulkInsert({
        into: "things",
        columns: { id: "text", amount: "number" },
        conflict: sql`on conflict (id) do nothing`,
        identity: "id",
      });
      const add = async (...some: readonly (readonly [string, number | null])[]) =>
        database.transaction(async (inside) => rows.add(inside, some));
      expect(await add(["a", 1], ["b", null], ["a", 2])).toEqual([0, 1]);
      expect(await add(["b", 3], ["c", 2 ** 50])).toEqual([1]);
      expect(await add()).toEqual([]);
      expect(await rows.add(database, [["d", 4]])).toEqual([0]);
      expect(await kindOf(add(["e", 5], ["f", 0.5]))).toBe("damaged");
      expect(await database.all<object>(sql`select id, amount from things order by id`)).toEqual([
        { id: "a", amount: 1 },
        { id: "b", amount: null },
        { id: "c", amount: 2 ** 50 },
        { id: "d", amount: 4 },
      ]);
      await database.close();
    });

    test("stores many rows as they are, whether they share values or not", async () => {
      const database = await open();
      await database.run(sql`create table things (id bigint primary key, kind text, amount bigint, place text)`);
      const rows = new BulkInsert({
        into: "things",
        columns: { id: "number", kind: "text", amount: "number", place: "text" },
        conflict: sql`on conflict (id) do nothing`,
        identity: "id",
        storable: true,
        shared: [["kind", "place"], ["place"]],
      });
      // Some hundred alike, then one in a hundred, then each, that is another; and a few that fill no statement.
      const kindAt = (id: number): string => (id < 200 ? "usual" : id < 500 ? (id % 100 === 0 ? "rare" : "usual") : `own ${id}`);
      const all = Array.from({ length: 777 }, (_, id) => [id, kindAt(id), id * 3, id % 400 === 0 ? null : "here"] as const);
      expect(await database.transaction(async (inside) => rows.addAll(inside, all))).toBe(777);
      const again = all.map(([id, kind, , place]) => [id + 100, kind, 0, place] as const);
      expect(await database.transaction(async (inside) => rows.addAll(inside, again))).toBe(100);
      const kept = await database.all<{ id: number; kind: string; amount: number; place: string | null }>(
        sql`select id, kind, amount, place from things where id < 777 order by id`,
      );
      expect(kept.map(({ id, kind, amount, place }) => [id, kind, amount, place] as const)).toEqual(all);
      await database.close();
    });

    test("keeps a statement out of a transaction that begins right after it", async () => {
      const database = await open();
      const alone = database.run(sql`update revision set value = value + 100`);
      const undone = database.transaction(async (inner) => {
        // In PostgreSQL the two are on connections of their own, and the one must not wait for the other.
        await alone;
        await inner.run(sql`update revision set value = value + 1`);
        throw new Error("undo");
      });
      expect(await messageOf(undone)).toBe("undo");
      expect(await alone).toBe(1);
      expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 100 }]);
      await database.close();
    });

    test("rolls back a transaction whose work continued after a failed statement", async () => {
      const database = await open();
      const result = database.transaction(async (inner) => {
        await inner.run(sql`update revision set value = 9`);
        await inner.run(sql`insert into nowhere values (1)`).catch(() => {});
        await inner.run(sql`update revision set value = 10`).catch(() => {});
      });
      expect(await kindOf(result)).toBe("damaged");
      expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 0 }]);
      await database.close();
    });

    test("isolates 40 concurrent transactions from each other and from single statements", async () => {
      const database = await open();
      const order: number[] = [];
      const steps = Array.from({ length: 40 }, async (_, at) =>
        database.transaction(async (inner) => {
          // The row is locked by its own change first, as it must be where writers do not come one after the other.
          await inner.run(sql`update revision set value = value where id = 1`);
          const [row] = await inner.all<{ value: number }>(sql`select value from revision`);
          await new Promise((resolve) => setImmediate(resolve));
          await inner.run(sql`update revision set value = ${row!.value + 1}`);
          order.push(at);
        }),
      );
      const reads = Array.from({ length: 40 }, async () => database.all<{ value: number }>(sql`select value from revision`));
      await Promise.all(steps);
      expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 40 }]);
      for (const rows of await Promise.all(reads)) expect(rows[0]!.value).toBeWithin(0, 41);
      if (database.engine === "sqlite") expect(order).toEqual(order.toSorted((a, b) => a - b));
      await database.close();
    });

    test("rejects a nested transaction, and a statement after the end of its transaction", async () => {
      const database = await open();
      const nested = database.transaction(async (inner) => inner.transaction(async () => 1));
      expect(await messageOf(nested)).toContain("not supported");
      let kept: Database | undefined;
      await database.transaction(async (inner) => {
        kept = inner;
      });
      expect(await messageOf(kept!.run(sql`update revision set value = 5`))).toContain("over");
      expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 0 }]);
      await database.close();
    });

    test("rejects statements after close, which waits for earlier ones", async () => {
      const database = await open();
      const asked = database.all<object>(sql`select value from revision`);
      await database.close();
      expect(await asked).toEqual([{ value: 0 }]);
      expect(await kindOf(database.all(sql`select 1`))).toBe("unavailable");
      expect(await kindOf(database.transaction(async () => 1))).toBe("unavailable");
      await database.close();
    });
  });
}

describe("sqlite", () => {
  test("rejects the outer database inside a transaction instead of deadlocking", async () => {
    const database = await openDatabase({ store: "sqlite", dataDir: freshDataDir() });
    const stuck = database.transaction(async () => database.all(sql`select 1`));
    expect(await messageOf(stuck)).toContain("that is passed to it");
    expect(await database.all<object>(sql`select 1 as one`)).toEqual([{ one: 1 }]);
    await database.close();
  });

  test("keeps its files private", async () => {
    const dataDir = join(freshDataDir(), "deep", "data");
    const database = await openDatabase({ store: "sqlite", dataDir });
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    const files = readdirSync(dataDir);
    expect(files).toContain("sluice.db-wal");
    for (const file of files) expect([file, statSync(join(dataDir, file)).mode & 0o777]).toEqual([file, 0o600]);
    await database.close();
    chmodSync(storeFile(dataDir), 0o644);
    await (await openDatabase({ store: "sqlite", dataDir })).close();
    expect(statSync(storeFile(dataDir)).mode & 0o777).toBe(0o600);
  });

  test.skipIf(!existsSync("/proc/locks"))(
    "keeps its lock, by which others see that it is in use, when it is opened once more",
    async () => {
      const dataDir = freshDataDir();
      const first = await openDatabase({ store: "sqlite", dataDir });
      const { ino } = statSync(storeFile(dataDir));
      const locks = (): number => readFileSync("/proc/locks", "latin1").split(`:${ino} `).length - 1;
      const before = locks();
      for (const threaded of [false, true]) {
        const other = await openDatabase({ store: "sqlite", dataDir, threaded });
        expect(locks()).toBe(before);
        await other.close();
        expect(locks()).toBe(before);
      }
      await first.close();
    },
  );

  test("survives power loss as far as SQLite can: WAL, and each commit reaches the disk", async () => {
    const database = new SqliteDatabase(storeFile(freshDataDir()));
    expect(await database.all<object>(sql`pragma journal_mode`)).toEqual([{ journal_mode: "wal" }]);
    expect(await database.all<object>(sql`pragma synchronous`)).toEqual([{ synchronous: 2 }]);
    expect(await database.all<object>(sql`pragma busy_timeout`)).toEqual([{ timeout: 5000 }]);
    await database.close();
  });

  test("keeps working with more different statements than its cache holds", async () => {
    const database = await openDatabase({ store: "sqlite", dataDir: freshDataDir() });
    for (let at = 0; at < 600; at += 1) {
      expect(await database.all<object>(new Sql([`select ${at} as at, `, " as given"], [at]))).toEqual([{ at, given: at }]);
    }
    expect(await database.all<object>(new Sql(["select 0 as at, ", " as given"], [7]))).toEqual([{ at: 0, given: 7 }]);
    await database.close();
  });

  test("waits for another writer, and reports when that takes too long", async () => {
    const file = storeFile(freshDataDir());
    const database = new SqliteDatabase(file, { busyMs: 50 });
    const other = new BunDatabase(file);
    other.run("begin immediate");
    expect(await messageOf(database.run(sql`create table one (a integer)`))).toContain("another process");
    other.run("commit");
    other.close();
    expect(await database.run(sql`create table one (a integer)`)).toBe(0);
    await database.close();
  });

  for (const threaded of [false, true]) {
    const where = threaded ? " (in a thread)" : "";
    test(`reports how to fix a file that is not a database or is truncated${where}`, async () => {
      const dataDir = freshDataDir();
      writeFileSync(storeFile(dataDir), "this is not a database, and long enough to be looked at as one".repeat(20));
      const opened = openDatabase({ store: "sqlite", dataDir, threaded });
      expect(await kindOf(opened)).toBe("damaged");
      expect(await messageOf(opened)).toContain("sluice restore");

      const cut = freshDataDir();
      const database = await openDatabase({ store: "sqlite", dataDir: cut });
      await database.transaction(async (inner) => {
        for (let at = 0; at < 200; at += 1)
          await inner.run(sql`insert into settings (name, value) values (${`n${at}`}, ${"x".repeat(500)})`);
      });
      await database.close();
      truncateSync(storeFile(cut), 60_000);
      const reopened = await openDatabase({ store: "sqlite", dataDir: cut, threaded }).catch((error: unknown) => error as StorageError);
      const trouble = "engine" in reopened ? await kindOf(reopened.all(sql`select sum(length(value)) as n from settings`)) : reopened.kind;
      expect(trouble).toBe("damaged");
      if ("engine" in reopened) await reopened.close();
    });

    test(`reports a full disk, rolls back what did not fit, and continues when there is space${where}`, async () => {
      const database = await openDatabase({ store: "sqlite", dataDir: freshDataDir(), threaded });
      const [pages] = await database.all<{ page_count: number }>(sql`pragma page_count`);
      // To SQLite a file that may not grow looks like a disk without room.
      await database.all(new Sql([`pragma max_page_count = ${pages!.page_count + 2}`], []));
      const much = database.transaction(async (inner) => {
        await inner.run(sql`update revision set value = 5`);
        await inner.run(sql`insert into settings (name, value) values ('long', ${"x".repeat(100_000)})`);
      });
      expect(await kindOf(much)).toBe("full");
      expect(await messageOf(much)).toContain("Free some space");
      expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 0 }]);
      await database.all(new Sql(["pragma max_page_count = 100000"], []));
      expect(await database.run(sql`insert into settings (name, value) values ('long', ${"x".repeat(100_000)})`)).toBe(1);
      expect(await database.all<object>(sql`pragma integrity_check`)).toEqual([{ integrity_check: "ok" }]);
      await database.close();
    });

    test(`reports the path if it cannot be opened${where}`, async () => {
      const dataDir = freshDataDir();
      mkdirSync(storeFile(dataDir));
      const opened = openDatabase({ store: "sqlite", dataDir, threaded });
      expect(await kindOf(opened)).toBe("unavailable");
      expect(await messageOf(opened)).toContain(storeFile(dataDir));
    });
  }
});

describe("the thread", () => {
  test("does not block the event loop during a slow statement", async () => {
    const database = await openDatabase({ store: "sqlite", dataDir: freshDataDir(), threaded: true });
    await database.all(sql`select 1`);
    let worstMs = 0;
    let lastMs = performance.now();
    const timer = setInterval(() => {
      const nowMs = performance.now();
      worstMs = Math.max(worstMs, nowMs - lastMs);
      lastMs = nowMs;
    }, 1);
    const startedMs = performance.now();
    const [row] = await database.all<{ n: number }>(
      sql`with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 2000000) select count(*) as n from numbers`,
    );
    const tookMs = performance.now() - startedMs;
    clearInterval(timer);
    expect(row).toEqual({ n: 2_000_000 });
    expect(worstMs).toBeLessThan(tookMs / 2);
    await database.close();
  });

  test("answers in the order of the requests", async () => {
    const database = await openDatabase({ store: "sqlite", dataDir: freshDataDir(), threaded: true });
    const seen: number[] = [];
    await Promise.all(Array.from({ length: 50 }, async (_, at) => database.all(sql`select ${at}`).then(() => void seen.push(at))));
    expect(seen).toEqual(Array.from({ length: 50 }, (_, at) => at));
    await database.close();
  });

  test("answers queries while a transaction waits for its process, with what was committed, and keeps writers out", async () => {
    const database = await openDatabase({ store: "sqlite", dataDir: freshDataDir(), threaded: true });
    const value = async (): Promise<unknown> => (await database.all<{ value: number }>(sql`select value from revision`))[0]?.value;
    const going = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const changing = database.transaction(async (inner) => {
      await inner.run(sql`update revision set value = 7`);
      begun.resolve();
      await going.promise;
    });
    await begun.promise;
    let written = false;
    const writing = database.run(sql`update revision set value = value + 1`).then(() => (written = true));
    for (let round = 0; round < 3; round += 1) expect(await value()).toBe(0);
    expect(written).toBe(false);
    going.resolve();
    await Promise.all([changing, writing]);
    expect(await value()).toBe(8);
    await database.close();
  });

  test("changes a key by itself, without the process that asked for it, and says what was wrong", async () => {
    const dataDir = freshDataDir();
    const database = (await openDatabase({ store: "sqlite", dataDir, threaded: true })) as ThreadDatabase;
    const { keys } = storageInThread(database, { wallMs: Date.now, newId });
    const by = { kind: "cli", name: "t" } as const;
    const token = { digest: "d".repeat(64), last4: "dddd" };
    const creating = keys.create("one", { ...newKey, name: "one" }, token, by);
    const other = new BunDatabase(storeFile(dataDir));
    const untilMs = performance.now() + 10_000;
    const isThere = (): boolean => other.query("select id from keys").all().length === 1;
    // This thread does nothing else meanwhile.
    while (!isThere() && performance.now() < untilMs) Bun.sleepSync(1);
    expect(isThere()).toBe(true);
    other.close();
    expect(await creating).toMatchObject({ id: "one", name: "one" });
    expect(await kindOf(keys.create("one", { ...newKey, name: "one" }, token, by))).toBe("conflict");
    expect(await keys.revoke("one", by)).toMatchObject({ id: "one", revokedMs: expect.any(Number) as number });
    await keys.used(new Map([["one", 60_000]]));
    expect(await keys.byDigest(token.digest)).toMatchObject({ key: { id: "one", lastUsedMs: 60_000 } });
    await database.close();
  });

  test("answers queries while another process is writing, and begins its transactions when that has ended, or says that it is busy", async () => {
    const dataDir = freshDataDir();
    await (await openDatabase({ store: "sqlite", dataDir, threaded: true })).close();
    const database = new ThreadDatabase(storeFile(dataDir), { busyMs: 1_000 });
    const other = new BunDatabase(storeFile(dataDir));
    const work = async (inner: Database): Promise<number> => inner.run(sql`update revision set value = value + 1`);
    other.run("begin immediate");
    let ended = false;
    const tooLate = database.transaction(work).catch((error: unknown) => error);
    void tooLate.then(() => (ended = true));
    expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 0 }]);
    expect(ended).toBe(false);
    expect(await tooLate).toMatchObject({ kind: "unavailable", isBusy: true });
    const inTime = database.transaction(work);
    await database.all(sql`select 1`);
    other.run("commit");
    expect(await inTime).toBe(1);
    expect(await database.all<object>(sql`select value from revision`)).toEqual([{ value: 1 }]);
    other.close();
    await database.close();
  });

  test("rejects pending statements when it dies, drops its transaction, and restarts for the next one", async () => {
    const file = storeFile(freshDataDir());
    const connection = new ThreadConnection(
      { file, busyMs: 1_000, readonly: false },
      { script: new URL("../support/mortal-thread.ts", import.meta.url) },
    );
    const database = new SerialDatabase(connection);
    await database.run(sql`create table t (a integer)`);
    const waiting = [database.run(sql`select 'die'`), database.all(sql`select 1`), database.transaction(async () => 1)];
    expect(await Promise.all(waiting.slice(0, 2).map(kindOf))).toEqual(["unavailable", "unavailable"]);
    await waiting[2]!.catch(() => {});
    expect(await database.run(sql`insert into t (a) values (1)`)).toBe(1);

    const cut = database.transaction(async (inner) => {
      await inner.run(sql`insert into t (a) values (2)`);
      await inner.run(sql`select 'die'`).catch(() => {});
      await inner.run(sql`insert into t (a) values (3)`);
    });
    expect(await kindOf(cut)).toBe("unavailable");
    expect(await database.all<object>(sql`select a from t`)).toEqual([{ a: 1 }]);

    // Also where nothing was under way when it died.
    const apart = database.transaction(async (inner) => {
      await inner.run(sql`insert into t (a) values (4)`);
      await inner.run(sql`select 'die soon'`);
      await eventually("the thread is lost", () => !connection.isRunning);
      await inner.run(sql`insert into t (a) values (5)`);
    });
    expect(await kindOf(apart)).toBe("unavailable");
    expect(await database.all<object>(sql`select a from t`)).toEqual([{ a: 1 }]);
    await database.close();
  });

  test("does not keep the process alive, except while an answer is pending", async () => {
    const code = `
      const { ThreadDatabase } = await import(${JSON.stringify(join(import.meta.dir, "../../src/store/sqlite/thread-database.ts"))});
      const { sql } = await import(${JSON.stringify(join(import.meta.dir, "../../src/store/sql.ts"))});
      const database = new ThreadDatabase(process.argv[1]);
      database.all(sql\`with recursive n (n) as (select 1 union all select n + 1 from n where n < 300000) select count(*) as n from n\`)
        .then((rows) => console.log(rows[0].n));`;
    const child = Bun.spawn({ cmd: [process.execPath, "-e", code, storeFile(freshDataDir())], stdout: "pipe", stderr: "inherit" });
    let ended = false;
    void child.exited.then(() => (ended = true));
    await eventually("the process ends by itself", () => ended, 10_000).finally(() => child.kill());
    expect(await new Response(child.stdout).text()).toBe("300000\n");
    expect(child.exitCode).toBe(0);
  });

  test("ends after a rest, and starts again for the next statement, with everything that was written", async () => {
    const connection = new ThreadConnection({ file: storeFile(freshDataDir()), busyMs: 1_000, readonly: false }, { restMs: 1 });
    const database = new SerialDatabase(connection);
    await database.run(sql`create table t (a integer)`);
    for (let at = 1; at <= 3; at += 1) {
      await eventually("the thread has ended", () => !connection.isRunning);
      expect(await database.run(sql`insert into t (a) values (${at})`)).toBe(1);
    }
    await database.transaction(async (inner) => {
      await inner.run(sql`insert into t (a) values (4)`);
      await Bun.sleep(20);
      expect(connection.isRunning).toBe(true);
      await inner.run(sql`insert into t (a) values (5)`);
    });
    await eventually("the thread has ended", () => !connection.isRunning);
    expect(await database.all<object>(sql`select count(*) as n from t`)).toEqual([{ n: 5 }]);
    await database.close();
  });

  test("ends at once after old receipts were removed, unless somebody else uses it", async () => {
    const dataDir = freshDataDir();
    await (await openDatabase({ store: "sqlite", dataDir })).close();
    const connection = new ThreadConnection({ file: storeFile(dataDir), busyMs: 1_000, readonly: false }, { restMs: 3_600_000 });
    const database = new SerialDatabase(connection);
    const retention = { receiptsMs: 1, hoursMs: 1, wallMs: Date.now() };
    await retain(database, retention);
    expect(connection.isRunning).toBe(false);

    const asked = database.all<object>(sql`select 1 as n`);
    database.rest();
    expect(connection.isRunning).toBe(true);
    expect(await asked).toEqual([{ n: 1 }]);
    await database.transaction(async (inner) => {
      await inner.run(sql`create table t (a integer)`);
      database.rest();
      await inner.run(sql`insert into t (a) values (1)`);
    });
    await retain(database, retention);
    expect(connection.isRunning).toBe(false);
    expect(await database.all<object>(sql`select a from t`)).toEqual([{ a: 1 }]);
    await database.close();
  });

  test("starts on first use, and closing it before that does nothing", async () => {
    const folder = freshDataDir();
    const database = new ThreadDatabase(storeFile(folder));
    await database.close();
    expect(readdirSync(folder)).toEqual([]);
  });
});

async function kindOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "none",
    (error: unknown) => (error instanceof StorageError ? error.kind : String(error)),
  );
}

async function messageOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "no trouble",
    (error: unknown) => (error as Error).message,
  );
}
