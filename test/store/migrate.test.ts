// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { StorageError } from "../../src/gateway/storage.ts";
import { backupBeforeMigration } from "../../src/store/backup/before-migration.ts";
import type { Database } from "../../src/store/database.ts";
import { migrate, pending } from "../../src/store/migrate.ts";
import { migrations, type Migration } from "../../src/store/migrations/index.ts";
import { connectDatabase, openDatabase, storeFile } from "../../src/store/open.ts";
import { Sql, sql } from "../../src/store/sql.ts";
import { SqliteDatabase } from "../../src/store/sqlite/sqlite.ts";
import { disposable, engines, freshDataDir, freshPostgresUrl } from "../support/databases.ts";
import { startMigrating } from "../support/migrating.ts";

/** What a later version might bring: it only adds, so that the version before goes on. */
const second: Migration = {
  number: migrations.length + 1,
  name: "labels",
  reads: migrations.length,
  statements: [
    sql`alter table settings add column label text`,
    sql`create table labels (id integer primary key, name text not null)`,
    sql`insert into labels (id, name) values (1, 'first')`,
  ],
};
const later = [...migrations, second];
const breaking: Migration = { number: second.number + 1, name: "renamed", reads: second.number + 1, statements: [sql`drop table labels`] };

test("the migrations are numbered from one without gaps, and none requires a later version than itself", () => {
  expect(migrations.map(({ number }) => number)).toEqual(migrations.map((_, at) => at + 1));
  for (const { number, reads } of migrations) expect(reads).toBeWithin(1, number + 1);
});

for (const { name, skipped, open } of engines) {
  describe.skipIf(skipped !== null)(`${name}${skipped === null ? "" : ` (skipped: ${skipped})`}`, () => {
    test("a new store gets each migration once, and reports them", async () => {
      await using database = await open();
      expect(await pending(database)).toEqual([]);
      expect(await migrate(database)).toEqual([]);
      const rows = await database.all<{ number: number; name: string; reads: number; at_ms: number }>(sql`select * from migrations`);
      expect(rows.map(({ number, name, reads }) => ({ number, name, reads }))).toEqual(
        migrations.map(({ number, name, reads }) => ({ number, name, reads })),
      );
      for (const { at_ms } of rows) expect(Math.abs(Date.now() - at_ms)).toBeLessThan(60_000);
    });

    test("a new store is made in one transaction, and an old one is changed step by step", async () => {
      const store = name === "sqlite" ? "sqlite" : await freshPostgresUrl();
      await using database = disposable(connectDatabase({ store, dataDir: freshDataDir() }));
      let transactions = 0;
      const counting: Database = {
        engine: database.engine,
        all: (query) => database.all(query),
        run: (query) => database.run(query),
        close: () => database.close(),
        transaction: (work) => {
          transactions += 1;
          return database.transaction(work);
        },
      };
      expect(await migrate(counting)).toEqual(migrations);
      expect(transactions).toBe(1);
      const third: Migration = { ...second, number: second.number + 1, statements: [sql`alter table labels add column color text`] };
      expect(await migrate(counting, { migrations: [...later, third] })).toEqual([second, third]);
      expect(transactions).toBe(3);
    });

    test("the previous version keeps working, and starts, on a schema that is one migration newer", async () => {
      await using database = await open();
      const statements = async (): Promise<void> => {
        await database.run(sql`delete from settings`);
        await database.run(sql`insert into settings (name, value) values (${"a"}, ${"b"})`);
        expect(await database.all(sql`select name, value from settings where name = ${"a"}`)).toEqual([{ name: "a", value: "b" }]);
        expect((await database.all<{ name: string }>(sql`select * from settings`)).map(({ name }) => name)).toEqual(["a"]);
      };
      await statements();
      expect((await pending(database, later)).map(({ number }) => number)).toEqual([second.number]);
      expect((await migrate(database, { migrations: later })).map(({ number }) => number)).toEqual([second.number]);
      await statements();
      expect(await pending(database)).toEqual([]);
      expect(await migrate(database)).toEqual([]);
      expect(await database.all<object>(sql`select id, name from labels`)).toEqual([{ id: 1, name: "first" }]);
    });

    test("a version that is too old for the store is rejected, with instructions", async () => {
      await using database = await open();
      await migrate(database, { migrations: [...later, breaking] });
      for (const attempt of [
        async () => migrate(database),
        async () => pending(database),
        async () => migrate(database, { migrations: later }),
      ]) {
        const trouble = await attempt().then(
          () => null,
          (error: unknown) => error as Error,
        );
        expect(trouble).toBeInstanceOf(StorageError);
        expect(trouble!.message).toContain("newer version of Sluice");
        expect(trouble!.message).toContain(name === "sqlite" ? "`sluice restore`" : "`pg_restore`");
      }
      expect(await migrate(database, { migrations: [...later, breaking] })).toEqual([]);
    });

    test("a migration that fails halfway leaves nothing behind, and is applied when it is fixed", async () => {
      await using database = await open();
      const broken: Migration = { ...second, statements: [...second.statements, sql`insert into labels (id, name) values (1, 'twice')`] };
      expect(await migrate(database, { migrations: [...migrations, broken] }).catch((error: unknown) => (error as StorageError).kind)).toBe(
        "conflict",
      );
      expect(await database.all(sql`select label from settings`).catch((error: unknown) => (error as StorageError).kind)).toBe("damaged");
      expect((await pending(database, later)).length).toBe(1);
      expect((await migrate(database, { migrations: later })).length).toBe(1);
      expect(await database.all<object>(sql`select name from labels`)).toEqual([{ name: "first" }]);
    });

    test("a process killed during a migration leaves nothing of it behind", async () => {
      const store = name === "sqlite" ? "sqlite" : await freshPostgresUrl();
      const dataDir = freshDataDir();
      await (await openDatabase({ store, dataDir })).close();
      const child = startMigrating(store, dataDir, "hang");
      expect(await child.firstLine()).toBe("in the middle");
      await child.kill();
      const database = await openDatabase({ store, dataDir });
      expect((await migrate(database, { migrations: later })).length).toBe(1);
      expect(await database.all<object>(sql`select name from labels`)).toEqual([{ name: "first" }]);
      await database.close();
    }, 120_000);

    test("of several processes that start at once, each migration is applied by one, and all continue", async () => {
      const store = name === "sqlite" ? "sqlite" : await freshPostgresUrl();
      const dataDir = freshDataDir();
      const children = Array.from({ length: 4 }, () => startMigrating(store, dataDir, "migrate").child);
      const said = await Promise.all(
        children.map(async (child) => ({
          code: await child.exited,
          out: await new Response(child.stdout).text(),
          errors: await new Response(child.stderr).text(),
        })),
      );
      expect(said.map(({ code, errors }) => [code, errors])).toEqual(said.map(() => [0, ""]));
      const taken = said.flatMap(({ out }) =>
        out
          .trim()
          .split(",")
          .filter((number) => number !== ""),
      );
      expect(taken.map(Number).sort((one, other) => one - other)).toEqual(later.map(({ number }) => number));
      const database = await openDatabase({ store, dataDir });
      expect(await database.all<object>(sql`select name from labels`)).toEqual([{ name: "first" }]);
      await database.close();
    }, 120_000);
  });
}

