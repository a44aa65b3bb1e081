// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, test } from "bun:test";
import type { AuditEntry } from "../../src/gateway/storage.ts";
import { newGroup } from "../support/groups.ts";
import { startAdmin, tester, type AdminWorld, type Called, type ErrorBody } from "../support/admin.ts";

let world: AdminWorld;
let admin: Record<string, string>;
beforeAll(async () => {
  world = await startAdmin();
  admin = await world.token("admin");
});

async function send(method: string, path: string, body?: unknown): Promise<Called> {
  return world.call(method, `/admin/api${path}`, { headers: admin, ...(body === undefined ? {} : { body }) });
}

async function good<T>(method: string, path: string, body?: unknown): Promise<T> {
  const called = await send(method, path, body);
  if (called.status >= 300) throw new Error(`${method} ${path}: ${called.text}`);
  return called.json as T;
}

async function latest(): Promise<AuditEntry> {
  const [entry] = await world.storage.audit.list({ action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 1 });
  if (entry === undefined) throw new Error("the log is empty");
  return entry;
}

const undo = (id: string, body: unknown = {}): Promise<Called> => send("POST", `/audit/${id}/undo`, body);
const wordsOf = ({ json }: Called): string => (json as ErrorBody).error.message;

interface HistoryAnswer {
  readonly entries: readonly {
    readonly id: string;
    readonly subject_name: string | null;
    readonly changes: readonly object[];
    readonly undo: object;
  }[];
}

describe("a key", () => {
  test("gets back what an edit changed, once, and the log says that it was undone", async () => {
    const { id } = await good<{ id: string }>("POST", "/keys", { name: "laptop", limits: { rpm: 60 }, models: ["a"] });
    await good("PATCH", `/keys/${id}`, { limits: { rpm: 600 }, models: ["a", "b"] });
    const edit = await latest();
    const { entries } = await good<HistoryAnswer>("GET", `/history?subject=${id}&limit=1`);
    expect(entries[0]).toMatchObject({
      id: edit.id,
      subject_name: "laptop",
      changes: [
        { field: "models", from: ["a"], to: ["a", "b"] },
        { field: "limits.requests", from: 60, to: 600 },
      ],
      undo: { possible: true, needs_secrets: false },
    });
    expect((await undo(edit.id)).status).toBe(200);
    expect(await good("GET", `/keys/${id}`)).toMatchObject({ models: ["a"], limits: { rpm: 60 } });
    expect(await latest()).toMatchObject({ action: "audit.undo", subject: id, detail: { entry: edit.id, action: "key.change" } });
    expect((await undo(edit.id)).status).toBe(409);
  });

  test("is left alone if it has changed again since, and the answer says what is there now", async () => {
    const { id } = await good<{ id: string }>("POST", "/keys", { name: "phone" });
    await good("PATCH", `/keys/${id}`, { limits: { rpm: 60 }, owner: "ada" });
    const first = await latest();
    await good("PATCH", `/keys/${id}`, { owner: "ben" });
    const refused = await undo(first.id);
    expect([refused.status, wordsOf(refused)]).toEqual([409, expect.stringContaining('owner is now "ben"')]);
    // Nothing of it was undone.
    expect(await good("GET", `/keys/${id}`)).toMatchObject({ limits: { rpm: 60 }, owner: "ben" });
  });

  test("that was created is revoked, and a revocation is for good", async () => {
    const { id } = await good<{ id: string }>("POST", "/keys", { name: "mistake" });
    await undo((await latest()).id);
    expect(await good("GET", `/keys/${id}`)).toMatchObject({ state: "revoked" });
    const [revocation] = await world.storage.audit.list({
      action: "key.revoke",
      subject: id,
      actor: null,
      sinceMs: null,
      before: null,
      limit: 1,
    });
    const refused = await undo(revocation?.id ?? "");
    expect([refused.status, wordsOf(refused)]).toEqual([409, expect.stringContaining("for good")]);
  });
});

