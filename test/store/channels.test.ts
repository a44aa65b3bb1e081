// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import { sql } from "../../src/store/sql.ts";
import { engines } from "../support/databases.ts";
import { ada as by, storageWorld, errorKind } from "../support/storage-world.ts";

const dayMs = 86_400_000;
const channel = { name: "main", entry: { provider: "x", models: ["a"], nested: { deep: [1, null] } }, sealed: "v1.s", last4: ["abcd"] };

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`channels in ${engine.name}`, () => {
    test("are read back as they were created, changed and removed, each time with a new revision", async () => {
      await using world = await storageWorld(engine);
      const { storage, clock } = world;
      const { channels } = storage;
      const made = await channels.create(channel, by);
      expect(made).toEqual({ ...channel, createdMs: 1_000_000, updatedMs: 1_000_000 });
      expect(await channels.get("main")).toEqual(made);
      expect(await channels.get("nobody")).toBeNull();
      expect(await errorKind(channels.create(channel, by))).toBe("conflict");
      expect(await errorKind(channels.create({ ...channel, name: "" }, by))).toBe("invalid");
      expect(await errorKind(channels.create({ ...channel, name: "big", entry: { text: "x".repeat(1_000_001) } }, by))).toBe("invalid");
      expect(await storage.revision()).toBe(1_000_000);
      clock.nowMs += 1;
      const changed = await channels.change("main", { entry: { provider: "y", models: ["a"] }, sealed: null, last4: [] }, by);
      expect(changed).toEqual({
        name: "main",
        entry: { provider: "y", models: ["a"] },
        sealed: null,
        last4: [],
        createdMs: 1_000_000,
        updatedMs: 1_000_001,
      });
      expect(await channels.list()).toEqual([changed]);
      await channels.remove("main", by);
      expect(await errorKind(channels.remove("main", by))).toBe("missing");
      expect(await errorKind(channels.change("main", {}, by))).toBe("missing");
      expect(await channels.list()).toEqual([]);
      expect(await storage.revision()).toBe(1_000_002);
    });

    test("have another version after each change, and the same one after changes of other things", async () => {
      await using world = await storageWorld(engine);
      const { channels, prices } = world.storage;
      const versions: string[] = [await channels.version()];
      const changes = [
        () => channels.create(channel, by),
        () => channels.create({ ...channel, name: "other" }, by),
        () => channels.change("main", { last4: ["wxyz"] }, by),
        () => channels.change("other", { last4: ["wxyz"] }, by),
        () => channels.remove("other", by),
        () => channels.create({ ...channel, name: "third" }, by),
      ];
      for (const change of changes) {
        await change();
        versions.push(await channels.version());
      }
      expect(new Set(versions).size).toBe(versions.length);
      await prices.set({ provider: null, model: "a", fromMs: 0, rates: { input: 1 }, note: null }, by);
      expect(await channels.version()).toBe(versions.at(-1)!);
    });

    test("leave audit entries that name what changed, and never their secrets", async () => {
      await using world = await storageWorld(engine);
      const { channels, audit } = world.storage;
      await channels.create({ ...channel, entry: { ...channel.entry, base_url: "https://user:hunter2@upstream.example" } }, by);
      await channels.change("main", { entry: { ...channel.entry, models: ["b"] }, sealed: "v1.other", last4: ["wxyz"] }, by);
      await channels.change("main", {}, by);
      await channels.remove("main", by);
      const trail = await audit.list({ action: null, subject: "main", actor: null, sinceMs: null, before: null, limit: 9 });
      expect(trail.map(({ action, detail }) => [action, detail])).toEqual([
        ["channel.remove", { settings: { ...channel.entry, models: ["b"] }, last4: ["wxyz"] }],
        [
          "channel.change",
          {
            members: ["models", "base_url"],
            changed: { models: { from: channel.entry.models, to: ["b"] }, base_url: { from: "https://****@upstream.example", to: null } },
            secrets: "replaced",
            last4: ["wxyz"],
          },
        ],
        [
          "channel.create",
          {
            members: ["provider", "models", "nested", "base_url"],
            settings: { ...channel.entry, base_url: "https://****@upstream.example" },
            last4: ["abcd"],
          },
        ],
      ]);
      expect(JSON.stringify(trail)).not.toMatch(/hunter2|v1\./);
    });

    test("have no more tags than the sums of usage can hold, or budgets would not see the last ones", async () => {
      await using world = await storageWorld(engine);
      const { channels } = world.storage;
      // The name, eight tags of 54 characters and one more, with a space between any two.
      const tagged = (last: number): object => ({
        ...channel.entry,
        tags: [...Array.from({ length: 8 }, (_, at) => `${at}${"t".repeat(53)}`), "t".repeat(last)],
      });
      const create = (last: number): Promise<unknown> => channels.create({ ...channel, entry: { ...tagged(last) } }, by);
      expect(await errorKind(create(56))).toBe("invalid");
      expect(await errorKind(create(55))).toBe("none");
      expect(await errorKind(channels.change("main", { entry: { ...tagged(56) } }, by))).toBe("invalid");
    });

    test("can be changed with more tags from earlier versions, as long as the tags stay", async () => {
      await using world = await storageWorld(engine);
      const { channels } = world.storage;
      await channels.create(channel, by);
      const tags = Array.from({ length: 10 }, (_, at) => `${at}${"t".repeat(63)}`);
      await world.database.run(sql`update channels set entry = ${JSON.stringify({ ...channel.entry, tags })} where name = 'main'`);
      const entry = { ...channel.entry, weight: 2, tags };
      expect((await channels.change("main", { entry }, by)).entry).toEqual(entry);
      expect(await errorKind(channels.change("main", { entry: { ...entry, tags: [...tags, "more"] } }, by))).toBe("invalid");
      expect((await channels.change("main", { entry: { ...entry, tags: ["few"] } }, by)).entry).toEqual({ ...entry, tags: ["few"] });
    });

    test("are changed together with other things, or not at all", async () => {
      await using world = await storageWorld(engine);
      const { storage } = world;
      const failed = storage.together(async (inside) => {
        await inside.channels.create(channel, by);
        expect((await inside.channels.list()).length).toBe(1);
        await inside.prices.set({ provider: null, model: "m", fromMs: 0, rates: { input: 1 }, note: null }, by);
        await inside.channels.create(channel, by);
      });
      expect(await errorKind(failed)).toBe("conflict");
      const everything = { action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 9 };
      const present = async () => [(await storage.channels.list()).length, (await storage.prices.list()).length];
      expect([await present(), await storage.audit.list(everything), await storage.revision()]).toEqual([[0, 0], [], 0]);
      const seen = await storage.together(async (inside) => {
        await inside.channels.create(channel, by);
        await inside.prices.set({ provider: null, model: "m", fromMs: 0, rates: { input: 1 }, note: null }, by);
        return inside.channels.revise("main", () => Promise.resolve(null), by);
      });
      expect([seen, await present()]).toEqual([null, [1, 1]]);
      expect((await storage.audit.list(everything)).map(({ action }) => action)).toEqual(["price.set", "channel.create"]);
    });

    test("are rewrapped without a new revision or an audit entry, and only if they did not change meanwhile", async () => {
      await using world = await storageWorld(engine);
      const { channels } = world.storage;
      await channels.create(channel, by);
      expect(await channels.reseal("main", "v1.wrong", "v1.t")).toBe(false);
      expect(await channels.reseal("nobody", "v1.s", "v1.t")).toBe(false);
      expect(await channels.reseal("main", "v1.s", "v1.t")).toBe(true);
      expect(await channels.get("main")).toMatchObject({ sealed: "v1.t", updatedMs: 1_000_000 });
      expect(await world.storage.revision()).toBe(1_000_000);
    });

    test("that are damaged do not affect others, and can be repaired or removed", async () => {
      await using world = await storageWorld(engine);
      const { storage, database, damaged } = world;
      for (const name of ["a", "b", "c"]) await storage.channels.create({ ...channel, name }, by);
      await database.run(sql`update channels set entry = '[1]' where name = 'a'`);
      await database.run(sql`update channels set last4 = '{' where name = 'b'`);
      expect((await storage.channels.list()).map(({ name }) => name)).toEqual(["c"]);
      expect(damaged).toEqual([
        { table: "channels", id: "a", column: "entry" },
        { table: "channels", id: "b", column: "last4" },
      ]);
      expect(await errorKind(storage.channels.get("a"))).toBe("damaged");
      expect((await storage.channels.change("a", { entry: { provider: "z" } }, by)).entry).toEqual({ provider: "z" });
      await storage.channels.remove("b", by);
      expect((await storage.channels.list()).map(({ name }) => name)).toEqual(["a", "c"]);
    });
  });

  describe.skipIf(engine.skipped !== null)(`prices in ${engine.name}`, () => {
    const price = { provider: "x", model: "m", fromMs: 10 * dayMs, rates: { input: 1_250_000_000, output: 0 }, note: "list price" };

    test("are dated, and one for the same provider, model and day replaces the other", async () => {
      await using world = await storageWorld(engine);
      const { prices } = world.storage;
      const first = await prices.set(price, by);
      expect(first).toMatchObject({ ...price, createdMs: 1_000_000 });
      const anybodys = await prices.set({ ...price, provider: null }, by);
      const later = await prices.set({ ...price, fromMs: 11 * dayMs }, by);
      const again = await prices.set({ ...price, fromMs: 10 * dayMs + 5, rates: { seconds: 7 }, note: null }, by);
      expect(again.id).toBe(first.id);
      expect(await prices.list()).toEqual([anybodys, again, later]);
      expect(await world.storage.revision()).toBe(1_000_003);
      await prices.remove(later.id, by);
      expect(await errorKind(prices.remove(later.id, by))).toBe("missing");
      expect((await prices.list()).length).toBe(2);
    });

    test("that are invalid are rejected, and damaged ones do not affect others", async () => {
      await using world = await storageWorld(engine);
      const { prices } = world.storage;
      const bad = [
        { rates: { input: Number.NaN } },
        { rates: { input: -1 } },
        { rates: { input: "1" as unknown as number } },
        { fromMs: 0.5 },
        { model: "" },
      ];
      for (const one of bad) expect(await errorKind(prices.set({ ...price, ...one }, by))).toBe("invalid");
      const { id } = await prices.set(price, by);
      const kept = await prices.set({ ...price, model: "n" }, by);
      await world.database.run(sql`update prices set rates = '{"input":"cheap"}' where id = ${id}`);
      expect(await prices.list()).toEqual([kept]);
      expect(world.damaged).toEqual([{ table: "prices", id, column: "rates" }]);
      expect((await prices.set(price, by)).id).toBe(id);
      expect((await prices.list()).length).toBe(2);
    });
  });
}
