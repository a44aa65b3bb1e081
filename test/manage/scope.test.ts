import { describe, expect, test } from "bun:test";
import { StorageError, type Storage } from "../../src/gateway/storage.ts";
import type { Key } from "../../src/keys/key.ts";
import { scopedContext, scopeOf } from "../../src/manage/scope.ts";
import { createGroup, editGroup, removeGroup } from "../../src/manage/groups.ts";
import { createKey, editKey } from "../../src/manage/keys.ts";
import { allGroups, keysWithin, keyWithDefaults } from "../../src/manage/group-search.ts";
import { OwnBudgets } from "../../src/manage/problems/own-budgets.ts";
import { keyByIdOrName, keyPage } from "../../src/manage/key-search.ts";
import { ManageError } from "../../src/manage/error.ts";
import { addReceipts } from "../../src/store/receipts/receipt-table.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import { sql } from "../../src/store/sql.ts";
import { makeStorage } from "../../src/store/storage.ts";
import type { DamagedRow } from "../../src/store/tables/change.ts";
import { newGroup } from "../support/groups.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { fileKey, manageWorld } from "../support/manage-world.ts";
import { newKey } from "../support/new-key.ts";

const by = { kind: "admin", name: "eve" } as const;

/** An organisation with the teams web and ads; web has a project. Each has a key, and eve administers web. */
async function company() {
  const world = await manageWorld();
  const { storage } = world;
  for (const [id, parent] of [
    ["org", null],
    ["web", "org"],
    ["app", "web"],
    ["ads", "org"],
  ] as const)
    await storage.groups.create(id, newGroup(`${id} name`, { parent }), [], by);
  for (const group of ["org", "web", "app", "ads", null])
    await storage.keys.create(`k-${group}`, { ...newKey, name: `key ${group}`, group }, { digest: `d-${group}`, last4: "abcd" }, by);
  const own: Key = { ...fileKey, id: "file:own", name: "own", group: "web" };
  const filed = { ...newGroup("filed"), id: "file-group:filed", frozen: false };
  const context = { ...world.context, fileKeys: () => [fileKey, own], fileGroups: () => [filed] };
  return { world, context, scoped: scopedContext(context, await scopeOf(context, "web")) };
}

async function problem(work: Promise<unknown>): Promise<string> {
  const result = await work.catch((error: unknown) => error);
  if (result instanceof StorageError) return result.kind;
  return result instanceof ManageError ? result.code : "none";
}

