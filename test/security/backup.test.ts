// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { StorageError } from "../../src/gateway/storage.ts";
import { backupBeforeMigration } from "../../src/store/backup/before-migration.ts";
import { backupMagic, defaultChunkBytes } from "../../src/store/backup/header.ts";
import type { BackupKey, BackupProtection } from "../../src/store/backup/key.ts";
import { restoreStore, type StoreBackupSource } from "../../src/store/backup/restore.ts";
import { decryptFile, encryptFile } from "../../src/store/backup/encrypted-file.ts";
import { backupStore, type BackupProgress } from "../../src/store/backup/backup.ts";
import type { Database } from "../../src/store/database.ts";
import { masterKeyFile } from "../../src/store/secrets/master-key-file.ts";
import { openMasterKey } from "../../src/store/secrets/master-key.ts";
import { openDatabase, storeFile } from "../../src/store/open.ts";
import { rotateMasterKey } from "../../src/store/secrets/rewrap.ts";
import { sql } from "../../src/store/sql.ts";
import { freshDataDir } from "../support/databases.ts";

const canary = "canary-row-that-nobody-may-read";
const passphrase = "five quiet words in a row";
const byMasterKey: BackupProtection = { kind: "master_key" };

/** A store with its master key, some rows, and more bytes than one piece of a backup has. */
async function filled(given: string | null = null): Promise<{ readonly dataDir: string; readonly database: Database }> {
  const dataDir = freshDataDir();
  const database = await openDatabase({ store: "sqlite", dataDir });
  await openMasterKey({ dataDir, given, database });
  await database.transaction(async (inner) => {
    for (let at = 0; at < 900; at += 1)
      await inner.run(sql`insert into settings (name, value) values (${`n${at}`}, ${`${canary}${"v".repeat(500)}`})`);
  });
  return { dataDir, database };
}

const from = (file: string, rest: Partial<StoreBackupSource> = {}): StoreBackupSource => ({
  file,
  passphrase: null,
  checkOnly: false,
  ...rest,
});

async function rowsIn(dataDir: string): Promise<number> {
  const database = await openDatabase({ store: "sqlite", dataDir });
  const [row] = await database.all<{ readonly n: number }>(sql`select count(*) as n from settings where name like 'n%'`);
  await database.close();
  return row?.n ?? 0;
}

async function said(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "",
    (error: unknown) => (error instanceof StorageError ? `${error.kind}: ${error.message}` : `a bug: ${String(error)}`),
  );
}

/** The bytes of every file in a folder, of which nothing may be readable. */
const bytesIn = (folder: string): string =>
  readdirSync(folder)
    .map((name) => readFileSync(join(folder, name)).toString("latin1"))
    .join("\n");

