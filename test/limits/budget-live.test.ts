// Needs: quiet. It mostly waits for what was spent to be known.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI, { RateLimitError } from "openai";
import { startChaos, type Chaos } from "../support/chaos.ts";
import { chat as chatWith, type ChatReply } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type Gateway } from "../support/gateway.ts";
import { dollars, openKeys, type Keys, type MadeKey } from "../support/keys.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";

setDefaultTimeout(60_000);

/** A tenth of a cent for each token of an answer: a call that asks for ten may cost a cent. */
const prices = [{ model: "priced*", input: 0, output: 1_000 }];
const tokenNanos = dollars(0.001);

let rig: Rig<"a">;
let keys: Keys;

beforeAll(async () => {
  rig = await setUp({ a: { models: ["priced", "priced-too", "unpriced"] } }, { prices });
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

function chat(token: string, body: Record<string, unknown> = {}): Promise<ChatReply> {
  return rig.chat({ model: "priced", max_tokens: 10, x_tokens: 10, ...body }, { key: token });
}

/** What an upstream has made for calls of a model since, at our price. */
function madeNanos(upstream: Chaos, model: string): number {
  const attempts = upstream.ledger.chats.filter((attempt) => attempt.model === model);
  return attempts.reduce((sum, { choicesSent }) => sum + choicesSent.reduce((all, pieces) => all + pieces.length, 0), 0) * tokenNanos;
}

async function spentOf(key: MadeKey, calls: number): Promise<number> {
  const receipts = await keys.receipts(key.id, calls);
  return receipts.reduce((sum, { billedNanos }) => sum + (billedNanos ?? Number.NaN), 0);
}

function statuses(replies: readonly ChatReply[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

describe("a budget", () => {
  test("S36: for ten calls is not overspent by two hundred at once, by more than one reservation", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.1 } });
    const before = madeNanos(rig.upstream.a, "priced");
    const replies = await Promise.all(Array.from({ length: 200 }, () => chat(key.token)));
    const spent = madeNanos(rig.upstream.a, "priced") - before;
    expect(spent).toBeLessThanOrEqual(dollars(0.1) + 10 * tokenNanos);
    const { 200: served = 0, 429: refused = 0 } = statuses(replies);
    expect(served + refused).toBe(200);
    expect(served).toBe(10);
    expect(await spentOf(key, served)).toBe(spent);
  });

  test("S36: that are told to cost little and cost much more overspend by what was under way at most, and then it is over", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.1, concurrency: 1 } });
    const replies: ChatReply[] = [];
    for (let call = 0; call < 12; call++) replies.push(await chat(key.token, { max_tokens: 10, x_tokens: 30 }));
    const served = replies.filter(({ status }) => status === 200).length;
    expect(served * 30 * tokenNanos).toBeLessThanOrEqual(dollars(0.1) + 30 * tokenNanos);
    expect(replies.at(-1)?.status).toBe(429);
  });

  test("that is spent is refused with the error of the OpenAI API, without a wait, and the upstream is not asked", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.02, budget_period: "month" } });
    expect([(await chat(key.token)).status, (await chat(key.token)).status]).toEqual([200, 200]);
    await spentOf(key, 2);
    const before = rig.upstream.a.ledger.chats.length;
    const refused = await chat(key.token);
    expect(refused).toMatchObject({ status: 429, error: { type: "insufficient_quota", code: "insufficient_quota" } });
    expect(refused.error?.message).toContain("$0.02 a month");
    expect(refused.error?.message).toContain("next month begins at");
    const { response } = refused;
    expect([response.header("x-should-retry"), response.header("retry-after"), response.header("retry-after-ms")]).toEqual([
      "false",
      null,
      null,
    ]);
    expect(rig.upstream.a.ledger.chats.length).toBe(before);
  });

  test("that is spent is not retried by the official client", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.001 } });
    const client = new OpenAI({ apiKey: key.token, baseURL: `${rig.gateway.url}/v1`, maxRetries: 3 });
    const refused: unknown = await client.chat.completions
      .create({ model: "priced", max_tokens: 10, messages: [{ role: "user", content: "hi" }] })
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RateLimitError);
    expect(refused).toMatchObject({ code: "insufficient_quota" });
    await rig.accessLine((await chat(clientKey)).requestId);
    expect(rig.gateway.accessLines().filter((line) => line["key"] === key.id)).toHaveLength(1);
  });

  test("gets back what a short answer did not use", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.1 } });
    for (let call = 0; call < 9; call++) expect((await chat(key.token, { max_tokens: 90, x_tokens: 1 })).status).toBe(200);
    expect(await spentOf(key, 9)).toBe(9 * tokenNanos);
  });

  // The upstream's own count never comes: what was seen of the stream must do.
  test("pays for what was made for a client that left, to within a fifth of what the upstream counts", async () => {
    const key = await keys.make({ limits: { budget_usd: 5 } });
    const call = await rig.open(
      { model: "priced", max_tokens: 1_000, x_tokens: 1_000, x_pace_ms: 20 },
      { key: key.token, stream: true, timeoutMs: 30_000 },
    );
    await call.untilBody(12_000);
    call.abort();
    await rig.upstream.a.waitFor((ledger) => ledger.ofCall(call.call ?? "")[0]?.endedBy === "client_closed");
    const [receipt] = await keys.receipts(key.id, 1);
    expect(receipt).toMatchObject({ state: "abandoned", partial: true, estimated: true });
    const made = rig.upstream.a.ledger.ofCall(call.call ?? "")[0]!.tokensSent.length;
    expect(made).toBeGreaterThan(20);
    expect(receipt!.billedNanos!).toBeGreaterThanOrEqual(0.8 * made * tokenNanos);
    expect(receipt!.billedNanos!).toBeLessThanOrEqual(1.2 * made * tokenNanos);
  });

  test("pays nothing for a call that no upstream took", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.01 } });
    rig.upstream.a.script(["fault:status@400", "fault:status@400"]);
    expect([(await chat(key.token)).status, (await chat(key.token)).status]).toEqual([400, 400]);
    expect((await chat(key.token)).status).toBe(200);
    expect((await chat(key.token)).status).toBe(429);
  });

  test("applies to some models only if it is configured so", async () => {
    const key = await keys.make({ limits: { per_model: [{ model: "priced", budget_usd: 0.01 }] } });
    expect([(await chat(key.token)).status, (await chat(key.token)).status]).toEqual([200, 429]);
    expect((await chat(key.token, { model: "priced-too" })).status).toBe(200);
  });

  test("that is raised serves again within seconds", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.01 } });
    expect([(await chat(key.token)).status, (await chat(key.token)).status]).toEqual([200, 429]);
    const { limits } = (await keys.store.storage.keys.get(key.id))!;
    const raised = { ...limits, budget: { nanos: dollars(0.02), period: "total" as const } };
    await keys.store.storage.keys.change(key.id, { limits: raised }, { kind: "cli", name: "tester" });
    await eventually("it is served again", async () => (await chat(key.token)).status === 200);
    expect((await chat(key.token)).status).toBe(429);
  });
});

