// Needs: servers. It uses a real PostgreSQL or Redis.
import { afterEach, describe, expect, setSystemTime, test } from "bun:test";
import { openStore } from "../../src/app/durable.ts";
import type { AuditQuery, ConfigurationPart } from "../../src/gateway/storage.ts";
import type { NewKey } from "../../src/keys/stored-key.ts";
import { unlimited } from "../../src/limits/limits.ts";
import { sql } from "../../src/store/sql.ts";
import { idsBy } from "../../src/store/storage.ts";
import { engines, freshDataDir } from "../support/databases.ts";
import { newGroup } from "../support/groups.ts";
import { newKey } from "../support/new-key.ts";
import { ada, storageWorld, errorKind } from "../support/storage-world.ts";

const everything: AuditQuery = { action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 200 };
const key: NewKey = { ...newKey, models: ["a"], note: "do not tell" };

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`the audit trail in ${engine.name}`, () => {
    test("records who changed which key, with old and new values and without secrets", async () => {
      await using world = await storageWorld(engine);
      const { keys, audit } = world.storage;
      const admin = { kind: "admin", name: "grace", address: "10.0.0.1" } as const;
      await keys.create("k", key, { digest: "feedfacefeedface", last4: "abcd" }, ada);
      const limits = { ...unlimited, requests: 5 };
      await keys.change("k", { models: null, limits, note: "still secret", name: "app2" }, admin);
      await keys.change("k", { name: "app2" }, admin);
      await keys.rotate("k", { digest: "deadbeefdeadbeef", last4: "wxyz" }, 5, admin);
      await keys.revoke("k", ada);
      const trail = await audit.list(everything);
      expect(trail.map(({ action, actor, subject, atMs }) => [action, actor, subject, atMs])).toEqual([
        ["key.revoke", ada, "k", 1_000_000],
        ["key.rotate", admin, "k", 1_000_000],
        ["key.change", admin, "k", 1_000_000],
        ["key.create", ada, "k", 1_000_000],
      ]);
      expect(trail[2]?.detail).toEqual({
        name: { from: "app", to: "app2" },
        models: { from: ["a"], to: null },
        limits: { from: unlimited, to: limits },
        note: "changed",
      });
      expect(trail[1]?.detail).toEqual({ last4: "wxyz", before: "abcd", overlapMs: 5 });
      expect(JSON.stringify(trail)).not.toMatch(/feedface|deadbeef|secret|do not tell/);
    });

    test("keeps what changed of a large change, except for the values that are too long", async () => {
      await using world = await storageWorld(engine);
      const { keys, channels, audit } = world.storage;
      const names = (letter: string): readonly string[] => Array.from({ length: 200 }, (_, at) => `${letter}${at}`.padEnd(100, "x"));
      await keys.create("k", { ...key, models: names("a") }, { digest: "d", last4: "abcd" }, ada);
      await keys.change("k", { name: "app2", models: names("b"), limits: { ...unlimited, requests: 5 } }, ada);
      const [changed, created] = await audit.list(everything);
      expect(created?.detail).toMatchObject({ name: "app", models: "changed", last4: "abcd" });
      expect(changed?.detail).toEqual({
        name: { from: "app", to: "app2" },
        models: "changed",
        limits: { from: unlimited, to: { ...unlimited, requests: 5 } },
      });
      await channels.create({ name: "c", entry: { tier: 1, models: names("a") }, sealed: "s", last4: [] }, ada);
      await channels.change("c", { entry: { tier: 2, models: names("b") } }, ada);
      expect((await audit.list(everything))[0]?.detail).toMatchObject({ changed: { tier: { from: 1, to: 2 }, models: "changed" } });
      // Not even the names of all members fit.
      await audit.note("x", "y", Object.fromEntries(names("m").map((name) => [name, 1])), ada);
      expect((await audit.list(everything))[0]?.detail).toEqual({ tooLong: names("m").slice(0, 50) });
    });

    test("has a change of the configuration once, however many processes read the same file", async () => {
      await using world = await storageWorld(engine);
      const { audit } = world.storage;
      const part = (written: string, values: ConfigurationPart["values"] = {}): ConfigurationPart => ({
        written,
        resolved: written,
        values,
      });
      const [one, two, three] = [
        new Map([["keys.a", part("1", { "limits.rpm": [5], key: ["****", "d1"], note: ["****", "n1"], models: [["m"]] })]]),
        new Map([
          ["keys.a", part("2", { "limits.rpm": [6], key: ["****", "d2"], note: ["****", "n1"], frozen: [true] })],
          ["sign_in", part("1")],
        ]),
        new Map([["sign_in", part("1")]]),
      ];
      const added = {
        added: ["sign_in"],
        changed: {
          "keys.a.limits.rpm": { from: 5, to: 6 },
          "keys.a.key": "changed",
          "keys.a.models": { from: ["m"], to: null },
          "keys.a.frozen": { from: null, to: true },
        },
      };
      const recorded = async (): Promise<readonly unknown[]> => (await audit.list(everything)).map(({ detail }) => detail);
      await audit.configured(one, null, ada);
      expect(await recorded()).toEqual([]);
      await Promise.all([audit.configured(two, one, ada), audit.configured(two, one, ada)]);
      expect(await recorded()).toEqual([added]);
      await audit.configured(two, null, ada);
      await audit.configured(three, null, ada);
      expect(await recorded()).toEqual([{ removed: ["keys.a"] }, added]);
      // One process adds a key and takes it out again, and the other one reads only the last of it, and says so first.
      const v1 = three;
      const v2 = new Map([...three, ["keys.tmp", part("1")]]);
      const v3 = new Map([["sign_in", part("2")]]);
      await audit.configured(v2, v1, ada);
      await audit.configured(v3, v1, ada);
      await audit.configured(v3, v2, ada);
      expect((await recorded()).slice(0, 2)).toEqual([{ changed: { sign_in: "changed" }, removed: ["keys.tmp"] }, { added: ["keys.tmp"] }]);
      await audit.configured(three, v3, ada);
      const many = new Map(Array.from({ length: 200 }, (_, at) => [`keys.${at}`, part("1")]));
      await audit.configured(many, three, ada);
      const { added: names } = (await recorded())[0] as { readonly added: readonly string[] };
      expect([names.length, names.at(-1)]).toEqual([51, "and 150 more"]);
      // However long they are, some names of each kind have room.
      const long = (letter: string, written: string): Map<string, ConfigurationPart> =>
        new Map(Array.from({ length: 90 }, (_, at) => [`prices.${`${letter}${at}`.padEnd(250, "x")}`, part(written)]));
      await audit.configured(new Map([...long("a", "1"), ...long("b", "1")]), many, ada);
      await audit.configured(new Map([...long("b", "2"), ...long("c", "1")]), null, ada);
      const last = (await recorded())[0] as Readonly<Record<string, readonly string[]>>;
      for (const how of ["added", "changed", "removed"]) {
        expect([how, last[how]?.[0], last[how]?.at(-1)]).toEqual([how, expect.stringMatching(/^prices\.[abc]0x/), "and 79 more"]);
      }
    });

    test("has no difference between replicas whose variables have other values, and has a secret that changed while they ran", async () => {
      await using world = await storageWorld(engine);
      const { audit } = world.storage;
      const of = (resolved: string, written = "1"): ReadonlyMap<string, ConfigurationPart> =>
        new Map([["channels.a", { written, resolved, values: {} }]]);
      const recorded = async (): Promise<readonly unknown[]> => (await audit.list(everything)).map(({ detail }) => detail);
      for (const start of ["x", "y", "x", "y"]) await audit.configured(of(start), null, ada);
      expect(await recorded()).toEqual([]);
      const rotated = { changed: { "channels.a": "changed" } };
      // Two replicas read the file of the same secret again.
      for (const replica of ["1", "2"]) await audit.configured(of("new"), of(`old of ${replica}`), ada);
      expect(await recorded()).toEqual([rotated]);
      // What both read in the same file is recorded by the first.
      for (const replica of ["x", "y"]) await audit.configured(of(replica, "2"), of(replica), ada);
      expect(await recorded()).toEqual([rotated, rotated]);
    });

    test("is written if and only if the change is committed", async () => {
      await using world = await storageWorld(engine);
      const { keys, audit } = world.storage;
      await keys.create("k", key, { digest: "d", last4: "abcd" }, ada);
      expect(await errorKind(keys.create("k", key, { digest: "d", last4: "abcd" }, ada))).toBe("conflict");
      expect(await errorKind(keys.change("nobody", { name: "x" }, ada))).toBe("missing");
      expect((await audit.list(everything)).length).toBe(1);
      // Without its line in the trail, a change does not happen.
      await world.database.run(sql`alter table audit rename to hidden`);
      expect(await errorKind(keys.change("k", { name: "y" }, ada))).not.toBe("none");
      expect((await keys.get("k"))?.name).toBe("app");
      expect(await world.storage.revision()).toBe(1_000_000);
    });

    test("is listed in pages, newest first, and filtered by action, subject, actor and time", async () => {
      await using world = await storageWorld(engine);
      const { audit } = world.storage;
      for (let at = 0; at < 25; at++) {
        world.clock.nowMs = 1_000 + at;
        await audit.note(at % 2 === 0 ? "login" : "logout", `s${at % 5}`, { at }, { kind: "admin", name: `u${at % 3}` });
      }
      const seen: unknown[] = [];
      for (let before: string | null = null; ;) {
        const page: Awaited<ReturnType<typeof audit.list>> = await audit.list({ ...everything, before, limit: 7 });
        if (page.length === 0) break;
        seen.push(...page.map(({ detail }) => detail["at"]));
        before = page.at(-1)?.id ?? null;
      }
      expect(seen).toEqual(Array.from({ length: 25 }, (_, at) => 24 - at));
      const count = async (query: Partial<AuditQuery>): Promise<number> => (await audit.list({ ...everything, ...query })).length;
      expect(await count({ action: "login" })).toBe(13);
      expect(await count({ action: "log%" })).toBe(0);
      expect(await count({ subject: "s1", actor: "u0" })).toBe(2);
      expect(await count({ sinceMs: 1_020 })).toBe(5);
      expect(await count({ limit: 1_000_000 })).toBe(25);
    });

    test("accepts any text from outside, within limits, and marks damaged entries", async () => {
      await using world = await storageWorld(engine);
      const { audit } = world.storage;
      const stranger = { kind: "admin", name: `\0${"n".repeat(10_000)}`, address: "\ud800" } as const;
      await audit.note("login.failed", `a\0b'; drop table audit; --`, { text: "x".repeat(100_000), nul: "\0" }, stranger);
      const [entry] = await audit.list(everything);
      expect(entry?.subject).toBe("ab'; drop table audit; --");
      expect(entry?.detail).toEqual({ text: "changed", nul: "\0" });
      expect(entry?.actor.name.length).toBeLessThanOrEqual(200);
      await audit.note("x", "y", { nul: "\0" }, ada);
      expect((await audit.list({ ...everything, action: "x" }))[0]?.detail).toEqual({ nul: "\0" });
      await world.database.run(sql`update audit set detail = '{', actor_kind = 'ghost' where action = 'x'`);
      expect((await audit.list({ ...everything, action: "x" }))[0]).toMatchObject({
        detail: { damaged: true },
        actor: { kind: "gateway", name: "ada" },
      });
      expect(world.damaged.map(({ column }) => column)).toEqual(["actor_kind", "detail"]);
    });
  });
}

