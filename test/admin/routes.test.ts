// Needs: servers. It uses a real PostgreSQL or Redis.
import { beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { AdminRoute } from "../../src/admin/route.ts";
import type { AuditEntry } from "../../src/gateway/storage.ts";
import { createLoginLink } from "../../src/manage/login-link.ts";
import { unlimited, unlimitedRates } from "../../src/limits/limits.ts";
import {
  codeOf,
  goodPassword,
  startAdmin,
  tester,
  type AdminWorld,
  type Called,
  type CallOptions,
  type ErrorBody,
} from "../support/admin.ts";
import { sampleReceipt } from "../support/journal-receipts.ts";
import { newGroup } from "../support/groups.ts";
import { newKey } from "../support/new-key.ts";

/**
 * One real request for every route there is, by what the document calls it. A route without an example fails the suite. Each one runs
 * in a world of its own in which `admin` is logged in with these headers.
 */
const examples: Readonly<Record<string, Example>> = {
  "POST /admin/api/login": ({ call }) => call("/admin/api/login", { body: { name: "admin", password: goodPassword } }),
  "POST /admin/api/logout": ({ call }) => call("/admin/api/logout", { body: {} }),
  "POST /admin/api/password": ({ call }) =>
    call("/admin/api/password", { body: { current: goodPassword, password: "four other quiet words" } }),
  "POST /admin/api/bootstrap": async ({ world, call }) => {
    const { services, storage } = world;
    await storage.accounts.setBootstrap(services.adminDigest("the first token"), services.wallMs() + 60_000);
    return call("/admin/api/bootstrap", { body: { token: "the first token", name: "first", password: goodPassword } });
  },
  "POST /admin/api/login/link": async ({ world, call }) => {
    const [account] = await world.storage.accounts.list();
    return call("/admin/api/login/link", { body: { secret: await createLoginLink(world.services, account!, tester) } });
  },
  "GET /admin/api/start": ({ call }) => call("/admin/api/start"),
  "GET /admin/api/sign-in/methods": ({ call }) => call("/admin/api/sign-in/methods"),
  "GET /admin/api/sign-in": ({ call }) => call("/admin/api/sign-in?return_to=/console"),
  "GET /admin/api/sign-in/callback": async ({ call }) => {
    const begun = await call("/admin/api/sign-in");
    const cookie = (begun.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
    return call("/admin/api/sign-in/callback?code=a-code&state=a-state&session_state=x", { headers: { cookie } });
  },
  "GET /admin/api/me": ({ call }) => call("/admin/api/me"),
  "GET /admin/api/openapi.json": ({ call }) => call("/admin/api/openapi.json"),
  "GET /healthz": ({ call }) => call("/healthz"),
  "GET /metrics": ({ call }) => call("/metrics"),
  "GET /admin/api/health": ({ call }) => call("/admin/api/health"),
  "GET /admin/api/accounts": ({ call }) => call("/admin/api/accounts"),
  "POST /admin/api/accounts": ({ call }) => call("/admin/api/accounts", { body: { name: "Ben", role: "viewer", password: goodPassword } }),
  "PATCH /admin/api/accounts/{name}": async ({ world, call }) => {
    await world.account("ben", "viewer");
    return call("/admin/api/accounts/ben", { body: { role: "admin" } });
  },
  "DELETE /admin/api/accounts/{name}": async ({ world, call }) => {
    await world.account("ben", "viewer");
    return call("/admin/api/accounts/ben");
  },
  "GET /admin/api/tokens": async ({ world, call }) => {
    await world.token("viewer");
    return call("/admin/api/tokens");
  },
  "POST /admin/api/tokens": ({ call }) => call("/admin/api/tokens", { body: { name: "ci", role: "viewer" } }),
  "DELETE /admin/api/tokens/{name}": async ({ world, call }) => {
    await world.token("viewer");
    return call("/admin/api/tokens/machine-1");
  },
  "GET /admin/api/groups": async ({ world, call }) => {
    await storedGroup(world);
    return call("/admin/api/groups");
  },
  "GET /admin/api/groups/{id}": async ({ world, call }) => call(`/admin/api/groups/${await storedGroup(world)}`),
  "GET /admin/api/groups/{id}/standing": async ({ world, call }) => call(`/admin/api/groups/${await storedGroup(world)}/standing`),
  "POST /admin/api/groups": ({ call }) =>
    call("/admin/api/groups", { body: { name: "web", kind: "team", limits: { budget_usd: 5 }, default_key_limits: { rpm: 60 } } }),
  "PATCH /admin/api/groups/{id}": async ({ world, call }) =>
    call(`/admin/api/groups/${await storedGroup(world)}`, { body: { note: "x", frozen: true } }),
  "DELETE /admin/api/groups/{id}": async ({ world, call }) => call(`/admin/api/groups/${await storedGroup(world)}`),
  "GET /admin/api/keys": async ({ world, call }) => {
    await storedKey(world);
    return call("/admin/api/keys?search=app&revoked=true&limit=200");
  },
  "GET /admin/api/keys/{id}": async ({ world, call }) => call(`/admin/api/keys/${await storedKey(world)}`),
  "GET /admin/api/keys/{id}/standing": async ({ world, call }) => {
    const id = await storedKey(world);
    await world.receipts(sampleReceipt({ keyId: id, startedMs: Date.now() }));
    return call(`/admin/api/keys/${id}/standing`);
  },
  "POST /admin/api/keys": ({ call }) =>
    call("/admin/api/keys", { body: { name: "app", owner: "ada", limits: { rpm: 60, budget_usd: "0.1", budget_period: "day" } } }),
  "PATCH /admin/api/keys/{id}": async ({ world, call }) =>
    call(`/admin/api/keys/${await storedKey(world)}`, { body: { models: ["small*"], expires_at: "2100-01-01", long_audio: "split" } }),
  "POST /admin/api/keys/{id}/rotate": async ({ world, call }) => call(`/admin/api/keys/${await storedKey(world)}/rotate`, { body: {} }),
  "POST /admin/api/keys/{id}/revoke": async ({ world, call }) => call(`/admin/api/keys/${await storedKey(world)}/revoke`, { body: {} }),
  "POST /admin/api/sessions/end": async ({ world, call }) => {
    await world.account("ben", "viewer");
    await world.session("ben");
    return call("/admin/api/sessions/end", { body: { name: "ben" } });
  },
  "GET /admin/api/issuers/blocked": async ({ world, call }) => {
    await world.storage.blockedSubjects.block("jobs", "job-1", tester);
    return call("/admin/api/issuers/blocked");
  },
  "POST /admin/api/issuers/{name}/block": ({ call }) => call("/admin/api/issuers/jobs/block", { body: { subject: "job-1" } }),
  "POST /admin/api/issuers/{name}/unblock": async ({ world, call }) => {
    await world.storage.blockedSubjects.block("jobs", null, tester);
    return call("/admin/api/issuers/jobs/unblock", { body: {} });
  },
  "GET /admin/api/channels": async ({ world, call }) => {
    await storedChannel(world);
    return call("/admin/api/channels");
  },
  "GET /admin/api/channels/{name}": async ({ world, call }) => call(`/admin/api/channels/${await storedChannel(world)}`),
  "POST /admin/api/channels": ({ call }) =>
    call("/admin/api/channels", {
      body: { name: "main", entry: { base_url: "https://api.example.com/v1" }, secrets: ["a-key-of-the-upstream"] },
    }),
  "PATCH /admin/api/channels/{name}": async ({ world, call }) =>
    call(`/admin/api/channels/${await storedChannel(world)}`, { body: { entry: { weight: 3 } } }),
  "DELETE /admin/api/channels/{name}": async ({ world, call }) => call(`/admin/api/channels/${await storedChannel(world)}`),
  "DELETE /admin/api/channels/{name}/learned": async ({ world, call }) => call(`/admin/api/channels/${await storedChannel(world)}/learned`),
  "DELETE /admin/api/channels/{name}/cool-downs": async ({ world, call }) =>
    call(`/admin/api/channels/${await storedChannel(world)}/cool-downs`),
  "GET /admin/api/live": async ({ world }) => {
    const leaves = new AbortController();
    const response = await fetch(`${world.url}/admin/api/live`, { headers: await world.session("admin"), signal: leaves.signal });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("data: ")) text += (await reader.read()).value ?? "";
    leaves.abort();
    return { status: response.status, headers: response.headers, text, json: null };
  },
  "GET /admin/api/overview": async ({ world, call }) => {
    await world.receipts(sampleReceipt({ startedMs: Date.now() - 7_200_000 }));
    return call("/admin/api/overview?span=90d");
  },
  "GET /admin/api/problems": ({ call }) => call("/admin/api/problems"),
  "GET /admin/api/configuration": ({ call }) => call("/admin/api/configuration"),
  "GET /admin/api/configuration/store": async ({ world, call }) => {
    await storedKey(world);
    await storedChannel(world);
    return call("/admin/api/configuration/store?path=keys.app");
  },
  "GET /admin/api/resources": async ({ world, call }) => {
    await storedChannel(world);
    return call("/admin/api/resources?only=channels,groups&key_variables=true");
  },
  "POST /admin/api/resources/diff": async ({ world, call }) => {
    await storedGroup(world);
    return call("/admin/api/resources/diff", {
      body: { text: 'groups:\n  - {name: "${NAME}", kind: team}\n', variables: { NAME: "b" }, prune: true },
    });
  },
  "POST /admin/api/resources/apply": ({ call }) =>
    call("/admin/api/resources/apply", { body: { file: "r.yaml", text: "prices: [{model: m, input: 1}]" } }),
  "POST /admin/api/playground/chat": ({ call }) =>
    call("/admin/api/playground/chat", { body: { key: "sk-client", request: { model: "m", messages: [] } } }),
  "POST /admin/api/playground/speech": ({ call }) =>
    call("/admin/api/playground/speech", { body: { key: "sk-client", request: { model: "m", input: "Hello" } } }),
  "POST /admin/api/playground/transcription": ({ call }) =>
    call("/admin/api/playground/transcription", {
      body: { key: "sk-client", file: btoa("RIFF"), file_name: "a.wav", fields: { model: "m" } },
    }),
  "GET /admin/api/lab/scenarios": ({ call }) => call("/admin/api/lab/scenarios"),
  "GET /admin/api/lab/runs": ({ call }) => call("/admin/api/lab/runs"),
  "POST /admin/api/lab/runs": ({ call }) =>
    call("/admin/api/lab/runs", { body: { scenario: "reset", mode: "streamed", calls: 3, rate: 5 } }),
  "GET /admin/api/lab/runs/{id}": ({ call }) => call("/admin/api/lab/runs/lab-1"),
  "DELETE /admin/api/lab/runs/{id}": ({ call }) => call("/admin/api/lab/runs/lab-1"),
  "GET /admin/api/providers": ({ call }) => call("/admin/api/providers"),
  "POST /admin/api/channels/{name}/test": ({ call }) => call("/admin/api/channels/tested/test", { body: {} }),
  "POST /admin/api/channels/{name}/calls": ({ call }) => call("/admin/api/channels/tested/calls", { body: { operations: ["speech"] } }),
  "GET /admin/api/prices": async ({ world, call }) => {
    await storedPrice(world);
    return call("/admin/api/prices?search=large");
  },
  "PUT /admin/api/prices": ({ call }) =>
    call("/admin/api/prices", {
      body: { model: "large*", from: "2026-01-01", rates: { input: 0.15, output: "0.6", long_above_tokens: 1000 } },
    }),
  "DELETE /admin/api/prices/{id}": async ({ world, call }) => call(`/admin/api/prices/${await storedPrice(world)}`),
  "GET /admin/api/usage": async ({ world, call }) => {
    await world.receipts(sampleReceipt());
    return call("/admin/api/usage?by=key,model,channel,operation,day,hour&since=2026-01-01&until=2027-01-01T00:00:00Z&key=key-1");
  },
  "GET /admin/api/outcomes": async ({ world, call }) => {
    await world.receipts(sampleReceipt({ finish: "length" }));
    return call("/admin/api/outcomes?by=key,model,channel,operation,day,hour&since=2026-01-01&until=2027-01-01T00:00:00Z&key=key-1");
  },
  "GET /admin/api/comparison": async ({ world, call }) => {
    await world.receipts(sampleReceipt());
    return call("/admin/api/comparison?model=model-1&other=model-2&since=2026-01-01");
  },
  "GET /admin/api/invoice": async ({ world, call }) => {
    await world.receipts(sampleReceipt());
    return call("/admin/api/invoice?month=2026-01");
  },
  "GET /admin/api/receipts": async ({ world, call }) => {
    await world.receipts(sampleReceipt(), sampleReceipt({ channel: null, billedNanos: null, state: "failed" }));
    return call("/admin/api/receipts?since=2026-01-01&limit=2");
  },
  "GET /admin/api/requests/{id}": async ({ world, call }) => {
    const step = { channel: "channel-1", model: "upstream-model-1", tier: 0, verdict: "taken", cause: null, forMs: null };
    await world.receipts(sampleReceipt({ requestId: "req-1", plan: [step] }));
    return call("/admin/api/requests/req-1");
  },
  "POST /admin/api/explain": ({ call }) => call("/admin/api/explain", { body: { model: "large", operation: "chat" } }),
  "POST /admin/api/explain/request": ({ call }) => call("/admin/api/explain/request", { body: { api: "chat", request: { model: "m" } } }),
  "GET /admin/api/audit": async ({ world, call }) => {
    await storedKey(world);
    return call("/admin/api/audit?action=key.create&since=1h");
  },
  "GET /admin/api/history": async ({ world, call }) => {
    await storedKey(world);
    return call("/admin/api/history?since=1h&limit=5");
  },
  "GET /admin/api/history/{id}": async ({ world, call }) => {
    await storedKey(world);
    const query = { action: "key.create", subject: null, actor: null, sinceMs: null, before: null, limit: 1 };
    const [entry] = await world.storage.audit.list(query);
    return call(`/admin/api/history/${entry?.id}`);
  },
  "POST /admin/api/audit/{id}/undo": async ({ world, call }) => {
    await storedKey(world);
    const [entry] = await world.storage.audit.list({
      action: "key.create",
      subject: null,
      actor: null,
      sinceMs: null,
      before: null,
      limit: 1,
    });
    return call(`/admin/api/audit/${entry?.id ?? ""}/undo`, { body: {} });
  },
  "GET /admin/api/webhooks": ({ call }) => call("/admin/api/webhooks"),
  "POST /admin/api/webhooks/{number}/test": ({ call }) => call("/admin/api/webhooks/1/test", { body: {} }),
  "GET /admin/api/backups": ({ call }) => call("/admin/api/backups"),
  "POST /admin/api/backups": ({ call }) => call("/admin/api/backups", { body: {} }),
  "GET /admin/api/backups/{name}": ({ call }) => call("/admin/api/backups/sluice-2026-01-31-12-00-00.backup"),
  "DELETE /admin/api/backups/{name}": ({ call }) => call("/admin/api/backups/sluice-2026-01-31-12-00-00.backup"),
  "GET /admin/api/audit/export": async ({ world, call }) => {
    await world.account("ben", "viewer");
    return call("/admin/api/audit/export?format=jsonl&since=1h");
  },
};

/** What may be sent without an entry in the audit log: it changes nothing, and what it asks as a client is on receipts. */
const unaudited: readonly string[] = [
  "POST /admin/api/channels/{name}/test",
  "POST /admin/api/explain",
  "POST /admin/api/explain/request",
  "POST /admin/api/playground/chat",
  "POST /admin/api/playground/speech",
  "POST /admin/api/playground/transcription",
  "POST /admin/api/resources/diff",
];
/** What is only asked for, and has an entry all the same. */
const auditedReads: readonly string[] = ["GET /admin/api/backups/{name}", "GET /admin/api/sign-in/callback"];

async function storedGroup({ storage }: AdminWorld): Promise<string> {
  const budget = { nanos: 2_000_000_000, period: "day" } as const;
  const { id } = await storage.groups.create("grp_web", newGroup("web", { limits: { requests: 60, budget } }), [], tester);
  return id;
}

async function storedKey({ storage, services }: AdminWorld): Promise<string> {
  const { token, publicId } = services.makeKeyToken();
  const budget = { nanos: 2_000_000_000, period: "day" } as const;
  const key = {
    ...newKey,
    name: "app",
    limits: { ...unlimited, requests: 60, budget, models: [{ ...unlimitedRates, pattern: "large*", budget }] },
  };
  await storage.keys.create(publicId, key, { digest: services.digest(token), last4: token.slice(-4) }, tester);
  return publicId;
}

async function storedChannel({ storage }: AdminWorld): Promise<string> {
  const entry = { base_url: "https://api.example.com/v1", weight: 2 };
  await storage.channels.create({ name: "main", entry, sealed: "sealed", last4: ["abcd"] }, tester);
  return "main";
}

async function storedPrice({ storage }: AdminWorld): Promise<string> {
  return (await storage.prices.set({ provider: null, model: "large", fromMs: 0, rates: { input: 150_000_000 }, note: null }, tester)).id;
}

type Example = (given: {
  readonly world: AdminWorld;
  readonly call: (path: string, options?: CallOptions) => Promise<Called>;
}) => Promise<Called>;

let world: AdminWorld;
let routes: readonly AdminRoute[];

beforeAll(async () => {
  world = await startAdmin();
  routes = world.listener.routes;
});

const titleOf = ({ method, path }: AdminRoute): string => `${method} ${path}`;
/** With something in the place of each name. */
const filled = (path: string): string => path.replaceAll(/\{\w+\}/g, "something");
const mutating = (): readonly AdminRoute[] => routes.filter(({ method }) => method !== "GET");

describe("every route", () => {
  test("S72: declares its access, and only an admin may change what is not the caller's own", () => {
    for (const route of routes) expect(["public", "viewer", "admin"]).toContain(route.access);
    const open = routes.filter(({ access }) => access === "public").map(titleOf);
    expect(open.toSorted()).toEqual([
      "GET /admin/api/sign-in",
      "GET /admin/api/sign-in/callback",
      "GET /admin/api/sign-in/methods",
      "GET /admin/api/start",
      "GET /healthz",
      "POST /admin/api/bootstrap",
      "POST /admin/api/login",
      "POST /admin/api/login/link",
    ]);
    const own = mutating().filter(({ access, own }) => access !== "admin" && own);
    expect(own.map(titleOf).toSorted()).toEqual(["POST /admin/api/logout", "POST /admin/api/password"]);
    expect(
      mutating()
        .filter(({ access, own }) => access === "viewer" && !own)
        .map(titleOf),
    ).toEqual([]);
  });

  test("S48, S72: that is not public is closed to strangers, to clients' keys and to forged sessions", async () => {
    const { token } = world.services.makeKeyToken();
    const strangers = [{}, { authorization: `Bearer ${token}` }, { cookie: `sluice_session=${"A".repeat(43)}` }];
    for (const route of routes.filter(({ access }) => access !== "public")) {
      for (const headers of strangers) {
        const { status } = await world.call(route.method, filled(route.path), { headers, ...(route.method === "GET" ? {} : { body: {} }) });
        expect([titleOf(route), status]).toEqual([titleOf(route), 401]);
      }
    }
  });

  test("S50: that changes something is closed to viewers, by token and by session", async () => {
    await world.account("viewer", "viewer");
    const callers = [await world.token("viewer"), await world.session("viewer")];
    const before = await trailOf(world);
    for (const headers of callers) {
      for (const route of mutating().filter(({ access, own }) => access !== "public" && !own)) {
        const called = await world.call(route.method, filled(route.path), { headers, body: {} });
        expect([titleOf(route), called.status, codeOf(called)]).toEqual([titleOf(route), 403, "forbidden"]);
      }
    }
    expect(await trailOf(world)).toEqual(before);
  });

  test("S50: that is not about one group is closed to its administrators, and only that", async () => {
    const group = await storedGroup(world);
    const headers = await world.token("group_admin", group);
    const before = await trailOf(world);
    for (const route of routes.filter(({ access, own, scoped }) => access !== "public" && !own && !scoped)) {
      const called = await world.call(route.method, filled(route.path), { headers, ...(route.method === "GET" ? {} : { body: {} }) });
      expect([titleOf(route), called.status, codeOf(called)]).toEqual([titleOf(route), 403, "forbidden"]);
    }
    expect(await trailOf(world)).toEqual(before);
    // What sees the storage of a group alone. Whoever adds a route here makes sure that nothing else of its services tells more.
    const open = routes.filter(({ scoped }) => scoped).map(({ method, path }) => `${method} ${path.replace("/admin/api", "")}`);
    expect(open.toSorted()).toEqual([
      "DELETE /groups/{id}",
      "GET /audit",
      "GET /audit/export",
      "GET /comparison",
      "GET /groups",
      "GET /groups/{id}",
      "GET /groups/{id}/standing",
      "GET /history",
      "GET /history/{id}",
      "GET /keys",
      "GET /keys/{id}",
      "GET /keys/{id}/standing",
      "GET /me",
      "GET /outcomes",
      "GET /problems",
      "GET /receipts",
      "GET /requests/{id}",
      "GET /usage",
      "PATCH /groups/{id}",
      "PATCH /keys/{id}",
      "POST /audit/{id}/undo",
      "POST /explain",
      "POST /groups",
      "POST /keys",
      "POST /keys/{id}/revoke",
      "POST /keys/{id}/rotate",
    ]);
  });

  test("S31: that names something tells a client's key nothing of it, whether it is there or not", async () => {
    const own = await startAdmin();
    const client = own.services.makeKeyToken();
    const mark = { digest: own.services.digest(client.token), last4: "0000" };
    await own.storage.keys.create(client.publicId, { ...newKey, name: "client" }, mark, tester);
    const there = [await storedKey(own), await storedChannel(own), await storedPrice(own), client.publicId];
    await own.receipts(sampleReceipt({ requestId: "req-1" }));
    const named = own.listener.routes.filter(({ path }) => path.includes("{"));
    for (const route of named) {
      const bodies = new Set<string>();
      for (const id of [...there, "req-1", "nobody"]) {
        const path = route.path.replaceAll(/\{\w+\}/g, id);
        for (const headers of [{ authorization: `Bearer ${client.token}` }, { "x-api-key": client.token }]) {
          const called = await own.call(route.method, path, { headers, ...(route.method === "GET" ? {} : { body: {} }) });
          expect([titleOf(route), called.status]).toEqual([titleOf(route), 401]);
          bodies.add(called.text.replace(/"request_id":"[^"]*"/, ""));
        }
      }
      expect([titleOf(route), bodies.size]).toEqual([titleOf(route), 1]);
    }
  });

  test("S32: refuses what it does not know, by name", async () => {
    const headers = await world.token("admin");
    for (const route of routes.filter(({ access }) => access !== "public")) {
      const sent = route.method === "GET" ? {} : { body: {} };
      const called = await world.call(route.method, `${filled(route.path)}?surprise=1`, { headers, ...sent });
      expect([titleOf(route), (called.json as ErrorBody).error]).toEqual([
        titleOf(route),
        expect.objectContaining({ code: "unknown_parameter", param: "surprise" }),
      ]);
    }
    for (const { body, ...route } of routes) {
      if (body === null) continue;
      const parsed = body.safeParse({ surprise: 1 });
      const unknown = parsed.error?.issues.find(({ code }) => code === "unrecognized_keys");
      expect([route.path, unknown?.code]).toEqual([route.path, "unrecognized_keys"]);
      expect([route.path, loose(z.toJSONSchema(body, { io: "input", unrepresentable: "any" }))]).toEqual([route.path, []]);
    }
  });

  test("S31: for something that does not exist says so, in the same words for all of its kind", async () => {
    const headers = await world.token("admin");
    const changes: Readonly<Record<string, unknown>> = {
      "PATCH /admin/api/accounts/{name}": { role: "viewer" },
      "PATCH /admin/api/groups/{id}": { note: "x" },
      "PATCH /admin/api/keys/{id}": { note: "x", long_audio: "split" },
      "PATCH /admin/api/channels/{name}": { entry: { weight: 2 } },
    };
    const named = routes.filter(({ path }) => path.includes("{"));
    expect(named.length).toBeGreaterThan(10);
    for (const route of named) {
      for (const id of ["nobody", Bun.randomUUIDv7(), "x".repeat(300)]) {
        const path = route.path.replaceAll(/\{\w+\}/g, id);
        const sent = route.method === "GET" ? {} : { body: changes[titleOf(route)] ?? {} };
        const called = await world.call(route.method, path, { headers, ...sent });
        expect([titleOf(route), called.status, codeOf(called)]).toEqual([titleOf(route), 404, "not_found"]);
        expect((called.json as ErrorBody).error.message).not.toContain(id);
      }
    }
  });

  test("S02: answers hostile input without an error of its own", async () => {
    const headers = await world.token("admin");
    world.bugs.length = 0;
    const hostile = ["'", '"; drop table accounts; --', "%", "../../x", "\u0000", "\ud800", "𝒳".repeat(100), "{}", "-1"];
    for (const route of routes.filter(({ path }) => path.includes("{") && !path.includes("login"))) {
      for (const value of hostile) {
        const path = route.path.replaceAll(/\{\w+\}/g, encodeURIComponent(value.toWellFormed()));
        const { status } = await world.call(route.method, path, { headers, ...(route.method === "GET" ? {} : { body: {} }) });
        expect([titleOf(route), value, status >= 500]).toEqual([titleOf(route), value, false]);
      }
    }
    expect(world.bugs).toEqual([]);
  });
});

/** What was done so far, and how often something changed. */
async function trailOf({ storage }: AdminWorld): Promise<readonly [number, number]> {
  const trail = await storage.audit.list({ action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 200 });
  return [await storage.revision(), trail.length];
}

/** Objects inside of a schema that would swallow a field they do not know. */
function loose(schema: unknown, at = "body"): readonly string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { type, additionalProperties } = schema as { readonly type?: unknown; readonly additionalProperties?: unknown };
  const here = type === "object" && additionalProperties === undefined ? [at] : [];
  return [...here, ...Object.entries(schema).flatMap(([name, part]) => loose(part, `${at}.${name}`))];
}

describe("the document", () => {
  const read = async (): Promise<Document> =>
    (await world.call("GET", "/admin/api/openapi.json", { headers: await world.token("viewer") })).json as Document;

  test("has every route, and nothing else", async () => {
    const { paths, openapi } = await read();
    expect(openapi).toBe("3.1.0");
    const documented = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(documented.toSorted()).toEqual(routes.map(titleOf).toSorted());
  });

  test("says of each who may use it, and calls no two the same", async () => {
    const { paths } = await read();
    const ids = routes.map(({ method, path, access }) => {
      const operation = paths[path]?.[method.toLowerCase()];
      expect(operation?.["x-sluice-access"]).toBe(access);
      expect(operation?.security.length).toBe(access === "public" ? 0 : 2);
      return operation?.operationId;
    });
    expect(new Set(ids).size).toBe(routes.length);
  });

  test("describes parameters and bodies, and refers to nothing that it does not hold", async () => {
    const document = await read();
    const patch = document.paths["/admin/api/accounts/{name}"]?.["patch"];
    expect(patch?.parameters).toEqual([{ name: "name", in: "path", required: true, schema: { type: "string" } }]);
    expect(patch?.requestBody?.content["application/json"]?.schema).toMatchObject({ type: "object", additionalProperties: false });
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, target]) => target);
    expect([...new Set(references)]).toEqual(["#/components/schemas/Error"]);
    expect(JSON.stringify(document)).not.toContain("$schema");
  });

  test("has an example in this file for every route, and no other", () => {
    expect(Object.keys(examples).toSorted()).toEqual(routes.map(titleOf).toSorted());
  });
});

