// Needs: quiet. It mostly waits for workers to start, and for what they export.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../../scripts/source-tree.ts";
import { chat, openChat } from "../support/chat.ts";
import { checked } from "../support/deploy-tools.ts";
import { eventually } from "../support/eventually.ts";
import { parseExposition, valueOf, type ExposedFamily } from "../support/exposition.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { readMetrics, readTraces, type ReadSpan } from "../support/otlp.ts";
import { rawRequest } from "../support/raw-request.ts";
import { HeldStream, startScripted, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-canary-0123456789abcdef";
const token = "metrics-canary-0123456789abcdef";
const adminToken = "5f1c07d2a94be863c1d7f02b9a6e4835d0c2";
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const parentId = "00f067aa0ba902b7";
const webhookSecret = `whsec_${Buffer.from("webhook-canary-0123456789").toString("base64")}`;
const calls = 24;

let sound: Scripted;
let broken: Scripted;
let collector: Scripted;
let receiver: Scripted;
let folder: string;
let gateway: Gateway;
let config: Readonly<Record<string, unknown>>;

const answer = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "large",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 },
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const adminTokenFile = join(folder, "admin-token");
  await writeFile(adminTokenFile, adminToken, { mode: 0o600 });
  sound = await startScripted(() => Response.json(answer));
  broken = await startScripted(() => Response.json({ error: { message: "busy", type: "server_error" } }, { status: 500 }));
  collector = await startScripted(() => Response.json({}));
  receiver = await startScripted(() => new Response("busy", { status: 503 }));
  config = {
    admin: "127.0.0.1:0",
    keys: [
      { name: "tester", key },
      { name: "narrow", key: "sk-narrow-canary-0123456789abcdef", limits: { rpm: 1, budget_usd: 10 } },
      { name: "short", key: "sk-short-canary-0123456789abcdef", expires: new Date(Date.now() + 3 * 86_400_000).toISOString() },
    ],
    channels: [
      { name: "sound", base_url: sound.url, models: ["large"] },
      { name: "broken", base_url: broken.url, models: ["failing"], tier: 1 },
      { name: "spare", base_url: sound.url, models: ["failing"], tier: 2 },
    ],
    prices: [{ model: "*", input: 1, output: 2 }],
    metrics: { token, data_port: true, budgets: true, key_labels: true },
    otel: { endpoint: collector.url.replace(/\/v1$/, ""), sample: "off", interval: "1s", headers: { "x-token": "collector-canary" } },
    webhooks: [{ url: `${receiver.url}/hook`, secret: webhookSecret }],
    server: { linger: "0ms" },
  };
  gateway = await startGateway({ args: ["--workers", "2"], config, env: { ADMIN_TOKEN_FILE: adminTokenFile } });
  await eventually("both workers", () => gateway.logs.filter(({ event }) => event === "worker_ready").length === 2, 30_000);
});

afterAll(async () => {
  await gateway.kill();
  for (const one of [sound, broken, collector, receiver]) await one.close();
  await rm(folder, { recursive: true, force: true });
});

async function scrape(url: string, bearer: string | null = token): Promise<Response> {
  return fetch(`${url}/metrics`, bearer === null ? {} : { headers: { authorization: `Bearer ${bearer}` } });
}

async function scraped(url: string): Promise<readonly ExposedFamily[]> {
  const response = await scrape(url);
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8"]);
  return parseExposition(await response.text());
}

function spans(): readonly ReadSpan[] {
  return collector.requests.filter(({ path }) => path === "/v1/traces").flatMap(({ text }) => readTraces(text));
}

async function spansOf(receiptTrace: string): Promise<readonly ReadSpan[]> {
  const found = (): readonly ReadSpan[] => spans().filter((span) => span.traceId === receiptTrace);
  await eventually("the trace", () => found().length > 0, 15_000);
  return found();
}

/** What the admin API has under the id that the client was told. */
async function receiptOf(requestId: string): Promise<Readonly<Record<string, unknown>>> {
  const ask = async (): Promise<Response> =>
    fetch(`${gateway.adminUrl}/admin/api/requests/${requestId}`, { headers: { authorization: `Bearer ${adminToken}` } });
  await eventually("the receipt is stored", async () => (await ask()).status === 200);
  return (await ask()).json() as Promise<Readonly<Record<string, unknown>>>;
}

