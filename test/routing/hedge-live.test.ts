// Needs: quiet, long. It mostly waits for the time after which a call is hedged.
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ChatReply } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

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
    expect(loser!.closedAt! - winner!.at).toBeLessThan(slowed(250));
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
    expect(ledger.chats[0]!.closedAt! - abortedAt).toBeLessThan(slowed(250));
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

  test("for more than ten calls of a model at once, and one in twenty", async () => {
    own.upstream.a.behaviour = "fault:delay@1500";
    const model = fresh();
    const startedAt = performance.now();
    const replies = await Promise.all(Array.from({ length: 60 }, () => own.chat({ model })));
    for (const { status } of replies) expect(status).toBe(200);
    const hedged = replies.filter((reply) => own.path(reply).length > 1).length;
    expect(hedged).toBeGreaterThanOrEqual(10);
    expect(hedged).toBeLessThanOrEqual(10 + 0.05 * replies.length + (performance.now() - startedAt) / 10_000);
    // What one model used up, another has.
    expect(own.path(await own.chat({ model: fresh() }))).toEqual(["a", "b"]);
    own.upstream.a.behaviour = null;
    await own.check();
  });

  test("where it is off", async () => {
    await using plain = await setUp({ a: first, b: second }, { routing: { hedge_after: "off" } });
    plain.upstream.a.behaviour = "fault:delay@400";
    const reply = await plain.chat({ model: "slow" });
    expect([reply.status, plain.path(reply)]).toEqual([200, ["a"]]);
    await plain.check();
  });
});

test("of eight slow calls in a row none waits long", async () => {
  rig.upstream.a.slowSeries(8, 60_000);
  const model = fresh();
  for (let call = 0; call < 8; call += 1) {
    const reply = await rig.chat({ model }, { stream: true });
    expect([reply.status, reply.channel, rig.path(reply)]).toEqual([200, "b", ["a", "b"]]);
    expect(reply.response.timing.endMs!).toBeLessThan(30_000);
  }
  await rig.check();
});

test("a slow call that may not be hedged at first is hedged as soon as it may", async () => {
  const model = fresh();
  rig.upstream.a.slowSeries(11, 60_000);
  const calls = await Promise.all(Array.from({ length: 11 }, () => rig.open({ model })));
  let answered = 0;
  for (const { reply } of calls) void reply.then(() => (answered += 1));
  await eventually("ten are answered by the other channel", () => answered >= 10);
  // Twenty more calls of the model pay for one more; these cannot be hedged themselves.
  for (let call = 0; call < 20; call += 1) expect((await rig.chat({ model, n: 2 })).channel).toBe("a");
  for (const { reply } of calls) expect((await reply).channel).toBe("b");
  await rig.check();
});

test("with `auto`, a call is hedged once it takes longer than is usual", async () => {
  await using own = await setUp({ a: first, b: second }, { routing: { hedge_after: "auto" } });
  for (let call = 0; call < 20; call += 1) await own.chat({ model: "usual" }, { stream: true });
  own.upstream.a.slowSeries(1, 60_000);
  const reply = await own.chat({ model: "usual" }, { stream: true });
  expect([reply.status, reply.channel, own.path(reply)]).toEqual([200, "b", ["a", "b"]]);
  expect(reply.response.timing.endMs!).toBeGreaterThan(4_500);
  expect(reply.response.timing.endMs!).toBeLessThan(30_000);
  await own.check();
});

test("after all of this no attempt is left behind", async () => {
  rig.gateway.signal("SIGTERM");
  expect(await rig.gateway.exited).toBe(0);
  expect(await rig.gateway.waitForLog(({ event }) => event === "stopping")).toMatchObject({ calls: 0 });
  for (const { ledger } of rig.upstreams) await ledger.settled();
});