afterEach(() => void setSystemTime());

test("the audit trail is in the order of the times that it shows, by the clock of the store", async () => {
  const { database, storage } = await openStore({ store: "sqlite", dataDir: freshDataDir() }, null, false);
  try {
    const nowMs = Date.now();
    for (const hours of [0, 2, 1, 3]) {
      setSystemTime(nowMs + hours * 3_600_000);
      await storage.audit.note("x", String(hours), {}, ada);
    }
    const trail = await storage.audit.list(everything);
    expect(trail.map(({ subject }) => subject)).toEqual(["3", "2", "1", "0"]);
  } finally {
    await database.close();
  }
});

test("the audit trail of a gateway is in the order of the changes, of keys and of groups, also when the clock is set back", async () => {
  const { database, storage } = await openStore({ store: "sqlite", dataDir: freshDataDir() }, null, true);
  // The worker of the store reads the clock of the machine: that of this thread is the one that goes wrong.
  const nowMs = Date.now();
  try {
    setSystemTime(nowMs + 30_000);
    await storage.groups.create("grp", newGroup("web"), [], ada);
    setSystemTime(nowMs);
    await storage.keys.create("k", key, { digest: "d", last4: "abcd" }, ada);
    await storage.groups.change("grp", { note: "n" }, [], ada);
    await storage.keys.change("k", { name: "app2" }, ada);
    await storage.keys.revoke("k", ada);
    const trail = await storage.audit.list(everything);
    expect(trail.map(({ action }) => action)).toEqual(["key.revoke", "key.change", "group.change", "key.create", "group.create"]);
  } finally {
    await database.close();
  }
});

test("ids rise within a millisecond, and when the clock is corrected by a little, whatever other ids are made meanwhile", () => {
  let ms = 5_000;
  const next = idsBy(() => ms);
  const ids: string[] = [];
  for (let at = 0; at < 1_000; at += 1) {
    if (at % 10 === 0) ms += at % 3 === 0 ? -5 : 2;
    ids.push(next());
    Bun.randomUUIDv7("hex", 4_000 + at);
  }
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  ms += 10_000_000;
  ids.push(next());
  ms -= 3_600_000;
  expect(next() < ids.at(-1)!).toBe(true);
});
