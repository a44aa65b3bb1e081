import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ChatReply } from "./support/client.ts";
import { eventually } from "./support/eventually.ts";
import { setUp, type Rig } from "./support/rig.ts";
import { slowed } from "./support/slowed.ts";

setDefaultTimeout(60_000);

const hedgeAfterMs = 150;
const first = { tier: 1 };
const second = { tier: 2 };

let rig: Rig<"a" | "b">;

beforeAll(async () => {
  rig = await setUp({ a: first, b: second }, { routing: { hedge_after: `${hedgeAfterMs}ms` }, server: { linger: "0ms" } });
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

afterEach(() => {
  for (const upstream of rig.upstreams) upstream.behaviour = null;
});

let calls = 0;

/** A deployment of its own for each call, so that none has a history. */
function fresh(): string {
  return `hedged-${(calls += 1)}`;
}

/** Once both channels have the call, `release` lets one of them answer, or both. */
async function hedged(body: Record<string, unknown>, stream: boolean, release: () => void): Promise<ChatReply> {
  const call = await rig.open({ model: fresh(), ...body }, { stream });
  await eventually("both are asked", () => rig.path(call).length === 2);
  release();
  return call.reply;
}

describe.each([true, false])("F74: a slow call (stream %p)", (stream) => {
  // One call in twenty of the last seconds may be hedged: these earn the right for the next test, and cannot be hedged themselves.
  beforeEach(async () => {
    const clients = Array.from({ length: 10 }, async (_, client) => {
      for (let round = 0; round < 10; round += 1) await rig.chat({ model: `earning-${client}`, n: 2 });
    });
    await Promise.all(clients);
    await rig.check();
  });

  test("is asked of a second channel as well: the first to answer wins and the other is ended", async () => {
    rig.upstream.a.script(["fault:delay@5000"]);
    const startedAt = performance.now();
    const reply = await rig.chat({ model: fresh() }, { stream });
    expect([reply.status, reply.finishReason, reply.channel, reply.response.header("x-sluice-attempts")]).toEqual([200, "stop", "b", "2"]);
    expect(rig.path(reply)).toEqual(["a", "b"]);
    expect(performance.now() - startedAt).toBeGreaterThan(hedgeAfterMs * 0.9);
    expect(performance.now() - startedAt).toBeLessThan(slowed(2_000));

    const [loser] = rig.upstream.a.ledger.ofCall(reply.call ?? "");
    const [winner] = rig.upstream.b.ledger.ofCall(reply.call ?? "");
    await eventually("the loser is ended", () => loser?.endedBy === "client_closed");
    expect(loser!.closedAt! - winner!.at).toBeLessThan(250);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({
      state: "complete",
      channel: "b",
      attempts: 2,
      tries: [
        { channel: "a", outcome: "abandoned" },
        { channel: "b", outcome: "answered", hedge: true },
      ],
    });
    await rig.check();
  });

  test("keeps its first channel if that one is quicker after all", async () => {
    for (const upstream of rig.upstreams) upstream.script(["fault:held"]);
    const reply = await hedged({}, stream, () => rig.upstream.a.release());
    expect([reply.status, reply.channel, rig.path(reply)]).toEqual([200, "a", ["a", "b"]]);
    await eventually("the loser is ended", () => rig.upstream.b.ledger.ofCall(reply.call ?? "")[0]?.endedBy === "client_closed");
    await rig.check();
  });

  test("gets one answer if both come at once", async () => {
    for (let round = 0; round < 3; round += 1) {
      for (const upstream of rig.upstreams) upstream.script(["fault:held"]);
      const reply = await hedged({ x_tokens: 20 }, stream, () => {
        for (const upstream of rig.upstreams) upstream.release();
      });
      expect([reply.status, reply.finishReason, reply.error]).toEqual([200, "stop", null]);
      expect(rig.path(reply)).toEqual(["a", "b"]);
    }
    await rig.check();
  });

  test("fails once if both fail", async () => {
    rig.upstream.a.script(["fault:held+status@404"]);
    rig.upstream.b.script(["fault:held+status@400"]);
    const reply = await hedged({}, stream, () => {
      for (const upstream of rig.upstreams) upstream.release();
    });
    expect([reply.status, rig.path(reply)]).toEqual([400, ["a", "b"]]);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ state: "failed", attempts: 2 });
    await rig.check();
  });
});

test("a client that leaves takes both with it", async () => {
  await using own = await setUp({ a: first, b: second }, { routing: { hedge_after: "100ms" } });
  for (const upstream of own.upstreams) upstream.behaviour = "fault:silent";
  const call = await own.open({ model: "left" }, { stream: true });
  await eventually("both are asked", () => own.path(call).length === 2);
  const abortedAt = performance.now();
  call.abort();
  for (const { ledger } of own.upstreams) {
    await eventually("it is ended", () => ledger.chats[0]?.endedBy === "client_closed");
    expect(ledger.chats[0]!.closedAt! - abortedAt).toBeLessThan(250);
  }
  await own.check({ abortedAt });
});

describe("no second attempt is made", () => {
  const tool = { tools: [{ type: "web_search" }] };
  let own: Rig<"a" | "b">;

  beforeAll(async () => {
    own = await setUp({ a: first, b: second }, { routing: { hedge_after: "50ms" } });
  });

  afterAll(async () => {
    await own[Symbol.asyncDispose]();
  });

  test.each([
    ["for several choices", { n: 2 }],
    ["where tools act at the upstream", tool],
    ["for a large request", { messages: [{ role: "user", content: "x".repeat(1_100_000) }] }],
  ])("%s", async (_, body) => {
    own.upstream.a.script(["fault:delay@300"]);
    const reply = await own.chat({ model: fresh(), ...body });
    expect([reply.status, own.path(reply)]).toEqual([200, ["a"]]);
    await own.check();
  });

  test("for more than one call in twenty, and one at the least", async () => {
    own.upstream.a.behaviour = "fault:delay@200";
    const replies = await Promise.all(Array.from({ length: 60 }, () => own.chat({ model: fresh() })));
    for (const { status } of replies) expect(status).toBe(200);
    const hedged = replies.filter((reply) => own.path(reply).length > 1).length;
    expect(hedged).toBeGreaterThanOrEqual(1);
    expect(hedged).toBeLessThanOrEqual(1 + 0.05 * replies.length);
    await own.check();
  });

  test("unless the operator wishes it", async () => {
    await using plain = await setUp({ a: first, b: second });
    plain.upstream.a.behaviour = "fault:delay@400";
    const reply = await plain.chat({ model: "slow" });
    expect([reply.status, plain.path(reply)]).toEqual([200, ["a"]]);
    await plain.check();
  });
});

test("after all of this no attempt is left behind", async () => {
  rig.gateway.signal("SIGTERM");
  expect(await rig.gateway.exited).toBe(0);
  expect(await rig.gateway.waitForLog(({ event }) => event === "stopping")).toMatchObject({ calls: 0 });
  for (const { ledger } of rig.upstreams) await ledger.settled();
});