describe("a price that is not known", () => {
  test("is refused under a budget, and the error says how to fix it", async () => {
    const key = await keys.make({ limits: { budget_usd: 10 } });
    const refused = await chat(key.token, { model: "unpriced" });
    expect(refused).toMatchObject({ status: 403, error: { code: "price_unknown", param: "model" } });
    expect(refused.error?.message).toContain("sluice prices set");
    expect(refused.response.header("x-should-retry")).toBe("false");
  });

  test("is served and not counted where the key says so", async () => {
    const key = await keys.make({ limits: { budget_usd: 0.01, unpriced: "allow" } });
    for (let call = 0; call < 3; call++) expect((await chat(key.token, { model: "unpriced" })).status).toBe(200);
    expect((await keys.receipts(key.id, 3)).map(({ billedNanos }) => billedNanos)).toEqual([null, null, null]);
  });
});

describe("S36, S37: figures that make no sense", () => {
  test("more than 128 choices are refused with the error of the OpenAI API, and 128 cost what 128 cost", async () => {
    const key = await keys.make({ limits: { budget_usd: 1 } });
    for (const n of [129, 1_000, 1e15]) {
      expect(await chat(key.token, { n })).toMatchObject({ status: 400, error: { code: "integer_above_max_value", param: "n" } });
    }
    const refused = await chat(key.token, { n: 128 });
    expect(refused).toMatchObject({ status: 429, error: { code: "insufficient_quota" } });
    expect(refused.error?.message).toContain("$1.28");
  });

  test("a huge max_tokens is refused for what it would reserve, and a negative one bypasses nothing", async () => {
    const key = await keys.make({ limits: { budget_usd: 10 } });
    for (const max_tokens of [1e9, 1e308]) {
      expect(await chat(key.token, { max_tokens })).toMatchObject({ status: 429, error: { code: "insufficient_quota" } });
    }
    for (const max_tokens of [-1, -1e12, 0]) expect((await chat(key.token, { max_tokens, x_tokens: 1 })).status).toBe(200);
    expect(await spentOf(key, 3)).toBe(3 * tokenNanos);
    expect((await chat(clientKey)).status).toBe(200);
  });

  test("an upstream's absurd figures neither fill nor empty a budget", async () => {
    const key = await keys.make({ limits: { budget_usd: 1 } });
    for (const number of ["-1", "1e12", "1e400", "string"]) {
      rig.upstream.a.script([`fault:absurd-usage@${number}`]);
      expect((await chat(key.token)).status).toBe(200);
    }
    for (const { billedNanos } of await keys.receipts(key.id, 4)) {
      expect(billedNanos).toBeGreaterThan(0);
      expect(billedNanos).toBeLessThan(dollars(0.2));
    }
    expect((await chat(key.token)).status).toBe(200);
  });
});