describe("before a SQLite store is changed", () => {
  const kept = async (database: Database, file: string, steps: readonly Migration[]): Promise<void> => {
    await migrate(database, { migrations: steps, beforeStep: async ({ number }) => backupBeforeMigration(database, file, number) });
  };

  test("a private copy of it is kept beside it, except for a new store", async () => {
    const dataDir = freshDataDir();
    const database = await openDatabase({ store: "sqlite", dataDir });
    expect(readdirSync(dataDir).filter((file) => file.includes("before"))).toEqual([]);
    await database.run(sql`insert into settings (name, value) values ('a', 'b')`);
    const file = storeFile(dataDir);
    await kept(database, file, later);
    await database.run(sql`delete from settings`);
    await database.close();
    const fresh = new SqliteDatabase(storeFile(freshDataDir()));
    await kept(fresh, fresh.file, later);
    await fresh.close();
    expect(readdirSync(dirname(fresh.file))).toEqual(["sluice.db"]);
    const copies = readdirSync(dataDir).filter((name) => name.includes("before"));
    expect(copies).toEqual([`sluice.db.before-${String(second.number).padStart(4, "0")}`]);
    expect(statSync(join(dataDir, copies[0]!)).mode & 0o777).toBe(0o600);
    const copy = new SqliteDatabase(join(dataDir, copies[0]!));
    expect(await copy.all<object>(sql`select * from settings`)).toEqual([{ name: "a", value: "b" }]);
    expect((await pending(copy, later)).length).toBe(1);
    await copy.close();
  });

  test("a copy that was made after the migration is not kept", async () => {
    const dataDir = freshDataDir();
    const database = await openDatabase({ store: "sqlite", dataDir });
    await migrate(database, { migrations: later });
    await backupBeforeMigration(database, storeFile(dataDir), second.number);
    expect(readdirSync(dataDir).filter((name) => name.includes("before"))).toEqual([]);
    await database.close();
  });

  test("at most three copies are kept, the newest ones", async () => {
    const dataDir = freshDataDir();
    const database = await openDatabase({ store: "sqlite", dataDir });
    const many = Array.from({ length: 5 }, (_, at) => ({
      number: migrations.length + 1 + at,
      name: `step ${at}`,
      reads: 1,
      statements: [new Sql([`create table step_${at} (a integer)`], [])],
    }));
    await kept(database, storeFile(dataDir), [...migrations, ...many]);
    const numbers = many.slice(-3).map(({ number }) => `sluice.db.before-${String(number).padStart(4, "0")}`);
    expect(
      readdirSync(dataDir)
        .filter((name) => name.includes("before"))
        .sort(),
    ).toEqual(numbers);
    await database.close();
  });

  test("a partial copy of a killed process is removed, but not one that is being made", async () => {
    const dataDir = freshDataDir();
    const database = await openDatabase({ store: "sqlite", dataDir });
    const [old, young] = ["old", "young"].map((name) => `${storeFile(dataDir)}.before-0002.${name}.part`);
    for (const half of [old!, young!]) writeFileSync(half, "half");
    utimesSync(old!, 1, 1);
    await backupBeforeMigration(database, storeFile(dataDir), second.number);
    expect([existsSync(old!), existsSync(young!)]).toEqual([false, true]);
    await database.close();
  });
});
