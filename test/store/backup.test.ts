// Needs: servers. It uses a real PostgreSQL or Redis.
import { Database as BunDatabase } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, openSync, readdirSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { StorageError } from "../../src/gateway/storage.ts";
import { restoreStore, type StoreBackupSource } from "../../src/store/backup/restore.ts";
import { backupStore, type BackupProgress, type StoreBackupTarget } from "../../src/store/backup/backup.ts";
import type { Database } from "../../src/store/database.ts";
import { migrate } from "../../src/store/migrate.ts";
import { migrations } from "../../src/store/migrations/index.ts";
import { openDatabase, storeFile } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import { freshDataDir } from "../support/databases.ts";

describe("a backup", () => {
  test("is complete and consistent while others write", async () => {
    const { dataDir, database } = await filled(400);
    let writing = true;
    // Every transaction adds to both sides: a copy taken in the middle of one would show it.
    const writer = (async () => {
      while (writing) {
        await database.transaction(async (inner) => {
          await inner.run(sql`update revision set value = value + 1`);
          await inner.run(sql`insert into settings (name, value) select 'w' || value, 'x' from revision`);
        });
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const seen: BackupProgress[] = [];
    const to = join(freshDataDir(), "copy.db");
    const { bytes } = await backupStore({ dataDir, to: plain(to), onProgress: (progress) => void seen.push(progress) });
    writing = false;
    await writer;
    await database.close();

    expect(bytes).toBe(statSync(to).size);
    expect(statSync(to).mode & 0o777).toBe(0o600);
    expect(seen[0]).toMatchObject({ doing: "copying", doneBytes: 0 });
    expect(seen.at(-1)?.doing).toBe("checking");
    const copy = new BunDatabase(to, { readonly: true });
    expect(copy.query("pragma integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
    const row = copy
      .query(
        "select value, (select count(*) from settings where name like 'w%') as rows, (select count(*) from settings where name like 'n%') as old from revision",
      )
      .get();
    const { value, rows, old } = row as { value: number; rows: number; old: number };
    expect([rows, old]).toEqual([value, 400]);
    copy.close();
  });

  test("leaves no other files behind, and none at all when it fails", async () => {
    const { dataDir, database } = await filled(10);
    const folder = freshDataDir();
    await backupStore({ dataDir, to: plain(join(folder, "copy.db")) });
    expect(readdirSync(folder)).toEqual(["copy.db"]);
    expect(await kindOf(backupStore({ dataDir, to: plain(join(folder, "copy.db")) }))).toBe("invalid");
    expect(await kindOf(backupStore({ dataDir, to: plain(storeFile(dataDir)) }))).toBe("invalid");
    expect(await kindOf(backupStore({ dataDir, to: plain(join(folder, "missing", "copy.db")) }))).toBe("unavailable");
    expect(await kindOf(backupStore({ dataDir: join(folder, "missing"), to: plain(join(folder, "other.db")) }))).toBe("missing");
    expect(readdirSync(folder)).toEqual(["copy.db"]);
    expect(await database.all<object>(sql`select count(*) as n from settings`)).toEqual([{ n: 10 }]);
    await database.close();
  });

  test("of a damaged store is refused", async () => {
    const { dataDir, database } = await filled(400);
    await database.close();
    damage(storeFile(dataDir));
    const folder = freshDataDir();
    expect(await kindOf(backupStore({ dataDir, to: plain(join(folder, "copy.db")) }))).toBe("damaged");
    expect(readdirSync(folder)).toEqual([]);
  });

  test("of PostgreSQL is left to its own tools, and the message does not repeat the address", async () => {
    const store = "postgres://me:hidden@db/sluice";
    for (const attempt of [
      backupStore({ store, dataDir: "x", to: plain("y") }),
      restoreStore({ store, dataDir: "x", from: source("y") }),
    ]) {
      const message = await attempt.then(
        () => "",
        (error: unknown) => (error as Error).message,
      );
      expect(message).toContain("pg_dump");
      expect(message).not.toContain("hidden");
    }
  });
});

describe("a restore", () => {
  test("restores the store, and keeps the one that it replaced", async () => {
    const { dataDir, database } = await filled(30);
    const from = join(freshDataDir(), "copy.db");
    await backupStore({ dataDir, to: plain(from) });
    await database.run(sql`delete from settings where name <> 'n1'`);
    await database.close();
    const { replaced } = await restoreStore({ from: source(from), dataDir });
    const back = await openDatabase({ store: "sqlite", dataDir });
    expect(await back.all<object>(sql`select count(*) as n from settings`)).toEqual([{ n: 30 }]);
    expect(statSync(storeFile(dataDir)).mode & 0o777).toBe(0o600);
    await back.close();
    const old = new BunDatabase(replaced!);
    expect(old.query("select count(*) as n from settings").get()).toEqual({ n: 1 });
    old.close();
    expect(existsSync(from)).toBe(true);
  });

  test("works if there is no store yet", async () => {
    const { dataDir, database } = await filled(5);
    const from = join(freshDataDir(), "copy.db");
    await backupStore({ dataDir, to: plain(from) });
    await database.close();
    const empty = join(freshDataDir(), "new");
    expect(await restoreStore({ from: source(from), dataDir: empty })).toEqual({ replaced: null, masterKey: { kind: "fits" } });
    const back = await openDatabase({ store: "sqlite", dataDir: empty });
    expect(await back.all<object>(sql`select count(*) as n from settings`)).toEqual([{ n: 5 }]);
    await back.close();
  });

  for (const threaded of [false, true]) {
    test(`is refused while the store is open${threaded ? " in a thread" : ""}, and changes nothing`, async () => {
      const { dataDir, database } = await filled(5, threaded);
      const from = join(freshDataDir(), "copy.db");
      await backupStore({ dataDir, to: plain(from) });
      const before = readdirSync(dataDir).sort();
      const refused = restoreStore({ from: source(from), dataDir });
      expect(await kindOf(refused)).toBe("unavailable");
      await expect(refused).rejects.toThrow("Stop it first");
      expect(readdirSync(dataDir).sort()).toEqual(before);
      expect(await database.run(sql`insert into settings (name, value) values ('more', 'x')`)).toBe(1);
      await database.close();
      await restoreStore({ from: source(from), dataDir });
    });
  }

  test("is refused while another process has the store open", async () => {
    const { dataDir, database } = await filled(5);
    const from = join(freshDataDir(), "copy.db");
    await backupStore({ dataDir, to: plain(from) });
    await database.close();
    const code = `
      const reader = new (require("bun:sqlite").Database)(process.argv[1], { readonly: true });
      reader.query("select value from revision").get();
      console.log("open");
      setInterval(() => reader, 1000);`;
    const child = Bun.spawn({ cmd: [process.execPath, "-e", code, storeFile(dataDir)], stdout: "pipe", stderr: "inherit" });
    for await (const _ of child.stdout) break;
    expect(await kindOf(restoreStore({ from: source(from), dataDir }))).toBe("unavailable");
    child.kill("SIGKILL");
    await child.exited;
    expect(await kindOf(restoreStore({ from: source(from), dataDir }))).toBe("none");
  });

  test("of a file that is damaged, truncated, foreign, too new or missing changes nothing", async () => {
    const { dataDir, database } = await filled(400);
    const folder = freshDataDir();
    const good = join(folder, "good.db");
    await backupStore({ dataDir, to: plain(good) });
    await database.close();
    const bad = (name: string, spoil: (file: string) => void): string => {
      const file = join(folder, name);
      copyFileSync(good, file);
      spoil(file);
      return file;
    };
    const newer = { number: migrations.length + 1, name: "newer", reads: migrations.length + 1, statements: [] };
    const tooNew = join(folder, "new");
    const ahead = await openDatabase({ store: "sqlite", dataDir: tooNew });
    await migrate(ahead, { migrations: [...migrations, newer] });
    await ahead.close();
    const foreign = join(folder, "foreign.db");
    new BunDatabase(foreign).run("create table a (b integer)");
    const cases: readonly (readonly [string, string])[] = [
      [bad("spoilt.db", damage), "damaged"],
      [bad("cut.db", (file) => truncateSync(file, 50_000)), "damaged"],
      [bad("text.db", (file) => writeFileSync(file, "nothing of the kind".repeat(100))), "damaged"],
      [bad("empty.db", (file) => writeFileSync(file, "")), "damaged"],
      [foreign, "damaged"],
      [storeFile(tooNew), "damaged"],
      [join(folder, "missing.db"), "missing"],
    ];
    for (const [from, kind] of cases) expect([from, await kindOf(restoreStore({ from: source(from), dataDir }))]).toEqual([from, kind]);
    expect(readdirSync(dataDir)).toEqual(["sluice.db"]);
    const still = await openDatabase({ store: "sqlite", dataDir });
    expect(await still.all<object>(sql`select count(*) as n from settings`)).toEqual([{ n: 400 }]);
    await still.close();
  });

  test("replaces a store that is too damaged to be opened", async () => {
    const { dataDir, database } = await filled(5);
    const from = join(freshDataDir(), "copy.db");
    await backupStore({ dataDir, to: plain(from) });
    await database.close();
    writeFileSync(storeFile(dataDir), "nothing of the kind".repeat(1_000));
    writeFileSync(`${storeFile(dataDir)}-wal`, "nor this");
    const { replaced } = await restoreStore({ from: source(from), dataDir });
    const back = await openDatabase({ store: "sqlite", dataDir });
    expect(await back.all<object>(sql`select count(*) as n from settings`)).toEqual([{ n: 5 }]);
    await back.close();
    expect(existsSync(replaced!)).toBe(true);
  });
});

function plain(file: string): StoreBackupTarget {
  return { file, protection: { kind: "plain" } };
}

function source(file: string, passphrase: string | null = null, checkOnly = false): StoreBackupSource {
  return { file, passphrase, checkOnly };
}

async function filled(rows: number, threaded = false): Promise<{ readonly dataDir: string; readonly database: Database }> {
  const dataDir = freshDataDir();
  const database = await openDatabase({ store: "sqlite", dataDir, threaded });
  await database.transaction(async (inner) => {
    for (let at = 0; at < rows; at += 1) await inner.run(sql`insert into settings (name, value) values (${`n${at}`}, ${"v".repeat(300)})`);
  });
  return { dataDir, database };
}

/** Writes over pages in the middle. */
function damage(file: string): void {
  const { size } = statSync(file);
  const descriptor = openSync(file, "r+");
  for (let at = 40_960; at < size - 8_192; at += 8_192) writeSync(descriptor, Buffer.alloc(4_096, 0x5a), 0, 4_096, at);
}

async function kindOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "none",
    (error: unknown) => (error instanceof StorageError ? error.kind : String(error)),
  );
}
