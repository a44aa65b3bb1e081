// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import { StorageError, type BudgetHoldRequest, type Storage } from "../../src/gateway/storage.ts";
import { anyChannel } from "../../src/keys/budget-selector.ts";
import type { Group } from "../../src/keys/group.ts";
import { unlimited } from "../../src/limits/limits.ts";
import type { Database } from "../../src/store/database.ts";
import { addReceipts } from "../../src/store/receipts/receipt-table.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import { retain } from "../../src/store/retention.ts";
import { nameSql, sql, Sql } from "../../src/store/sql.ts";
import { makeStorage } from "../../src/store/storage.ts";
import type { Receipt } from "../../src/usage/receipt.ts";
import { engines } from "../support/databases.ts";
import { newGroup } from "../support/groups.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { newKey } from "../support/new-key.ts";
import { ada as by, errorKind, storageWorld } from "../support/storage-world.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const today = 20_000 * dayMs;

/** What a storage of this store asks of it, of which `work` is done. */
async function askedBy(database: Database, work: (storage: Storage, askedSoFar: Sql[]) => Promise<void>): Promise<readonly Sql[]> {
  const asked: Sql[] = [];
  const watched = (inner: Database): Database => ({
    engine: inner.engine,
    all: (query) => {
      asked.push(query);
      return inner.all(query);
    },
    run: (query) => inner.run(query),
    transaction: (inside) => inner.transaction((transaction) => inside(watched(transaction))),
    close: () => inner.close(),
  });
  await work(makeStorage(watched(database), { wallMs: () => 1, newId: () => Bun.randomUUIDv7() }), asked);
  return asked;
}

function explained(how: string, { texts, values }: Sql): Sql {
  return new Sql([`${how} ${texts[0]}`, ...texts.slice(1)], values);
}

/** A group is looked at from below, moved and deleted: all that may ask for those below it. */
async function lookBelow({ groups }: Storage): Promise<void> {
  await groups.within(["web", "org"]);
  // With one level below it, and with none: that one looks as far down as groups go.
  await groups.change("web", { parent: "org" }, [], by);
  await groups.change("app", { parent: null }, [], by);
  await groups.change("app", { parent: "other" }, [], by);
  await groups.remove("app", by);
}

test("SQLite finds, creates, changes, moves, deletes and follows groups by its indexes", async () => {
  await using world = await storageWorld(engines[0]!);
  for (const id of ["org", "other"]) await world.storage.groups.create(id, newGroup(id), [], by);
  const { revision } = await world.storage.groups.changedSince(null);
  const asked = await askedBy(world.database, async (storage) => {
    const { groups, keys } = storage;
    await groups.create("web", newGroup("web"), [], by);
    await groups.create("app", newGroup("app", { parent: "web" }), [], by);
    await groups.change("web", { name: "team", frozen: true }, [], by);
    await keys.create("k", { ...newKey, group: "web" }, { digest: "d", last4: "abcd" }, by);
    await groups.find("team");
    await groups.get("web");
    await groups.list(["web", "org"]);
    await groups.above("app");
    await lookBelow(storage);
    await groups.restore("app", [], by);
    await groups.changedSince(revision);
  });
  const plans = await Promise.all(asked.map((query) => world.database.all<{ detail: string }>(explained("explain query plan", query))));
  const steps = plans.flat().map(({ detail }) => detail);
  expect(steps.filter((step) => /^SEARCH (key_groups|below)/.test(step)).length).toBeGreaterThan(20);
  expect(steps.filter((step) => /^SCAN (key_groups|below|keys)/.test(step))).toEqual([]);
});