describe("an administrator of a group", () => {
  test("sees the keys of the group and below, and no others", async () => {
    const { world, scoped } = await company();
    await using _ = world;
    const page = await keyPage(scoped, { search: null, revoked: true, after: null, limit: 50 });
    expect(page.keys.map(({ key }) => key.id)).toEqual(["file:own", "k-app", "k-web"]);
    const elsewhere = await keyPage(scoped, { search: null, revoked: true, groups: ["ads", "app"], after: null, limit: 50 });
    expect(elsewhere.keys.map(({ key }) => key.id)).toEqual(["k-app"]);
    for (const id of ["k-org", "k-ads", "k-null", "key ads", fileKey.id]) expect(await keyByIdOrName(scoped, id)).toBeNull();
    expect((await keyByIdOrName(scoped, "key app"))?.key.id).toBe("k-app");
    expect((await allGroups(scoped)).map(({ group }) => group.id)).toEqual(["app", "web"]);
  });

  test("changes what is there, and cannot reach or place anything outside", async () => {
    const { world, scoped } = await company();
    await using _ = world;
    expect(await problem(editKey(scoped, "k-app", { note: "mine" }, by))).toBe("none");
    expect(await problem(createKey(scoped, { name: "new", group: "app name" }, null, by))).toBe("none");
    for (const group of [null, "ads", "org name"]) {
      expect(await problem(createKey(scoped, { name: `new ${group}`, group }, null, by))).not.toBe("none");
      expect(await problem(editKey(scoped, "k-app", { group }, by))).not.toBe("none");
    }
    expect(await problem(createKey(scoped, { name: "without" }, null, by))).toBe("invalid");
    for (const id of ["k-ads", "k-org", "k-null"]) {
      expect(await problem(editKey(scoped, id, { note: "x" }, by))).toBe("missing");
      expect(await problem(scoped.storage.keys.revoke(id, by))).toBe("missing");
      expect(await problem(scoped.storage.keys.rotate(id, { digest: "x", last4: "xxxx" }, 0, by))).toBe("missing");
    }
    expect(await problem(createGroup(scoped, { name: "below", parent: "web" }, by))).toBe("none");
    expect(await createGroup(scoped, { name: "paused", parent: "web", frozen: true }, by)).toMatchObject({ parent: "web", frozen: true });
    expect(await problem(createGroup(scoped, { name: "top" }, by))).toBe("invalid");
    expect(await problem(createGroup(scoped, { name: "aside", parent: "ads" }, by))).toBe("invalid_value");
    expect(await problem(editGroup(scoped, "app", { frozen: true }, by))).toBe("none");
    expect(await problem(editGroup(scoped, "app", { parent: null }, by))).toBe("invalid");
    expect(await problem(editGroup(scoped, "web", { frozen: false }, by))).toBe("conflict");
    expect(await problem(editGroup(scoped, "ads", { frozen: true }, by))).toBe("not_found");
    expect(await problem(scoped.storage.groups.remove("ads", by))).toBe("missing");
  });

  test("cannot take a name that the configuration has elsewhere, and is not told where", async () => {
    const { world, scoped } = await company();
    await using _ = world;
    for (const work of [
      () => createKey(scoped, { name: fileKey.name, group: "web" }, null, by),
      () => scoped.storage.keys.create(fileKey.id, { ...newKey, name: "other", group: "web" }, { digest: "d", last4: "abcd" }, by),
      () => editKey(scoped, "k-app", { name: fileKey.name }, by),
      () => createGroup(scoped, { name: "filed", parent: "web" }, by),
      () => editGroup(scoped, "app", { name: "filed" }, by),
    ]) {
      const result = await work().catch((error: unknown) => error);
      expect(result).toMatchObject({ kind: "conflict", message: expect.not.stringContaining("sluice.yaml") });
    }
  });

  test("sees the usage, the receipts and the audit log of the group alone", async () => {
    const { world, context, scoped } = await company();
    await using _ = world;
    const receipts = [
      sampleReceipt({ keyId: "k-app", owners: ["app", "web", "org"], billedNanos: 1 }),
      sampleReceipt({ keyId: "k-ads", owners: ["ads", "org"], billedNanos: 2 }),
      sampleReceipt({ keyId: "k-null", billedNanos: 4 }),
    ];
    await world.database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, receipts)));
    const query = { sinceMs: null, untilMs: null, keyId: null, model: null, channel: null };
    const nanos = async (reports: Storage, more = {}): Promise<number> =>
      (await reports.receipts.usage({ by: [], ...query, ...more })).reduce((sum, row) => sum + row.nanos, 0);
    expect([await nanos(context.reports), await nanos(scoped.reports)]).toEqual([7, 1]);
    for (const more of [{ groupId: "ads" }, { groupId: "org" }, { keyId: "k-ads" }, { keyId: "k-null" }])
      expect(await nanos(scoped.reports, more)).toBe(0);
    expect([await nanos(scoped.reports, { groupId: "app" }), await nanos(scoped.reports, { keyId: "k-app" })]).toEqual([1, 1]);
    expect([await nanos(context.reports, { by: ["key"] }), await nanos(scoped.reports, { by: ["key"] })]).toEqual([7, 1]);
    // The sums of all other groups may be too many to be read.
    const asked: unknown[] = [];
    const { receipts: all } = context.reports;
    const watched = { ...context.reports, receipts: { ...all, usage: (each) => (asked.push(each.groups), all.usage(each)) } } as Storage;
    await nanos(scopedContext({ ...context, reports: watched }, await scopeOf(context, "web")).reports, { by: ["group"] });
    expect(asked).toEqual([["app", "web"]]);
    const ids = new Set(["web", ...Array.from({ length: 10_000 }, (_, at) => `below ${at}`)]);
    await nanos(scopedContext({ ...context, reports: watched }, { groupId: "web", ids }).reports, { by: ["group"] });
    expect(asked[1]).toEqual([...ids]);
    const keysOf = { groups: ["ads", "org", "app"], keys: ["k-null", "k-ads"] };
    expect(await nanos(scoped.reports, { by: ["key"], keysOf })).toBe(1);
    expect(await nanos(scoped.reports, { by: ["key"], keysOf: { groups: ["ads"], keys: ["k-ads"] } })).toBe(0);
    const list = { ...query, state: null, before: null, limit: 10 };
    expect((await scoped.reports.receipts.list(list)).map(({ keyId }) => keyId)).toEqual(["k-app"]);
    expect(await scoped.reports.receipts.list({ ...list, groupId: "org" })).toEqual([]);
    expect(await Promise.all(receipts.map(async ({ id }) => (await scoped.reports.receipts.find(id)) !== null))).toEqual([
      true,
      false,
      false,
    ]);
    expect(await scoped.reports.receipts.payments("ads", null)).toEqual([]);
    const everything = { action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 50 };
    const logged = async (): Promise<unknown> =>
      new Set((await scoped.reports.audit.list(everything)).map(({ action, subject }) => `${action} ${subject}`));
    const own = ["group.create web", "group.create app", "key.create k-web", "key.create k-app"];
    expect(await logged()).toEqual(new Set(own));
    // Somebody else puts a key into it that had no group, and one of another group.
    for (const id of ["k-null", "k-ads"]) await context.storage.keys.change(id, { group: "app" }, by);
    expect(await logged()).toEqual(new Set([...own, "key.change k-null"]));
  });

  test("finds a call by its request id, also where a client of another group has chosen the same", async () => {
    const { world, scoped } = await company();
    await using _ = world;
    const named = (owners: readonly string[]) => sampleReceipt({ requestId: "nightly", owners });
    const [first, second, rival] = [named(["app", "web", "org"]), named(["web", "org"]), named(["ads", "org"])];
    await world.database.transaction(async (inside) => addReceipts(inside, [first, second, rival]));
    const { receipts } = scoped.reports;
    const found = await receipts.find("nightly");
    expect([found?.id, found === null ? null : await receipts.namesakes(found)]).toEqual([second.id, [first.id]]);
    expect(await receipts.find(rival.id)).toBeNull();
  });

  test("sees and changes what is there without a look at all groups elsewhere, of which there may be very many", async () => {
    const { world, context } = await company();
    await using _ = world;
    // Whoever reads it, says so.
    await world.database.run(sql`update key_groups set limits = 'not json' where id = 'ads'`);
    const damaged: string[] = [];
    const needs = { wallMs: context.wallMs, newId: () => Bun.randomUUIDv7(), damaged: ({ id }: DamagedRow) => void damaged.push(id) };
    const storage = makeStorage(world.database, needs);
    const open = { ...context, storage, reports: storage };
    const scoped = scopedContext(open, await scopeOf(open, "web"));
    expect(await problem(createGroup(scoped, { name: "below", parent: "app" }, by))).toBe("invalid");
    expect(await problem(createGroup(scoped, { name: "beside", parent: "web" }, by))).toBe("none");
    expect(await problem(editGroup(scoped, "app", { frozen: true }, by, () => true))).toBe("none");
    expect(await problem(createKey(scoped, { name: "new", group: "app name" }, null, by))).toBe("none");
    expect(await problem(editKey(scoped, "k-app", { group: "web name" }, by, () => true))).toBe("none");
    const next = scopedContext(open, await scopeOf(open, "web"));
    expect(await problem(removeGroup(next, "beside", by))).toBe("none");
    expect((await allGroups(next)).map(({ group }) => group.id)).toContain("app");
    const key = (await keyByIdOrName(scoped, "k-app"))!.key;
    expect((await keyWithDefaults(scoped, key)).chain?.ids).toEqual(["web", "org"]);
    expect(await keysWithin(scoped, "app")).toMatchObject({ groups: ["app"] });
    await new OwnBudgets().of("web", scoped, new Map());
    expect(damaged).toEqual([]);
  });

  test("has nothing where the group does not exist, and no other storage at all", async () => {
    const { world, context, scoped } = await company();
    await using _ = world;
    const gone = scopedContext(context, await scopeOf(context, "deleted"));
    expect(await allGroups(gone)).toEqual([]);
    expect((await keyPage(gone, { search: null, revoked: true, after: null, limit: 50 })).keys).toEqual([]);
    // As with a session of a provider, which outlives the group: no list of groups must be read as all of them.
    const used = [sampleReceipt({ keyId: "k-ads", owners: ["grp_ads", "grp_org"] }), sampleReceipt({ keyId: "k-null" })];
    await world.database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, used)));
    const query = { sinceMs: null, untilMs: null, keyId: null, model: null, channel: null };
    for (const by of [[], ["key"], ["group"], ["model", "key"], ["day", "group"]] as const) {
      expect([by, (await gone.reports.receipts.usage({ ...query, by })).filter(({ calls }) => calls > 0)]).toEqual([by, []]);
      const ended = await gone.reports.receipts.outcomes({ ...query, by });
      expect([by, ended.filter(({ figures }) => Object.values(figures).some((figure) => figure > 0))]).toEqual([by, []]);
    }
    expect(await gone.reports.receipts.list({ ...query, state: null, before: null, limit: 10 })).toEqual([]);
    const all = { action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 50 };
    expect(await gone.reports.audit.list(all)).toEqual([]);
    for (const id of (await context.reports.audit.list(all)).map((entry) => entry.id)) expect(await gone.reports.audit.get(id)).toBeNull();
    for (const work of [
      scoped.storage.channels.list(),
      scoped.storage.prices.list(),
      scoped.storage.keys.byDigest("d-ads"),
      scoped.storage.keys.changedSince(0, 10),
      scoped.storage.budgets.wanted("x"),
    ])
      expect(await problem(work)).toBe("invalid");
    // A transaction is as narrow.
    expect(await problem(scoped.storage.together(({ channels }) => channels.list()))).toBe("invalid");
    expect(await problem(scoped.storage.together(({ keys }) => keys.revoke("k-ads", by)))).toBe("missing");
    await world.storage.groups.create("old", newGroup("old", { parent: "org" }), [], by);
    await world.storage.groups.remove("old", by);
    expect(await problem(scoped.storage.groups.restore("old", [], by))).toBe("missing");
    expect(await world.storage.groups.get("old")).toBeNull();
  });
});