describe("S51: a backup", () => {
  test("is encrypted with the master key by default, and reveals nothing of its content", async () => {
    const { dataDir, database } = await filled();
    const folder = freshDataDir();
    const file = join(folder, "store.backup");
    const seen: BackupProgress["doing"][] = [];
    const { bytes } = await backupStore({
      dataDir,
      to: { file, protection: byMasterKey },
      onProgress: ({ doing }) => void seen.push(doing),
    });
    expect(bytes).toBe(statSync(file).size);
    expect(bytes).toBeGreaterThan(2 * defaultChunkBytes);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect([...new Set(seen)]).toEqual(["copying", "checking", "encrypting"]);
    const raw = bytesIn(folder);
    expect(raw.startsWith(backupMagic)).toBe(true);
    for (const readable of [canary, "SQLite format", "create table", "settings", readFileSync(masterKeyFile(dataDir), "utf8").trim()]) {
      expect([readable, raw.includes(readable)]).toEqual([readable, false]);
    }
    // What is not encrypted yet lay in the data folder, and is gone.
    expect(readdirSync(folder)).toEqual(["store.backup"]);
    expect(readdirSync(dataDir).filter((name) => name.includes(".part"))).toEqual([]);
    await database.run(sql`delete from settings where name like 'n%'`);
    await database.close();
    const before = readdirSync(dataDir).toSorted();
    await restoreStore({ dataDir, from: from(file, { checkOnly: true }) });
    expect([readdirSync(dataDir).toSorted(), await rowsIn(dataDir)]).toEqual([before, 0]);
    await restoreStore({ dataDir, from: from(file) });
    expect(await rowsIn(dataDir)).toBe(900);
  });

  test("is encrypted with a master key of the environment, and opens with no other", async () => {
    const given = new Bun.CryptoHasher("sha256").update("one").digest("hex");
    const { dataDir, database } = await filled(given);
    await database.close();
    const file = join(freshDataDir(), "store.backup");
    expect(await said(backupStore({ dataDir, to: { file, protection: byMasterKey } }))).toContain("--passphrase-file");
    const other = new Bun.CryptoHasher("sha256").update("two").digest("hex");
    expect(await said(backupStore({ dataDir, given: other, to: { file, protection: byMasterKey } }))).toContain("SLUICE_MASTER_KEY");
    expect(existsSync(file)).toBe(false);
    await backupStore({ dataDir, given, to: { file, protection: byMasterKey } });
    const elsewhere = join(freshDataDir(), "new");
    const none = await said(restoreStore({ dataDir: elsewhere, from: from(file) }));
    expect(none).toContain("there is none here");
    expect(none).toContain(masterKeyFile(elsewhere));
    const wrong = await said(restoreStore({ dataDir: elsewhere, given: other, from: from(file) }));
    expect(wrong).toContain("another master key than SLUICE_MASTER_KEY");
    expect(wrong).not.toContain(other);
    expect(readdirSync(elsewhere)).toEqual([]);
    await restoreStore({ dataDir: elsewhere, given, from: from(file) });
    expect(await rowsIn(elsewhere)).toBe(900);
  });

  test("from before a change of the master key opens with the old one, which is kept, and not without it", async () => {
    const { dataDir, database } = await filled();
    const old = readFileSync(masterKeyFile(dataDir), "utf8");
    const file = join(freshDataDir(), "store.backup");
    await backupStore({ dataDir, to: { file, protection: byMasterKey } });
    await rotateMasterKey({ dataDir, given: null, next: null, database });
    await database.close();
    await restoreStore({ dataDir, from: from(file, { checkOnly: true }) });
    const kept = readdirSync(dataDir).filter((name) => name.startsWith("master-key.replaced-"));
    expect(kept.map((name) => [readFileSync(join(dataDir, name), "utf8"), statSync(join(dataDir, name)).mode & 0o777])).toEqual([
      [old, 0o600],
    ]);
    for (const name of kept) rmSync(join(dataDir, name));
    expect(await said(restoreStore({ dataDir, from: from(file) }))).toContain("another master key than the one in");
    const fresh = readFileSync(masterKeyFile(dataDir), "utf8");
    writeFileSync(masterKeyFile(dataDir), old);
    writeFileSync(`${masterKeyFile(dataDir)}.next`, fresh);
    await restoreStore({ dataDir, from: from(file, { checkOnly: true }) });
    // The store itself is of the next one, and is what it is sealed with.
    const second = join(freshDataDir(), "store.backup");
    await backupStore({ dataDir, to: { file: second, protection: byMasterKey } });
    rmSync(`${masterKeyFile(dataDir)}.next`);
    expect(await said(restoreStore({ dataDir, from: from(second) }))).toContain("another master key");
  });

  test("with a passphrase opens with that one, on a machine that has no master key yet", async () => {
    const { dataDir, database } = await filled();
    await database.close();
    const file = join(freshDataDir(), "store.backup");
    expect(await said(backupStore({ dataDir, to: { file, protection: { kind: "passphrase", passphrase: "short" } } }))).toContain("16 to");
    await backupStore({ dataDir, to: { file, protection: { kind: "passphrase", passphrase } } });
    expect(readFileSync(file).toString("latin1")).not.toContain(passphrase);
    const elsewhere = join(freshDataDir(), "new");
    expect(await said(restoreStore({ dataDir: elsewhere, from: from(file) }))).toContain(
      "give the file that holds it as --passphrase-file",
    );
    const wrong = await said(restoreStore({ dataDir: elsewhere, from: from(file, { passphrase: "five other words in a row" }) }));
    expect(wrong).toContain("The passphrase does not decrypt");
    expect(readdirSync(elsewhere)).toEqual([]);
    await restoreStore({ dataDir: elsewhere, from: from(file, { passphrase }) });
    expect(await rowsIn(elsewhere)).toBe(900);
  });

  test("whose header demands excessive work or memory is refused", async () => {
    const folder = freshDataDir();
    for (const opensWith of [{ kind: "passphrase", workLog2: 40 }, { kind: "passphrase", workLog2: -1 }, { kind: "other" }]) {
      const salt = Buffer.alloc(32, 7).toString("base64url");
      const file = join(folder, "hostile.backup");
      for (const sizes of [
        { chunkBytes: 65_536, bytes: 100_000 },
        { chunkBytes: 2 ** 40, bytes: 2 ** 41 },
        { chunkBytes: 0, bytes: 0 },
      ]) {
        writeFileSync(file, `${backupMagic}${JSON.stringify({ salt, ...sizes, opensWith })}\nAAAA\n${"x".repeat(200_000)}`);
        expect(await said(restoreStore({ dataDir: join(folder, "data"), from: from(file, { passphrase }) }))).toStartWith("damaged:");
      }
    }
    writeFileSync(join(folder, "endless"), backupMagic + "x".repeat(100_000));
    expect(await said(restoreStore({ dataDir: join(folder, "data"), from: from(join(folder, "endless")) }))).toStartWith("damaged:");
  });

  test("before a step of the schema is encrypted as well, where the store's own master key is at hand", async () => {
    const { dataDir, database } = await filled();
    await backupBeforeMigration(database, storeFile(dataDir), 99);
    const copy = `${storeFile(dataDir)}.before-0099`;
    expect(readFileSync(copy).toString("latin1").startsWith(backupMagic)).toBe(true);
    expect(readFileSync(copy).toString("latin1")).not.toContain(canary);
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    expect(readdirSync(dataDir).filter((name) => name.includes(".part"))).toEqual([]);
    await database.run(sql`delete from settings where name like 'n%'`);
    // With another key than the store's it is as plain as the store beside it: nobody could open it otherwise.
    writeFileSync(masterKeyFile(dataDir), new Bun.CryptoHasher("sha256").update("other").digest("hex"));
    await backupBeforeMigration(database, storeFile(dataDir), 98);
    expect(
      readFileSync(`${storeFile(dataDir)}.before-0098`)
        .toString("latin1")
        .startsWith("SQLite format 3"),
    ).toBe(true);
    await database.close();
    expect(await said(restoreStore({ dataDir, from: from(copy) }))).toContain("another master key");
  });

  test("that was killed leaves nothing readable after the next one", async () => {
    const { dataDir, database } = await filled();
    await database.close();
    const left = `${storeFile(dataDir)}.0b5c.part`;
    copyFileSync(storeFile(dataDir), left);
    utimesSync(left, 1, 1);
    await backupStore({ dataDir, to: { file: join(freshDataDir(), "store.backup"), protection: byMasterKey } });
    expect(existsSync(left)).toBe(false);
  });
});