test.skipIf(engines[1]!.skipped !== null)("PostgreSQL finds what is below one of many groups by an index", async () => {
  await using world = await storageWorld(engines[1]!);
  for (const id of ["org", "other", "web"]) await world.storage.groups.create(id, newGroup(id), [], by);
  await world.storage.groups.create("app", newGroup("app", { parent: "web" }), [], by);
  const asked = await askedBy(world.database, lookBelow);
  const below = asked.filter(({ texts }) => /parent (=|in)/.test(texts.join("?")));
  expect(below).toHaveLength(4);
  // It rather reads a smaller table as a whole.
  await world.database.run(sql`
    insert into key_groups (id, name, kind, parent, limits, key_defaults, group_defaults, created_ms, revision)
    select 'many-' || n, 'many-' || n, kind, 'many-' || n / 10, limits, key_defaults, group_defaults, created_ms, revision
    from key_groups, generate_series(1, 20000) n where id = 'org'`);
  await world.database.run(sql`analyze key_groups`);
  for (const query of below) {
    const plan = await world.database.all<{ readonly "QUERY PLAN": string }>(explained("explain", query));
    expect(plan.map((row) => row["QUERY PLAN"]).join("\n")).toContain("key_groups_parent");
  }
});

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`groups in ${engine.name}`, () => {
    test("are read back as they were created and changed, and the audit log has both", async () => {
      await using world = await storageWorld(engine, 1_000);
      const { groups, audit } = world.storage;
      const limits = {
        ...unlimited,
        requests: 5,
        budgets: [{ name: "eu", models: ["m*"], operations: null, channels: ["eu"], nanos: 7, period: "day" as const }],
      };
      const defaults = { keys: { ...unlimited, tokens: 9 }, groups: unlimited };
      const made = await groups.create("grp_org", newGroup("Acme", { kind: "organisation", note: "n", limits, defaults }), [], by);
      expect(made).toEqual({
        id: "grp_org",
        name: "Acme",
        kind: "organisation",
        parent: null,
        note: "n",
        limits,
        defaults,
        frozen: false,
        frozenMs: null,
        createdMs: 1_000,
      });
      expect([await groups.get("grp_org"), await groups.find("Acme"), await groups.find("acme")]).toEqual([made, made, null]);
      world.clock.nowMs = 2_000;
      const changed = await groups.change("grp_org", { name: "ACME", frozen: true, limits: unlimited }, [], by);
      expect(changed).toMatchObject({ name: "ACME", frozen: true, frozenMs: 2_000, limits: unlimited, defaults });
      world.clock.nowMs = 3_000;
      expect(await groups.change("grp_org", { frozen: true }, [], by)).toEqual(changed);
      expect(await groups.change("grp_org", { frozen: false }, [], by)).toMatchObject({ frozen: false, frozenMs: null });
      const logged = await audit.list({ action: null, subject: "grp_org", actor: null, sinceMs: null, before: null, limit: 10 });
      expect(logged.map(({ action }) => action)).toEqual(["group.unfreeze", "group.freeze", "group.create"]);
      expect(logged[1]?.detail).toMatchObject({ name: { from: "Acme", to: "ACME" }, frozen: { from: false, to: true } });
    });

    test("have names of their own, and places where they are not below themselves and not too deep", async () => {
      await using world = await storageWorld(engine);
      const { groups } = world.storage;
      const inFile: readonly Group[] = [
        {
          id: "file-group:corp",
          name: "corp",
          kind: "organisation",
          parent: null,
          limits: unlimited,
          frozen: false,
          defaults: { keys: unlimited, groups: unlimited },
        },
      ];
      const create = (id: string, parent: string | null, name = id): Promise<unknown> =>
        groups.create(id, newGroup(name, { parent }), inFile, by);
      await create("a", null);
      await create("b", "a");
      await create("c", "b");
      expect(await errorKind(create("d", "c"))).toBe("invalid");
      expect(await errorKind(create("x", "nobody"))).toBe("invalid");
      expect(await errorKind(create("x", null, "b"))).toBe("conflict");
      expect(await errorKind(create("a", null, "x"))).toBe("conflict");
      for (const parent of ["a", "b", "c"]) expect(await errorKind(groups.change("a", { parent }, inFile, by))).toBe("invalid");
      expect(await errorKind(groups.change("nobody", { name: "x" }, inFile, by))).toBe("missing");
      expect(await errorKind(groups.change("a", { parent: "file-group:corp" }, inFile, by))).toBe("invalid");
      expect(await groups.change("b", { parent: "file-group:corp" }, inFile, by)).toMatchObject({ parent: "file-group:corp" });
      expect((await groups.list()).map(({ id, parent }) => [id, parent])).toEqual([
        ["a", null],
        ["b", "file-group:corp"],
        ["c", "b"],
      ]);
      await create("x", null);
      await create("y", "x");
      expect(await errorKind(groups.change("x", { parent: "b" }, inFile, by))).toBe("invalid");
      expect(await groups.change("y", { parent: "b" }, inFile, by)).toMatchObject({ parent: "b" });
      expect(await groups.change("x", { parent: "b" }, inFile, by)).toMatchObject({ parent: "b" });
      for (const wrong of [
        { ...unlimited, requests: Number.NaN },
        { ...unlimited, budget: { nanos: -1, period: "day" as const } },
      ])
        expect(await errorKind(groups.change("a", { limits: wrong }, inFile, by))).toBe("invalid");
    });

    test("are not put below a group whose place is not known, and who tries is told what to do", async () => {
      await using world = await storageWorld(engine);
      const { groups } = world.storage;
      const inFile: readonly Group[] = [{ ...newGroup("corp"), id: "file-group:corp", frozen: false }];
      await groups.create("filed", newGroup("filed", { parent: "file-group:corp" }), inFile, by);
      await groups.create("newer", newGroup("newer"), [], by);
      await groups.create("project", newGroup("project", { parent: "newer" }), [], by);
      await groups.create("moving", newGroup("moving"), [], by);
      for (const parent of ["filed", "project"]) {
        await groups.create(`gone-${parent}`, newGroup(`gone-${parent}`, { parent }), inFile, by);
        await groups.remove(`gone-${parent}`, by);
      }
      // The group of the file is removed from it; the limits of the other one are of a later version.
      await world.database.run(sql`update key_groups set limits = '{"later":true}' where id = 'newer'`);
      for (const parent of ["filed", "project"]) {
        for (const attempt of [
          () => groups.create("x", newGroup("x", { parent }), [], by),
          () => groups.change("moving", { parent }, [], by),
          () => groups.restore(`gone-${parent}`, [], by),
        ]) {
          const problem: unknown = await attempt().catch((error: unknown) => error);
          expect(problem).toBeInstanceOf(StorageError);
          expect(problem).toMatchObject({ kind: "invalid", message: expect.stringContaining("above the parent is missing") });
        }
      }
      expect(await groups.restore("gone-filed", inFile, by)).toMatchObject({ parent: "filed" });
      expect(await groups.change("project", { parent: null }, [], by)).toMatchObject({ parent: null });
      expect(await groups.change("moving", { parent: "project" }, [], by)).toMatchObject({ parent: "project" });
    });

    test("cannot be put below each other by two changes at once", async () => {
      await using world = await storageWorld(engine, 1_000, true);
      const other = await world.another();
      for (let round = 0; round < 5; round += 1) {
        const [a, b] = [`a${round}`, `b${round}`];
        for (const id of [a, b]) await world.storage.groups.create(id, newGroup(id), [], by);
        const moves = [world.storage.groups.change(a, { parent: b }, [], by), other.storage.groups.change(b, { parent: a }, [], by)];
        expect((await Promise.all(moves.map(errorKind))).toSorted()).toEqual(["invalid", "none"]);
      }
    });

    test("are deleted only without keys, groups and accounts, and their names stay known", async () => {
      await using world = await storageWorld(engine);
      const { groups, keys } = world.storage;
      await groups.create("a", newGroup("team"), [], by);
      await groups.create("b", newGroup("project", { parent: "a" }), [], by);
      await keys.create("k", { ...newKey, group: "b" }, { digest: "d", last4: "abcd" }, by);
      expect(await errorKind(groups.remove("a", by))).toBe("conflict");
      expect(await errorKind(groups.remove("b", by))).toBe("conflict");
      await keys.revoke("k", by);
      await groups.remove("b", by);
      await groups.remove("a", by);
      expect(await errorKind(groups.remove("a", by))).toBe("missing");
      expect([await groups.list(), await groups.find("team")]).toEqual([[], null]);
      expect(await groups.names(["a", "b", "c"])).toEqual(
        new Map([
          ["a", "team"],
          ["b", "project"],
        ]),
      );
      await groups.create("a2", newGroup("team"), [], by);
      expect(await errorKind(keys.create("k2", { ...newKey, name: "k2", group: "a" }, { digest: "d2", last4: "abcd" }, by))).toBe(
        "invalid",
      );
    });

    test("come back only if no other group has their name, of the store or of the file", async () => {
      await using world = await storageWorld(engine);
      const { groups } = world.storage;
      await groups.create("grp_a", newGroup("a"), [], by);
      await groups.remove("grp_a", by);
      const inFile: Group = { ...newGroup("a"), id: "file-group:a", frozen: false };
      expect(await errorKind(groups.restore("grp_a", [inFile], by))).toBe("conflict");
      expect(await groups.get("grp_a")).toBeNull();
      await groups.create("grp_b", newGroup("a"), [], by);
      expect(await errorKind(groups.restore("grp_a", [], by))).toBe("conflict");
      await groups.remove("grp_b", by);
      expect(await groups.restore("grp_a", [{ ...inFile, name: "c", id: "file-group:c" }], by)).toMatchObject({ name: "a" });
    });

    test("tell of a change since a revision, and only then", async () => {
      await using world = await storageWorld(engine);
      const { groups, keys } = world.storage;
      const made = await groups.create("a", newGroup("a"), [], by);
      const first = await groups.changedSince(0);
      expect(first).toMatchObject({ isWhole: false, groups: [{ id: "a", group: made }] });
      await keys.create("k", { ...newKey, group: "a" }, { digest: "d", last4: "abcd" }, by);
      const second = await groups.changedSince(first.revision);
      expect(second).toEqual({ revision: first.revision + 1, isWhole: false, groups: [] });
      await keys.revoke("k", by);
      const other = await groups.create("b", newGroup("b"), [], by);
      const third = await groups.changedSince(second.revision);
      expect(third).toMatchObject({ isWhole: false, groups: [{ id: "b", group: other }] });
      await groups.remove("a", by);
      expect(await groups.changedSince(third.revision)).toMatchObject({ isWhole: false, groups: [{ id: "a", group: null }] });
      // The store was replaced by an older backup; and nothing is known yet.
      for (const since of [third.revision + 1_000, null])
        expect(await groups.changedSince(since)).toMatchObject({ isWhole: true, groups: [{ id: "b", group: other }] });
      await groups.restore("a", [], by);
      expect((await groups.changedSince(null)).groups.map(({ id }) => id)).toEqual(["a", "b"]);
    });

    test("are read without all others: some, one with those above it, and the ids of those below", async () => {
      await using world = await storageWorld(engine);
      const { groups } = world.storage;
      for (const [id, parent] of [
        ["org", null],
        ["filed", "file-group:corp"],
        ["project", "filed"],
        ["web", "org"],
        ["app", "web"],
        ["ads", "org"],
        ["gone", "org"],
        ["other", null],
      ] as const)
        await groups.create(id, newGroup(id, { parent }), [{ ...newGroup("corp"), id: "file-group:corp", frozen: false }], by);
      await groups.remove("gone", by);
      const ids = (some: readonly { readonly id: string }[]): readonly string[] => some.map(({ id }) => id).toSorted();
      expect(ids(await groups.list(["web", "nobody", "gone", "ads"]))).toEqual(["ads", "web"]);
      expect(await groups.list([])).toEqual([]);
      expect(await groups.above("app")).toContainEqual((await groups.get("app"))!);
      expect(
        await Promise.all(["app", "project", "gone", "nobody", "file-group:corp"].map(async (id) => ids(await groups.above(id)))),
      ).toEqual([["app", "org", "web"], ["filed", "project"], [], [], []]);
      const within = async (...some: readonly string[]): Promise<readonly string[]> => (await groups.within(some)).toSorted();
      expect(await within("web")).toEqual(["app", "web"]);
      expect(await within("web", "app", "other")).toEqual(["app", "other", "web"]);
      expect(await within("file-group:corp", "org")).toEqual(["ads", "app", "filed", "org", "project", "web"]);
      expect(await Promise.all([within(), within("gone"), within("nobody")])).toEqual([[], [], []]);
    });

    test("are changed and followed without a look at all others, of which there may be very many", async () => {
      await using world = await storageWorld(engine);
      const { groups, keys } = world.storage;
      for (const id of ["elsewhere", "org", "web"]) await groups.create(id, newGroup(id), [], by);
      // Whoever reads it, says so.
      await world.database.run(sql`update key_groups set limits = 'not json' where id = 'elsewhere'`);
      const { revision } = await groups.changedSince(null);
      expect(world.damaged.splice(0)).toHaveLength(1);
      await groups.create("app", newGroup("app", { parent: "web" }), [], by);
      await groups.change("web", { parent: "org", frozen: true }, [], by);
      await groups.remove("app", by);
      await groups.restore("app", [], by);
      await keys.create("k", { ...newKey, group: "app" }, { digest: "d", last4: "abcd" }, by);
      expect((await groups.changedSince(revision)).groups.map(({ id }) => id)).toEqual(["app", "web"]);
      expect([await groups.above("app"), await groups.within(["org"]), await groups.list(["app"])].map(({ length }) => length)).toEqual([
        3, 3, 1,
      ]);
      expect(world.damaged).toEqual([]);
    });

    test("do not lead a reader in circles, which a damaged store may have", async () => {
      await using world = await storageWorld(engine);
      const { groups } = world.storage;
      await groups.create("a", newGroup("a"), [], by);
      await groups.create("b", newGroup("b", { parent: "a" }), [], by);
      await world.database.run(sql`update key_groups set parent = 'b' where id = 'a'`);
      expect((await groups.within(["a"])).toSorted()).toEqual(["a", "b"]);
      expect((await groups.above("a")).map(({ id }) => id).toSorted()).toEqual(["a", "b"]);
      expect(await errorKind(groups.create("c", newGroup("c", { parent: "b" }), [], by))).toBe("invalid");
    });

    test("have keys, which can be listed, moved and taken out", async () => {
      await using world = await storageWorld(engine);
      const { groups, keys } = world.storage;
      for (const id of ["a", "b"]) await groups.create(id, newGroup(id), [], by);
      for (const [at, group] of (["a", "a", "b", null, "file-group:x"] as const).entries())
        await keys.create(`k${at}`, { ...newKey, name: `n${at}`, group }, { digest: `d${at}`, last4: "abcd" }, by);
      const listed = async (some: readonly string[] | null): Promise<readonly string[]> =>
        (await keys.list({ search: null, revoked: false, groups: some, after: null, limit: 10 })).map(({ id }) => id);
      expect([await listed(["a"]), await listed(["a", "b"]), await listed([]), await listed(["file-group:x"]), await listed(null)]).toEqual(
        [["k0", "k1"], ["k0", "k1", "k2"], [], ["k4"], ["k0", "k1", "k2", "k3", "k4"]],
      );
      expect(await keys.change("k0", { group: "b" }, by)).toMatchObject({ group: "b" });
      expect((await keys.byDigest("d0"))?.key.group).toBe("b");
      expect(await keys.change("k0", { group: null }, by)).toMatchObject({ group: null });
      expect(await errorKind(keys.change("k0", { group: "nobody" }, by))).toBe("invalid");
      // A change of something else does not ask for the group again.
      expect(await keys.change("k4", { note: "x" }, by)).toMatchObject({ group: "file-group:x" });
    });
  });

  describe.skipIf(engine.skipped !== null)(`what groups use, in ${engine.name}`, () => {
    const receipt = (nanos: number, owners: readonly string[], more: Partial<Receipt> = {}): Receipt =>
      sampleReceipt({ startedMs: today + hourMs, billedNanos: nanos, owners, attempts: [], ...more });

    const ask: BudgetHoldRequest = {
      budget: "grp_org",
      ownerId: "grp_org",
      models: null,
      selector: JSON.stringify({ models: null, operations: null, channels: null }),
      limitNanos: 1_000,
      sinceMs: today,
      holder: "p1",
      need: 1,
      wish: 100,
      ttlMs: 600_000,
    };

    test("is summed once for each group of the key at that time, and for all of them it can be asked", async () => {
      await using world = await storageWorld(engine, today);
      const { receipts } = world.storage;
      const nested = ["grp_web", "grp_org"];
      await stored(world.database, [
        receipt(5, nested),
        receipt(7, nested, { model: "other", startedMs: today + 2 * hourMs }),
        receipt(11, ["grp_ads", "grp_org", "key-1"], { startedMs: today - hourMs }),
        receipt(13, []),
      ]);
      const query = { sinceMs: null, untilMs: null, keyId: null, model: null, channel: null };
      const by = async (columns: readonly ("group" | "model" | "hour" | "day")[], more = {}): Promise<unknown> =>
        (await receipts.usage({ by: columns, ...query, ...more })).map(({ group, calls, nanos }) => [
          ...Object.values(group),
          calls,
          nanos,
        ]);
      expect(await by(["group"])).toEqual([
        ["grp_ads", 1, 11],
        ["grp_org", 3, 23],
        ["grp_web", 2, 12],
      ]);
      expect(await by(["group"], { groups: ["grp_ads", "grp_web"], sinceMs: today - 2 * hourMs })).toEqual([
        ["grp_ads", 1, 11],
        ["grp_web", 2, 12],
      ]);
      expect(await by(["group"], { groups: [] })).toEqual([]);
      expect(await by(["model"], { groupId: "grp_org" })).toEqual([
        ["model-1", 2, 16],
        ["other", 1, 7],
      ]);
      expect(await by([], { groupId: "grp_org", sinceMs: today })).toEqual([[2, 12]]);
      expect(await by(["hour"], { groupId: "grp_web" })).toHaveLength(2);
      expect(await by(["model"])).toEqual([
        ["model-1", 3, 29],
        ["other", 1, 7],
      ]);
      expect(await errorKind(receipts.usage({ by: ["group", "key"], ...query }))).toBe("invalid");
      expect(await errorKind(receipts.usage({ by: ["group"], ...query, keyId: "key-1" }))).toBe("invalid");
      const list = { ...query, state: null, before: null, limit: 10 };
      expect(
        (await receipts.list({ ...list, groupId: "grp_web" }))
          .map(({ billedNanos }) => billedNanos)
          .toSorted((one, other) => Number(one) - Number(other)),
      ).toEqual([5, 7]);
      expect(await receipts.list({ ...list, groupId: "grp_w" })).toEqual([]);
      expect((await receipts.list({ ...list, groupId: "grp_ads" }))[0]?.owners).toEqual(["grp_ads", "grp_org", "key-1"]);
    });

    test("counts on their budgets, selected by model, operation, channel and tag", async () => {
      await using world = await storageWorld(engine, today);
      const { budgets, receipts } = world.storage;
      const owners = ["grp_web", "grp_org"];
      await stored(world.database, [
        receipt(1, owners, { model: "gpt-5", channel: "eu-1" }),
        receipt(2, owners, { model: "gpt-5", channel: "us", channelTags: ["gdpr", "fast"] }),
        receipt(4, owners, { model: "o3", channel: "us" }),
        receipt(8, owners, { model: "o3", channel: null, operation: "speech" }),
        receipt(16, ["grp_org"], { model: "gpt-5", channel: "eu-2" }),
        receipt(32, [], { model: "gpt-5", channel: "eu-1" }),
        receipt(64, owners, { model: "gpt-5", startedMs: today - 1 }),
      ]);
      const spent = async (ownerId: string, selector: object, more: Partial<BudgetHoldRequest> = {}): Promise<number> => {
        const text = JSON.stringify({ models: null, operations: null, channels: null, ...selector });
        return (await budgets.hold({ ...ask, budget: crypto.randomUUID(), ownerId, selector: text, ...more })).spentNanos;
      };
      expect(await spent("grp_org", {})).toBe(31);
      expect(await spent("grp_web", {})).toBe(15);
      expect(await spent("grp_web", {}, { sinceMs: 0 })).toBe(79);
      expect(await spent("grp_web", {}, { sinceMs: today + hourMs })).toBe(15);
      expect(await spent("grp_org", { models: ["gpt-*"] })).toBe(19);
      expect(await spent("grp_org", { operations: ["speech"] })).toBe(8);
      expect(await spent("grp_org", { channels: ["eu-*"] })).toBe(17);
      expect(await spent("grp_org", { channels: ["*"] })).toBe(23);
      expect(await spent("grp_org", { channels: ["gdpr"], models: ["gpt-5"] })).toBe(2);
      expect(await spent("grp_web", {}, { models: "*", exceptModels: ["o*"] })).toBe(3);
      expect(await spent("grp_web", { channels: ["us"] }, { models: "o3", exceptModels: [] })).toBe(4);
      await stored(world.database, [
        receipt(128, owners, { channel: null, channelTags: ["us", "gdpr"] }),
        receipt(256, owners, { channel: null, channelTags: [anyChannel], model: "gpt-5" }),
      ]);
      expect(await spent("grp_org", { channels: ["us"] })).toBe(390);
      expect(await spent("grp_org", { channels: ["eu-*"] })).toBe(273);
      expect(await spent("grp_org", { channels: ["eu-*"], models: ["o3"] })).toBe(0);
      expect(await spent("grp_org", { channels: ["*"] })).toBe(407);
      expect((await receipts.payments("grp_org", today)).reduce((sum, { nanos }) => sum + nanos, 0)).toBe(415);
      expect((await receipts.payments("grp_org", null)).reduce((sum, { nanos }) => sum + nanos, 0)).toBe(479);
    });

    test("stays within their budget when many processes take of it at once", async () => {
      await using world = await storageWorld(engine, today, true);
      const stores: readonly Pick<Storage, "budgets">[] = [world.storage, (await world.another()).storage];
      await stored(world.database, [receipt(400, ["grp_org"])]);
      let granted = 0;
      // They wait for one another, each for a few: a statement has its time on a busy machine as well.
      const take = async (at: number): Promise<void> => {
        for (let asked = 0; asked < 10; asked += 1) {
          const { ok } = await stores[at % 2]!.budgets.hold({ ...ask, holder: `p${at}`, need: 30, wish: 30 });
          if (ok) granted += 1;
        }
      };
      await Promise.all(Array.from({ length: 4 }, (_, at) => take(at)));
      expect(granted).toBe(20);
    });

    test("is forgotten by the hour with the sums of keys, and never by the day", async () => {
      await using world = await storageWorld(engine, today);
      await stored(world.database, [receipt(5, ["grp_org"], { startedMs: today - 100 * dayMs }), receipt(7, ["grp_org"])]);
      await retain(world.database, { receiptsMs: null, hoursMs: 50 * dayMs, wallMs: today });
      const owners = async (table: "owner_hours" | "owner_days"): Promise<readonly string[]> =>
        (await world.database.all<{ id: string }>(sql`select owner_id as id from ${nameSql(table)}`)).map(({ id }) => id).toSorted();
      expect(await owners("owner_hours")).toEqual(["*", "grp_org"]);
      expect(await owners("owner_days")).toEqual(["*", "*", "grp_org", "grp_org"]);
    });
  });
}

async function stored(database: Database, receipts: readonly Receipt[]): Promise<void> {
  await database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, receipts)));
}