describe("a channel", () => {
  const secret = "sk-upstream-secret-0001";

  test("comes back after its removal if its secrets are given again: none are kept", async () => {
    await good("POST", "/channels", { name: "main", entry: { base_url: "https://api.example.com/v1", tier: 2 }, secrets: [secret] });
    await good("DELETE", "/channels/main");
    const { id } = await latest();
    expect(JSON.stringify(await good("GET", "/history"))).not.toContain(secret);
    const without = await undo(id);
    expect([without.status, (without.json as ErrorBody).error.code]).toEqual([400, "secrets_needed"]);
    expect((await undo(id, { secrets: [secret] })).status).toBe(200);
    expect(await world.storage.channels.get("main")).toMatchObject({
      entry: { base_url: "https://api.example.com/v1", tier: 2 },
      last4: ["0001"],
    });
  });

  test("gets its settings back, keeps its secrets, and a setting that was added goes", async () => {
    await good("PATCH", "/channels/main", { entry: { tier: 5, weight: 3 } });
    await undo((await latest()).id);
    expect((await world.storage.channels.get("main"))?.entry).toEqual({ base_url: "https://api.example.com/v1", tier: 2 });
  });

  test("does not send its secrets to an old address", async () => {
    await good("PATCH", "/channels/main", { entry: { base_url: "https://other.example.com/v1" }, secrets: ["sk-another-secret-0002"] });
    const { id } = await latest();
    expect((await undo(id)).status).toBe(400);
    expect((await world.storage.channels.get("main"))?.entry["base_url"]).toBe("https://other.example.com/v1");
    expect((await undo(id, { secrets: [secret] })).status).toBe(200);
    expect(await world.storage.channels.get("main")).toMatchObject({ entry: { base_url: "https://api.example.com/v1" }, last4: ["0001"] });
  });

  test("that was added is removed, unless it has changed since", async () => {
    await good("POST", "/channels", { name: "extra", entry: { base_url: "https://api.example.com/v1" } });
    const { id } = await latest();
    await good("PATCH", "/channels/extra", { entry: { tier: 3 } });
    expect((await undo(id)).status).toBe(409);
    await undo((await latest()).id);
    expect((await undo(id)).status).toBe(200);
    expect(await world.storage.channels.get("extra")).toBeNull();
  });

  test("that was added is not removed with secrets that it has got since", async () => {
    const entry = { base_url: "https://api.example.com/v1" };
    await good("POST", "/channels", { name: "rotated", entry, secrets: [secret] });
    const { id } = await latest();
    await good("PATCH", "/channels/rotated", { secrets: ["sk-another-secret-0002"] });
    const refused = await undo(id);
    expect([refused.status, wordsOf(refused)]).toEqual([409, expect.stringContaining('secrets is now ["0002"]')]);
    expect(await world.storage.channels.get("rotated")).toMatchObject({ last4: ["0002"] });
    await good("PATCH", "/channels/rotated", { secrets: [secret] });
    expect((await undo(id)).status).toBe(200);
  });
});

test("a group is unfrozen, and comes back after its deletion with its limits", async () => {
  await world.storage.groups.create("grp_web", newGroup("web", { limits: { requests: 60 } }), [], tester);
  await world.storage.groups.change("grp_web", { frozen: true }, [], tester);
  expect((await undo((await latest()).id)).status).toBe(200);
  expect(await world.storage.groups.get("grp_web")).toMatchObject({ frozen: false });
  await world.storage.groups.remove("grp_web", tester);
  expect((await undo((await latest()).id)).status).toBe(200);
  expect(await world.storage.groups.get("grp_web")).toMatchObject({ name: "web", limits: { requests: 60 } });
});

test("a price goes back to what it was, is removed where there was none, and comes back after its removal", async () => {
  const price = (input: string) => ({ provider: null, model: "large", from: "2027-01-01", rates: { input } });
  const rates = async () => (await world.storage.prices.list()).map((one) => one.rates);
  await good("PUT", "/prices", price("1"));
  const first = await latest();
  const before = await rates();
  await good("PUT", "/prices", price("2"));
  const second = await latest();
  expect((await undo(first.id)).status).toBe(409);
  expect((await undo(second.id)).status).toBe(200);
  expect(await rates()).toEqual(before);
  expect((await undo(first.id)).status).toBe(200);
  expect(await rates()).toEqual([]);
  const removal = (
    await world.storage.audit.list({ action: "price.remove", subject: null, actor: null, sinceMs: null, before: null, limit: 1 })
  )[0];
  expect((await undo(removal?.id ?? "")).status).toBe(200);
  expect(await rates()).toEqual(before);
});

