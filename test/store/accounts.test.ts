// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import type { ProvidedPerson, Session } from "../../src/gateway/storage.ts";
import { sql } from "../../src/store/sql.ts";
import { lookAtClock } from "../../src/store/steady-clock.ts";
import { engines } from "../support/databases.ts";
import { ada as by, storageWorld, errorKind, type StorageWorld } from "../support/storage-world.ts";

const grace = { name: "grace", role: "admin", passwordHash: "$hash$1" } as const;
/** The last day, as a gateway has seen it go by. */
async function watchClock({ database, clock }: StorageWorld): Promise<void> {
  for (let hours = 24; hours >= 0; hours -= 1) await lookAtClock(database, clock.nowMs - hours * 3_600_000);
}

const session: Session = {
  digest: "s1",
  account: "grace",
  issuer: null,
  subject: null,
  role: "admin",
  csrf: "c",
  createdMs: 1_000,
  seenMs: 1_000,
};

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`accounts in ${engine.name}`, () => {
    test("can be created, changed and removed, and have unique names", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      expect(await accounts.count()).toBe(0);
      const made = await accounts.create(grace, by);
      expect(made).toEqual({ name: "grace", role: "admin", createdMs: 1_000_000, disabledMs: null });
      expect(await errorKind(accounts.create(grace, by))).toBe("conflict");
      expect(await errorKind(accounts.create({ ...grace, name: "" }, by))).toBe("invalid");
      expect(await errorKind(accounts.create({ ...grace, name: "x", role: "root" as "admin" }, by))).toBe("invalid");
      await accounts.create({ ...grace, name: "viewer", role: "viewer" }, by);
      expect((await accounts.list()).map(({ name, role }) => `${name} ${role}`)).toEqual(["grace admin", "viewer viewer"]);
      expect(await accounts.passwordHash("grace")).toEqual({ hash: "$hash$1", account: made });
      expect(await accounts.passwordHash("nobody")).toBeNull();
      expect((await accounts.change("viewer", { passwordHash: "$hash$2", disabled: true }, by)).disabledMs).toBe(1_000_000);
      expect((await accounts.passwordHash("viewer"))?.hash).toBe("$hash$2");
      expect((await accounts.change("viewer", { disabled: false }, by)).disabledMs).toBeNull();
      await accounts.remove("viewer", by);
      expect(await errorKind(accounts.remove("viewer", by))).toBe("missing");
      expect(await errorKind(accounts.change("viewer", {}, by))).toBe("missing");
    });

    test("always include an active administrator", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      await accounts.create(grace, by);
      expect(await errorKind(accounts.remove("grace", by))).toBe("conflict");
      expect(await errorKind(accounts.change("grace", { disabled: true }, by))).toBe("conflict");
      expect(await errorKind(accounts.change("grace", { role: "viewer" }, by))).toBe("conflict");
      expect(await errorKind(accounts.change("grace", { passwordHash: "$hash$3" }, by))).toBe("none");
      await accounts.create({ ...grace, name: "second" }, by);
      // Two who remove each other at the same time leave one.
      const outcomes = await Promise.all([
        errorKind(accounts.remove("grace", by)),
        errorKind(accounts.change("second", { role: "viewer" }, by)),
      ]);
      expect(outcomes.toSorted()).toEqual(["conflict", "none"]);
    });

    test("lose all sessions when their password, role or state changes, and only then", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      await accounts.create(grace, by);
      await accounts.create({ ...grace, name: "other" }, by);
      await accounts.openSession({ ...session, digest: "other", account: "other" });
      const changes = [{ passwordHash: "$hash$2" }, { role: "viewer" }, { disabled: true }, { disabled: false }] as const;
      for (const change of changes) {
        await accounts.openSession(session);
        await accounts.change("grace", {}, by);
        const [row] = await world.database.all<{ count: number }>(sql`select count(*) as count from sessions where digest = 's1'`);
        expect(row?.count).toBe(1);
        await accounts.change("grace", change, by);
        expect(await accounts.session("s1")).toBeNull();
        const [after] = await world.database.all<{ count: number }>(sql`select count(*) as count from sessions where digest = 's1'`);
        expect(after?.count).toBe(0);
        expect(await accounts.session("other")).not.toBeNull();
      }
      await accounts.openSession(session);
      await accounts.remove("grace", by);
      expect(await accounts.session("s1")).toBeNull();
      await accounts.create(grace, by);
      expect(await accounts.session("s1")).toBeNull();
    });

    test("have sessions that are renewed by use, can be ended, and expire when idle or old", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      await accounts.create(grace, by);
      await accounts.openSession(session);
      expect(await accounts.session("s1")).toEqual(session);
      expect(await accounts.session("s2")).toBeNull();
      await accounts.seen("s1", 5_000);
      await accounts.seen("s1", 4_000);
      expect((await accounts.session("s1"))?.seenMs).toBe(5_000);
      await accounts.endSession("s1");
      expect(await accounts.session("s1")).toBeNull();

      for (const [digest, createdMs, seenMs] of [
        ["idle", 500, 600],
        ["old", 100, 900],
        ["good", 500, 900],
      ] as const) {
        await accounts.openSession({ ...session, digest, createdMs, seenMs });
      }
      await accounts.sweepSessions(700, 200);
      expect(await Promise.all(["idle", "old", "good"].map(async (digest) => (await accounts.session(digest)) !== null))).toEqual([
        false,
        false,
        true,
      ]);
      for (let at = 0; at < 60; at++) await accounts.openSession({ ...session, digest: `many${at}`, seenMs: 2_000 + at });
      const [row] = await world.database.all<{ count: number }>(sql`select count(*) as count from sessions`);
      expect(row?.count).toBe(50);
      expect(await accounts.session("many59")).not.toBeNull();
      // Whatever was left behind, a disabled account has no session.
      await world.database.run(sql`update accounts set disabled_ms = 1 where name = 'grace'`);
      expect(await accounts.session("many59")).toBeNull();
    });

    test("have as many sessions as they like beside those of others, whatever people of a provider call themselves", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      const provided = { ...session, account: "oidc:ada", issuer: "https://login.example.com", role: "viewer" } as const;
      await accounts.openSession({ ...provided, role: "admin", digest: "ada", subject: "1" });
      for (let at = 0; at < 60; at++) await accounts.openSession({ ...provided, digest: `mal${at}`, subject: "2", seenMs: 2_000 + at });
      expect(await accounts.session("ada")).toMatchObject({ role: "admin", subject: "1" });
      const [row] = await world.database.all<{ count: number }>(sql`select count(*) as count from sessions`);
      expect(row?.count).toBe(51);
      // A person who was given another name is the same.
      await accounts.openSession({ ...provided, account: "oidc:mallory", digest: "later", subject: "2", seenMs: 3_000 });
      expect(await accounts.endSessions("oidc:mallory", by)).toBe(50);
      expect(await accounts.session("ada")).not.toBeNull();
    });

    test("of a provider have a name that belongs to the first who has it", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      const [one, other] = [
        { issuer: "https://login.example.com", subject: "1" },
        { issuer: "https://login.example.com", subject: "2" },
      ];
      const both = await Promise.all([accounts.ownsName("oidc:ada", one), accounts.ownsName("oidc:ada", other)]);
      expect(both.filter((owns) => owns)).toHaveLength(1);
      expect(await accounts.ownsName("oidc:bob", one)).toBe(true);
      expect(await accounts.ownsName("oidc:bob", one)).toBe(true);
      expect(await accounts.ownsName("oidc:bob", other)).toBe(false);
    });

    test("of a provider lose a name that they do not sign in with any more, and when another provider is used", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      const dayMs = 86_400_000;
      const person = (subject: string, issuer = "https://login.example.com"): ProvidedPerson => ({ issuer, subject });
      const owns = async (name: string, who: ProvidedPerson): Promise<boolean> => accounts.ownsName(name, who);
      expect(await owns("oidc:ada", person("1"))).toBe(true);
      world.clock.nowMs += 89 * dayMs;
      expect([await owns("oidc:ada", person("2")), await owns("oidc:ada", person("1"))]).toEqual([false, true]);
      world.clock.nowMs += 89 * dayMs;
      expect(await owns("oidc:ada", person("2"))).toBe(false);
      world.clock.nowMs += dayMs;
      // Nobody has looked yet whether the clock is right.
      expect(await owns("oidc:ada", person("2"))).toBe(false);
      await watchClock(world);
      expect([await owns("oidc:ada", person("2")), await owns("oidc:ada", person("1"))]).toEqual([true, false]);
      expect(await owns("oidc:ada", person("1", "https://new.example.com"))).toBe(true);

      // An earlier version did not say when: the time begins when somebody else asks.
      const old = JSON.stringify(["https://login.example.com", "1"]);
      await world.database.run(sql`insert into settings (name, value) values ('name oidc:old', ${old})`);
      expect(await owns("oidc:old", person("2"))).toBe(false);
      world.clock.nowMs += 90 * dayMs;
      await watchClock(world);
      expect(await owns("oidc:old", person("2"))).toBe(true);
    });

    test("of a provider lose no name by a clock that is wrong for a while", async () => {
      await using world = await storageWorld(engine, Date.UTC(2026, 0, 1));
      const { accounts } = world.storage;
      const dayMs = 86_400_000;
      const owns = async (subject: string): Promise<boolean> =>
        accounts.ownsName("oidc:ada", { issuer: "https://login.example.com", subject });
      await watchClock(world);
      expect(await owns("1")).toBe(true);
      // It jumps far ahead, which is noticed at the next look or before it.
      world.clock.nowMs += 365 * dayMs;
      expect(await owns("2")).toBe(false);
      await lookAtClock(world.database, world.clock.nowMs);
      expect(await owns("2")).toBe(false);
      // The owner signs in by then, and the clock is set right.
      expect(await owns("1")).toBe(true);
      world.clock.nowMs -= 365 * dayMs;
      expect(await owns("2")).toBe(false);
      // From now on the time counts: it is not kept for a year longer.
      world.clock.nowMs += 90 * dayMs;
      await watchClock(world);
      expect(await owns("2")).toBe(true);
    });

    test("of a provider have their five last names", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      const one = { issuer: "https://login.example.com/\u{1f511}", subject: "1" };
      const other = { ...one, subject: "11" };
      expect(await accounts.ownsName("oidc:other", other)).toBe(true);
      for (const at of [0, 1, 2, 3, 4, 5, 0, 6]) {
        world.clock.nowMs += 1_000;
        expect(await accounts.ownsName(`oidc:${at}`, one)).toBe(true);
      }
      const rows = await world.database.all<{ readonly name: string }>(
        sql`select name from settings where name like 'name %' order by name`,
      );
      expect(rows.map(({ name }) => name)).toEqual(["0", "3", "4", "5", "6", "other"].map((name) => `name oidc:${name}`));
      expect(await accounts.ownsName("oidc:1", other)).toBe(true);
    });

    test("for programs are tokens with a role, valid until they are revoked", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      const token = await accounts.createToken({ name: "ci", role: "viewer", mark: { digest: "digest 1", last4: "wxyz" } }, by);
      expect(token).toEqual({ name: "ci", role: "viewer", last4: "wxyz", createdMs: 1_000_000, revokedMs: null });
      expect(await accounts.token("digest 1")).toEqual(token);
      expect(await accounts.token("d2")).toBeNull();
      expect(await errorKind(accounts.createToken({ name: "ci", role: "admin", mark: { digest: "d2", last4: "0000" } }, by))).toBe(
        "conflict",
      );
      expect(await errorKind(accounts.createToken({ name: "cd", role: "admin", mark: { digest: "digest 1", last4: "0000" } }, by))).toBe(
        "conflict",
      );
      await accounts.revokeToken("ci", by);
      await accounts.revokeToken("ci", by);
      expect(await accounts.token("digest 1")).toBeNull();
      expect((await accounts.tokens()).map(({ name, revokedMs }) => [name, revokedMs])).toEqual([["ci", 1_000_000]]);
      await accounts.createToken({ name: "ci", role: "admin", mark: { digest: "d2", last4: "0000" } }, by);
      expect((await accounts.token("d2"))?.role).toBe("admin");
      expect(await errorKind(accounts.revokeToken("nobody", by))).toBe("missing");
      const trail = await world.storage.audit.list({ action: null, subject: "ci", actor: null, sinceMs: null, before: null, limit: 9 });
      expect(trail.map(({ action }) => action)).toEqual(["token.create", "token.revoke", "token.create"]);
      expect(JSON.stringify(trail)).not.toContain("digest");
    });

    test("that are damaged cannot log in and do not affect others", async () => {
      await using world = await storageWorld(engine);
      const { accounts } = world.storage;
      await accounts.create(grace, by);
      await accounts.create({ ...grace, name: "broken" }, by);
      await accounts.openSession({ ...session, account: "broken" });
      await accounts.createToken({ name: "t", role: "admin", mark: { digest: "d", last4: "0000" } }, by);
      await world.database.run(sql`update accounts set role = 'owner' where name = 'broken'`);
      await world.database.run(sql`update admin_tokens set role = 'owner'`);
      expect((await accounts.list()).map(({ name }) => name)).toEqual(["grace"]);
      expect(await accounts.tokens()).toEqual([]);
      expect([await accounts.passwordHash("broken"), await accounts.session("s1"), await accounts.token("d")]).toEqual([null, null, null]);
      expect(world.damaged.map(({ table, id }) => `${table} ${id}`)).toEqual(["accounts broken", "admin_tokens t"]);
    });

    test("begin with a bootstrap token that works exactly once, even if it is used concurrently", async () => {
      await using world = await storageWorld(engine, 1_000_000, true);
      const second = await world.another();
      const stores = [world.storage, second.storage];
      await world.storage.accounts.setBootstrap("old", 9_000);
      await world.storage.accounts.setBootstrap("boot", 9_000);
      expect(await world.storage.accounts.useBootstrap("old", 1_000, grace, by)).toBe(false);
      expect(await world.storage.accounts.useBootstrap("guess", 1_000, grace, by)).toBe(false);
      expect(await world.storage.accounts.useBootstrap("boot", 9_000, grace, by)).toBe(false);
      expect(await world.storage.accounts.count()).toBe(0);
      const uses = await Promise.all(
        Array.from({ length: 10 }, (_, at) => stores[at % 2]!.accounts.useBootstrap("boot", 1_000, { ...grace, name: `first${at}` }, by)),
      );
      expect(uses.filter((used) => used).length).toBe(1);
      expect(await world.storage.accounts.count()).toBe(1);
      expect(await world.storage.accounts.useBootstrap("boot", 1_000, grace, by)).toBe(false);
      // Nor does a new one, once somebody is there.
      await world.storage.accounts.setBootstrap("new", 9_000);
      expect(await world.storage.accounts.useBootstrap("new", 1_000, grace, by)).toBe(false);
      const trail = await world.storage.audit.list({
        action: "account.bootstrap",
        subject: null,
        actor: null,
        sinceMs: null,
        before: null,
        limit: 9,
      });
      expect(trail.length).toBe(1);
    });
  });
}
