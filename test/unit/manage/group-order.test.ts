import { expect, test } from "bun:test";
import fc from "fast-check";
import { groupLevelsMax, type Group } from "../../../src/keys/group.ts";
import { GroupTree, parentProblem } from "../../../src/keys/group-tree.ts";
import { possibleOrder, type GroupPlace } from "../../../src/manage/resource-file/group-order.ts";
import { newGroup } from "../../support/groups.ts";
import { numRuns } from "../../support/properties.ts";

const names = [..."abcdefgh"];

/** Groups in places that are possible. */
const forest = fc.array(fc.tuple(fc.constantFrom(...names), fc.nat(20)), { maxLength: names.length }).map((draws) => {
  const places: (GroupPlace & { readonly level: number })[] = [];
  for (const [name, draw] of draws) {
    if (places.some((place) => place.name === name)) continue;
    const above = places.filter(({ level }) => level < groupLevelsMax)[draw] ?? null;
    places.push({ name, parent: above?.name ?? null, level: (above?.level ?? 0) + 1 });
  }
  return places.map(({ name, parent }): GroupPlace => ({ name, parent }));
});

function groupsOf(places: readonly GroupPlace[]): readonly Group[] {
  return places.map(({ name, parent }) => ({ ...newGroup(name, { parent }), id: name, frozen: false }));
}

test("whatever groups are and shall be, there is an order in which each step is possible", () => {
  fc.assert(
    fc.property(forest, forest, fc.boolean(), (before, after, isPruned) => {
      const wanted = new Set(after.map(({ name }) => name));
      const removed = before.filter(({ name }) => !wanted.has(name));
      // Without it, a group that is left below another one may be in the way of where that shall be.
      if (!isPruned && removed.length > 0) return;
      const { entries, late } = possibleOrder(after, (place) => place, groupsOf(before), isPruned ? groupsOf(removed) : []);
      const now = new Map(before.map((place) => [place.name, place]));
      const make = (place: GroupPlace): void => {
        const id = now.has(place.name) ? place.name : null;
        const isMoved = now.get(place.name)?.parent !== place.parent;
        if (isMoved) expect(parentProblem(new GroupTree(groupsOf([...now.values()])), id, place.parent)).toBeNull();
        now.set(place.name, place);
      };
      for (const place of entries) make(place);
      for (const { name } of removed) now.delete(name);
      for (const place of late) make(place);
      expect([...now.values()].toSorted(byName)).toEqual([...after].toSorted(byName));
    }),
    { numRuns: numRuns(500) },
  );
});

function byName(one: GroupPlace, other: GroupPlace): number {
  return one.name < other.name ? -1 : 1;
}
