import { expect, test } from "bun:test";
import { groupPage } from "../../src/manage/group-search.ts";
import { newGroup } from "../support/groups.ts";
import { manageWorld, operator } from "../support/manage-world.ts";

test("no page leaves a group out, also where one of the file and one of the store have the same name", async () => {
  await using world = await manageWorld();
  const filed = ["web", "ads"].map((name) => ({ ...newGroup(name), id: `file-group:${name}`, frozen: false }));
  const context = { ...world.context, fileGroups: () => filed };
  for (const [id, name] of [
    ["grp_1", "web"],
    ["grp_2", "ads"],
    ["grp_3", "web 2"],
    ["grp_4", "we"],
  ] as const)
    await world.storage.groups.create(id, newGroup(name), [], operator);
  for (const limit of [1, 2, 3, 10]) {
    const seen: string[] = [];
    for (let after: string | null = null, page = 0; page === 0 || after !== null; page += 1) {
      const { groups, next } = await groupPage(context, { search: null, below: null, after, limit });
      seen.push(...groups.map(({ group }) => group.id));
      after = next;
    }
    expect(seen).toEqual(["file-group:ads", "grp_2", "grp_4", "file-group:web", "grp_1", "grp_3"]);
  }
});
