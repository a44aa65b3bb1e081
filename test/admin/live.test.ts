// Needs: quiet. It mostly waits for what happens to be told to a page that is open.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { Database } from "bun:sqlite";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startChaos } from "../support/chaos.ts";
import { storeFile } from "../../src/store/open.ts";
import { operations } from "../../src/operations/operation.ts";
import { eventually } from "../support/eventually.ts";
import { product } from "../support/product.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

const adminToken = "5f1c07d2a94be863c1d7f02b9a6e4835d0c2";
const model = "explained";
const costly = { model: "costly", messages: [{ role: "user", content: "hi" }] };

let rig: Rig<"broken" | "sound" | "dear" | "other">;
let folder: string;
let admin: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const file = join(folder, "token");
  await writeFile(file, adminToken, { mode: 0o600 });
  rig = await setUp(
    {
      broken: { tier: 1, models: [model] },
      sound: { tier: 2, models: [model], tags: ["spare"] },
      dear: { models: ["costly", "#images"] },
      other: { dialect: "anthropic", models: ["translated"], headers: { "x-tenant": "header-canary" } },
    },
    {
      admin: "127.0.0.1:0",
      data_dir: join(folder, "data"),
      prices: [{ model, input: 1, output: 2 }, ...["costly", "#images"].map((dear) => ({ model: dear, input: 0, output: 1_000 }))],
      groups: [
        { name: "acme", kind: "organisation", limits: { budget_usd: 0.015, budget_period: "month" } },
        { name: "web", kind: "team", parent: "acme", limits: { per_model: [{ model: "costly", tpm: 100 }] } },
        { name: "globex", frozen: true },
        { name: "shop", parent: "globex" },
      ],
      keys: [
        { name: "tester", key: clientKey },
        { name: "bound", key: "sk-bound-canary-0123456789abcdef", channels: ["spare"], limits: { rpm: 1 } },
        { name: "grouped", key: "sk-grouped-canary-0123456789abcdef", group: "web" },
        {
          name: "imaging",
          key: "sk-imaging-canary-0123456789abcdef",
          limits: {
            per_model: [{ model: "#images", budget_usd: 0.015, budget_period: "month" }],
            budgets: [{ name: "images", operations: ["image"], budget_usd: 10, budget_period: "month" }],
          },
        },
        { name: "frozen", key: "sk-frozen-canary-0123456789abcdef", group: "shop" },
        { name: "narrow", key: "sk-narrow-canary-0123456789abcdef", models: ["other"], operations: ["speech"] },
      ],
    },
    { env: { ADMIN_TOKEN_FILE: file } },
  );
  admin = `${rig.gateway.adminUrl}/admin/api`;
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

type Json = Readonly<Record<string, unknown>>;

async function ask(path: string, body?: Json, token = adminToken): Promise<{ readonly status: number; readonly json: Json }> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(admin + path, init);
  return { status: response.status, json: (await response.json()) as Json };
}

