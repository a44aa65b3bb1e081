// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { ChannelTable } from "../../src/store/tables/channel-table.ts";
import type { Database } from "../../src/store/database.ts";
import { openMasterKey, readMasterKeyRecord, type MasterKey } from "../../src/store/secrets/master-key.ts";
import { makeKeyFile, masterKeyFile, MasterKeyError, nextKeyFile, parsedMasterKey } from "../../src/store/secrets/master-key-file.ts";
import { rewrap, rotateMasterKey } from "../../src/store/secrets/rewrap.ts";
import { encryptBytes, decryptBytes, encryptionKeyOf } from "../../src/store/secrets/encryption.ts";
import { sql } from "../../src/store/sql.ts";
import { makeStorage } from "../../src/store/storage.ts";
import type { DamagedRow } from "../../src/store/tables/change.ts";
import { makeChannelSecrets } from "../../src/store/secrets/channel-secrets.ts";
import { engines, freshDataDir } from "../support/databases.ts";
import { newKey } from "../support/new-key.ts";
import { ada, storageWorld, errorKind } from "../support/storage-world.ts";

const hexKey = (seed: string): string => new Bun.CryptoHasher("sha256").update(seed).digest("hex");
const sealing = (seed: string): ReturnType<typeof encryptionKeyOf> => encryptionKeyOf(parsedMasterKey(hexKey(seed))!);

async function refusal(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "",
    (error: unknown) => (error instanceof MasterKeyError ? error.message : `not a refusal: ${String(error)}`),
  );
}

describe("an encrypted secret", () => {
  const channelSecrets = makeChannelSecrets(sealing("one"));

  test("can be decrypted for its channel with its key, whatever it contains", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), fc.array(fc.string({ unit: "grapheme" })), (channel, secrets) => {
        expect(channelSecrets.decrypt(channel, channelSecrets.encrypt(channel, secrets))).toEqual(secrets);
      }),
    );
  });

  test("S52: has another ciphertext each time, which reveals nothing", () => {
    const sealed = Array.from({ length: 50 }, () => channelSecrets.encrypt("main", ["sk-canary-secret"]));
    expect(new Set(sealed).size).toBe(50);
    expect(new Set(sealed.map((text) => text.split(".")[3]!.slice(0, 16))).size).toBe(50);
    for (const text of sealed) expect(Buffer.from(text.split(".")[3]!, "base64url").toString("latin1")).not.toContain("canary");
  });

  test("S52: cannot be decrypted in another row, as another field, or with another master key", () => {
    const sealed = channelSecrets.encrypt("main", ["s"]);
    expect(channelSecrets.decrypt("other", sealed)).toMatchObject({ kind: "decryption_error", because: "damaged" });
    expect(channelSecrets.decrypt("main|sealed", sealed)).toMatchObject({ because: "damaged" });
    expect(makeChannelSecrets(sealing("two")).decrypt("main", sealed)).toMatchObject({ because: "other_key" });
    const [format, , wrapped, payload] = sealed.split(".");
    const forged = [format, sealing("two").version, wrapped, payload].join(".");
    expect(makeChannelSecrets(sealing("two")).decrypt("main", forged)).toMatchObject({ because: "damaged" });
    const [, , otherWrapped, otherPayload] = channelSecrets.encrypt("main", ["t"]).split(".");
    expect(channelSecrets.decrypt("main", [format, sealing("one").version, otherWrapped, payload].join("."))).toMatchObject({
      because: "damaged",
    });
    expect(channelSecrets.decrypt("main", [format, sealing("one").version, otherPayload, payload].join("."))).toMatchObject({
      because: "damaged",
    });
  });

  test("S52: cannot be decrypted after a single character was changed, removed or added", () => {
    const sealed = channelSecrets.encrypt("main", ["secret"]);
    for (let at = 0; at < sealed.length; at++) {
      const swapped = sealed[at] === "A" ? "B" : "A";
      expect(channelSecrets.decrypt("main", sealed.slice(0, at) + swapped + sealed.slice(at + 1))).toHaveProperty(
        "kind",
        "decryption_error",
      );
      expect(channelSecrets.decrypt("main", sealed.slice(0, at))).toHaveProperty("kind", "decryption_error");
    }
    for (const more of ["A", ".", ".A", "="])
      expect(channelSecrets.decrypt("main", sealed + more)).toHaveProperty("kind", "decryption_error");
    fc.assert(fc.property(fc.string(), (text) => expect(channelSecrets.decrypt("main", text)).toHaveProperty("kind", "decryption_error")));
  });

  test("S52: has an authentication tag of full length: a shorter one is rejected", () => {
    const place = { table: "t", row: "r", field: "f", version: "1" };
    const { bytes } = sealing("one");
    const sealed = Buffer.from(encryptBytes(bytes, new Uint8Array([1, 2, 3]), place), "base64url");
    for (const cut of [1, 4, 8, 12, 15]) expect(decryptBytes(bytes, sealed.subarray(0, -cut).toString("base64url"), place)).toBeNull();
    expect(decryptBytes(bytes, sealed.toString("base64url"), place)).toEqual(Buffer.from([1, 2, 3]));
  });

  test("S52: is moved to another master key by rewrapping its data key only", () => {
    const moving = makeChannelSecrets(sealing("two"), sealing("one"));
    const sealed = channelSecrets.encrypt("main", ["secret"]);
    expect(moving.decrypt("main", sealed)).toEqual(["secret"]);
    const moved = moving.rewrapped("main", sealed);
    if (typeof moved !== "string") throw new Error(moved.message);
    expect(moved.split(".").at(3)).toBe(sealed.split(".").at(3));
    expect(makeChannelSecrets(sealing("two")).decrypt("main", moved)).toEqual(["secret"]);
    expect(channelSecrets.decrypt("main", moved)).toMatchObject({ because: "other_key" });
    expect(moving.rewrapped("main", moved)).toBe(moved);
    expect(moving.rewrapped("other", sealed)).toHaveProperty("kind", "decryption_error");
  });
});

