// Needs: quiet, long. It mostly waits for looks at channels.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chat } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { parseExposition, valueOf } from "../support/exposition.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { startScripted, type Scripted } from "../support/scripted-upstream.ts";

setDefaultTimeout(120_000);

const nearly = "sk-nearly-canary-0123456789abcdef";
const spent = "sk-spent-canary-0123456789abcdef";
const short = "sk-short-canary-0123456789abcdef";
const directory = mkdtempSync(join(tmpdir(), "sluice-test-"));

let upstream: Scripted;
let receiver: Scripted;
let gateway: Gateway;

/** Each call costs 0.0002 dollars. */
const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 },
};

async function start(): Promise<void> {
  gateway = await startGateway({
    directory,
    config: {
      admin: "127.0.0.1:0",
      metrics: { public: true, budgets: true },
      keys: [
        { name: "nearly", key: nearly, limits: { budget_usd: 0.002 } },
        { name: "spent", key: spent, limits: { budget_usd: 0.0002 } },
        { name: "short", key: short, limits: { budget_usd: 0.00045 } },
      ],
      channels: [
        { name: "sound", base_url: upstream.url, models: ["large"] },
        { name: "busy", base_url: upstream.url, models: ["throttled"] },
      ],
      prices: [{ model: "*", input: 1, output: 2 }],
      webhooks: [{ url: `${receiver.url}/hook`, secret: "webhook-canary-0123456789" }],
      server: { linger: "0ms" },
    },
  });
}

beforeAll(async () => {
  upstream = await startScripted(({ body }) =>
    body["model"] === "throttled"
      ? Response.json({ error: { message: "slow down" } }, { status: 429, headers: { "retry-after": "18" } })
      : Response.json(answer),
  );
  receiver = await startScripted(() => new Response(null, { status: 204 }));
  await start();
});

afterAll(async () => {
  await gateway?.kill();
  for (const one of [upstream, receiver]) await one?.close();
  rmSync(directory, { recursive: true, force: true });
});

function told(type: string): readonly Readonly<Record<string, unknown>>[] {
  return receiver.requests.flatMap(({ body }) => (body["type"] === type ? [body["data"] as Readonly<Record<string, unknown>>] : []));
}

test("a channel that asks for a wait is told to be down, and to be back when the wait is over", async () => {
  expect((await chat(gateway, { model: "throttled", max_tokens: 50 }, { key: nearly })).status).not.toBe(200);
  await eventually("it is down", () => told("channel.down").length > 0, 40_000);
  expect(told("channel.up")).toEqual([]);
  await eventually("it is back", () => told("channel.up").length > 0, 40_000);
  expect([told("channel.down"), told("channel.up")]).toEqual([[{ channel: "busy" }], [{ channel: "busy" }]]);
});

test("budgets of which four fifths are spent, or all, are told", async () => {
  for (let call = 0; call < 9; call += 1)
    expect((await chat(gateway, { model: "large", max_tokens: 50 }, { key: nearly })).status).toBe(200);
  expect((await chat(gateway, { model: "large", max_tokens: 50 }, { key: spent })).status).toBe(200);
  // The next look at budgets is a minute away, or the one of the next start.
  expect(await gateway.stop()).toBe(0);
  await start();
  await eventually("both budgets", () => told("budget.warning").length + told("budget.spent").length >= 2, 40_000);
  expect(told("budget.warning")).toEqual([
    { key: "file:nearly", name: "nearly", models: null, limit_usd: 0.002, spent_usd: expect.closeTo(0.0018, 9), period_since: null },
  ]);
  expect(told("budget.spent")).toEqual([
    { key: "file:spent", name: "spent", models: null, limit_usd: 0.0002, spent_usd: expect.closeTo(0.0002, 9), period_since: null },
  ]);
  const metrics = async () => parseExposition(await (await fetch(`${gateway.adminUrl}/metrics`)).text());
  await eventually(
    "the receiver's answers are counted",
    async () => valueOf(await metrics(), "sluice_webhook_delivered_total", { webhook: "1" }) === 2,
    10_000,
  );
  expect(valueOf(await metrics(), "sluice_webhook_lost_total", { webhook: "1" })).toBe(0);
  expect(receiver.requests.map(({ text }) => text).join("")).not.toContain("canary");
});

test("a budget that refuses calls before its last cent is told to be spent, and shown so", async () => {
  const ask = async () => (await chat(gateway, { model: "large", max_tokens: 50 }, { key: short })).status;
  // What is left after two would do for half of the third.
  expect([await ask(), await ask()]).toEqual([200, 200]);
  const ofShort = (type: string) => told(type).filter(({ key }) => key === "file:short");
  // It is refused as long as the cost of those is not in the store as well, but only from then on is it known that it stays so.
  await eventually("the next look", async () => (await ask()) === 429 && ofShort("budget.spent").length > 0, 65_000);
  expect(ofShort("budget.spent")).toEqual([
    { key: "file:short", name: "short", models: null, limit_usd: 0.00045, spent_usd: expect.closeTo(0.0004, 9), period_since: null },
  ]);
  const metrics = parseExposition(await (await fetch(`${gateway.adminUrl}/metrics`)).text());
  const refused = (key: string) => valueOf(metrics, "sluice_budget_refused", { key, models: "" });
  expect([refused("file:nearly"), refused("file:spent"), refused("file:short")]).toEqual([0, 1, 1]);
});
