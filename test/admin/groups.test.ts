// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import type { Services, SpentBudget } from "../../src/admin/services.ts";
import type { BudgetRefusal } from "../../src/limits/budget-refusal.ts";
import { defaultGroup } from "../../src/keys/stored-group.ts";
import type { GroupView } from "../../src/manage/group-view.ts";
import { codeOf, startAdmin, type AdminWorld, type Called, type ErrorBody, type StartOptions } from "../support/admin.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";

interface Company {
  readonly world: AdminWorld;
  readonly call: (method: string, path: string, body?: unknown) => Promise<Called>;
  /** As the administrator of the team web. */
  readonly eve: (method: string, path: string, body?: unknown) => Promise<Called>;
  readonly ids: Readonly<Record<"org" | "web" | "app" | "ads", string>>;
}

const shown = (called: Called): GroupView => called.json as GroupView;

/** An organisation with the teams web and ads; web has the project app. */
async function company(services: Partial<Services> = {}, storage: StartOptions["storage"] = (real) => real): Promise<Company> {
  const world = await startAdmin({ services, storage });
  const admin = await world.token("admin");
  const as =
    (headers: Record<string, string>) =>
    (method: string, path: string, body?: unknown): Promise<Called> =>
      world.call(method, `/admin/api${path}`, { headers, ...(body === undefined ? {} : { body }) });
  const call = as(admin);
  const ids = { org: "", web: "", app: "", ads: "" };
  for (const [name, parent] of [
    ["org", null],
    ["web", "org"],
    ["app", "web"],
    ["ads", "org"],
  ] as const) {
    ids[name] = shown(await call("POST", "/groups", { name, parent })).id;
  }
  return { world, call, ids, eve: as(await world.token("group_admin", ids.web)) };
}