describe("S52: encrypted headers", () => {
  const channelSecrets = makeChannelSecrets(sealing("one"));

  test("can be decrypted for their channel with their key, and not as secrets or vice versa", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), fc.dictionary(fc.string(), fc.string()), (channel, headers) => {
        const sealed = channelSecrets.encryptHeaders(channel, headers);
        expect(channelSecrets.decryptHeaders(channel, sealed)).toEqual({
          headers: JSON.parse(JSON.stringify(headers)) as Record<string, unknown>,
        });
        expect(channelSecrets.decryptHeaders(`${channel}x`, sealed)).toHaveProperty("because", "damaged");
        expect(channelSecrets.decrypt(channel, sealed)).toHaveProperty("because", "damaged");
        expect(channelSecrets.rewrapped(channel, sealed)).toHaveProperty("because", "damaged");
        expect(channelSecrets.decryptHeaders(channel, channelSecrets.encrypt(channel, ["s"]))).toHaveProperty("because", "damaged");
      }),
    );
  });

  test("cannot be decrypted when truncated, changed or of another master key, and are moved to the next key by rewrapping only", () => {
    const sealed = channelSecrets.encryptHeaders("main", { "x-key": "secret" });
    for (let at = 0; at < sealed.length; at++) {
      const turned = sealed.slice(0, at) + (sealed[at] === "A" ? "B" : "A") + sealed.slice(at + 1);
      expect(channelSecrets.decryptHeaders("main", turned)).toHaveProperty("kind", "decryption_error");
      expect(channelSecrets.decryptHeaders("main", sealed.slice(0, at))).toHaveProperty("kind", "decryption_error");
    }
    expect(makeChannelSecrets(sealing("two")).decryptHeaders("main", sealed)).toMatchObject({ because: "other_key" });
    const moved = makeChannelSecrets(sealing("two"), sealing("one")).rewrapped("main", sealed, "headers");
    if (typeof moved !== "string") throw new Error(moved.message);
    expect(moved.split(".").at(3)).toBe(sealed.split(".").at(3));
    expect(makeChannelSecrets(sealing("two")).decryptHeaders("main", moved)).toEqual({ headers: { "x-key": "secret" } });
  });
});