describe("across a restart", () => {
  const plain = { budget_usd: 0.05 };
  const ofChannel = { budgets: [{ name: "u", channels: ["u"], budget_usd: 0.05 }] };
  test.each([
    ["SIGTERM", "all calls", plain],
    ["SIGKILL", "all calls", plain],
    ["SIGKILL", "a channel", ofChannel],
  ] as const)("money stays spent (%s), from a budget for %s", async (signal, _, limits) => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-budget-"));
    const upstream = await startChaos({ name: "u" });
    const config = {
      keys: [{ name: "k", key: clientKey, limits }],
      channels: [{ name: "u", base_url: upstream.url, models: ["priced"] }],
      prices,
      server: { linger: "0s", drain: "1s" },
    };
    let gateway: Gateway | null = null;
    try {
      gateway = await startGateway({ config, directory });
      const ask = async (): Promise<ChatReply> => {
        const reply = await chatWith(gateway!, { model: "priced", max_tokens: 10, x_tokens: 10 }, { key: clientKey });
        // A start on a busy machine is itself a load, which is not what this is about.
        return reply.error?.code === "overloaded" ? ask() : reply;
      };
      for (let call = 0; call < 3; call++) expect((await ask()).status).toBe(200);
      // One is under way when the process dies: what it may have cost is not to be had again.
      const dying = chatWith(
        gateway,
        { model: "priced", max_tokens: 10, x_tokens: 10, x_pace_ms: 200 },
        { key: clientKey, stream: true },
      ).catch(() => null);
      await upstream.waitFor((ledger) => ledger.chats.length === 4);
      if (signal === "SIGTERM") await gateway.stop();
      else await gateway.kill();
      await dying;
      gateway = await startGateway({ config, directory });
      const after: number[] = [];
      for (let call = 0; call < 5; call++) after.push((await ask()).status);
      const served = after.filter((status) => status === 200).length;
      expect(served).toBeLessThanOrEqual(1);
      // What a process held that was killed comes back later; one that was stopped gives it back.
      if (signal === "SIGTERM") expect(served).toBe(1);
      expect(after.at(-1)).toBe(429);
      expect(madeNanos(upstream, "priced")).toBeLessThanOrEqual(dollars(0.05) + 10 * tokenNanos);
    } finally {
      await gateway?.kill();
      await upstream.close();
      await rm(directory, { recursive: true, force: true });
    }
  });
});