describe("groups", () => {
  test("are created, shown, changed, moved, frozen and deleted", async () => {
    const { call, ids } = await company();
    const limits = { rpm: 5, budgets: [{ name: "eu", channels: ["eu-*"], budget_usd: 2.5, budget_period: "day" }] };
    const changed = await call("PATCH", `/groups/${ids.app}`, { kind: "project", limits, default_key_limits: { tpm: 7 }, note: "n" });
    expect(shown(changed)).toMatchObject({
      name: "app",
      kind: "project",
      parent: ids.web,
      limits,
      defaults: { keys: { tpm: 7 }, groups: {} },
      frozen: false,
      note: "n",
      source: "store",
    });
    expect((await call("GET", "/groups/app")).json).toEqual(changed.json);
    expect(shown(await call("PATCH", "/groups/app", { parent: "ads", frozen: true }))).toMatchObject({ parent: ids.ads, frozen: true });
    expect(shown(await call("PATCH", "/groups/app", { parent: null, frozen: false }))).toMatchObject({ parent: null, frozen_at: null });
    expect((await call("GET", "/groups/app/standing")).json).toMatchObject({
      budgets: [{ name: "eu", limit_usd: 2.5, spent_usd: 0, period: "day" }],
    });
    expect((await call("DELETE", "/groups/app")).status).toBe(200);
    expect((await call("GET", "/groups/app")).status).toBe(404);
    expect(((await call("GET", "/groups")).json as { groups: GroupView[] }).groups.map(({ name }) => name).toSorted()).toEqual([
      "ads",
      "org",
      "web",
    ]);
  });

  test("are changed with their etag only if nobody else has changed them since", async () => {
    const { world, call, ids } = await company();
    const admin = await world.token("admin");
    const etag = (await call("GET", "/groups/web")).headers.get("etag") ?? "";
    const patch = (body: unknown): Promise<Called> =>
      world.call("PATCH", `/admin/api/groups/${ids.web}`, { headers: { ...admin, "if-match": etag }, body });
    const both = await Promise.all([patch({ limits: { rpm: 5 } }), patch({ limits: { tpm: 7 } })]);
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 412]));
    expect(world.bugs).toEqual([]);
  });

  test.each([
    ["a circle", "PATCH", "/groups/org", { parent: "app" }, 400, "A group cannot be below itself.", null],
    ["itself as its parent", "PATCH", "/groups/org", { parent: "org" }, 400, "A group cannot be below itself.", null],
    ["a fourth level", "POST", "/groups", { name: "deep", parent: "app" }, 400, "Groups have at most 3 levels.", null],
    ["a fourth level below it", "PATCH", "/groups/web", { parent: "ads" }, 400, "Groups have at most 3 levels.", null],
    ["a name twice", "POST", "/groups", { name: "web" }, 409, "A group with this name or id already exists: choose another.", null],
    ["an unknown parent", "POST", "/groups", { name: "x", parent: "nobody" }, 400, 'There is no such parent group: "nobody".', "parent"],
    [
      "a budget of nothing",
      "POST",
      "/groups",
      { name: "x", limits: { budget_usd: 0 } },
      400,
      "A budget of 0 would reject every call with a price: freeze the group instead.",
      null,
    ],
    [
      "two budgets of one name",
      "POST",
      "/groups",
      {
        name: "x",
        limits: {
          budgets: [
            { name: "a", budget_usd: 1 },
            { name: "a", budget_usd: 2 },
          ],
        },
      },
      400,
      "The field 'limits.budgets' must have different names.",
      "limits.budgets",
    ],
    ["an unknown field", "POST", "/groups", { name: "x", colour: "red" }, 400, "Unknown field 'colour'.", "colour"],
    ["a change of no group", "PATCH", "/groups/nobody", { note: "x" }, 404, "There is no such group.", null],
    [
      "an end before those below it",
      "DELETE",
      "/groups/web",
      undefined,
      409,
      "Group app is below this group: move or delete it first.",
      null,
    ],
  ] as const)("are refused with a reason, and stay as they are: %s", async (_, method, path, body, status, message, param) => {
    const { world, call } = await company();
    const before = (await call("GET", "/groups")).json;
    const refused = await call(method, path, body);
    const { error } = refused.json as ErrorBody;
    expect([refused.status, error.message, error.param]).toEqual([status, expect.stringContaining(message), param]);
    expect((await call("GET", "/groups")).json).toEqual(before);
    expect(world.bugs).toEqual([]);
  });

  test("have keys, and their usage is shown under their names", async () => {
    const { world, call, ids } = await company();
    const made = (await call("POST", "/keys", { name: "laptop", group: "app" })).json as { id: string; group: string };
    expect(made.group).toBe(ids.app);
    expect((await call("POST", "/keys", { name: "other", group: "nobody" })).status).toBe(400);
    const owners = [ids.app, ids.web, ids.org];
    await world.receipts(sampleReceipt({ keyId: made.id, owners, billedNanos: 1_000_000_000 }), sampleReceipt({ billedNanos: 1 }));
    expect((await call("GET", "/usage?by=group")).json).toMatchObject({
      rows: expect.arrayContaining([expect.objectContaining({ group: ids.org, group_name: "org", calls: 1, cost_usd: 1 })]),
    });
    expect((await call("GET", "/usage?group=web&by=model")).json).toMatchObject({ rows: [{ calls: 1, cost_usd: 1 }] });
    expect((await call("GET", "/receipts?group=web")).json).toMatchObject({ receipts: [{ key: made.id, groups: owners }] });
    expect((await call("GET", "/usage?group=web&by=key")).json).toMatchObject({ rows: [{ key: made.id, key_name: "laptop", calls: 1 }] });
    expect((await call("GET", "/usage?group=ads&by=key")).json).toEqual({ rows: [] });
    expect((await call("GET", `/usage?group=web&key=${made.id}`)).status).toBe(400);
    const inWeb = (await call("GET", "/keys?group=web")).json as { keys: { name: string }[] };
    expect(inWeb.keys.map(({ name }) => name)).toEqual(["laptop"]);
  });
});