describe("a master key", () => {
  test("is 32 bytes in hexadecimal or base64, and not a typed placeholder", () => {
    const bytes = Buffer.from(hexKey("a"), "hex");
    for (const text of [
      hexKey("a"),
      hexKey("a").toUpperCase(),
      ` ${hexKey("a")}\n`,
      bytes.toString("base64"),
      bytes.toString("base64url"),
    ]) {
      expect(parsedMasterKey(text)).toEqual(new Uint8Array(bytes));
    }
    for (const text of [
      "",
      "0".repeat(64),
      "ab".repeat(32),
      hexKey("a").slice(1),
      `${hexKey("a")}00`,
      "correct horse battery staple",
      "A".repeat(43),
    ]) {
      expect(parsedMasterKey(text)).toBeNull();
    }
  });

  test("in a file is readable by its owner only, even if a copy was not, and is never replaced", () => {
    const dataDir = join(freshDataDir(), "new", "folder");
    const file = masterKeyFile(dataDir);
    const made = makeKeyFile(dataDir, file);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(dataDir)).toEqual(["master-key"]);
    chmodSync(file, 0o644);
    expect(makeKeyFile(dataDir, file)).toEqual(made);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, "not a key");
    expect(() => makeKeyFile(dataDir, file)).toThrow(MasterKeyError);
    expect(readFileSync(file, "utf8")).toBe("not a key");
  });
});

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`the master key of a store in ${engine.name}`, () => {
    test("is generated on the first start and found on the next, with the same digests", async () => {
      await using world = await storageWorld(engine);
      const { dataDir, database } = world;
      const first = await openMasterKey({ dataDir, given: null, database });
      const second = await openMasterKey({ dataDir, given: null, database });
      expect(second.digest("sk-gw_token")).toBe(first.digest("sk-gw_token"));
      expect(second.adminDigest("token")).toBe(first.adminDigest("token"));
      expect(first.digest("token")).toMatch(/^[0-9a-f]{64}$/);
      expect(first.adminDigest("token")).not.toBe(first.digest("token"));
      const hmac = new Bun.CryptoHasher("sha256", first.pepper).update("token").digest("hex");
      expect(first.digest("token")).toBe(hmac);
      // Another store has another pepper, also with the same master key.
      await using other = await storageWorld(engine);
      const given = readFileSync(masterKeyFile(dataDir), "utf8");
      expect((await openMasterKey({ dataDir: other.dataDir, given, database: other.database })).digest("token")).not.toBe(hmac);
      expect(existsSync(masterKeyFile(other.dataDir))).toBe(false);
    });

    test("S53: that is wrong, missing or invalid is rejected, with instructions and without the key", async () => {
      await using world = await storageWorld(engine);
      const { database } = world;
      const dataDir = freshDataDir();
      await openMasterKey({ dataDir, given: null, database });
      const elsewhere = freshDataDir();
      const absent = await refusal(openMasterKey({ dataDir: elsewhere, given: null, database }));
      expect(absent).toContain("Copy the file");
      expect(absent).toContain("SLUICE_MASTER_KEY");
      expect(readdirSync(elsewhere)).toEqual([]);
      const wrong = await refusal(openMasterKey({ dataDir: elsewhere, given: hexKey("wrong"), database }));
      expect(wrong).toContain("another master key");
      expect(wrong).not.toContain(hexKey("wrong"));
      expect(await refusal(openMasterKey({ dataDir, given: "short", database }))).toContain("64 hexadecimal digits");
      writeFileSync(masterKeyFile(elsewhere), hexKey("wrong"));
      expect(await refusal(openMasterKey({ dataDir: elsewhere, given: null, database }))).toContain("another master key");
      expect(readFileSync(masterKeyFile(elsewhere), "utf8")).toBe(hexKey("wrong"));
      await database.run(sql`update settings set value = '{"version":' where name = 'master_key'`);
      expect(await refusal(openMasterKey({ dataDir, given: null, database }))).toContain("Restore a backup");
    });

    test("S53: cannot be created anew in a store that contains keys or secrets", async () => {
      await using world = await storageWorld(engine);
      const { storage, database } = world;
      const dataDir = freshDataDir();
      await storage.channels.create({ name: "c", entry: {}, sealed: "v1.x", last4: [] }, ada);
      expect(await refusal(openMasterKey({ dataDir, given: null, database }))).toContain("Restore a backup");
      expect(await refusal(openMasterKey({ dataDir, given: hexKey("a"), database }))).toContain("Restore a backup");
      await storage.channels.remove("c", ada);
      await storage.keys.create("k", newKey, { digest: "d", last4: "0000" }, ada);
      expect(await refusal(openMasterKey({ dataDir, given: null, database }))).toContain("Restore a backup");
      expect(readdirSync(dataDir)).toEqual([]);
    });

    test("is a single one, even if many processes start for the first time at once", async () => {
      await using world = await storageWorld(engine, 0, true);
      const second = await world.another();
      const dataDir = freshDataDir();
      const open = (database: Database): Promise<MasterKey> => openMasterKey({ dataDir, given: null, database });
      const opened = await Promise.all([world.database, second.database, world.database, second.database].map(open));
      expect(new Set(opened.map(({ digest }) => digest("token"))).size).toBe(1);
      expect(readdirSync(dataDir)).toEqual(["master-key"]);
    });

    test("that two machines generate at once is that of one of them; the other is rejected and keeps nothing", async () => {
      await using world = await storageWorld(engine, 0, true);
      const second = await world.another();
      const folders = [freshDataDir(), freshDataDir()];
      const open = (at: number): Promise<string> =>
        refusal(openMasterKey({ dataDir: folders[at]!, given: null, database: [world.database, second.database][at]! }));
      const outcomes = await Promise.all([open(0), open(1)]);
      const winner = outcomes.indexOf("");
      expect(outcomes.filter((message) => message === "").length).toBe(1);
      expect(outcomes[1 - winner]).toContain("SLUICE_MASTER_KEY");
      expect(readdirSync(folders[1 - winner]!)).toEqual([]);
      const given = readFileSync(masterKeyFile(folders[winner]!), "utf8");
      expect(await refusal(openMasterKey({ dataDir: folders[1 - winner]!, given, database: world.database }))).toBe("");
    });

    test("is rotated with all secrets and nothing else changed, and keys keep working", async () => {
      await using world = await storageWorld(engine);
      const { storage, database } = world;
      const dataDir = freshDataDir();
      const before = await openMasterKey({ dataDir, given: null, database });
      const channelSecrets = makeChannelSecrets(before.sealing);
      for (const name of ["a", "b", "c"]) {
        await storage.channels.create({ name, entry: {}, sealed: channelSecrets.encrypt(name, [`secret ${name}`]), last4: [] }, ada);
      }
      await storage.channels.create({ name: "open", entry: {}, sealed: null, last4: [] }, ada);
      const steps: string[] = [];
      await rotateMasterKey({ dataDir, given: null, next: null, database }, ({ done, of }) => void steps.push(`${done}/${of}`));
      expect(steps).toEqual(["1/3", "2/3", "3/3"]);
      // The one before is kept: nothing else opens the backups that were made with it.
      expect(readdirSync(dataDir).toSorted()).toEqual(["master-key", expect.stringMatching(/^master-key\.replaced-[0-9a-f]{12}$/)]);
      const after = await openMasterKey({ dataDir, given: null, database });
      expect(after.sealing.version).not.toBe(before.sealing.version);
      expect(after.digest("token")).toBe(before.digest("token"));
      expect(after.adminDigest("token")).toBe(before.adminDigest("token"));
      for (const { name, sealed } of await storage.channels.list()) {
        if (sealed === null) continue;
        expect(makeChannelSecrets(after.sealing).decrypt(name, sealed)).toEqual([`secret ${name}`]);
        expect(channelSecrets.decrypt(name, sealed)).toMatchObject({ because: "other_key" });
      }
    });

    test("S53: can be rotated after a crash at any step of the rotation", async () => {
      await using world = await storageWorld(engine);
      const { storage, database } = world;
      const dataDir = freshDataDir();
      const first = await openMasterKey({ dataDir, given: null, database });
      for (const name of ["a", "b", "c"]) {
        await storage.channels.create(
          { name, entry: {}, sealed: makeChannelSecrets(first.sealing).encrypt(name, [`secret ${name}`]), last4: [] },
          ada,
        );
      }
      // It dies at its first, its second, … statement that changes something, until it does not.
      let crashes = 0;
      for (; ; crashes++) {
        const outcome = await refusalOrCrash(
          rotateMasterKey({ dataDir, given: null, next: null, database: dyingAfter(database, crashes) }),
        );
        // Whoever starts now is either served with everything open, or could be after the rotation is finished.
        const now = await openMasterKey({ dataDir, given: null, database });
        expect(now.digest("token")).toBe(first.digest("token"));
        const keys = now.next === null ? [now.sealing] : [now.sealing, now.next];
        const channelSecrets = makeChannelSecrets(keys[0]!, ...keys.slice(1));
        for (const { name, sealed } of await storage.channels.list())
          expect(channelSecrets.decrypt(name, sealed!)).toEqual([`secret ${name}`]);
        if (outcome === "done") break;
        expect(outcome).toBe("crashed");
      }
      expect(crashes).toBeGreaterThan(4);
      expect((await openMasterKey({ dataDir, given: null, database })).sealing.version).not.toBe(first.sealing.version);

      // Between the last statement and the renaming of the file.
      const old = readFileSync(masterKeyFile(dataDir), "utf8");
      await rotateMasterKey({ dataDir, given: null, next: null, database });
      renameSync(masterKeyFile(dataDir), nextKeyFile(dataDir));
      writeFileSync(masterKeyFile(dataDir), old);
      const repaired = await openMasterKey({ dataDir, given: null, database });
      expect(repaired.digest("token")).toBe(first.digest("token"));
      expect(existsSync(nextKeyFile(dataDir))).toBe(false);
      expect((await readMasterKeyRecord(database))?.version).toBe(repaired.sealing.version);
    });

    test("S53: is rotated for headers too, including plain ones, and after a crash at any step", async () => {
      await using world = await storageWorld(engine);
      const { storage, database } = world;
      const dataDir = freshDataDir();
      const first = await openMasterKey({ dataDir, given: null, database });
      const needs = { wallMs: Date.now, newId: () => Bun.randomUUIDv7() };
      const sealed = makeStorage(database, { ...needs, channelSecrets: makeChannelSecrets(first.sealing) });
      const entry = (name: string): object => ({ provider: "x", headers: { "x-key": `header-canary ${name}` }, weight: 2 });
      for (const name of ["a", "b"]) await sealed.channels.create({ name, entry: { ...entry(name) }, sealed: null, last4: [] }, ada);
      // As a version did that did not seal them.
      await storage.channels.create(
        { name: "clear", entry: { ...entry("clear") }, sealed: makeChannelSecrets(first.sealing).encrypt("clear", ["s"]), last4: [] },
        ada,
      );
      let crashes = 0;
      for (; ; crashes++) {
        const outcome = await refusalOrCrash(
          rotateMasterKey({ dataDir, given: null, next: null, database: dyingAfter(database, crashes) }),
        );
        const now = await openMasterKey({ dataDir, given: null, database });
        const channelSecrets = now.next === null ? makeChannelSecrets(now.sealing) : makeChannelSecrets(now.sealing, now.next);
        const { channels } = makeStorage(database, { ...needs, channelSecrets });
        expect((await channels.list()).map((one) => one.entry)).toEqual(["a", "b", "clear"].map((name) => ({ ...entry(name) })));
        if (outcome === "done") break;
      }
      expect(crashes).toBeGreaterThan(4);
      const rows = await database.all<object>(sql`select * from channels`);
      expect(JSON.stringify(rows)).not.toContain("header-canary");
      const { sealing: last } = await openMasterKey({ dataDir, given: null, database });
      expect((await makeStorage(database, { ...needs, channelSecrets: makeChannelSecrets(last) }).channels.list()).length).toBe(3);
      expect(
        await errorKind(makeStorage(database, { ...needs, channelSecrets: makeChannelSecrets(first.sealing) }).channels.get("a")),
      ).toBe("damaged");
    });

    test("S52: rejects a row that contains the ciphertext of another, and the others keep working", async () => {
      await using world = await storageWorld(engine);
      const { database, damaged } = world;
      const channelSecrets = makeChannelSecrets(sealing("one"));
      const needs = {
        wallMs: Date.now,
        newId: () => Bun.randomUUIDv7(),
        channelSecrets,
        damaged: (row: DamagedRow) => void damaged.push(row),
      };
      const { channels } = makeStorage(database, needs);
      for (const name of ["a", "b", "c"]) {
        await channels.create(
          { name, entry: { headers: { "x-key": name } }, sealed: channelSecrets.encrypt(name, [name]), last4: [] },
          ada,
        );
      }
      await database.run(sql`update channels set entry = (select entry from channels where name = 'b'),
        sealed = (select sealed from channels where name = 'b') where name = 'a'`);
      expect((await channels.list()).map(({ name }) => name)).toEqual(["b", "c"]);
      expect(damaged).toEqual([{ table: "channels", id: "a", column: "headers" }]);
      expect(await errorKind(channels.get("a"))).toBe("damaged");
      const [row] = await database.all<{ readonly sealed: string }>(sql`select sealed from channels where name = 'a'`);
      expect(channelSecrets.decrypt("a", row!.sealed)).toMatchObject({ because: "damaged" });
      // It is repaired by setting it anew.
      expect((await channels.change("a", { entry: { headers: { "x-key": "new" } } }, ada)).entry).toEqual({ headers: { "x-key": "new" } });
    });

    test("of a store with only encrypted headers cannot be created anew either", async () => {
      await using world = await storageWorld(engine);
      const { database } = world;
      const channelSecrets = makeChannelSecrets(sealing("one"));
      const { channels } = makeStorage(database, { wallMs: Date.now, newId: () => Bun.randomUUIDv7(), channelSecrets });
      await channels.create({ name: "a", entry: { headers: { "x-key": "s" } }, sealed: null, last4: [] }, ada);
      expect(await refusal(openMasterKey({ dataDir: freshDataDir(), given: null, database }))).toContain("Restore a backup");
    });

    test("does not lose concurrent changes of channels during a rotation", async () => {
      await using world = await storageWorld(engine, 0, true);
      const second = await world.another();
      const needs = { wallMs: () => 5, newId: () => Bun.randomUUIDv7() };
      const tables = [new ChannelTable(world.database, needs), new ChannelTable(second.database, needs)];
      await tables[0]!.create({ name: "main", entry: { start: true }, sealed: null, last4: [] }, ada);
      const revision = await world.storage.revision();
      const revised = await Promise.all(
        Array.from({ length: 12 }, (_, at) =>
          tables[at % 2]!.revise("main", async ({ entry }) => (at % 4 === 3 ? null : { entry: { ...entry, [`field${at}`]: at } }), ada),
        ),
      );
      expect(revised.filter((one) => one === null)).toHaveLength(3);
      const { entry } = (await world.storage.channels.get("main"))!;
      expect(Object.keys(entry).toSorted()).toEqual(["start", ...[0, 1, 2, 4, 5, 6, 8, 9, 10].map((at) => `field${at}`)].toSorted());
      expect(await world.storage.revision()).toBe(revision + 9);
      expect(await errorKind(tables[0]!.revise("nobody", async () => ({}), ada))).toBe("missing");
    });

    test("S53: is not changed if a secret cannot be decrypted with it, or if it is the wrong one", async () => {
      await using world = await storageWorld(engine);
      const { storage, database } = world;
      const dataDir = freshDataDir();
      const { sealing: from } = await openMasterKey({ dataDir, given: hexKey("one"), database });
      const good = makeChannelSecrets(from).encrypt("a", ["s"]);
      await storage.channels.create({ name: "a", entry: {}, sealed: good, last4: [] }, ada);
      await storage.channels.create({ name: "b", entry: {}, sealed: good, last4: [] }, ada);
      expect(await refusal(rewrap(database, from, sealing("two")))).toContain("channel b");
      expect((await storage.channels.get("a"))?.sealed).toBe(good);
      expect((await readMasterKeyRecord(database))?.version).toBe(from.version);
      await storage.channels.remove("b", ada);
      expect(await refusal(rewrap(database, sealing("three"), sealing("two")))).toContain("another master key");
      expect(await refusal(rotateMasterKey({ dataDir, given: hexKey("one"), next: null, database }))).not.toBe("");
      expect(await refusal(rotateMasterKey({ dataDir, given: hexKey("one"), next: "weak", database }))).toContain("32 random bytes");
      expect(await refusal(rotateMasterKey({ dataDir, given: hexKey("one"), next: hexKey("two"), database }))).toBe("");
      expect((await openMasterKey({ dataDir, given: hexKey("two"), database })).sealing.version).toBe(sealing("two").version);
      expect(readdirSync(dataDir)).toEqual([]);
    });
  });
}