describe("metrics", () => {
  test("of all workers are in every scrape, on both listeners", async () => {
    for (let at = 0; at < calls; at += 1) expect((await chat(gateway, { model: "large" }, { key })).status).toBe(200);
    // Each call has a connection of its own, so that both workers get some.
    for (const url of [gateway.adminUrl, gateway.url]) {
      const families = await scraped(url);
      expect(valueOf(families, "sluice_requests_total", { model: "large", status: "200", outcome: "complete" })).toBe(calls);
      expect(valueOf(families, "sluice_tokens_total", { model: "large", channel: "sound", kind: "output" })).toBe(50 * calls);
      expect(valueOf(families, "sluice_cost_usd_total", { channel: "sound" })).toBeCloseTo(0.0002 * calls, 9);
      expect(valueOf(families, "sluice_workers_reporting")).toBe(2);
      const workers = families.find(({ name }) => name === "sluice_build_info")?.samples.map(({ labels }) => labels["worker"]);
      expect(workers?.toSorted()).toEqual(["1", "2"]);
    }
  });

  test("need their token, which opens nothing else", async () => {
    for (const url of [gateway.adminUrl, gateway.url]) {
      expect((await scrape(url, null)).status).toBe(401);
      expect((await scrape(url, key)).status).toBe(401);
      const refused = await scrape(url, `${token}x`);
      const { error } = (await refused.json()) as { readonly error: { readonly message: string } };
      expect([refused.status, error.message]).toEqual([401, expect.stringContaining("`metrics.token`")]);
    }
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${gateway.adminUrl}/admin/api/keys`, { headers })).status).toBe(401);
    expect((await fetch(`${gateway.url}/v1/models`, { headers })).status).toBe(401);
    expect((await fetch(`${gateway.url}/metrics`, { method: "POST", headers })).status).toBe(405);
  });

  test("count failovers, refusals, breakers and what is left of budgets", async () => {
    expect((await chat(gateway, { model: "failing" }, { key })).channel).toBe("spare");
    const narrow = { key: "sk-narrow-canary-0123456789abcdef" };
    await chat(gateway, { model: "large" }, narrow);
    await eventually(
      "the limit of the key is shared",
      async () => (await chat(gateway, { model: "large" }, narrow)).status === 429,
      10_000,
    );
    const families = await scraped(gateway.adminUrl);
    expect(valueOf(families, "sluice_failovers_total", { from: "broken", to: "spare" })).toBeGreaterThan(0);
    expect(valueOf(families, "sluice_attempts_total", { channel: "broken", outcome: "failed", error: "overloaded" })).toBeGreaterThan(0);
    expect(valueOf(families, "sluice_refusals_total", { reason: "rate_limit_exceeded" })).toBeGreaterThan(0);
    expect(valueOf(families, "sluice_key_requests_total", { key: "file:tester" })).toBe(calls + 1);
    expect(valueOf(families, "sluice_budget_limit_usd", { key: "file:narrow" })).toBe(10);
    expect(valueOf(families, "sluice_channel_available", { channel: "sound" })).toBe(2);
    expect(valueOf(families, "sluice_store_up", { kind: "sqlite" })).toBe(2);
    expect(valueOf(families, "process_resident_memory_bytes")).toBeGreaterThan(1e6);
    expect(valueOf(families, "sluice_gateway_overhead_seconds_count", { operation: "chat" })).toBeGreaterThan(calls);
  });

  test("have a stream while it runs, and the longest gap of it after its end", async () => {
    const held = new HeldStream();
    sound.next(() => held.answer());
    const call = await openChat(gateway, { model: "large" }, { key, stream: true });
    await call.untilBody(1);
    // A worker that is late is not part of a scrape.
    const running = async (): Promise<readonly number[]> => {
      const families = await scraped(gateway.adminUrl);
      const names = ["sluice_workers_reporting", "sluice_in_flight_requests", "sluice_channel_in_flight"];
      return [...names.map((name) => valueOf(families, name)), valueOf(families, "sluice_channel_in_flight", { channel: "sound" })];
    };
    await eventually("it alone is running", async () => String(await running()) === "2,1,1,1");
    held.finish();
    expect((await call.reply).content).toBe("begun and ended");
    await eventually("nothing is running", async () => String(await running()) === "2,0,0,0");
    const families = await scraped(gateway.adminUrl);
    const labels = { operation: "chat", model: "large", channel: "sound" };
    expect(valueOf(families, "sluice_longest_gap_seconds_count", labels)).toBe(1);
    expect(valueOf(families, "sluice_longest_gap_seconds_sum", labels)).toBeGreaterThan(0);
  });
});

describe("what makes no call", () => {
  const reasons = async () => {
    const families = await scraped(gateway.adminUrl);
    return (reason: string) => valueOf(families, "sluice_refusals_total", { operation: "", reason });
  };

  test("is counted by the reason that its client is told", async () => {
    const before = await reasons();
    const ask = async (path: string, init: RequestInit = {}) => (await fetch(`${gateway.url}${path}`, init)).status;
    expect(await ask("/v1/nothing")).toBe(404);
    expect(await ask("/v1/chat/completions")).toBe(405);
    expect(await ask("/v1/models", { headers: { authorization: "Bearer sk-wrong" } })).toBe(401);
    expect(await ask("/v1/models?api_key=canary")).toBe(400);
    expect((await rawRequest(gateway.url, { bytes: "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n" })).status).toBe(400);
    const after = await reasons();
    const codes = ["unknown_route", "invalid_request", "invalid_api_key", "key_in_url", "ambiguous_host"];
    expect(codes.map((code) => [code, after(code) - before(code)])).toEqual(codes.map((code) => [code, 1]));
  });
});

describe("traces", () => {
  test("go from the client through the gateway to the upstream, and one id leads from there to the log and the receipt", async () => {
    const requestId = "checkout-7f3a";
    const headers = { "x-request-id": requestId, traceparent: `00-${traceId}-${parentId}-01`, tracestate: "vendor=1" };
    const reply = await chat(gateway, { model: "large" }, { key, headers });
    expect(reply.requestId).toBe(requestId);
    const line = await gateway.waitForLog((one) => one["event"] === "call" && one["id"] === requestId);
    expect(line["trace_id"]).toBe(traceId);
    const receipt = await receiptOf(requestId);
    expect(receipt).toMatchObject({ request_id: requestId, key: "file:tester", channel: "sound" });
    expect(receipt["id"]).not.toBe(requestId);
    const [server, client] = (await spansOf(traceId)).toSorted((one, other) => one.kind - other.kind);
    expect(server).toMatchObject({ kind: 2, parentSpanId: parentId, name: "chat large" });
    expect(server?.attributes).toMatchObject({
      "http.request.method": "POST",
      "url.scheme": "http",
      "url.path": "/v1/chat/completions",
      "sluice.request_id": requestId,
      "sluice.receipt_id": receipt["id"],
      "sluice.key_id": "file:tester",
      "http.response.status_code": 200,
    });
    expect(client).toMatchObject({ kind: 3, parentSpanId: server?.spanId, name: "chat large" });
    expect(client?.attributes).toMatchObject({
      "gen_ai.usage.input_tokens": 100,
      "gen_ai.usage.output_tokens": 50,
      "server.address": "127.0.0.1",
      "server.port": Number(new URL(sound.url).port),
      "sluice.channel": "sound",
    });
    const told = sound.requests.at(-1)?.headers;
    expect([told?.get("traceparent"), told?.get("tracestate")]).toEqual([`00-${traceId}-${client?.spanId}-01`, "vendor=1"]);
  });

  test("are told to the upstream of every call, with a span of its own", async () => {
    const ids: (string | null)[] = [];
    for (let at = 0; at < 4; at += 1) ids.push((await chat(gateway, { model: "large" }, { key })).requestId);
    const told = sound.requests.slice(-4).map(({ headers }) => headers.get("traceparent") ?? "");
    for (const parent of told) expect(parent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(told.map((parent) => `req_${parent.split("-")[1]}`)).toEqual(ids.map(String));
    expect(new Set(told.map((parent) => parent.split("-")[2])).size).toBe(4);
  });

  test("have the id of the request without one, and are exported where something failed", async () => {
    const reply = await chat(gateway, { model: "failing" }, { key });
    expect(reply.status).toBe(200);
    await eventually("a trace with a failed attempt", () => spans().some(({ status }) => status === 2), 15_000);
    const failed = spans().find(({ status }) => status === 2)!;
    expect(failed.attributes).toMatchObject({ "error.type": "overloaded", "sluice.channel": "broken" });
    const [server] = spans().filter(({ traceId: id, kind }) => id === failed.traceId && kind === 2);
    expect(server?.attributes["sluice.request_id"]).toBe(`req_${failed.traceId}`);
    const receipt = await receiptOf(`req_${failed.traceId}`);
    expect(String(receipt["id"]).replaceAll("-", "")).toBe(failed.traceId);
    expect(server?.attributes["sluice.receipt_id"]).toBe(receipt["id"]);
  });

  test("are few: a call that went well is not exported, where chance chooses none", () => {
    const names = spans().filter(({ kind, attributes }) => kind === 2 && attributes["gen_ai.request.model"] === "large");
    expect(names.length).toBe(1);
  });

  test("come with metrics, and neither holds a key or a token", async () => {
    const exported = () => collector.requests.filter(({ path }) => path === "/v1/metrics");
    await eventually(
      "metrics of both workers",
      () => new Set(exported().map(({ text }) => /"service.instance.id","value":\{"stringValue":"([^"]+)/.exec(text)?.[1])).size === 2,
      15_000,
    );
    const names = new Set(exported().flatMap(({ text }) => readMetrics(text).map(({ name }) => name)));
    for (const name of ["sluice_requests_total", "gen_ai.client.inference.duration", "gen_ai.client.inference.usage.output_tokens"])
      expect([...names]).toContain(name);
    const withBudgets = () => exported().filter(({ text }) => text.includes("sluice_budget_left_usd"));
    await eventually("what is left of budgets", () => withBudgets().length > 1, 15_000);
    // It is the same for all workers, so that one exports it.
    const instances = withBudgets().map(({ text }) => /"service.instance.id","value":\{"stringValue":"([^"]+)/.exec(text)?.[1]);
    expect(new Set(instances).size).toBe(1);
    expect(collector.requests.every(({ headers }) => headers.get("x-token") === "collector-canary")).toBe(true);
    const all = collector.requests.map(({ text }) => text).join("");
    for (const secret of [key, token, "collector-canary"]) expect(all).not.toContain(secret);
  });
});

describe("a reload", () => {
  test("switches the export off, and on again for another collector, without a restart", async () => {
    const told = async (): Promise<boolean> => {
      expect((await chat(gateway, { model: "large" }, { key })).status).toBe(200);
      return sound.requests.at(-1)!.headers.has("traceparent");
    };
    // Each call has a connection of its own, so that many in a row reach both workers.
    const allTold = async (is: boolean): Promise<boolean> => {
      for (let at = 0; at < 12; at += 1) if ((await told()) !== is) return false;
      return true;
    };
    const { otel, ...without } = config;
    await gateway.rewriteConfig(without);
    await eventually("no call is traced", () => allTold(false), 20_000);
    const other = await startScripted(() => Response.json({}));
    try {
      await gateway.rewriteConfig({
        ...config,
        otel: { ...(otel as object), endpoint: other.url.replace(/\/v1$/, ""), service_name: "renamed" },
      });
      await eventually("every call is traced", () => allTold(true), 20_000);
      expect((await chat(gateway, { model: "failing" }, { key })).status).toBe(200);
      await eventually("a trace", () => other.requests.some(({ path }) => path === "/v1/traces"), 15_000);
      await eventually("metrics", () => other.requests.some(({ path }) => path === "/v1/metrics"), 15_000);
      const [span] = other.requests.filter(({ path }) => path === "/v1/traces").flatMap(({ text }) => readTraces(text));
      expect(span?.resource["service.name"]).toBe("renamed");
      expect(gateway.logs.filter(({ event, detail }) => event === "restart_needed" && String(detail).includes("otel"))).toEqual([]);
    } finally {
      await other.close();
    }
  });
});

test("a reload that ends all counting takes back what the overview showed of it, instead of showing that there are no calls", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const adminToken = "5f1c07d2a94be863c1d7f02b9a6e4835d0c2";
  await writeFile(join(directory, "token"), adminToken, { mode: 0o600 });
  const { otel, webhooks: _, ...rest } = config;
  const uncounted = { ...rest, metrics: { enabled: false } };
  const one = await startGateway({ config: { ...uncounted, otel }, directory, env: { ADMIN_TOKEN_FILE: join(directory, "token") } });
  try {
    const since = async (): Promise<unknown> => {
      const headers = { authorization: `Bearer ${adminToken}` };
      const response = await fetch(`${one.adminUrl}/admin/api/overview?span=1h`, { headers });
      return ((await response.json()) as { readonly now: { readonly since_at: unknown } }).now.since_at;
    };
    expect(await since()).toBeString();
    await one.rewriteConfig(uncounted);
    await eventually("nothing is counted", async () => (await since()) === null, 10_000);
    await one.rewriteConfig({ ...uncounted, otel });
    await eventually("calls are counted again", async () => (await since()) !== null, 10_000);
  } finally {
    await one.kill();
    await rm(directory, { recursive: true, force: true });
  }
});

describe("webhooks", () => {
  test("are told once for all workers that a key is about to expire, signed, and again where the receiver was busy", async () => {
    await eventually("two deliveries", () => receiver.requests.length >= 2, 20_000);
    const [first, second] = receiver.requests;
    expect(first?.path).toBe("/v1/hook");
    expect(first?.body).toMatchObject({ type: "key.expiring", data: { key: "file:short", name: "short" } });
    expect(second?.headers.get("webhook-id")).toBe(first?.headers.get("webhook-id") ?? "");
    expect(second?.text).toBe(first?.text ?? "");
    for (const { headers, text } of receiver.requests) {
      const signed = `${headers.get("webhook-id")}.${headers.get("webhook-timestamp")}.${text}`;
      const signature = new Bun.CryptoHasher("sha256", "webhook-canary-0123456789").update(signed).digest("base64");
      expect(headers.get("webhook-signature")).toBe(`v1,${signature}`);
      expect(text).not.toContain("canary");
    }
  });
});

test("a channel that fails again and again has a breaker that is open, and no other channel has", async () => {
  await eventually(
    "it is open in one of the workers",
    async () => {
      expect((await chat(gateway, { model: "failing" }, { key })).channel).toBe("spare");
      const families = await scraped(gateway.adminUrl);
      const [open, halfOpen] = ["open", "half_open"].map((state) =>
        valueOf(families, "sluice_circuit_breakers", { channel: "broken", state }),
      );
      return open! >= 1 && halfOpen === 0;
    },
    20_000,
  );
  const families = await scraped(gateway.adminUrl);
  for (const channel of ["sound", "spare"]) expect(valueOf(families, "sluice_circuit_breakers", { channel })).toBe(0);
});

test("no metric names a key or tells its budget unless it was asked to, and then what is left is less than the budget", async () => {
  const directory = await mkdtemp(join(tmpdir(), "sluice-test-"));
  const adminTokenFile = join(directory, "token");
  await writeFile(adminTokenFile, adminToken, { mode: 0o600 });
  await using hook = await startScripted(() => Response.json({}));
  const { metrics, otel: _, ...others } = config;
  // Webhooks need what metrics do not show.
  const usual = { ...others, webhooks: [{ url: hook.url, secret: webhookSecret }] };
  const start = (more: object): Promise<Gateway> =>
    startGateway({ config: { ...usual, ...more }, directory, env: { ADMIN_TOKEN_FILE: adminTokenFile } });
  const families = async ({ adminUrl }: Gateway): Promise<readonly ExposedFamily[]> =>
    parseExposition(await (await scrape(adminUrl, adminToken)).text());
  const withKey = (all: readonly ExposedFamily[]): readonly string[] =>
    all.filter(({ samples }) => samples.some(({ labels }) => "key" in labels)).map(({ name }) => name);
  const ofBudgets = (all: readonly ExposedFamily[]): readonly string[] =>
    all.map(({ name }) => name).filter((name) => /^sluice_(group_)?budget_/.test(name));
  try {
    const silent = await start({});
    try {
      expect((await chat(silent, { model: "large" }, { key: "sk-narrow-canary-0123456789abcdef" })).status).toBe(200);
      await eventually("the call is counted", async () => valueOf(await families(silent), "sluice_requests_total") === 1);
      await eventually("keys and their budgets are looked up", () => hook.requests.length > 0);
      const shown = await families(silent);
      expect([withKey(shown), ofBudgets(shown)]).toEqual([[], []]);
    } finally {
      expect(await silent.stop()).toBe(0);
    }
    await using asked = await start({ metrics });
    await eventually("budgets are looked up", async () => ofBudgets(await families(asked)).length > 0);
    const shown = await families(asked);
    expect(ofBudgets(shown)).toEqual(["sluice_budget_limit_usd", "sluice_budget_left_usd", "sluice_budget_refused"]);
    expect(valueOf(shown, "sluice_budget_limit_usd", { key: "file:narrow" })).toBe(10);
    expect(valueOf(shown, "sluice_budget_left_usd", { key: "file:narrow" })).toBeCloseTo(10 - 0.0002, 9);
    expect((await chat(asked, { model: "large" }, { key })).status).toBe(200);
    await eventually("the call is counted by its key", async () => withKey(await families(asked)).includes("sluice_key_requests_total"));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

const python = join(root, ".venv/telemetry/bin/python");
test.skipIf(!existsSync(python))(
  "the libraries of Prometheus, OpenTelemetry and Standard Webhooks read what this gateway showed and sent (bin/install-telemetry-parsers)",
  async () => {
    const metrics = await (await scrape(gateway.adminUrl)).text();
    const sent = (path: string): readonly string[] => collector.requests.filter((one) => one.path === path).map(({ text }) => text);
    const [traces, exports] = [sent("/v1/traces"), sent("/v1/metrics").slice(-4)];
    // The newest: one that is older than five minutes is refused as a replay.
    const webhooks = receiver.requests.slice(-2).map(({ text, headers }) => ({ text, headers: Object.fromEntries(headers) }));
    const input = JSON.stringify({ metrics, traces, exports, webhooks, secret: webhookSecret });
    const { code, said } = checked([python, "-B", "test/python/read_telemetry.py"], input);
    expect(code, said).toBe(0);
    type Read = Readonly<Record<"samples" | "spans" | "points" | "unpublished" | "notices", readonly unknown[]>> & {
      readonly types: object;
    };
    const read = JSON.parse(said) as Read;
    const families = parseExposition(metrics);
    // Without what the name of a counter ends with, as this library has it.
    expect(read.types).toEqual(
      Object.fromEntries(families.map(({ name, type }) => [type === "counter" ? name.replace(/_total$/, "") : name, type])),
    );
    expect(read.samples).toEqual(families.flatMap(({ samples }) => samples.map(({ name, labels, value }) => [name, labels, value])));
    expect(read.spans).toEqual(
      traces.flatMap(readTraces).map(({ traceId: id, spanId, parentSpanId, name, kind, status, attributes }) => {
        return [id, spanId, parentSpanId ?? "", name, kind, status, Object.keys(attributes).toSorted()];
      }),
    );
    expect(read.points).toEqual(
      exports.flatMap(readMetrics).flatMap(({ name, kind, points }) => {
        return points.map(({ value, attributes }) => [name, kind, value, Object.keys(attributes).length]);
      }),
    );
    expect(read.unpublished).toEqual([]);
    expect(read.notices).toEqual(webhooks.map(({ text }) => JSON.parse(text) as unknown));
    for (const some of [read.samples, read.spans, read.points, read.notices]) expect(some.length).toBeGreaterThan(1);
  },
);

describe("a collector and a receiver that hang", () => {
  test("do not keep a gateway from ending, and the log tells what they did not get", async () => {
    const hanging = await startScripted(() => new Promise<Response>(() => {}));
    const one = await startGateway({
      config: {
        ...config,
        otel: { endpoint: hanging.url.replace(/\/v1$/, ""), sample: 1, interval: "1h" },
        webhooks: [{ url: `${hanging.url}/hook`, secret: webhookSecret }],
      },
    });
    try {
      await eventually("a notice is on its way", () => hanging.requests.some(({ path }) => path === "/v1/hook"), 20_000);
      for (const _ of [1, 2]) expect((await chat(one, { model: "large" }, { key })).status).toBe(200);
      expect(await one.stop()).toBe(0);
      const detail = "the gateway ended before they were delivered";
      const lost = (name: string) => one.logs.filter(({ event }) => event === name);
      expect(lost("otlp_lost")).toMatchObject([
        { signal: "traces", items: 2, detail },
        { signal: "metrics", items: 1, detail },
      ]);
      expect(lost("webhook_lost")).toMatchObject([{ webhook: new URL(hanging.url).host, types: "key.expiring", notices: 1, detail }]);
    } finally {
      await one.kill();
      await hanging.close();
    }
  });
});