describe("a sealed file", () => {
  const key: BackupKey = { hint: { kind: "master_key", version: "1" }, secret: async () => new Uint8Array(32).fill(3) };
  const folder = freshDataDir();
  const [plain, sealed, again] = ["plain", "sealed", "again"].map((name) => join(folder, name)) as [string, string, string];
  const open = (): Promise<string> => said(decryptFile(sealed, again, () => key));

  test("comes back as it was, whatever its length", async () => {
    for (const length of [
      1,
      15,
      defaultChunkBytes - 1,
      defaultChunkBytes,
      defaultChunkBytes + 1,
      2 * defaultChunkBytes,
      3 * defaultChunkBytes - 7,
    ]) {
      const bytes = crypto.getRandomValues(new Uint8Array(64));
      const text = Buffer.alloc(length, bytes);
      writeFileSync(plain, text);
      await encryptFile(plain, sealed, key);
      expect([length, await open()]).toEqual([length, ""]);
      expect(readFileSync(again).equals(text)).toBe(true);
    }
  });

  test("is another one each time", async () => {
    writeFileSync(plain, "the same");
    await encryptFile(plain, sealed, key);
    await encryptFile(plain, again, key);
    expect(readFileSync(sealed).subarray(-24).equals(readFileSync(again).subarray(-24))).toBe(false);
  });

  test("S52: does not open if any bit of it was flipped", async () => {
    writeFileSync(plain, Buffer.alloc(2 * defaultChunkBytes + 500, "0123456789"));
    await encryptFile(plain, sealed, key);
    const good = readFileSync(sealed);
    const header = good.indexOf("\n", good.indexOf("\n", backupMagic.length) + 1) + 1;
    const offsets = fc.oneof(
      fc.nat(header - 1),
      fc.nat(good.length - 1),
      fc.nat(40).map((back) => good.length - 1 - back),
    );
    await fc.assert(
      fc.asyncProperty(offsets, fc.nat(7), async (offset, bit) => {
        const turned = Buffer.from(good);
        turned[offset]! ^= 1 << bit;
        writeFileSync(sealed, turned);
        expect(await open()).toStartWith("damaged:");
      }),
      { numRuns: 150 },
    );
  });

  test("S52: does not open if it was truncated, extended or reordered", async () => {
    writeFileSync(plain, Buffer.alloc(3 * defaultChunkBytes, "0123456789"));
    await encryptFile(plain, sealed, key);
    const good = readFileSync(sealed);
    const start = good.indexOf("\n", good.indexOf("\n", backupMagic.length) + 1) + 1;
    const piece = defaultChunkBytes + 16;
    for (const length of [start, start + piece, start + 2 * piece, good.length - 1, good.length - 16, good.length - piece, start + 5]) {
      writeFileSync(sealed, good);
      truncateSync(sealed, length);
      expect([length, await open()]).toEqual([length, expect.stringContaining("is truncated")]);
    }
    writeFileSync(sealed, good);
    appendFileSync(sealed, "x");
    expect(await open()).toContain("longer than it should be");
    const [one, two, three] = [0, 1, 2].map((at) => good.subarray(start + at * piece, start + (at + 1) * piece));
    for (const order of [
      [two, one, three],
      [one, three, two],
      [one, one, three],
      [one, two, two],
    ]) {
      writeFileSync(sealed, Buffer.concat([good.subarray(0, start), ...order.map((part) => part!)]));
      expect(await open()).toContain("something was changed");
    }
  });

  test("S52: does not open with the header of another, though it is of the same key", async () => {
    writeFileSync(plain, "one and the same");
    await encryptFile(plain, sealed, key);
    await encryptFile(plain, again, key);
    const [one, other] = [readFileSync(sealed), readFileSync(again)];
    writeFileSync(sealed, Buffer.concat([one.subarray(0, one.length - 32), other.subarray(-32)]));
    expect(await open()).toContain("something was changed");
  });

  test("takes no more memory for being larger", async () => {
    const [small, large] = [await peakBytes(8 * mebibyte), await peakBytes(256 * mebibyte)];
    expect(large - small).toBeLessThan(96 * mebibyte);
  });

  /** The most memory that a process of its own has while it seals and opens so many bytes. */
  async function peakBytes(bytes: number): Promise<number> {
    // It is empty on the disk.
    writeFileSync(plain, "");
    truncateSync(plain, bytes);
    const code = `
      const { decryptFile, encryptFile } = await import(${JSON.stringify(join(import.meta.dir, "../../src/store/backup/encrypted-file.ts"))});
      const key = { hint: { kind: "master_key", version: "1" }, secret: async () => new Uint8Array(32) };
      const [plain, sealed, again] = process.argv.slice(1);
      let peak = 0;
      const look = () => void (peak = Math.max(peak, process.memoryUsage().rss));
      await encryptFile(plain, sealed, key, look);
      await decryptFile(sealed, again, () => key, look);
      console.log(peak);`;
    const child = Bun.spawn({ cmd: [process.execPath, "-e", code, plain, sealed, again], stdout: "pipe", stderr: "inherit" });
    const [said] = await Promise.all([new Response(child.stdout).text(), child.exited]);
    expect(statSync(again).size).toBe(bytes);
    for (const file of [plain, sealed, again]) rmSync(file);
    return Number(said);
  }
});

const mebibyte = 1024 * 1024;