describe("what the document promises is what comes, and a change is in the audit log with who made it and from where:", () => {
  test.each(Object.entries(examples))("%s", async (title, example) => {
    const world = await startAdmin();
    const first = title === "POST /admin/api/bootstrap";
    if (!first) await world.account("admin", "admin");
    const headers = first ? {} : await world.session("admin");
    const route = world.listener.routes.find((each) => titleOf(each) === title);
    if (route === undefined) throw new Error(`no route ${title}`);
    const before = new Set((await auditOf(world)).map(({ id }) => id));
    const called = await example({
      world,
      call: (path, options) => world.call(route.method, path, { ...options, headers: { ...headers, ...options?.headers } }),
    });
    expect([called.status, called.text]).toEqual([route.status, called.text]);
    const answer = called.headers.get("content-type") === "application/json" ? called.json : called.text;
    expect(route.answer.safeParse(answer).error?.issues ?? []).toEqual([]);
    expect(world.bugs).toEqual([]);
    if (route.method === "GET" && !auditedReads.includes(title)) return;
    const name = first ? "first" : title === "GET /admin/api/sign-in/callback" ? "oidc:ada" : "admin";
    // What the example itself prepares is done by others.
    const entries = (await auditOf(world)).filter(({ id, actor }) => !before.has(id) && actor.name === name);
    expect([title, entries.length > 0]).toEqual([title, !unaudited.includes(title)]);
    for (const { actor } of entries) expect(actor).toMatchObject({ kind: "admin", address: "127.0.0.1" });
  });

  test("what needs no entry, or has one although nothing is changed, is a route that there is", () => {
    expect([...unaudited, ...auditedReads].filter((title) => !(title in examples))).toEqual([]);
  });

  test("a dry run of a resource file says what would change, changes nothing, and is not in the audit log", async () => {
    const world = await startAdmin();
    const headers = await world.token("admin");
    const before = await trailOf(world);
    const body = { file: "r.yaml", text: "prices: [{model: m, input: 1}]", dry_run: true };
    const called = await world.call("POST", "/admin/api/resources/apply", { headers, body });
    expect([called.status, called.text]).toEqual([200, expect.stringContaining('"m"') as string]);
    expect(await trailOf(world)).toEqual(before);
  });
});

