import { expect, test } from "bun:test";
import { GroupDirectory } from "../../../src/gateway/admission/group-directory.ts";
import type { Group } from "../../../src/keys/group.ts";
import type { Key } from "../../../src/keys/key.ts";
import { defaultGroup } from "../../../src/keys/stored-group.ts";
import { newKey } from "../../support/new-key.ts";

const group = (frozen = false): Group => ({ ...defaultGroup, id: "grp_web", name: "web", frozen });
const key: Key = { ...newKey, id: "key", group: "grp_web" };

/** A directory over a store whose answers the test gives, and a clock that the test moves. */
function directory() {
  const reads: PromiseWithResolvers<{ readonly revision: number; readonly groups: readonly Group[] }>[] = [];
  const timers: (() => void)[] = [];
  const clock = { nowMs: 0 };
  const groups = new GroupDirectory({
    read: () => {
      const read = Promise.withResolvers<{ readonly revision: number; readonly groups: readonly Group[] }>();
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
  reads[0]!.resolve({ revision: 1, groups: [] });
  expect(await Promise.all(first)).toEqual([null, null]);
  expect(reads).toHaveLength(1);
  timers[0]!();
  await Promise.resolve();
  reads[1]!.resolve({ revision: 2, groups: [group()] });
  expect((await later)?.valueOf()).toMatchObject({ chain: { ids: ["grp_web"] } });
});

test("a look that took long does not unfreeze a group", async () => {
  const { groups, reads } = directory();
  const asked = groups.attachedLater(key);
  await Promise.resolve();
  groups.changed([group(true)], 7);
  reads[0]!.resolve({ revision: 6, groups: [group(false)] });
  expect((await asked)?.valueOf()).toMatchObject({ chain: { frozen: { name: "web" } } });
});

test("a store that cannot be read is not taken for one without groups", async () => {
  const { groups, reads } = directory();
  const asked = groups.attachedLater(key);
  await Promise.resolve();
  reads[0]!.reject(new Error("lost"));
  expect(await asked).toBe("unavailable");
});
