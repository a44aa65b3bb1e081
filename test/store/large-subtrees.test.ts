// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { isGroupId } from "../../src/keys/group.ts";
import { addReceipts } from "../../src/store/receipts/receipt-table.ts";
import { addToSums } from "../../src/store/receipts/usage-sums.ts";
import { sql } from "../../src/store/sql.ts";
import { engines } from "../support/databases.ts";
import { newGroup } from "../support/groups.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { newKey } from "../support/new-key.ts";
import { ada, storageWorld, type StorageWorld } from "../support/storage-world.ts";

// A real server is started and stopped; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const today = Date.UTC(2026, 1, 27);
/** In one statement; SQLite as it is in this runtime. */
const parametersMax = { sqlite: 250_000, postgres: 65_535 };
const belowTop = 20_000;
/** In one statement, which must not take longer on a busy machine than PostgreSQL is given for it. */
const madeAtOnce = 2_000;
const everything = { action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 200 };
const used = { sinceMs: today - dayMs - hourMs, untilMs: today + 2 * hourMs, keyId: null, model: null, channel: null };

/** `top` with its many groups, and `other` beside it. */
async function largeWorld(engine: (typeof engines)[number]): Promise<StorageWorld> {
  const world = await storageWorld(engine, today);
  const { groups, keys } = world.storage;
  for (const id of ["top", "other"]) await groups.create(id, newGroup(id), [], ada);
  for (let made = 0; made < belowTop; made += madeAtOnce) {
    await world.database.run(sql`
      insert into key_groups (id, name, kind, parent, note, limits, key_defaults, group_defaults, frozen_ms, created_ms, revision)
      with recursive numbers (number) as (select 1 union all select number + 1 from numbers where number < ${madeAtOnce})
      select 'grp_' || (${made} + number), 'group ' || (${made} + number), kind, 'top', note, limits, key_defaults, group_defaults, frozen_ms,
        created_ms, revision
      from numbers cross join key_groups where id = 'top'`);
  }
  for (const [id, group] of Object.entries({ inside: `grp_${belowTop}`, first: "grp_1", outside: "other" })) {
    await keys.create(id, { ...newKey, name: id, group }, { digest: `digest of ${id}`, last4: "abcd" }, ada);
    // In the hours of one day, all of the next, and hours after that.
    const receipts = [today - dayMs - hourMs, today - hourMs, today + hourMs].map((startedMs) =>
      sampleReceipt({ keyId: id, owners: [id === "outside" ? "grp_other" : group], startedMs, attempts: [] }),
    );
    await world.database.transaction(async (inside) => addToSums(inside, await addReceipts(inside, receipts)));
  }
  return world;
}

for (const engine of engines) {
  describe.skipIf(engine.skipped !== null)(`a group with more groups below it than ${engine.name} takes parameters`, () => {
    test("has its own audit log, keys and usage like any other", async () => {
      await using world = await largeWorld(engine);
      const { audit, groups: tree, keys, receipts } = world.storage;
      const below = await tree.within(["top"]);
      expect(below).toHaveLength(belowTop + 1);
      // As if each had been made: only their number matters here.
      const others = Array.from({ length: parametersMax[engine.name] - belowTop }, (_, at) => `grp_elsewhere_${at}`);
      const groups = [...below, ...others];

      const own = await audit.list({ ...everything, groups });
      expect(own.map(({ subject }) => subject)).toEqual(["first", "inside", "top"]);
      const [outside] = await audit.list({ ...everything, subject: "outside" });
      expect(await audit.get(own[0]!.id, groups)).toEqual(own[0]!);
      expect(await audit.get(outside!.id, groups)).toBeNull();

      const page = { search: null, revoked: false, groups, after: null };
      expect((await keys.list({ ...page, limit: 10 })).map(({ id }) => id)).toEqual(["first", "inside"]);
      expect((await keys.list({ ...page, after: "first", limit: 1 })).map(({ id }) => id)).toEqual(["inside"]);

      // The days, and the hours before and after them, are asked at once.
      const third = groups.filter(isGroupId).slice(0, Math.ceil(parametersMax[engine.name] / 3) + 1);
      const byGroup = [
        ["grp_1", 3],
        [`grp_${belowTop}`, 3],
      ];
      expect((await receipts.usage({ ...used, by: ["group"], groups: third })).map(({ group, calls }) => [group.group, calls])).toEqual(
        byGroup,
      );
      const byKey = await receipts.usage({ ...used, by: ["key"], keysOf: { groups: ["top", ...third], keys: [] } });
      expect(byKey.map(({ group, calls }) => [group.key, calls])).toEqual([
        ["first", 3],
        ["inside", 3],
      ]);
      expect(await receipts.outcomes({ ...used, by: ["group"], groups: third })).toBeArray();
      expect(await receipts.outcomes({ ...used, by: ["key"], keysOf: { groups: third, keys: third } })).toBeArray();
      // What is not a group names no key, but is looked for like the keys of a file.
      const named = await receipts.usage({ ...used, by: ["key"], keysOf: { groups: ["grp_1"], keys: [...third, "outside"] } });
      expect(named.map(({ group }) => group.key)).toEqual(["first", "outside"]);
    });
  });
}
