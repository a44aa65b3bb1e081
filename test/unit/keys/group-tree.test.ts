import { describe, expect, test } from "bun:test";
import type { Group } from "../../../src/keys/group.ts";
import { GroupTree, parentProblem } from "../../../src/keys/group-tree.ts";
import { defaultKey } from "../../../src/keys/stored-key.ts";
import type { Key } from "../../../src/keys/key.ts";
import { unlimited, type Limits } from "../../../src/limits/limits.ts";

function group(id: string, parent: string | null, more: Partial<Group> = {}): Group {
  return {
    id,
    name: id,
    kind: "group",
    parent,
    limits: unlimited,
    frozen: false,
    defaults: { keys: unlimited, groups: unlimited },
    ...more,
  };
}

function limits(some: Partial<Limits>): Limits {
  return { ...unlimited, ...some };
}

function key(groupId: string | null, more: Partial<Key> = {}): Key {
  return { ...defaultKey, id: "k", name: "k", group: groupId, ...more };
}

const company = [group("org", null), group("team", "org"), group("project", "team"), group("other", "org")];

describe("a tree of groups", () => {
  test("finds the groups of a key, the nearest first", () => {
    const tree = new GroupTree(company);
    expect(tree.attached(key("project"))?.chain).toMatchObject({ ids: ["project", "team", "org"], rootId: "org", frozen: null });
    expect(tree.attached(key("org"))?.chain?.ids).toEqual(["org"]);
    const alone = key(null);
    expect(tree.attached(alone)).toBe(alone);
  });

  test("gives one object for a key as long as nothing changes", () => {
    const tree = new GroupTree(company);
    const one = key("team");
    expect(tree.attached(one)).toBe(tree.attached(one));
    expect(new GroupTree(company).attached(one)).not.toBe(tree.attached(one));
  });

  test.each([
    ["missing", [group("a", "nowhere")], "a"],
    ["its own parent", [group("a", "a")], "a"],
    ["in a circle", [group("a", "b"), group("b", "c"), group("c", "a")], "b"],
    ["below a circle", [group("a", "b"), group("b", "a"), group("c", "a")], "c"],
    ["a fourth level", [...company, group("too-deep", "project")], "too-deep"],
    ["not there", company, "nobody"],
  ])("has no chain for a group that is %s, so that no key escapes its limits", (_, groups, id) => {
    const tree = new GroupTree(groups);
    expect(tree.chainOf(id)).toBeNull();
    expect(tree.attached(key(id))).toBeNull();
  });

  test("names the nearest frozen group above a key", () => {
    const tree = new GroupTree([group("org", null, { frozen: true }), group("team", "org", { frozen: true }), group("project", "team")]);
    expect(tree.chainOf("project")?.frozen?.id).toBe("team");
    expect(tree.chainOf("org")?.frozen?.id).toBe("org");
  });

  test("completes the limits of a key by the defaults of the nearest group that has one, and leaves its own", () => {
    const tree = new GroupTree([
      group("org", null, { defaults: { keys: limits({ requests: 10, tokens: 1_000, concurrency: 2 }), groups: unlimited } }),
      group("team", "org", { defaults: { keys: limits({ tokens: 500 }), groups: unlimited } }),
    ]);
    const own = limits({ concurrency: 7 });
    expect(tree.attached(key("team", { limits: own }))?.limits).toEqual(limits({ requests: 10, tokens: 500, concurrency: 7 }));
    expect(tree.attached(key("org"))?.limits).toEqual(limits({ requests: 10, tokens: 1_000, concurrency: 2 }));
  });

  test("gives a key a default budget together with what that says about calls without a price", () => {
    const budget = { nanos: 5, period: "day" } as const;
    const tree = new GroupTree([
      group("org", null, { defaults: { keys: limits({ budget, unpriced: "allow" }), groups: unlimited } }),
      group("team", "org", { defaults: { keys: limits({ requests: 10 }), groups: unlimited } }),
      group("strict", null, { defaults: { keys: limits({ budget }), groups: unlimited } }),
    ]);
    const of = (groupId: string, own: Partial<Limits> = {}): unknown => tree.attached(key(groupId, { limits: limits(own) }))?.limits;
    expect(of("org", { requests: 1 })).toEqual(limits({ requests: 1, budget, unpriced: "allow" }));
    expect(of("team")).toEqual(limits({ requests: 10, budget, unpriced: "allow" }));
    expect(of("org", { budget: { nanos: 9, period: "day" } })).toMatchObject({ unpriced: "refuse" });
    expect([of("strict"), of("strict", { unpriced: "allow" })]).toEqual([limits({ budget }), limits({ budget, unpriced: "allow" })]);
  });

  test("completes the limits of groups by the defaults of their parent, and not of those above it", () => {
    const tree = new GroupTree([
      group("org", null, { defaults: { keys: unlimited, groups: limits({ requests: 100, budget: { nanos: 5, period: "day" } }) } }),
      group("team", "org", { limits: limits({ requests: 30 }) }),
      group("project", "team"),
    ]);
    const [project, team, org] = tree.chainOf("project")!.groups;
    expect(team?.limits).toEqual(limits({ requests: 30, budget: { nanos: 5, period: "day" } }));
    expect(project?.limits).toEqual(unlimited);
    expect(org?.limits).toEqual(unlimited);
    // Keys of both teams count on the same limits, which are prepared once.
    expect(tree.chainOf("team")!.groups[0]).toBe(team);
  });
});

describe("a new parent", () => {
  const tree = new GroupTree(company);

  test.each([
    ["other", "org", null],
    ["team", null, null],
    ["team", "other", "too_deep"],
    ["project", "other", null],
    ["org", "org", "circle"],
    ["org", "project", "circle"],
    ["team", "nowhere", "missing"],
    [null, "project", "too_deep"],
    [null, "team", null],
    [null, null, null],
  ] as const)("of %p: %p is %p", (id, parent, problem) => {
    expect(parentProblem(tree, id, parent)).toBe(problem);
  });
});