test("groups of the configuration file are shown, and a change is refused with the line where to make it", async () => {
  const filed = { ...defaultGroup, id: "file-group:filed", name: "filed", parent: null, frozen: false };
  const { world, call } = await company({
    fileGroups: () => [filed],
    definedAt: (list) => `sluice.yaml, line ${list === "groups" ? 7 : 1}`,
  });
  const before = await call("GET", "/groups/filed");
  expect(before.json).toMatchObject({ id: filed.id, source: "file", frozen: false });
  for (const name of ["filed", filed.id]) {
    for (const [method, body] of [
      ["PATCH", { frozen: true }],
      ["PATCH", { parent: "web" }],
      ["DELETE", undefined],
    ] as const) {
      const called = await call(method, `/groups/${name}`, body);
      expect([method, called.status, codeOf(called)]).toEqual([method, 409, "in_file"]);
      expect((called.json as ErrorBody).error.message).toStartWith("Group filed is defined in sluice.yaml, line 7: change it there.");
    }
  }
  expect((await call("GET", "/groups/filed")).json).toEqual(before.json);
  expect(world.bugs).toEqual([]);
});

test("an administrator of a group is not told which groups are above it, now or before", async () => {
  const filed = (name: string, parent: string | null) => ({ ...defaultGroup, id: `file-group:${name}`, name, parent, frozen: false });
  const fileGroups = [filed("acme", null), filed("globex", null), filed("shop", "file-group:globex")];
  const { world, call, eve, ids } = await company({ fileGroups: () => fileGroups });
  const made = (await call("POST", "/keys", { name: "laptop", group: "acme" })).json as { id: string };
  for (const parent of ["acme", "globex"]) expect((await call("PATCH", "/groups/web", { parent })).status).toBe(200);
  for (const [path, body] of [
    [`/keys/${made.id}`, { group: "web" }],
    ["/groups/app", { parent: "acme" }],
    ["/groups/app", { parent: "web" }],
  ] as const)
    expect((await call("PATCH", path, body)).status).toBe(200);
  const { entries } = (await eve("GET", "/history")).json as { entries: readonly { readonly id: string }[] };
  expect(entries.length).toBeGreaterThan(4);
  const pages = ["/groups", "/groups?top=true", "/groups/web", `/keys/${made.id}`, "/audit", "/history"];
  for (const path of [...pages, ...entries.map(({ id }) => `/history/${id}`)]) {
    const { status, json } = await eve("GET", path);
    const shownText = JSON.stringify(json);
    expect([path, status, /file-group:|acme|globex/.exec(shownText), shownText.includes(ids.org)]).toEqual([path, 200, null, false]);
  }
  expect((await eve("GET", "/groups/web")).json).toMatchObject({ id: ids.web, parent: null });
  expect((await call("GET", "/groups/web")).json).toMatchObject({ parent: "file-group:globex" });
  const ofShop = { headers: await world.token("group_admin", "file-group:shop") };
  for (const path of ["/groups", "/groups/shop"])
    expect((await world.call("GET", `/admin/api${path}`, ofShop)).text).toMatch(/"id":"file-group:shop".*"parent":null/);
  // Nothing of it can be brought back from the log either.
  for (const { id } of entries) await eve("POST", `/audit/${id}/undo`, {});
  expect((await call("GET", `/keys/${made.id}`)).json).toMatchObject({ group: ids.web });
  expect((await call("GET", "/groups/web")).json).toMatchObject({ parent: "file-group:globex" });
});

test("groups are listed by pages, below one of them, or by a part of their name", async () => {
  const { call } = await company();
  type Listed = { readonly groups: readonly { readonly name: string; readonly children: number }[]; readonly next: string | null };
  const list = async (query: string): Promise<Listed> => (await call("GET", `/groups?${query}`)).json as Listed;
  const seen: string[] = [];
  let next: string | null = "";
  for (let page = 0; page < 5 && next !== null; page++) {
    const found: Listed = await list(`limit=3${next === "" ? "" : `&after=${encodeURIComponent(next)}`}`);
    seen.push(...found.groups.map(({ name }) => name));
    ({ next } = found);
  }
  expect([seen, next]).toEqual([["ads", "app", "org", "web"], null]);
  const names = async (query: string) => (await list(query)).groups.map(({ name, children }) => [name, children]);
  expect(await names("top=true")).toEqual([["org", 2]]);
  expect(await names("parent=org")).toEqual([
    ["ads", 0],
    ["web", 1],
  ]);
  // Ids are searched as well, and are random.
  expect(await names("search=AP")).toContainEqual(["app", 0]);
});

