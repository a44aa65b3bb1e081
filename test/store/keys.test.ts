// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { KeyQuery } from "../../src/gateway/storage.ts";
import type { NewKey } from "../../src/keys/stored-key.ts";
import { unlimited, unlimitedRates } from "../../src/limits/limits.ts";
import type { Database } from "../../src/store/database.ts";
import { sql } from "../../src/store/sql.ts";
import { makeStorage } from "../../src/store/storage.ts";
import { engines } from "../support/databases.ts";
import { newKey } from "../support/new-key.ts";
import { anyText, numRuns } from "../support/properties.ts";
import { ada as by, storageWorld, errorKind } from "../support/storage-world.ts";

const everything: KeyQuery = { search: null, revoked: true, after: null, limit: 200 };

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`keys in ${engine.name}`, () => {
    test("are read back as they were created, with all of their limits", async () => {
      await using world = await storageWorld(engine);
      const { keys } = world.storage;
      const full: NewKey = {
        ...newKey,
        name: "Ünïcode 'quoted' \"name\"; drop table keys; --",
        models: ["fast", "whisper-*"],
        operations: ["chat", "speech"],
        channels: ["eu*"],
        expiresMs: 2_000_000_000_000,
        splits: { audio: true, input: false },
        limits: {
          ...unlimitedRates,
          requests: 600,
          tokens: 200_000,
          concurrency: 0,
          budget: { nanos: 50_000_000_000, period: "month" },
          budgets: [{ name: "audio", models: null, operations: ["speech"], channels: ["eu*"], nanos: 5, period: "day" }],
          models: [{ ...unlimitedRates, pattern: "big-*", audioSeconds: 1.5, budget: { nanos: 1, period: "total" } }],
          unpriced: "allow",
        },
        owner: "team a",
        note: "a note",
      };
      const made = await keys.create("id1", full, { digest: "d1", last4: "abcd" }, by);
      expect(made).toEqual({
        ...full,
        id: "id1",
        createdMs: 1_000_000,
        revokedMs: null,
        lastUsedMs: null,
        tokens: [{ last4: "abcd", createdMs: 1_000_000, expiresMs: null }],
      });
      expect(await keys.get("id1")).toEqual(made);
      expect(await keys.find(full.name)).toEqual(made);
      expect(await keys.find("id1")).toEqual(made);
      expect(await keys.byDigest("d1")).toEqual({ key: made, tokenExpiresMs: null });
      expect(await keys.list(everything)).toEqual([made]);
      expect(await keys.count()).toBe(1);
      for (const nobody of ["", "d1", "x".repeat(5_000), "id1\0", "' or 1=1 --"]) expect(await keys.find(nobody)).toBeNull();
      expect(await keys.byDigest("d2")).toBeNull();
    });

    test("share no name, id or token, and a failed creation leaves nothing behind", async () => {
      await using world = await storageWorld(engine);
      const { keys } = world.storage;
      await keys.create("id1", newKey, { digest: "d1", last4: "1111" }, by);
      const again = (id: string, name: string, digest: string): Promise<string> =>
        errorKind(keys.create(id, { ...newKey, name }, { digest, last4: "2222" }, by));
      expect(await again("id1", "other", "d2")).toBe("conflict");
      expect(await again("id2", "app", "d2")).toBe("conflict");
      expect(await again("id2", "id1", "d2")).toBe("conflict");
      expect(await again("app", "other", "d2")).toBe("conflict");
      expect(await again("id2", "other", "d1")).toBe("conflict");
      expect(await keys.count()).toBe(1);
      expect(await world.storage.revision()).toBe(1_000_000);
      // Owners of sums and limits are stored with spaces and ">" between them.
      for (const id of ["team one", "x *", "*", "grp_a>k", "grp_a", "file:k", "jwt:ci:k", "k\n", "k\u00a0", "", "k".repeat(201)])
        expect(await again(id, "other", "d2")).toBe("invalid");
      expect(await again("id2", "other", "d2")).toBe("none");
      expect(await errorKind(keys.change("id2", { name: "app" }, by))).toBe("conflict");
      expect(await errorKind(keys.change("id2", { name: "id1" }, by))).toBe("conflict");
      expect(await errorKind(keys.change("nobody", { name: "x" }, by))).toBe("missing");
      expect(await errorKind(keys.revoke("nobody", by))).toBe("missing");
      expect((await keys.find("other"))?.id).toBe("id2");
    });

    test("that are created concurrently have unique names, and revisions without gaps", async () => {
      await using world = await storageWorld(engine);
      const { keys } = world.storage;
      const made = await Promise.all(
        Array.from({ length: 12 }, (_, at) =>
          errorKind(keys.create(`id${at}`, { ...newKey, name: `n${at % 4}` }, { digest: `d${at}`, last4: "0000" }, by)),
        ),
      );
      expect(made.filter((kind) => kind === "none").length).toBe(4);
      expect(made.filter((kind) => kind === "conflict").length).toBe(8);
      const revisions = await world.database.all<{ revision: number }>(sql`select revision from keys order by revision`);
      // The time, or one more than the last.
      expect(revisions.map(({ revision }) => revision)).toEqual([1_000_000, 1_000_001, 1_000_002, 1_000_003]);
      expect(await world.storage.revision()).toBe(1_000_003);
    });

    test('that are invalid are rejected, above all a limit that would become "no limit"', async () => {
      await using world = await storageWorld(engine);
      const { keys } = world.storage;
      const bad: readonly Partial<NewKey>[] = [
        { limits: { ...unlimited, requests: Number.NaN } },
        { limits: { ...unlimited, tokens: -1 } },
        { limits: { ...unlimited, budget: { nanos: 0.5, period: "day" } } },
        { limits: { ...unlimited, budget: { nanos: 1, period: "fortnight" as "day" } } },
        { operations: ["sing" as "chat"] },
        { models: "fast" as unknown as string[] },
        { expiresMs: Number.POSITIVE_INFINITY },
        { name: "" },
        { name: "a\0b" },
        { name: "x".repeat(201) },
        { models: Array.from({ length: 40_000 }, () => "pattern") },
      ];
      for (const change of bad) {
        expect(await errorKind(keys.create("id", { ...newKey, ...change }, { digest: "d", last4: "0000" }, by))).toBe("invalid");
      }
      await keys.create("id", newKey, { digest: "d", last4: "0000" }, by);
      for (const change of bad) expect(await errorKind(keys.change("id", change, by))).toBe("invalid");
      expect(await world.storage.revision()).toBe(1_000_000);
    });

    test("are found by any part of their texts, literally and ignoring case", async () => {
      await using world = await storageWorld(engine);
      const { keys } = world.storage;
      const texts = ["100%", "a_b", "axb", "bang!", "Back\\slash", "it's", "[x]", "UPPER"];
      for (const [at, name] of texts.entries()) {
        await keys.create(
          `k${at}`,
          { ...newKey, name, owner: at === 0 ? "Owner_1" : null, note: at === 1 ? "some NOTE" : null },
          {
            digest: `d${at}`,
            last4: "0000",
          },
          by,
        );
      }
      const found = async (search: string): Promise<readonly string[]> =>
        (await keys.list({ ...everything, search })).map(({ name }) => name);
      expect(await found("%")).toEqual(["100%"]);
      expect(await found("_")).toEqual(["100%", "a_b"]);
      expect(await found("a_b")).toEqual(["a_b"]);
      expect(await found("!")).toEqual(["bang!"]);
      expect(await found("\\")).toEqual(["Back\\slash"]);
      expect(await found("'")).toEqual(["it's"]);
      expect(await found("[x")).toEqual(["[x]"]);
      expect(await found("upper")).toEqual(["UPPER"]);
      expect(await found("OWNER_")).toEqual(["100%"]);
      expect(await found("note")).toEqual(["a_b"]);
      expect(await found("K3")).toEqual(["bang!"]);
      expect((await found("")).length).toBe(texts.length);
      expect(await found("a\0b")).toEqual([]);
      expect(await errorKind(keys.list({ ...everything, search: "x".repeat(201) }))).toBe("invalid");
      await fc.assert(
        fc.asyncProperty(anyText({ maxLength: 8 }), async (term) => {
          const expected = texts.filter((text) => text.toLowerCase().includes(term.toLowerCase()));
          if (/^[ -~]*$/.test(term)) expect(await found(term)).toEqual(expect.arrayContaining(expected));
          else expect(await found(term)).toEqual([]);
        }),
        { numRuns: numRuns(30) },
      );
    });

    test("are listed in pages without duplicates or gaps", async () => {
      await using world = await storageWorld(engine);
      const { keys } = world.storage;
      for (let at = 0; at < 23; at++) {
        await keys.create(`Id${at}`, { ...newKey, name: `n${at}` }, { digest: `d${at}`, last4: "0000" }, by);
        if (at % 5 === 0) await keys.revoke(`Id${at}`, by);
      }
      const seen: string[] = [];
      for (let after: string | null = null; ;) {
        const page: readonly { readonly id: string }[] = await keys.list({ search: null, revoked: false, after, limit: 4 });
        if (page.length === 0) break;
        expect(page.length).toBeLessThanOrEqual(4);
        seen.push(...page.map(({ id }) => id));
        after = page.at(-1)?.id ?? null;
      }
      expect(seen.length).toBe(18);
      expect(new Set(seen).size).toBe(18);
      expect((await keys.list({ ...everything, limit: 1_000_000 })).length).toBe(23);
      expect((await keys.list({ ...everything, limit: -1 })).length).toBe(1);
    });

    test("that are damaged do not affect others, are reported, can be revoked and can be repaired", async () => {
      await using world = await storageWorld(engine);
      const { database, storage, damaged } = world;
      for (const id of ["a", "b", "c", "d", "e"]) {
        await storage.keys.create(id, { ...newKey, name: `name ${id}` }, { digest: `d${id}`, last4: "0000" }, by);
      }
      await database.run(sql`update keys set limits = '{"requests":' where id = 'a'`);
      await database.run(
        sql`update keys set scopes = ${JSON.stringify({ models: null, operations: ["sing"], channels: null })} where id = 'b'`,
      );
      const fortnight = { ...unlimited, budget: { nanos: 1, period: "fortnight" } };
      await database.run(sql`update keys set limits = ${JSON.stringify(fortnight)} where id = 'c'`);
      await database.run(sql`update keys set scopes = '{"models":null,"operations":null}' where id = 'd'`);
      for (const id of ["a", "b", "c", "d"]) {
        expect(await errorKind(storage.keys.get(id))).toBe("damaged");
        expect(await errorKind(storage.keys.find(`name ${id}`))).toBe("damaged");
        expect(await errorKind(storage.keys.byDigest(`d${id}`))).toBe("damaged");
      }
      expect((await storage.keys.byDigest("de"))?.key.id).toBe("e");
      expect((await storage.keys.list({ ...everything, limit: 1 })).map(({ id }) => id)).toEqual(["e"]);
      expect(damaged.map(({ id, column }) => `${id} ${column}`)).toEqual(["a limits", "b scopes", "c limits", "d scopes"]);

      const before = await storage.revision();
      expect(await errorKind(storage.keys.revoke("a", by))).toBe("damaged");
      const [row] = await database.all<{ revoked_ms: number | null }>(sql`select revoked_ms from keys where id = 'a'`);
      expect(row?.revoked_ms).toBe(1_000_000);
      // Whoever knows it must forget it, and end its calls.
      const unreadable = { id: "a", key: null, revoked: true, tokens: [] };
      expect(await storage.keys.changedSince(before, 100)).toEqual({ revision: before + 1, keys: [unreadable] });
      expect((await storage.keys.change("c", { limits: unlimited }, by)).limits).toEqual(unlimited);
      expect((await storage.keys.change("d", { channels: ["x"] }, by)).channels).toEqual(["x"]);
      await database.run(sql`update keys set splits = '{"audio":"maybe"}' where id = 'e'`);
      expect(await errorKind(storage.keys.get("e"))).toBe("damaged");
      expect((await storage.keys.change("e", { splits: { input: true } }, by)).splits).toEqual({ audio: false, input: true });
      expect(
        (await storage.audit.list({ action: "key.revoke", subject: "a", actor: null, sinceMs: null, before: null, limit: 5 })).length,
      ).toBe(1);
    });

    test("preserve members that another version wrote", async () => {
      await using world = await storageWorld(engine);
      const { database, storage } = world;
      await storage.keys.create("k", newKey, { digest: "d", last4: "0000" }, by);
      const newer = {
        ...unlimited,
        images: 7,
        budget: { nanos: 5, period: "day", soft: true },
        models: [{ ...unlimitedRates, pattern: "a", budget: null, images: 1 }],
      };
      await database.run(sql`update keys set limits = ${JSON.stringify(newer)},
        scopes = '{"models":["a"],"operations":null,"channels":null,"regions":["eu"]}' where id = 'k'`);
      const read = await storage.keys.get("k");
      expect(read?.limits).not.toHaveProperty("images");
      const limits = { ...unlimited, requests: 3, budget: { nanos: 6, period: "day" as const } };
      const model = { ...unlimitedRates, pattern: "a", requests: 2, budget: null };
      await storage.keys.change("k", { models: ["b"], limits: { ...limits, models: [model, { ...model, pattern: "b" }] } }, by);
      const [row] = await database.all<{ limits: string; scopes: string }>(sql`select limits, scopes from keys where id = 'k'`);
      expect(JSON.parse(row?.scopes ?? "")).toEqual({ models: ["b"], operations: null, channels: null, regions: ["eu"] });
      expect(JSON.parse(row?.limits ?? "")).toEqual({
        ...limits,
        images: 7,
        budget: { nanos: 6, period: "day", soft: true },
        models: [
          { ...model, images: 1 },
          { ...model, pattern: "b" },
        ],
      });
    });

    test("rotate with an overlap, after which only the new token is valid", async () => {
      await using world = await storageWorld(engine);
      const { clock, storage } = world;
      await storage.keys.create("k", newKey, { digest: "d0", last4: "0000" }, by);
      clock.nowMs += 1_000;
      const rotated = await storage.keys.rotate("k", { digest: "d1", last4: "1111" }, 60_000, by);
      expect(rotated.tokens).toEqual([
        { last4: "1111", createdMs: 1_001_000, expiresMs: null },
        { last4: "0000", createdMs: 1_000_000, expiresMs: 1_061_000 },
      ]);
      expect((await storage.keys.byDigest("d0"))?.tokenExpiresMs).toBe(1_061_000);
      expect((await storage.keys.byDigest("d1"))?.tokenExpiresMs).toBeNull();
      // A second rotation does not make the first token live longer.
      clock.nowMs += 30_000;
      await storage.keys.rotate("k", { digest: "d2", last4: "2222" }, 60_000, by);
      expect((await storage.keys.byDigest("d0"))?.tokenExpiresMs).toBe(1_061_000);
      expect((await storage.keys.byDigest("d1"))?.tokenExpiresMs).toBe(1_091_000);
      clock.nowMs += 60_000;
      await storage.keys.rotate("k", { digest: "d3", last4: "3333" }, 0, by);
      expect(await storage.keys.byDigest("d0")).toBeNull();
      expect((await storage.keys.byDigest("d2"))?.tokenExpiresMs).toBe(clock.nowMs);
      expect(await errorKind(storage.keys.rotate("k", { digest: "d3", last4: "3333" }, 0, by))).toBe("conflict");
      expect(await errorKind(storage.keys.rotate("k", { digest: "d4", last4: "4444" }, -1, by))).toBe("invalid");
      expect(await errorKind(storage.keys.rotate("k", { digest: "d4", last4: "4444" }, 8 * 86_400_000, by))).toBe("invalid");
      for (let at = 10; at < 30; at++) await storage.keys.rotate("k", { digest: `d${at}`, last4: "5555" }, 86_400_000, by);
      expect((await storage.keys.get("k"))?.tokens.length).toBe(8);
      expect((await storage.keys.byDigest("d29"))?.tokenExpiresMs).toBeNull();
      await storage.keys.revoke("k", by);
      expect(await errorKind(storage.keys.rotate("k", { digest: "d99", last4: "9999" }, 0, by))).toBe("conflict");
    });

    test("get a token again that was replaced, whether it is still valid or not, and it is the current one then", async () => {
      await using world = await storageWorld(engine);
      const { clock, storage } = world;
      await storage.keys.create("k", newKey, { digest: "d0", last4: "0000" }, by);
      clock.nowMs += 1_000;
      await storage.keys.rotate("k", { digest: "d1", last4: "1111" }, 60_000, by);
      clock.nowMs += 1_000;
      // The file of an export may have nothing but the hash.
      const back = await storage.keys.rotate("k", { digest: "d0", last4: "****" }, 60_000, by);
      expect(back.tokens).toEqual([
        { last4: "0000", createdMs: clock.nowMs, expiresMs: null },
        { last4: "1111", createdMs: 1_001_000, expiresMs: clock.nowMs + 60_000 },
      ]);
      clock.nowMs += 60_000;
      const since = await storage.revision();
      await storage.keys.rotate("k", { digest: "d1", last4: "1111" }, 0, by);
      expect((await storage.keys.byDigest("d1"))?.tokenExpiresMs).toBeNull();
      expect((await storage.keys.byDigest("d0"))?.tokenExpiresMs).toBe(clock.nowMs);
      expect(await storage.keys.changedSince(since, 10)).toMatchObject({
        keys: [{ id: "k", tokens: [{ digest: "d1", expiresMs: null }, { digest: "d0" }] }],
      });
    });

    test("get no token that opens another, and one of another that has expired", async () => {
      await using world = await storageWorld(engine);
      const { clock, storage } = world;
      const { keys } = storage;
      await keys.create("a", { ...newKey, name: "a" }, { digest: "d0", last4: "0000" }, by);
      await keys.rotate("a", { digest: "d1", last4: "1111" }, 60_000, by);
      await keys.rotate("a", { digest: "d2", last4: "2222" }, 60_000, by);
      const made = (digest: string) => errorKind(keys.create("b", { ...newKey, name: "b" }, { digest, last4: "9999" }, by));
      expect([await made("d0"), await made("d2")]).toEqual(["conflict", "conflict"]);
      clock.nowMs += 60_000;
      const since = await storage.revision();
      expect([await made("d2"), await made("d0")]).toEqual(["conflict", "none"]);
      expect(await errorKind(keys.rotate("b", { digest: "d2", last4: "2222" }, 0, by))).toBe("conflict");
      await keys.rotate("b", { digest: "d1", last4: "1111" }, 60_000, by);
      expect((await keys.byDigest("d0"))?.key.id).toBe("b");
      // Who knows the tokens of the first key must hear that it lost them.
      const { keys: changed } = await keys.changedSince(since, 10);
      expect(changed === "all" ? "all" : changed.map(({ id, tokens }) => [id, tokens.map(({ digest }) => digest)])).toEqual([
        ["a", ["d2"]],
        ["b", ["d1", "d0"]],
      ]);
    });

    test("are revoked permanently, once", async () => {
      await using world = await storageWorld(engine);
      const { clock, storage } = world;
      await storage.keys.create("k", newKey, { digest: "d", last4: "0000" }, by);
      const revoked = await storage.keys.revoke("k", by);
      expect(revoked.revokedMs).toBe(1_000_000);
      clock.nowMs += 5;
      expect(await storage.keys.revoke("k", by)).toEqual(revoked);
      expect(await storage.revision()).toBe(1_000_001);
      expect((await storage.keys.byDigest("d"))?.key.revokedMs).toBe(1_000_000);
      expect((await storage.keys.list({ ...everything, revoked: false })).length).toBe(0);
      const trail = await storage.audit.list({ action: "key.revoke", subject: null, actor: null, sinceMs: null, before: null, limit: 9 });
      expect(trail.length).toBe(1);
    });

    test("that changed are listed for an earlier revision", async () => {
      await using world = await storageWorld(engine);
      const { storage } = world;
      const { keys } = storage;
      for (const id of ["a", "b", "c"]) await keys.create(id, { ...newKey, name: id }, { digest: `d${id}`, last4: "0000" }, by);
      expect(await keys.changedSince(1_000_002, 10)).toEqual({ revision: 1_000_002, keys: [] });
      await keys.change("b", { note: "x" }, by);
      const { revision, keys: changed } = await keys.changedSince(1_000_002, 10);
      expect(revision).toBe(1_000_003);
      expect(changed === "all" ? "all" : changed.map(({ id, key, tokens }) => [id, key?.note, tokens])).toEqual([
        ["b", "x", [{ digest: "db", expiresMs: null }]],
      ]);
      const current = await keys.current(["b", "nobody", "a", ...Array.from({ length: 600 }, (_, at) => `stranger ${at}`)]);
      expect(current).toHaveLength(603);
      expect(current.slice(0, 3)).toMatchObject([
        { id: "b", key: { note: "x" }, tokens: [{ digest: "db" }] },
        { id: "nobody", key: null, revoked: false, tokens: [] },
        { id: "a", key: { name: "a" } },
      ]);
      const all = await keys.changedSince(0, 3);
      expect(all.keys === "all" ? "all" : all.keys.map(({ id }) => id)).toEqual(["a", "c", "b"]);
      expect((await keys.changedSince(0, 2)).keys).toBe("all");
      // A store restored from a backup is older than what its readers know.
      expect(await keys.changedSince(1_000_009, 10)).toEqual({ revision: 1_000_003, keys: "all" });
    });

    test("that changed on a standby which had taken over without the last change are listed to whoever knows that one", async () => {
      await using world = await storageWorld(engine);
      const { clock, database, storage } = world;
      const { keys } = storage;
      for (const id of ["a", "b"]) await keys.create(id, { ...newKey, name: id }, { digest: `d${id}`, last4: "0000" }, by);
      const replicated = await storage.revision();
      await keys.change("a", { note: "lost" }, by);
      const known = await storage.revision();
      await database.run(sql`update revision set value = ${replicated} where id = 1`);
      await database.run(sql`update keys set revision = ${replicated}, note = null where id = 'a'`);
      clock.nowMs += 5_000;
      await keys.revoke("b", by);
      const { keys: changed } = await keys.changedSince(known, 10);
      expect(changed === "all" ? "all" : changed.map(({ id, revoked }) => [id, revoked])).toEqual([["b", true]]);
    });

    test("record when they were last used, only forward, to the minute and without a revision", async () => {
      await using world = await storageWorld(engine);
      const { keys } = world.storage;
      for (const id of ["a", "b", "c"]) await keys.create(id, { ...newKey, name: id }, { digest: `d${id}`, last4: "0000" }, by);
      await keys.used(
        new Map([
          ["a", 600_001],
          ["b", 700_000],
          ["nobody", 1],
        ]),
      );
      await keys.used(
        new Map([
          ["a", 500_000],
          ["b", 790_000],
          ["c", 60_000],
        ]),
      );
      await keys.used(new Map());
      const last = (await keys.list(everything)).map(({ lastUsedMs }) => lastUsedMs);
      expect(last).toEqual([600_000, 780_000, 60_000]);
      expect(await world.storage.revision()).toBe(1_000_002);
      const many = new Map<string, number>(Array.from({ length: 700 }, (_, at) => [`nobody${at}`, at] as const));
      await keys.used(many.set("a", 6_000_000));
      expect((await keys.get("a"))?.lastUsedMs).toBe(6_000_000);
    });

    test("are looked up by their token in one statement, even among many", async () => {
      await using world = await storageWorld(engine);
      await world.storage.keys.create("k", newKey, { digest: "d", last4: "0000" }, by);
      let statements = 0;
      const counting: Database = {
        engine: world.database.engine,
        all: (query) => {
          statements += 1;
          return world.database.all(query);
        },
        run: (query) => world.database.run(query),
        transaction: (work) => world.database.transaction(work),
        close: () => Promise.resolve(),
      };
      const storage = makeStorage(counting, { wallMs: () => 0, newId: () => "" });
      expect((await storage.keys.byDigest("d"))?.key.id).toBe("k");
      expect(statements).toBe(1);
    });
  });
}
