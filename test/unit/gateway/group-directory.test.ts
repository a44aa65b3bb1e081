import { expect, test } from "bun:test";
import { GroupDirectory } from "../../../src/gateway/admission/group-directory.ts";
import type { ChangedGroups } from "../../../src/gateway/storage.ts";
import type { Key } from "../../../src/keys/key.ts";
import { defaultGroup, type StoredGroup } from "../../../src/keys/stored-group.ts";
import { newKey } from "../../support/new-key.ts";

const group = (frozen = false, name = "web"): StoredGroup => ({
  ...defaultGroup,
  id: `grp_${name}`,
  name,
  frozen,
  createdMs: 0,
  frozenMs: frozen ? 0 : null,
});
const groupsOf = (...some: readonly StoredGroup[]) => some.map((one) => ({ id: one.id, group: one }));
const key: Key = { ...newKey, id: "key", group: "grp_web" };

/** A directory over a store whose answers the test gives, and a clock that the test moves. */
function directory() {
  const reads: PromiseWithResolvers<{ readonly revision: number } & ChangedGroups>[] = [];
  const timers: (() => void)[] = [];
  const clock = { nowMs: 0 };
  const groups = new GroupDirectory({
    read: () => {
      const read = Promise.withResolvers<{ readonly revision: number } & ChangedGroups>();
      reads.push(read);
      return read.promise;
    },
    nowMs: () => clock.nowMs,
    after: (ms, then) => {
      timers.push(() => {
        clock.nowMs += ms;
        then();
      });
      return () => {};
    },
    onChange: () => {},
  });
  return { groups, reads, timers, clock };
}

test("a group that is not known is looked for, once for all who ask, and again for who asks later", async () => {
  const { groups, reads, timers } = directory();
  const first = [groups.attachedLater(key), groups.attachedLater(key)];
  await Promise.resolve();
  expect(reads).toHaveLength(1);
  // The group may have been made after the first look began.
  const later = groups.attachedLater(key);
  reads[0]!.resolve({ revision: 1, isWhole: true, groups: [] });
  expect(await Promise.all(first)).toEqual([null, null]);
  expect(reads).toHaveLength(1);
  timers[0]!();
  await Promise.resolve();
  reads[1]!.resolve({ revision: 2, isWhole: true, groups: groupsOf(group()) });
  expect((await later)?.valueOf()).toMatchObject({ chain: { ids: ["grp_web"] } });
});

test("a look that took long does not unfreeze a group", async () => {
  const { groups, reads } = directory();
  const asked = groups.attachedLater(key);
  await Promise.resolve();
  groups.changed({ isWhole: false, groups: groupsOf(group(true)) }, 7);
  reads[0]!.resolve({ revision: 6, isWhole: true, groups: groupsOf(group(false)) });
  expect((await asked)?.valueOf()).toMatchObject({ chain: { frozen: { name: "web" } } });
});

test("a change that the follower began to read earlier does not unfreeze a group", async () => {
  const { groups, reads } = directory();
  const asked = groups.attachedLater(key);
  await Promise.resolve();
  reads[0]!.resolve({ revision: 8, isWhole: true, groups: groupsOf(group(true)) });
  await asked;
  groups.changed({ isWhole: false, groups: groupsOf(group(false)) }, 7);
  expect(groups.attached(key)).toMatchObject({ chain: { frozen: { name: "web" } } });
  groups.changed({ isWhole: false, groups: groupsOf(group(false)) }, 9);
  expect(groups.attached(key)).toMatchObject({ chain: { frozen: null } });
  // An older backup of the store was restored.
  groups.changed({ isWhole: true, groups: groupsOf(group(true)) }, 3);
  expect(groups.attached(key)).toMatchObject({ chain: { frozen: { name: "web" } } });
});

test("a change leaves the groups that it does not name, and takes those away that were deleted", () => {
  const { groups } = directory();
  const known = (): readonly string[] => Array.from(groups.tree.all(), ({ name, frozen }) => `${name} ${frozen}`).toSorted();
  groups.changed({ isWhole: true, groups: groupsOf(group(), group(false, "ads")) }, 1);
  groups.changed({ isWhole: false, groups: groupsOf(group(true), group(false, "app")) }, 2);
  expect(known()).toEqual(["ads false", "app false", "web true"]);
  groups.changed(
    {
      isWhole: false,
      groups: [
        { id: "grp_web", group: null },
        { id: "grp_unknown", group: null },
      ],
    },
    3,
  );
  expect(known()).toEqual(["ads false", "app false"]);
  groups.changed({ isWhole: true, groups: groupsOf(group()) }, 4);
  expect(known()).toEqual(["web false"]);
});

test("a store that cannot be read is not taken for one without groups", async () => {
  const { groups, reads } = directory();
  const asked = groups.attachedLater(key);
  await Promise.resolve();
  reads[0]!.reject(new Error("lost"));
  expect(await asked).toBe("unavailable");
});