function auditOf({ storage }: AdminWorld): Promise<readonly AuditEntry[]> {
  return storage.audit.list({ action: null, subject: null, actor: null, sinceMs: null, before: null, limit: 50 });
}

describe("accounts and tokens", () => {
  test("the last admin stays", async () => {
    const world = await startAdmin();
    await world.account("anna", "admin");
    await world.account("ben", "viewer");
    const headers = await world.token("admin");
    for (const [method, body] of [
      ["DELETE", undefined],
      ["PATCH", { role: "viewer" }],
      ["PATCH", { disabled: true }],
    ] as const) {
      const called = await world.call(method, "/admin/api/accounts/anna", { headers, body });
      expect([called.status, codeOf(called)]).toEqual([409, "conflict"]);
    }
    await world.call("PATCH", "/admin/api/accounts/ben", { headers, body: { role: "admin" } });
    expect((await world.call("DELETE", "/admin/api/accounts/anna", { headers })).json).toEqual({ removed: "anna" });
  });

  test("a name is one account in any case, and a second one is refused", async () => {
    const world = await startAdmin();
    const headers = await world.token("admin");
    const create = (name: string): Promise<Called> =>
      world.call("POST", "/admin/api/accounts", { headers, body: { name, role: "viewer", password: goodPassword } });
    expect((await create("Anna")).json).toMatchObject({ name: "anna" });
    expect((await create("ANNA")).status).toBe(409);
    for (const name of ["", " ", "a b", "<b>", "token:x", "x".repeat(65), "ä", "-x", "=1+1"]) expect((await create(name)).status).toBe(400);
    const extra = await world.call("POST", "/admin/api/accounts", {
      headers,
      body: { name: "eve", role: "viewer", password: goodPassword, is_admin: true },
    });
    expect((extra.json as ErrorBody).error).toMatchObject({ code: "unknown_field", param: "is_admin" });
    expect(
      (await world.call("POST", "/admin/api/accounts", { headers, body: { name: "eve", role: "root", password: goodPassword } })).status,
    ).toBe(400);
    expect(
      (await world.call("POST", "/admin/api/accounts", { headers, body: { name: "eve", role: "viewer", password: "short" } })).status,
    ).toBe(400);
    expect(await world.storage.accounts.count()).toBe(1);
  });

  test("a token is shown once, works, and is revoked at once", async () => {
    const world = await startAdmin();
    const headers = await world.token("admin");
    const made = (await world.call("POST", "/admin/api/tokens", { headers, body: { name: "ci", role: "viewer" } })).json as {
      token: string;
      last4: string;
    };
    expect(made.token).toMatch(/^sk-gwa_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/);
    expect(made.last4).toBe(made.token.slice(-4));
    const list = await world.call("GET", "/admin/api/tokens", { headers });
    expect(list.text).not.toContain(made.token);
    const by = { authorization: `Bearer ${made.token}` };
    expect((await world.call("GET", "/admin/api/me", { headers: by })).json).toMatchObject({ kind: "token", name: "ci", role: "viewer" });
    await world.call("DELETE", "/admin/api/tokens/ci", { headers });
    expect((await world.call("GET", "/admin/api/me", { headers: by })).status).toBe(401);
    expect((await world.call("DELETE", "/admin/api/tokens/nobody", { headers })).status).toBe(404);
  });

  test("what was done is in the audit trail with who did it, and a token is told from an account", async () => {
    const world = await startAdmin();
    const headers = await world.token("admin");
    await world.call("POST", "/admin/api/accounts", { headers, body: { name: "anna", role: "viewer", password: goodPassword } });
    const [entry] = await world.storage.audit.list({
      action: "account.create",
      subject: "anna",
      actor: null,
      sinceMs: null,
      before: null,
      limit: 1,
    });
    expect(entry?.actor).toEqual({ kind: "admin", name: "token:machine-1", address: "127.0.0.1" });
  });
});

interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

interface Operation {
  readonly operationId: string;
  readonly "x-sluice-access": string;
  readonly security: readonly object[];
  readonly parameters?: readonly object[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
}