describe("of a running gateway, the admin API", () => {
  test("explains a call that was answered by the second channel, with both attempts and what they cost", async () => {
    rig.upstream.broken.behaviour = "fault:status@500";
    const reply = await rig.chat({ model });
    expect(reply.status).toBe(200);
    await eventually("the receipt is in the store", async () => (await ask(`/requests/${reply.requestId}`)).status === 200, 5_000);
    const { json } = await ask(`/requests/${reply.requestId}`);
    expect(json).toMatchObject({ model, channel: "sound", state: "complete" });
    const attempts = json["attempts"] as readonly Json[];
    // A tier that failed quickly has one more try before the next one is asked.
    expect(attempts.at(-1)).toMatchObject({ channel: "sound", outcome: "answered", cost_uncertain: false });
    expect(attempts[0]).toMatchObject({ channel: "broken", outcome: "failed", status: 500, blame: "channel" });
    expect(attempts.at(-1)?.["cost_usd"]).toBeGreaterThan(0);
    const plan = json["plan"] as readonly Json[];
    expect(plan.map(({ channel, verdict, tier }) => [channel, verdict, tier])).toEqual([
      ["broken", "taken", 1],
      ["sound", "taken", 2],
    ]);
    expect((await ask("/requests/req_nobody")).status).toBe(404);
  });

  test.each(operations)("explains a call for %s", async (operation) => {
    const { status, json } = await ask("/explain", { model, operation, prompt_tokens: 500 });
    expect([status, json["outcome"], json["refusals"]]).toEqual([200, "serve", []]);
    const narrow = await ask("/explain", { model, operation, key: "file:narrow" });
    expect(JSON.stringify(narrow.json["refusals"]).includes("operation_not_allowed")).toBe(operation !== "speech");
  });

  test("shows what would be done with a call now, or why it would be refused", async () => {
    rig.upstream.broken.behaviour = "ok";
    const served = await ask("/explain", { model, operation: "chat" });
    expect(served.json).toMatchObject({ outcome: "serve", refusals: [], mode: "normal" });
    const bound = await ask("/explain", { model, operation: "chat", key: "file:bound" });
    expect(bound.json).toMatchObject({
      outcome: "serve",
      candidates: [{ channel: "sound", tier: 2, priced: true }],
      skipped: [{ channel: "broken", because: "key_channels" }],
    });
    const narrow = await ask("/explain", { model, operation: "chat", key: "file:narrow" });
    expect((narrow.json["refusals"] as readonly Json[]).map(({ status, code }) => [status, code])).toEqual([
      [403, "operation_not_allowed"],
      [403, "model_not_allowed"],
    ]);
    const unknown = await ask("/explain", { model: "nobody-has-it", operation: "chat" });
    expect(unknown.json).toMatchObject({ outcome: "refuse", refusals: [{ status: 404, code: "model_not_found" }] });
  });

  test("shows what a request would become in the API of its upstream, as it is then sent, without secrets", async () => {
    const request = { model: "translated", messages: [{ role: "user", content: "hi" }], max_tokens: 5, logit_bias: { "1": 2 } };
    const { json } = await ask("/explain/request", { api: "chat", request });
    expect(json).toMatchObject({ outcome: "serve", candidates: [{ channel: "other" }] });
    const [sending] = json["sends"] as readonly Json[];
    expect(sending).toMatchObject({ channel: "other", refusal: null, method: "POST", translated: true, dropped: ["logit_bias"] });
    expect(sending!["headers"]).toMatchObject({ "content-type": "application/json" });
    expect(JSON.stringify(json)).not.toContain("canary");
    await rig.chat(request);
    const sent = rig.upstream.other.ledger.chats.at(-1)!;
    expect(String(sending!["url"])).toEndWith(sent.path);
    expect(sending!["body"]).toBe(new TextDecoder().decode(sent.body));
    expect((await ask("/explain/request", { api: "chat", request: { model: 7 } })).json).toMatchObject({
      outcome: "refuse",
      refusals: [{ status: 400 }],
      sends: [],
    });
  });

  test("reserves nothing for a dry run: a limit of one call a minute is left, and once it is used the dry run says so", async () => {
    for (let times = 0; times < 3; times++) await ask("/explain", { model, operation: "chat", key: "file:bound" });
    const call = await rig.chat({ model }, { key: "sk-bound-canary-0123456789abcdef" });
    expect(call.status).toBe(200);
    const { json } = await ask("/explain", { model, operation: "chat", key: "file:bound" });
    expect(json).toMatchObject({ outcome: "refuse", refusals: [{ status: 429, code: "rate_limit_exceeded" }] });
  });

  test("says whose budget is spent, and which limit has no room, on every level above a key", async () => {
    const explained = async (tokens: number): Promise<Json> =>
      (await ask("/explain/request", { api: "chat", key: "file:grouped", request: { ...costly, max_tokens: tokens } })).json;
    expect(await explained(10)).toMatchObject({ outcome: "serve", refusals: [], reserve: { cost_usd: 0.01 } });
    const tooLong = (await explained(200))["refusals"] as readonly Json[];
    expect(tooLong.map(({ code, message }) => [code, String(message).split(",")[0]])).toEqual([
      ["rate_limit_exceeded", "This request needs more than all of what the team web is limited to"],
      ["insufficient_quota", "The budget of the organisation acme"],
    ]);
    expect((await rig.chat({ ...costly, max_tokens: 10, x_tokens: 10 }, { key: "sk-grouped-canary-0123456789abcdef" })).status).toBe(200);
    await eventually("what was spent is in the store", async () => (await explained(10))["outcome"] === "refuse", 5_000);
    expect((await explained(10))["refusals"]).toMatchObject([
      {
        status: 429,
        code: "insufficient_quota",
        message: expect.stringMatching(/^The budget of the organisation acme, \$0\.015 a month, leaves too/),
      },
    ]);
    const spent = { model: "costly", operation: "chat", key: "file:grouped" };
    expect((await ask("/explain", spent)).json).toMatchObject({ outcome: "refuse", unknown: [] });
    // The administrator of the team is not told what the organisation has, but that there is something.
    const eve = async (group: string, asked: Json): Promise<Json> => {
      const made = await ask("/tokens", { name: `eve-${group}`, role: "group_admin", group });
      return (await ask("/explain", asked, String(made.json["token"]))).json;
    };
    const scoped = await eve("web", { ...spent, prompt_tokens: 1_000 });
    expect(scoped).toMatchObject({
      outcome: "refuse",
      refusals: [{ code: "rate_limit_exceeded", message: expect.stringContaining("the team web") }],
      unknown: ["A limit above your group may refuse this."],
    });
    expect(JSON.stringify(scoped)).not.toContain("acme");
    expect(await eve("acme", spent)).toMatchObject({ outcome: "refuse", refusals: [{ code: "insufficient_quota" }], unknown: [] });
    const frozen = await eve("shop", { ...spent, key: "file:frozen" });
    expect(frozen).toMatchObject({ refusals: [{ status: 403, code: "group_frozen" }], unknown: [] });
    expect(JSON.stringify(frozen)).not.toContain("globex");
  });

  test("explains a call also while the store cannot say what is spent, and says so", async () => {
    const store = new Database(storeFile(join(folder, "data")));
    const tables = ["owner_hours", "owner_days"];
    for (const table of tables) store.run(`alter table ${table} rename to ${table}_away`);
    try {
      const request = { api: "chat", key: "file:grouped", request: { ...costly, max_tokens: 10 } };
      expect(await ask("/explain/request", request)).toMatchObject({
        status: 200,
        json: {
          outcome: "serve",
          refusals: [],
          unknown: ["What is spent of budgets is not known now, because the store cannot be reached."],
        },
      });
    } finally {
      for (const table of tables) store.run(`alter table ${table}_away rename to ${table}`);
      store.close();
    }
  });

  test("says that the budget of a rule for models is spent, also where another budget is called like its model", async () => {
    const request = { ...costly, model: "#images", max_tokens: 10 };
    const explained = async (): Promise<Json> => (await ask("/explain/request", { api: "chat", key: "file:imaging", request })).json;
    expect(await explained()).toMatchObject({ outcome: "serve", refusals: [] });
    expect((await rig.chat({ ...request, x_tokens: 10 }, { key: "sk-imaging-canary-0123456789abcdef" })).status).toBe(200);
    await eventually("what was spent is in the store", async () => (await explained())["outcome"] === "refuse", 5_000);
    expect((await rig.chat(request, { key: "sk-imaging-canary-0123456789abcdef" })).status).toBe(429);
  });

  test("shows each channel with what is wrong with it, and the health of the whole", async () => {
    rig.upstream.broken.behaviour = "fault:status@401";
    await rig.chat({ model });
    const { json } = await ask("/channels");
    const channels = new Map((json["channels"] as readonly Json[]).map((channel) => [channel["name"], channel]));
    expect(channels.get("broken")).toMatchObject({ source: "file", state: "cooling" });
    const [trouble] = channels.get("broken")!["troubles"] as readonly Json[];
    expect(trouble).toMatchObject({ standing: "open", cause: "unauthorized" });
    expect(channels.get("sound")).toMatchObject({ state: "ready", models: [model] });
    const health = await ask("/health");
    expect(health.json).toMatchObject({ status: "ok", store: { kind: "sqlite", ok: true }, state: { kind: "memory", ok: true } });
  });

  test.each([
    ["Channel sound", "PATCH", "/channels/sound", { entry: { tier: 3 } }],
    ["Group web", "PATCH", "/groups/web", { frozen: true }],
    ["Group web", "DELETE", "/groups/web", undefined],
  ] as const)("refuses to change what the file defines, and names its line: %s, %s", async (what, method, path, body) => {
    const lines = (await readFile(join(rig.gateway.directory, "sluice.yaml"), "utf8")).split("\n");
    const headers = { authorization: `Bearer ${adminToken}`, "content-type": "application/json" };
    const response = await fetch(admin + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const { error } = (await response.json()) as { readonly error: Json };
    expect([response.status, error["code"]]).toEqual([409, "in_file"]);
    const named = new RegExp(`^${what} is defined in \\S*sluice\\.yaml, line (\\d+): change it there`).exec(String(error["message"]))?.[1];
    // The entry begins with the brace in the line above its name.
    expect(lines[Number(named)]).toContain(`"name": "${what.split(" ")[1]}"`);
  });

  test("serves a key that a resource file brought, and tells who applied it", async () => {
    const token = "sk-applied-canary-0123456789abcdef";
    const file = join(folder, "resources.yaml");
    await writeFile(file, `keys:\n  - { name: applied, key: "\${APPLIED}", owner: ci }\n`);
    const sluice = async (...args: readonly string[]): Promise<number> => {
      const config = join(rig.gateway.directory, "sluice.yaml");
      const command = ["sh", product, "config", ...args, "--config", config];
      const env = { PATH: process.env["PATH"] ?? "", HOME: folder, APPLIED: token };
      return Bun.spawn(command, { cwd: rig.gateway.directory, env, stdout: "ignore", stderr: "ignore" }).exited;
    };
    expect([await sluice("diff", file), await sluice("apply", file), await sluice("diff", file)]).toEqual([2, 0, 0]);
    await eventually("the key is known", async () => (await rig.chat({ model }, { key: token })).status === 200);
    const { json } = await ask("/audit?limit=2");
    expect((json["entries"] as readonly Json[]).map(({ action, subject }) => [action, subject])).toEqual([
      ["config.apply", file],
      ["key.create", expect.any(String)],
    ]);
    const headers = { authorization: `Bearer ${adminToken}` };
    const exported = await fetch(`${admin}/audit/export?format=csv&action=config.apply`, { headers });
    expect([exported.headers.get("content-type"), exported.headers.get("x-sluice-next")]).toEqual(["text/csv; charset=utf-8", null]);
    expect((await exported.text()).split("\r\n")[1]).toContain(",cli,");
  });

  test("sums up what was used, by key", async () => {
    const rows = await ask("/usage?by=key");
    expect(JSON.stringify(rows.json)).toContain("file:tester");
  });
});

test("S51: a channel that is added with a header sends it, and it is not on the disk in plain text", async () => {
  const secret = "header-canary-0123456789";
  await using upstream = await startChaos({ name: "added" });
  await using open = await setUp(
    { first: { models: ["other"] } },
    { admin: "127.0.0.1:0", allow_private: true },
    { env: { ADMIN_TOKEN_FILE: join(folder, "token") } },
  );
  const channelsUrl = `${open.gateway.adminUrl}/admin/api/channels`;
  const entry = { base_url: upstream.url, models: ["sealed"], headers: { "x-tenant-key": secret } };
  const headers = { authorization: `Bearer ${adminToken}`, "content-type": "application/json" };
  const added = await fetch(channelsUrl, {
    method: "POST",
    headers,
    body: JSON.stringify({ name: "added", entry, secrets: ["sk-added-0123456789abcdef"] }),
  });
  expect([added.status, (await added.text()).includes(secret)]).toEqual([201, false]);
  await eventually("the channel serves", async () => (await open.chat({ model: "sealed" }, { key: clientKey })).status === 200);
  const sent = upstream.ledger.chats.at(-1)?.headers.find(([name]) => name.toLowerCase() === "x-tenant-key");
  expect(sent?.[1]).toBe(secret);
  const data = open.gateway.directory;
  const files = await Array.fromAsync(new Bun.Glob("**/*").scan({ cwd: data, dot: true }));
  expect(files.some((file) => file.endsWith("sluice.db-wal"))).toBe(true);
  for (const file of files) expect([file, (await readFile(join(data, file))).includes(secret)]).toEqual([file, false]);
});
