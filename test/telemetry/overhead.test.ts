// Needs: quiet. It mostly waits, and measures that nobody calls it work.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chat, openChat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { parseExposition, valueOf, type ExposedFamily } from "../support/exposition.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { RawResponse } from "../support/raw-response.ts";
import { startScripted, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(60_000);

const key = "sk-client-canary-0123456789abcdef";
const waitMs = 600;
const answer = { choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }] };

let upstream: Scripted;
/** Calls do not wait for channels that cool down; and calls do. */
let plain: Gateway;
let queueing: Gateway;

beforeAll(async () => {
  upstream = await startScripted(({ path }) =>
    path.endsWith("/transcriptions") ? Response.json({ text: "Hello." }) : Response.json(answer),
  );
  const config = {
    keys: [{ name: "tester", key }],
    channels: [
      { name: "wide", base_url: upstream.url, models: ["wide", "heard"] },
      { name: "narrow", base_url: upstream.url, models: ["narrow"], concurrency: 1 },
    ],
    metrics: { public: true, data_port: true },
  };
  plain = await startGateway({ config });
  queueing = await startGateway({ config: { ...config, routing: { wait: "4s", deadlines: { whole: "7s" } } } });
});

afterAll(async () => {
  for (const gateway of [plain, queueing]) await gateway.kill();
  await upstream.close();
});

async function scraped({ url }: Gateway): Promise<readonly ExposedFamily[]> {
  return parseExposition(await (await fetch(`${url}/metrics`)).text());
}

interface Spent {
  readonly calls: number;
  readonly wholeMs: number;
  readonly attemptsMs: number;
  readonly overheadMs: number;
}

async function spent(gateway: Gateway): Promise<Spent> {
  const families = await scraped(gateway);
  const sumMs = (name: string): number => 1_000 * valueOf(families, `${name}_seconds_sum`);
  return {
    calls: valueOf(families, "sluice_gateway_overhead_seconds_count"),
    wholeMs: sumMs("sluice_request_duration"),
    attemptsMs: sumMs("sluice_attempt_duration"),
    overheadMs: sumMs("sluice_gateway_overhead"),
  };
}

/**
 * How much of the time of these calls was neither an attempt's nor the gateway's own. Nothing is said of how long the gateway took for its
 * part, which on a busy machine is long.
 */
async function leftOutMs(gateway: Gateway, count: number, calls: () => Promise<unknown>): Promise<number> {
  const before = await spent(gateway);
  await calls();
  let after = before;
  await eventually("the calls are counted", async () => (after = await spent(gateway)).calls === before.calls + count);
  const differenceOf = (name: keyof Spent): number => after[name] - before[name];
  expect(differenceOf("overheadMs")).toBeGreaterThan(0);
  return differenceOf("wholeMs") - differenceOf("attemptsMs") - differenceOf("overheadMs");
}

/** Sends the body a while after the gateway has said that it waits for it. */
async function sendLate(path: string, type: string, body: Uint8Array): Promise<void> {
  const connection = await RawConnection.open(plain.url);
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: gateway.test",
    `Authorization: Bearer ${key}`,
    `Content-Type: ${type}`,
    `Content-Length: ${body.length}`,
    "Expect: 100-continue",
  ];
  await connection.send(Buffer.from(`${head.join("\r\n")}\r\n\r\n`));
  const response = new RawResponse();
  const ended = connection.receive(response);
  await eventually("the gateway waits for the body", () => response.interims.includes(100));
  await Bun.sleep(waitMs / 2);
  await connection.send(body.subarray(0, 10));
  await Bun.sleep(waitMs / 2);
  await connection.send(body.subarray(10));
  expect((await ended).status).toBe(200);
  connection.close();
}

function refusedFor(ms: number): Response {
  return Response.json({ error: { message: "slow down" } }, { status: 429, headers: { "retry-after-ms": String(ms) } });
}

describe("the overhead of the gateway has none of the time in which", () => {
  test("a client takes long to send its request", async () => {
    const body = Buffer.from(JSON.stringify({ model: "wide", messages: [{ role: "user", content: "Say hello." }] }));
    expect(await leftOutMs(plain, 1, () => sendLate("/v1/chat/completions", "application/json", body))).toBeGreaterThanOrEqual(waitMs);
  });

  test("a client takes long to upload a recording", async () => {
    const form = new FormData();
    form.set("model", "heard");
    form.set("file", new File([new Uint8Array(2_000)], "speech.mp3"));
    const request = new Request("http://gateway.test", { method: "POST", body: form });
    const type = request.headers.get("content-type") ?? "";
    const body = new Uint8Array(await request.arrayBuffer());
    expect(await leftOutMs(plain, 1, () => sendLate("/v1/audio/transcriptions", type, body))).toBeGreaterThanOrEqual(waitMs);
  });

  test("a call waits before it tries again", async () => {
    upstream.next(() => refusedFor(waitMs));
    const asked = upstream.requests.length;
    expect(await leftOutMs(plain, 1, () => chat(plain, { model: "wide" }, { key }))).toBeGreaterThanOrEqual(waitMs);
    expect(upstream.requests.length - asked).toBe(2);
  });

  test("a call waits for room on a full channel", async () => {
    const { promise: free, resolve: finish } = Promise.withResolvers<void>();
    upstream.next(() => free.then(() => Response.json(answer)));
    const waited = leftOutMs(plain, 2, async () => {
      const asked = upstream.requests.length;
      const first = await openChat(plain, { model: "narrow" }, { key });
      await eventually("the channel is full", () => upstream.requests.length > asked);
      const second = await openChat(plain, { model: "narrow" }, { key });
      await eventually("a call waits", async () => valueOf(await scraped(plain), "sluice_waiting_for_capacity") === 1);
      await Bun.sleep(waitMs);
      finish();
      for (const { status } of [await first.reply, await second.reply]) expect(status).toBe(200);
    });
    expect(await waited).toBeGreaterThanOrEqual(waitMs);
  });

  test("a call waits its turn while its channel cools down", async () => {
    // With seven seconds to live, no call sleeps for so long by itself.
    const coolMs = 2_000;
    upstream.next(() => refusedFor(coolMs));
    expect(await leftOutMs(queueing, 1, () => chat(queueing, { model: "wide" }, { key }))).toBeGreaterThan(0.9 * coolMs);
  });

  test("a call waits its turn until its client leaves", async () => {
    upstream.next(() => refusedFor(3_500));
    const left = leftOutMs(queueing, 1, async () => {
      const call = await openChat(queueing, { model: "narrow" }, { key });
      await queueing.waitForLog(({ event, scope }) => event === "cooling" && String(scope).includes("narrow"));
      await Bun.sleep(waitMs);
      call.abort();
    });
    // What the gateway did after it had said that the channel cools down is its own.
    expect(await left).toBeGreaterThan(waitMs / 2);
  });
});