test("an account gets its role back, and the last admin stays", async () => {
  await world.account("ada", "admin");
  const created = await latest();
  await world.account("ben", "viewer");
  await good("PATCH", "/accounts/ben", { role: "admin", disabled: true });
  expect((await undo((await latest()).id)).status).toBe(200);
  expect(await world.storage.accounts.list()).toContainEqual(expect.objectContaining({ name: "ben", role: "viewer", disabledMs: null }));
  const refused = await undo(created.id);
  expect(refused.status).toBe(409);
  expect(await world.storage.accounts.list()).toContainEqual(expect.objectContaining({ name: "ada" }));
});

test("the undo of a creation spares an account or an admin token that has got its name since", async () => {
  await world.account("eve", "viewer");
  const account = await latest();
  await good("DELETE", "/accounts/eve");
  expect(wordsOf(await undo(account.id))).toContain("does not exist any more");
  while (Date.now() <= account.atMs) await Bun.sleep(1);
  await world.account("eve", "admin");
  expect(wordsOf(await undo(account.id))).toContain("another account");
  expect((await world.storage.accounts.list()).map(({ name }) => name)).toContain("eve");
  expect((await undo((await latest()).id)).status).toBe(200);
  expect((await world.storage.accounts.list()).map(({ name }) => name)).not.toContain("eve");

  await good("POST", "/tokens", { name: "ci", role: "viewer" });
  const token = await latest();
  await good("DELETE", "/tokens/ci");
  const again = await undo(token.id);
  expect([again.status, wordsOf(again)]).toEqual([409, expect.stringContaining("revoked already")]);
  const { token: secret } = await good<{ token: string }>("POST", "/tokens", { name: "ci", role: "admin" });
  const created = await latest();
  const refused = await undo(token.id);
  expect([refused.status, wordsOf(refused)]).toEqual([409, expect.stringContaining("another token")]);
  const me = () => world.call("GET", "/admin/api/me", { headers: { authorization: `Bearer ${secret}` } });
  expect((await me()).status).toBe(200);
  expect((await undo(created.id)).status).toBe(200);
  expect((await me()).status).toBe(401);
});

test("viewers see the history and undo nothing, and an id that nobody has is not found", async () => {
  const { id } = await latest();
  const viewer = await world.token("viewer");
  expect((await world.call("GET", "/admin/api/history", { headers: viewer })).status).toBe(200);
  expect((await world.call("POST", `/admin/api/audit/${id}/undo`, { headers: viewer, body: {} })).status).toBe(403);
  expect((await undo("nothing")).status).toBe(404);
});