test("S51: no secret or token can be found in the files of a SQLite store, which only its owner can read", async () => {
  await using world = await storageWorld(engines[0]!);
  const { storage, database, dataDir } = world;
  const { digest, adminDigest, sealing: key } = await openMasterKey({ dataDir, given: null, database });
  const canaries = [
    "sk-upstream-canary-1",
    "sk-gw_client-canary-2",
    "sk-gw_client-canary-3",
    "session-canary-4",
    "admin-canary-5",
    "boot-canary-6",
  ];
  const [upstream, client, rotated, session, admin, boot] = canaries as [string, string, string, string, string, string];
  await storage.channels.create(
    { name: "main", entry: { provider: "x" }, sealed: makeChannelSecrets(key).encrypt("main", [upstream]), last4: ["ry-1"] },
    ada,
  );
  await storage.keys.create("k", { ...newKey, name: "visible-name" }, { digest: digest(client), last4: "ry-2" }, ada);
  await storage.keys.rotate("k", { digest: digest(rotated), last4: "ry-3" }, 1_000, ada);
  await storage.accounts.setBootstrap(adminDigest(boot), 2_000_000);
  await storage.accounts.useBootstrap(adminDigest(boot), 1_000_000, { name: "grace", role: "admin", passwordHash: "$hash$" }, ada);
  const opened = { account: "grace", issuer: null, subject: null, role: "admin", csrf: "c", createdMs: 1, seenMs: 1 } as const;
  await storage.accounts.openSession({ digest: adminDigest(session), ...opened });
  await storage.accounts.createToken({ name: "ci", role: "admin", mark: { digest: adminDigest(admin), last4: "ry-5" } }, ada);
  await rotateMasterKey({ dataDir, given: null, next: null, database });
  const master = readFileSync(masterKeyFile(dataDir), "utf8").trim();

  const files = readdirSync(dataDir).filter((name) => name !== "master-key");
  expect(files.some((name) => name.endsWith("-wal"))).toBe(true);
  const raw = files.map((name) => readFileSync(join(dataDir, name)).toString("latin1")).join("\n");
  expect(raw).toContain("visible-name");
  const forms = [...canaries, master].flatMap((text) => [
    text,
    Buffer.from(text).toString("base64").replace(/=+$/, ""),
    Buffer.from(text).toString("hex"),
  ]);
  expect(forms.filter((form) => raw.includes(form))).toEqual([]);
  expect(raw).not.toContain(Buffer.from(master, "hex").toString("latin1"));
  for (const name of readdirSync(dataDir)) expect([name, statSync(join(dataDir, name)).mode & 0o077]).toEqual([name, 0]);
  rmSync(nextKeyFile(dataDir), { force: true });
});

/** A database whose process dies at one statement that changes something: that one and all later ones never come back. */
function dyingAfter(database: Database, statements: number): Database {
  let left = statements;
  const wrap = (inner: Database): Database => ({
    engine: inner.engine,
    all: (query) => inner.all(query),
    run: (query) => (left-- > 0 ? inner.run(query) : Promise.reject(new Crash())),
    transaction: (work) => inner.transaction((transaction) => work(wrap(transaction))),
    close: () => Promise.resolve(),
  });
  return wrap(database);
}

class Crash extends Error {}

async function refusalOrCrash(work: Promise<void>): Promise<string> {
  return work.then(
    () => "done",
    (error: unknown) => (error instanceof Crash ? "crashed" : String(error)),
  );
}