describe("an administrator of a group", () => {
  test("manages its keys and the groups below it, and nothing else exists", async () => {
    const { world, call, eve, ids } = await company();
    const [inside, outside] = await Promise.all(
      ["app", "ads"].map(async (group) => (await call("POST", "/keys", { name: `key of ${group}`, group })).json as { id: string }),
    );
    await world.receipts(
      sampleReceipt({ keyId: inside!.id, requestId: "req-inside", finish: "length", owners: [ids.app, ids.web, ids.org] }),
      sampleReceipt({ keyId: outside!.id, requestId: "req-outside", finish: "length", owners: [ids.ads, ids.org] }),
    );
    expect((await eve("GET", "/me")).json).toMatchObject({ role: "group_admin", group: ids.web });
    expect((await eve("GET", "/keys")).json).toMatchObject({ keys: [{ id: inside!.id }], next: null });
    expect((await eve("POST", "/keys", { name: "mine", group: ids.app })).status).toBe(201);
    expect((await eve("PATCH", `/keys/${inside!.id}`, { note: "x" })).status).toBe(200);
    expect((await eve("POST", "/groups", { name: "lab", parent: "web" })).status).toBe(201);
    expect((await eve("PATCH", "/groups/app", { frozen: true })).status).toBe(200);
    expect((await eve("GET", "/usage")).json).toMatchObject({ rows: [{ calls: 1 }] });
    expect((await eve("GET", "/outcomes")).json).toMatchObject({ rows: [{ calls: 1, truncated: 1 }] });
    expect((await eve("GET", "/outcomes?by=key")).json).toMatchObject({ rows: [{ key: inside!.id, calls: 1, truncated: 1 }] });
    expect((await eve("GET", "/outcomes?by=group&group=ads")).json).toMatchObject({ rows: [] });
    expect((await eve("GET", `/outcomes?key=${outside!.id}`)).json).toMatchObject({ rows: [] });
    expect((await eve("GET", "/comparison?model=model-1&other=model-2")).json).toMatchObject({
      models: [{ calls: 1, took: { calls: 1 } }, {}],
    });
    expect((await eve("GET", `/comparison?model=model-1&other=b&group=${ids.ads}`)).json).toMatchObject({
      models: [{ calls: 0, took: null }, {}],
    });
    expect((await eve("GET", "/receipts")).json).toMatchObject({ receipts: [{ key: inside!.id }] });
    // Not even the ids of the groups above, which are their names where they are in the file.
    expect((await eve("GET", "/receipts")).json).toMatchObject({ receipts: [{ groups: [ids.app, ids.web] }] });
    expect((await eve("GET", "/requests/req-inside")).json).toMatchObject({ groups: [ids.app, ids.web] });
    expect((await call("GET", "/requests/req-inside")).json).toMatchObject({ groups: [ids.app, ids.web, ids.org] });
    for (const [method, path, body, status] of [
      ["GET", `/keys/${outside!.id}`, undefined, 404],
      ["GET", `/keys/${outside!.id}/standing`, undefined, 404],
      ["PATCH", `/keys/${outside!.id}`, { note: "x" }, 404],
      ["POST", `/keys/${outside!.id}/rotate`, {}, 404],
      ["POST", `/keys/${outside!.id}/revoke`, {}, 404],
      ["POST", "/keys", { name: "free" }, 400],
      ["POST", "/keys", { name: "elsewhere", group: ids.ads }, 400],
      ["PATCH", `/keys/${inside!.id}`, { group: null }, 400],
      ["PATCH", `/keys/${inside!.id}`, { group: ids.org }, 400],
      ["GET", `/groups/${ids.org}`, undefined, 404],
      ["GET", "/groups/ads/standing", undefined, 404],
      ["PATCH", `/groups/${ids.web}`, { limits: {} }, 409],
      ["PATCH", "/groups/ads", { frozen: true }, 404],
      ["PATCH", "/groups/app", { parent: null }, 400],
      ["DELETE", `/groups/${ids.ads}`, undefined, 404],
      ["GET", "/requests/req-outside", undefined, 404],
      ["GET", "/usage?by=key,group", undefined, 400],
      ["GET", "/groups?parent=org", undefined, 404],
      ["GET", "/channels", undefined, 403],
      ["GET", "/invoice?month=2026-01", undefined, 403],
      ["GET", "/accounts", undefined, 403],
      ["GET", "/tokens", undefined, 403],
      ["GET", "/prices", undefined, 403],
      ["GET", "/health", undefined, 403],
      ["POST", "/accounts", { name: "bob", role: "admin", password: "quiet otters sing at dawn" }, 403],
    ] as const)
      expect([method, path, (await eve(method, path, body)).status]).toEqual([method, path, status]);
    expect((await eve("GET", "/usage?by=key")).json).toMatchObject({ rows: [{ key: inside!.id, key_name: "key of app", calls: 1 }] });
    expect((await eve("GET", "/usage?by=key&group=ads")).json).toEqual({ rows: [] });
    expect((await eve("GET", "/groups?top=true")).json).toMatchObject({ groups: [{ name: "web", children: 2 }], next: null });
    expect((await eve("GET", `/usage?key=${outside!.id}`)).json).toEqual({ rows: [] });
    expect((await eve("GET", `/receipts?group=${ids.ads}`)).json).toMatchObject({ receipts: [] });
    expect((await eve("GET", "/audit")).text).not.toContain(outside!.id);
    expect((await eve("GET", "/audit")).text).toContain(inside!.id);
    const explained = await eve("POST", "/explain", { model: "m", operation: "chat" });
    expect(explained.json).toMatchObject({ outcome: "refuse", candidates: [] });
    expect((await eve("POST", "/explain", { model: "m", operation: "chat", key: outside!.id })).status).toBe(400);
    expect(world.bugs).toEqual([]);
  });

  test.each([
    ["POST", (key: string) => `/keys/${key}/rotate`, {}],
    ["POST", (key: string) => `/keys/${key}/revoke`, {}],
    ["PATCH", (key: string) => `/keys/${key}`, { limits: { rpm: 5 } }],
    ["PATCH", (_: string, group: string) => `/groups/${group}`, { frozen: true }],
    ["DELETE", (_: string, group: string) => `/groups/${group}`, undefined],
    ["POST", () => "/keys", { name: "late", group: "app" }],
    ["POST", () => "/groups", { name: "late", parent: "lab" }],
  ] as const)("cannot change what is moved elsewhere at that moment: %s %p", async (method, path, body) => {
    let move = (): Promise<unknown> => Promise.resolve();
    /** Somebody else moves it at the last moment at which they can: before the transaction that changes it. */
    const late = <Part extends object>(part: Part): Part =>
      new Proxy(part, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name);
          if (typeof value !== "function") return value;
          const isChange = ["create", "change", "rotate", "revoke", "remove", "together"].includes(String(name));
          return async (...given: unknown[]): Promise<unknown> => {
            if (isChange) await move();
            return Reflect.apply(value, target, given);
          };
        },
      });
    const { world, call, eve, ids } = await company({}, (real) => late({ ...real, keys: late(real.keys), groups: late(real.groups) }));
    const { id } = (await call("POST", "/keys", { name: "laptop", group: "web" })).json as { id: string };
    await call("POST", "/groups", { name: "lab", parent: "web" });
    const { keys, groups } = world.storage;
    const by = { kind: "cli", name: "ada" } as const;
    move = async () => {
      move = () => Promise.resolve();
      await keys.change(id, { group: ids.ads }, by);
      for (const name of ["app", "lab"]) await groups.change((await groups.find(name))!.id, { parent: ids.ads }, [], by);
    };
    const called = await eve(method, path(id, ids.app), body);
    expect([400, 404]).toContain(called.status);
    const [last] = await world.storage.audit.list({ action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 1 });
    expect(last?.actor).toEqual(by);
    expect(world.bugs).toEqual([]);
  });

  test("sees what is spent of budgets that are defaults of the groups above", async () => {
    const { world, call, eve, ids } = await company();
    await call("PATCH", "/groups/org", { default_key_limits: { budget_usd: 5 }, default_group_limits: { budget_usd: 20 } });
    const { id } = (await call("POST", "/keys", { name: "laptop", group: "app" })).json as { id: string };
    await world.receipts(sampleReceipt({ keyId: id, owners: [ids.app, ids.web, ids.org], billedNanos: 2_000_000_000 }));
    for (const ask of [call, eve]) {
      expect((await ask("GET", `/keys/${id}/standing`)).json).toMatchObject({ budgets: [{ limit_usd: 5, spent_usd: 2 }] });
      expect((await ask("GET", "/groups/web/standing")).json).toMatchObject({ budgets: [{ limit_usd: 20, spent_usd: 2 }] });
      // Defaults for groups are for those directly below.
      expect((await ask("GET", "/groups/app/standing")).json).toMatchObject({ budgets: [] });
    }
    expect(world.bugs).toEqual([]);
  });

  test("is warned of budgets of its own keys and groups, and of nothing else that is wrong", async () => {
    const spent: SpentBudget[] = [];
    const refusals = new Map<string, BudgetRefusal>();
    const { world, call, eve, ids } = await company({ budgets: () => ({ spent, isWhole: false, refusals }) });
    const used = (of: SpentBudget["of"], id: string): SpentBudget => ({
      of,
      id,
      models: "",
      limitNanos: 100,
      spentNanos: 100,
      isRefusing: false,
    });
    const limits = { budget_usd: 1 };
    for (const group of ["org", "app", "ads"] as const) {
      const { id } = (await call("POST", "/keys", { name: `key of ${group}`, group, limits })).json as { id: string };
      await call("PATCH", `/groups/${ids[group]}`, { limits });
      await world.receipts(sampleReceipt({ keyId: id, owners: [ids[group]], billedNanos: 1_000_000_000 }));
      spent.push(used("key", id), used("group", ids[group]));
    }
    const messages = async (ask: typeof call): Promise<readonly string[]> =>
      ((await ask("GET", "/problems")).json as { problems: readonly { message: string }[] }).problems.map(({ message }) => message);
    const about = (what: string): string => `The budget of ${what} is used up: its calls are refused.`;
    expect(await messages(eve)).toEqual([about("key key of app"), about("group app")]);
    const all = await messages(call);
    for (const name of ["org", "app", "ads"])
      expect(all).toEqual(expect.arrayContaining([about(`key key of ${name}`), about(`group ${name}`)]));
    // Such as that there is no channel.
    expect(all.length).toBeGreaterThan(spent.length);
    // What the gateway looks at of all budgets may leave out those of a group: its administrator is told of them all the same.
    spent.length = 0;
    world.pass(60_000);
    expect(await messages(eve)).toEqual([about("key key of app"), about("group app")]);
    const isWhole = async (ask: typeof call): Promise<unknown> => ((await ask("GET", "/problems")).json as { complete: boolean }).complete;
    expect([await isWhole(call), await isWhole(eve)]).toEqual([false, true]);
    // Of defaults as well.
    await call("PATCH", "/groups/org", { limits: {}, default_group_limits: { budget_usd: 5 } });
    await world.receipts(sampleReceipt({ owners: [ids.web], billedNanos: 4_000_000_000 }));
    world.pass(60_000);
    expect(await messages(eve)).toContain("The budget of group web is nearly used up.");
    // What refuses calls is known of all budgets.
    refusals.set(ids.web, { budget: ids.web, limitNanos: 5_000_000_000, atMs: world.services.wallMs() });
    world.pass(60_000);
    expect(await messages(eve)).toContain("The budget of group web has too little left: calls that may cost more are refused.");
    expect(world.bugs).toEqual([]);
  });

  test("needs a group, and no other role has one", async () => {
    const { call, ids } = await company();
    const made = await call("POST", "/tokens", { name: "ci", role: "group_admin", group: "web" });
    expect(made.json).toMatchObject({ role: "group_admin", group: ids.web });
    for (const body of [{ role: "group_admin" }, { role: "admin", group: "web" }, { role: "group_admin", group: "nobody" }])
      expect((await call("POST", "/tokens", { name: "other", ...body })).status).toBe(400);
    expect(codeOf(await call("DELETE", `/groups/${ids.web}`))).toBe("conflict");
  });
});