describe("an admin of a group", () => {
  /** An organisation with the teams team and rivals; team has a project below it. Eve manages team. */
  async function company() {
    const as = (id: string) => `${id}-${crypto.randomUUID().slice(0, 8)}`;
    const [org, team, project, rivals] = [as("org"), as("team"), as("project"), as("rivals")];
    for (const [id, parent] of [
      [org, null],
      [team, org],
      [project, team],
      [rivals, org],
    ] as const)
      await world.storage.groups.create(id, newGroup(id, { parent }), [], tester);
    const keyIn = async (group: string): Promise<string> =>
      (await good<{ id: string }>("POST", "/keys", { name: as("key"), group, limits: { rpm: 60 } })).id;
    const headers = await world.token("group_admin", team);
    const eve = (method: string, path: string, body?: unknown): Promise<Called> =>
      world.call(method, `/admin/api${path}`, { headers, ...(body === undefined ? {} : { body }) });
    const edited = async (id: string, change: object): Promise<string> => {
      await good("PATCH", `/keys/${id}`, change);
      return (await latest()).id;
    };
    return { team, project, rivals, keyIn, eve, edited, undoes: (id: string) => eve("POST", `/audit/${id}/undo`, {}) };
  }

  test("takes back what was changed in it and below it, and sees so in the history", async () => {
    const { team, project, keyIn, eve, edited, undoes } = await company();
    const key = await keyIn(project);
    for (const change of [{ limits: { rpm: 600 } }, { group: team }]) expect((await undoes(await edited(key, change))).status).toBe(200);
    expect(await good("GET", `/keys/${key}`)).toMatchObject({ limits: { rpm: 60 }, group: project });
    await good("PATCH", `/groups/${project}`, { frozen: true });
    expect((await undoes((await latest()).id)).status).toBe(200);
    expect(await world.storage.groups.get(project)).toMatchObject({ frozen: false });
    const { entries } = (await eve("GET", "/history?action=audit.undo")).json as { entries: readonly { subject: string }[] };
    expect(entries.map(({ subject }) => subject)).toEqual([project, key, key]);
    const { id: below } = (await eve("POST", "/groups", { name: `below ${team}`, parent: team, limits: { rpm: 7 } })).json as {
      id: string;
    };
    expect((await eve("DELETE", `/groups/${below}`)).status).toBe(200);
    expect((await undoes((await latest()).id)).status).toBe(200);
    expect((await eve("GET", `/groups/${below}`)).json).toMatchObject({ parent: team, limits: { rpm: 7 } });
    await keyIn(team);
    const creation = await latest();
    expect((await undoes(creation.id)).status).toBe(200);
    expect(await good("GET", `/keys/${creation.subject}`)).toMatchObject({ state: "revoked" });
  });

  test("takes back nothing else, and cannot tell it from what does not exist", async () => {
    const { team, rivals, keyIn, eve, edited, undoes } = await company();
    const [hers, theirs, free] = [
      await keyIn(team),
      await keyIn(rivals),
      (await good<{ id: string }>("POST", "/keys", { name: rivals })).id,
    ];
    const moved = await keyIn(team);
    const movedIn = await keyIn(rivals);
    await good("PUT", "/prices", { provider: null, model: team, from: "2027-01-01", rates: { input: "1" } });
    const price = (await latest()).id;
    await good("POST", "/channels", { name: team, entry: { base_url: "https://api.example.com/v1" } });
    const channel = (await latest()).id;
    await world.account(`a-${team}`, "viewer");
    const account = (await latest()).id;
    await good("PATCH", `/groups/${rivals}`, { limits: { rpm: 1 } });
    const otherGroup = (await latest()).id;
    await world.storage.groups.create(`gone-${rivals}`, newGroup(`gone-${rivals}`, { parent: rivals }), [], tester);
    await world.storage.groups.remove(`gone-${rivals}`, tester);
    const deletion = (await latest()).id;
    const outside = [
      await edited(theirs, { limits: { rpm: 600 } }),
      await edited(free, { limits: { rpm: 600 } }),
      // Where it came from is not hers.
      await edited(movedIn, { group: team }),
      price,
      channel,
      account,
      otherGroup,
      deletion,
      "nothing",
    ];
    for (const id of outside) {
      const refused = await undoes(id);
      expect([refused.status, wordsOf(refused)]).toEqual([404, "There is no such entry in the audit log."]);
      expect((await eve("GET", `/history/${id}`)).status).toBe(404);
    }
    expect(await good("GET", `/keys/${theirs}`)).toMatchObject({ limits: { rpm: 600 } });
    expect(await good("GET", `/keys/${movedIn}`)).toMatchObject({ group: team });
    // What left her group is not hers any more, although the log of her group says that it left.
    expect((await undoes(await edited(moved, { group: rivals }))).status).toBe(409);
    expect(await good("GET", `/keys/${moved}`)).toMatchObject({ group: rivals });
    await good("PATCH", `/groups/${team}`, { limits: { rpm: 5 } });
    const ownGroup = (await latest()).id;
    const refused = await undoes(ownGroup);
    expect([refused.status, wordsOf(refused)]).toEqual([409, "Your own group is managed by those above it."]);
    expect(await world.storage.groups.get(team)).toMatchObject({ limits: { requests: 5 } });
    const { entries } = (await eve("GET", `/history?subject=${team}&limit=1`)).json as HistoryAnswer;
    expect(entries[0]).toMatchObject({ id: ownGroup, undo: { possible: false } });
    expect((await eve("GET", `/history/${ownGroup}`)).json).toEqual(entries[0]);
    // Neither did any of it change what is hers.
    expect(await good("GET", `/keys/${hers}`)).toMatchObject({ limits: { rpm: 60 }, state: "active" });
  });
});
