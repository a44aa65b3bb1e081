import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { GroupView } from "../../src/manage/group-view.ts";
import { CommandLine } from "../support/command-line.ts";

// Some commands are processes of their own; how long that takes on a busy machine is not judged.
setDefaultTimeout(60_000);

describe("groups", () => {
  test("are created, listed as a tree, changed, frozen, moved and deleted", async () => {
    const cli = new CommandLine();
    const run = (...args: readonly string[]) => cli.here(["groups", ...args]);
    expect(await run("create", "acme", "--kind", "organisation", "--budget", "500", "--budget-period", "month")).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Created organisation acme \(grp_[0-9A-Za-z]{12}\)\./),
    });
    expect((await run("create", "web", "--kind", "team", "--parent", "acme", "--rpm", "60", "--key-defaults", "rpm=6")).code).toBe(0);
    expect(
      (await run("create", "app", "--parent", "web", "--selected-budget", "art:operations=image,budget_usd=5,budget_period=day")).code,
    ).toBe(0);
    const rows = (await run("list")).out.split("\n").map((line) =>
      line
        .split(/ {2,}/)
        .filter((cell) => cell !== "")
        .slice(0, 4),
    );
    expect(rows.slice(1, 4)).toEqual([
      ["acme", "organisation", "active", "500 dollars a month"],
      ["web", "team", "active", "60 requests/min"],
      ["app", "group", "active", "1 budget for some calls"],
    ]);
    expect((await run("limits", "app")).out).toContain("5 dollars a day for operations image");
    expect((await run("limits", "app", "--selected-budget", "art:off")).out).not.toContain("art");
    expect((await run("freeze", "web")).out).toStartWith("Froze team web");
    expect((await run("show", "app")).out).toMatch(/state +frozen, because web is/);
    expect((await run("unfreeze", "web")).code).toBe(0);
    expect((await run("move", "app", "acme")).out).toStartWith("Moved group app");
    const { parent } = await cli.json<GroupView>("groups", "show", "app");
    expect(parent).toBe((await cli.json<GroupView>("groups", "show", "acme")).id);
    expect((await run("edit", "app", "--name", "App", "--note", "x")).code).toBe(0);
    expect((await run("delete", "App", "--yes")).out).toStartWith("Deleted group App");
    expect((await cli.json<readonly GroupView[]>("groups", "list")).map(({ name }) => name).toSorted()).toEqual(["acme", "web"]);
  });

  test("have defaults for their keys and for the groups below them, which are shown, changed and taken away", async () => {
    const cli = new CommandLine();
    const run = (...args: readonly string[]) => cli.here(["groups", ...args]);
    const defaults = async (): Promise<unknown> => (await cli.json<GroupView>("groups", "show", "acme")).defaults;
    const ofGroups = "budget_usd=20,budget_period=month,concurrency=4";
    expect((await run("create", "acme", "--key-defaults", "rpm=60,budget_usd=5", "--group-defaults", ofGroups)).code).toBe(0);
    const keys = { rpm: 60, budget_usd: 5, budget_period: "total" } as const;
    expect(await defaults()).toEqual({ keys, groups: { budget_usd: 20, budget_period: "month", concurrency: 4 } });
    expect((await run("edit", "acme", "--group-defaults", "rpm=600")).code).toBe(0);
    expect(await defaults()).toEqual({ keys, groups: { rpm: 600 } });
    expect((await run("edit", "acme", "--key-defaults", "off")).code).toBe(0);
    expect(await defaults()).toEqual({ keys: {}, groups: { rpm: 600 } });
  });

  test("that limit some models only are not shown as groups without limits", async () => {
    const cli = new CommandLine();
    const run = (...args: readonly string[]) => cli.here(["groups", ...args]);
    expect((await run("create", "acme", "--per-model", "large-*:rpm=1")).code).toBe(0);
    expect((await run("create", "web", "--rpm", "60", "--per-model", "a:rpm=1", "--per-model", "b:rpm=2")).code).toBe(0);
    const { out } = await run("list");
    expect(out).toMatch(/acme +group +active +1 rule for some models +grp_/);
    expect(out).toMatch(/web +group +active +60 requests\/min, 2 rules for some models +grp_/);
    expect((await run("show", "acme")).out).toMatch(/limits +1 rule for some models/);
  });

  test("of keys are given when a key is made, changed and taken away", async () => {
    const cli = new CommandLine();
    await cli.here(["groups", "create", "web"]);
    const { id } = await cli.json<GroupView>("groups", "show", "web");
    expect((await cli.here(["keys", "create", "laptop", "--group", "web"])).code).toBe(0);
    expect(await cli.json<unknown>("keys", "show", "laptop")).toMatchObject({ group: id });
    const explained = (await cli.here(["config", "explain", "groups.web", "keys.laptop.group"])).out;
    expect(explained).toMatch(/groups\.web\.name +web +store/);
    expect(explained).toMatch(/keys\.laptop\.group +web +store/);
    expect(await cli.here(["groups", "delete", "web", "--yes"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("Key laptop is in this group"),
    });
    expect((await cli.here(["keys", "edit", "laptop", "--no-group"])).code).toBe(0);
    expect(await cli.json<unknown>("keys", "show", "laptop")).toMatchObject({ group: null });
    expect(await cli.here(["keys", "create", "other", "--group", "nobody"])).toMatchObject({
      code: 64,
      err: expect.stringContaining("no such group"),
    });
  });

  test("are not moved below themselves: the command says so, ends with 64 and changes nothing", async () => {
    const cli = new CommandLine();
    for (const args of [["acme"], ["web", "--parent", "acme"], ["app", "--parent", "web"]])
      expect((await cli.here(["groups", "create", ...args])).code).toBe(0);
    const before = await cli.json<readonly GroupView[]>("groups", "list");
    for (const below of ["acme", "web", "app"]) {
      const moved = await cli.here(["groups", "move", "acme", below]);
      expect([below, moved]).toEqual([below, { code: 64, out: "", err: "A group cannot be below itself.\n" }]);
    }
    expect(await cli.json<readonly GroupView[]>("groups", "list")).toEqual(before);
  });

  test.each([
    [["create", "x", "--selected-budget", "art:operations=painting,budget_usd=5"], /There is no operation "painting"/],
    [["create", "x", "--selected-budget", "art:operations=image"], /needs budget_usd/],
    [["create", "x", "--key-defaults", "rpm=lots"], /The value of rpm is invalid/],
    [["create", "x", "--group-defaults", "rpd=5"], /rpd/],
    [["create", "x", "--kind", "gang"], /Give one of organisation/],
    [["create", "x", "--parent", "nobody"], /There is no such parent group: "nobody"/],
    [["edit", "nobody"], /Nothing to change/],
    [["show", "nobody"], /There is no group "nobody"/],
    [["move", "nobody"], /There is no such group/],
  ])("%p is refused", async (args, words) => {
    const cli = new CommandLine();
    const { code, err } = await cli.here(["groups", ...args]);
    expect(code).not.toBe(0);
    expect(err).toMatch(words);
  });
});
