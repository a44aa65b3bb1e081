// Needs: quiet. It mostly waits for channels to be free again.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ChatCall, ChatReply } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { openKeys, type Keys } from "../support/keys.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const otherKey = "sk-other-canary-0123456789abcdef";
const keysOfFile = [
  { name: "tester", key: clientKey },
  { name: "other", key: otherKey },
];
const waitMs = 4_000;
/** Each model has a channel of its own, so that it cools down alone. */
const models = ["served", "several", "fair", "left", "revoked", "late", "full", "twice"] as const;

type Model = (typeof models)[number];

let rig: Rig<Model>;
let plain: Rig<"a">;
let keys: Keys;

beforeAll(async () => {
  const channels = Object.fromEntries(models.map((model) => [model, { models: [model] }])) as Record<Model, { models: string[] }>;
  rig = await setUp(channels, { keys: keysOfFile, routing: { wait: `${waitMs}ms`, deadlines: { whole: "7s" } } });
  plain = await setUp({ a: {} }, { keys: keysOfFile });
  keys = await openKeys(rig.gateway);
});

afterAll(async () => {
  await keys[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
  await plain[Symbol.asyncDispose]();
});

function refusal(coolMs: number): string {
  return `fault:status@429,retry-after-ms=${coolMs}`;
}

/** Makes the only channel of a model cool down; gives the call that it turned away. */
async function cool(model: Model, coolMs: number): Promise<ChatCall> {
  const { ledger } = rig.upstream[model];
  rig.upstream[model].script([refusal(coolMs)]);
  const call = await rig.open({ model, x_first_ms: 50 });
  await rig.upstream[model].waitFor(() => ledger.chats[0]?.endedBy === "complete");
  // What the upstream has said is known to the gateway a moment later.
  await rig.gateway.waitForLog((line) => line["event"] === "cooling" && String(line["scope"]).includes(model));
  return call;
}

/** After this long, a call has been read and waits, also on a slow machine; and its channel does not serve again yet. */
function whileWaitingMs(): number {
  return Math.min(slowed(200), 1_500);
}

async function timed(call: Promise<ChatReply>): Promise<readonly [ChatReply, number]> {
  const fromMs = performance.now();
  return [await call, performance.now() - fromMs];
}

describe.concurrent("with routing.wait, while every channel cools down", () => {
  test("a call waits and is served, where it would have been refused", async () => {
    const turnedAway = await cool("served", 2_000);
    const [reply, tookMs] = await timed(rig.chat({ model: "served" }));
    expect(reply).toMatchObject({ status: 200, error: null });
    const { ledger } = rig.upstream.served;
    expect(ledger.ofCall(reply.call ?? "")[0]!.at - ledger.chats[0]!.at).toBeGreaterThan(1_900);
    expect(tookMs).toBeLessThan(slowed(waitMs));
    expect((await turnedAway.reply).status).toBe(200);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ status: 200, state: "complete", attempts: 1 });
  });

  test("the call that was turned away itself waits too, where it would not have slept it out, and more than once", async () => {
    // With seven seconds to live, nobody sleeps for more than a fourth of them.
    rig.upstream.twice.script([refusal(1_900), refusal(400)]);
    const [reply, tookMs] = await timed(rig.chat({ model: "twice" }));
    expect(reply).toMatchObject({ status: 200, error: null });
    expect(tookMs).toBeGreaterThan(2_200);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ status: 200, attempts: 3 });
  });

  test("calls go one at first and then more, not all at once, and all are served", async () => {
    await cool("several", 1_500);
    const replies = await Promise.all(Array.from({ length: 12 }, () => rig.chat({ model: "several", x_first_ms: 50 })));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    const times = rig.upstream.several.ledger.chats.map(({ at }) => at).slice(1);
    // One of the queue, and the one that was turned away; others not before the first of them was answered.
    expect(times[2]! - times[0]!).toBeGreaterThan(45);
  });

  test("keys take turns, however many calls each has", async () => {
    await cool("fair", 2_000);
    const many: ChatCall[] = [];
    for (let call = 0; call < 12; call++) many.push(await rig.open({ model: "fair", x_first_ms: 20 }));
    const few: ChatCall[] = [];
    for (let call = 0; call < 3; call++) few.push(await rig.open({ model: "fair", x_first_ms: 20 }, { key: otherKey }));
    await Promise.all([...many, ...few].map(({ reply }) => reply));
    const order = rig.upstream.fair.ledger.chats.map(({ call }) => call);
    const place = ({ call }: ChatCall): number => order.indexOf(call);
    // Everybody's third before anybody's seventh; those that leave together may arrive in any order.
    expect(Math.max(...few.map(place))).toBeLessThan(place(many[7]!));
  });

  test("a client that leaves leaves the queue: nobody is asked for it, and its receipt says so", async () => {
    await cool("left", 2_500);
    const call = await rig.open({ model: "left" }, { headers: { "x-request-id": "left-while-waiting" } });
    const behind = rig.chat({ model: "left" });
    await Bun.sleep(whileWaitingMs());
    call.abort();
    expect(await rig.accessLine("left-while-waiting")).toMatchObject({ state: "abandoned", attempts: 0 });
    expect((await behind).status).toBe(200);
    expect(rig.upstream.left.ledger.ofCall(call.call ?? "")).toHaveLength(0);
    expect(await keys.receipt("left-while-waiting")).toMatchObject({ state: "abandoned", billedNanos: 0, attempts: [] });
  });

  test("a key that is revoked does not wait on", async () => {
    await cool("revoked", 3_500);
    const { id, token } = await keys.make();
    const waiting = rig.chat({ model: "revoked" }, { key: token });
    await Bun.sleep(whileWaitingMs());
    await keys.revoke(id);
    const [reply, tookMs] = await timed(waiting);
    expect(reply).toMatchObject({ status: 401, error: { code: "key_revoked" } });
    expect(tookMs).toBeLessThan(slowed(3_000));
    expect(rig.upstream.revoked.ledger.ofCall(reply.call ?? "")).toHaveLength(0);
  });

  test("nobody is kept for what it cannot live to see: a longer cool-down is refused at once, with its wait", async () => {
    await cool("late", 8_000);
    const [reply, tookMs] = await timed(rig.chat({ model: "late" }));
    expect(reply).toMatchObject({ status: 429, error: { code: "rate_limit_exceeded" } });
    expect(tookMs).toBeLessThan(slowed(1_500));
    expect(Number(reply.response.header("retry-after-ms"))).toBeGreaterThan(5_000);
  });

  test("the queue is bounded: who finds it full is refused at once, and those in it are served", async () => {
    await cool("full", 2_500);
    const calls = await Promise.all(Array.from({ length: 110 }, () => rig.open({ model: "full" })));
    const refused = (): number => calls.filter(({ response }) => response.status === 429).length;
    await eventually("ten are refused", () => refused() >= 9, 2_000);
    const replies = await Promise.all(calls.map(({ reply }) => reply));
    const served = replies.filter(({ status }) => status === 200).length;
    expect(served).toBeGreaterThanOrEqual(99);
    expect(served + refused()).toBe(110);
  });
});

describe("without routing.wait", () => {
  test("a call is refused at once, and told when to come back", async () => {
    plain.upstream.a.script([refusal(7_000)]);
    expect((await plain.chat({ model: "m" })).status).toBe(429);
    const before = plain.upstream.a.ledger.chats.length;
    const [reply, tookMs] = await timed(plain.chat({ model: "m" }));
    expect(reply.status).toBe(429);
    expect(tookMs).toBeLessThan(slowed(1_500));
    expect(Number(reply.response.header("retry-after-ms"))).toBeGreaterThan(5_000);
    expect(plain.upstream.a.ledger.chats.length).toBe(before);
  });
});
