// Needs: quiet. It mostly waits for breakers, cool-downs and deadlines of seconds, and what it claims of times is as coarse.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startChaos } from "../support/chaos.ts";
import { header } from "../support/chaos/request.ts";
import { chat, type ChatCall, type ChatOptions, type ChatReply } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway } from "../support/gateway.ts";
import { refusedUrl } from "../support/refused-port.ts";
import { clientKey, setUp, upstreamKey, type ChannelSettings, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

/**
 * Most tests here share one gateway. Each declares a group: channels that serve one model, on upstreams and so hosts of
 * their own, because a gateway remembers what one fault taught it.
 */
const channels: Record<string, ChannelSettings> = {};
let rig: Rig<string>;

interface Group {
  readonly model: string;
  readonly chat: (body?: Record<string, unknown>, options?: ChatOptions) => Promise<ChatReply>;
  /** Which members a call was tried on, in order, such as `ab`. */
  readonly path: (reply: ChatReply) => string;
  readonly member: (name: string) => Rig<string>["upstream"][string];
}

let groups = 0;

function group(members: Readonly<Record<string, ChannelSettings>>): Group {
  const model = `group${(groups += 1)}`;
  const nameOf = (member: string): string => `${model}-${member}`;
  for (const [member, settings] of Object.entries(members)) {
    channels[nameOf(member)] = (upstream) => ({ models: [model], ...(typeof settings === "function" ? settings(upstream) : settings) });
  }
  return {
    model,
    chat: (body = {}, options = {}) => rig.chat({ model, ...body }, options),
    path: (reply) =>
      rig
        .path(reply)
        .map((name) => name.split("-")[1])
        .join(""),
    member: (name) => rig.upstream[nameOf(name)]!,
  };
}

/** An address where nobody listens. */
const nobody = refusedUrl();

/** All but certain to be asked first. */
const first = { weight: 100_000 };

beforeAll(async () => {
  rig = await setUp(channels, {}, { readyWithinMs: 20_000 });
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

function hints({ response }: ChatReply): Record<string, string | null> {
  return {
    retryAfter: response.header("retry-after"),
    retryAfterMs: response.header("retry-after-ms"),
    shouldRetry: response.header("x-should-retry"),
  };
}

describe("tiers", () => {
  const healthy = group({ c: { tier: 3 }, a: { tier: 1 }, b: { tier: 2 } });
  const failing = group({ a: { tier: 1 }, b: { tier: 2 }, c: { tier: 3 } });
  const quick = group({ a: { tier: 1 }, b: { tier: 2 } });
  const chain = group({ a: { tier: 1 }, b: { tier: 2 }, c: { tier: 3 } });

  test("the best one serves as long as it can", async () => {
    for (let round = 0; round < 10; round += 1) expect(healthy.path(await healthy.chat())).toBe("a");
    await rig.check();
  });

  test("are tried in order", async () => {
    failing.member("a").behaviour = "fault:status@401";
    failing.member("b").behaviour = "fault:status@403";
    const reply = await failing.chat();
    expect([reply.status, failing.path(reply), reply.response.header("x-sluice-attempts")]).toEqual([200, "abc", "3"]);
    // Their keys are off by now: nobody is asked in vain.
    expect(failing.path(await failing.chat())).toBe("c");
    await rig.check();
  });

  test("one that failed quickly is asked once more before a lower one", async () => {
    quick.member("a").script(["fault:status@503"]);
    expect(quick.path(await quick.chat())).toBe("aa");
    quick.member("a").script(["fault:status@503", "fault:status@502"]);
    expect(quick.path(await quick.chat())).toBe("aab");
    await rig.check();
  });

  test("one more try never takes the last attempt from a lower tier: one healthy channel is enough", async () => {
    chain.member("a").behaviour = "fault:status@503";
    chain.member("b").behaviour = "fault:status@500";
    const reply = await chain.chat();
    expect([reply.status, reply.channel]).toEqual([200, expect.stringMatching(/-c$/)]);
    await rig.check();
  });
});

describe("channels of one tier", () => {
  const weighted = group({ a: { weight: 3 }, b: { weight: 1 } });
  const renaming = group({ a: { ...first, models: { "renamed-group": "name/at-a" } }, b: { models: { "renamed-group": "name/at-b" } } });
  const five = group(Object.fromEntries(["a", "b", "c", "d", "e"].map((name) => [name, {}])));
  const large = group({ a: {}, b: {}, c: {} });

  test("share by weight", async () => {
    const calls = 160;
    const client = async (): Promise<void> => {
      for (let round = 0; round < calls / 4; round += 1) expect((await weighted.chat({ x_first_ms: 40 })).status).toBe(200);
    };
    await Promise.all(Array.from({ length: 4 }, client));
    const share = weighted.member("a").ledger.chats.length / calls;
    expect(share).toBeGreaterThan(0.6);
    expect(share).toBeLessThan(0.9);
    await rig.check();
  });

  test("each get the model by their own name for it", async () => {
    renaming.member("a").script(["fault:status@500"]);
    const reply = await renaming.chat({ model: "renamed-group" });
    expect(reply.status).toBe(200);
    expect(["a", "b"].map((name) => renaming.member(name).ledger.chats.map(({ model }) => model))).toEqual([["name/at-a"], ["name/at-b"]]);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ model: "renamed-group", upstream_model: "name/at-b", attempts: 2 });
    await rig.check();
  });

  test("are tried three times at most, each once", async () => {
    for (const name of ["a", "b", "c", "d", "e"]) five.member(name).behaviour = "fault:status@500";
    const reply = await five.chat();
    expect([reply.status, new Set(five.path(reply)).size, five.path(reply).length]).toEqual([502, 3, 3]);
    await rig.check();
  });

  test("are tried twice at most with a large body", async () => {
    for (const name of ["a", "b", "c"]) large.member(name).behaviour = "fault:status@500";
    const reply = await large.chat({ messages: [{ role: "user", content: "x".repeat(1_200_000) }] });
    expect([reply.status, large.path(reply).length]).toEqual([502, 2]);
    await rig.check();
  });
});

describe("a failure before the first content is made good by another channel", () => {
  const rows = [
    ...[408, 425, 429, 500, 502, 503, 504, 520, 529, 401, 402, 403, 404].map((status) => `fault:status@${status}`),
    "fault:insufficient-quota",
    "fault:bad-key-400",
    "fault:redirect@302,http://127.0.0.1:1/",
    "fault:close-before-headers",
    "fault:rst-before-headers",
    "fault:rst-mid-headers",
    "fault:garbage",
    "fault:html-200",
    "fault:error-in-200@500",
    "fault:rst-before-content",
    "fault:bad-chunk-size@0",
    "fault:hang-after-headers",
    "fault:finish-error",
  ].map((fault) => ({
    fault,
    pair: group({ a: { ...first, timeouts: { first_content: "400ms", first_byte: "400ms", idle: "400ms" } }, b: {} }),
  }));

  test.each(rows)("$fault", async ({ fault, pair }) => {
    pair.member("a").behaviour = fault;
    for (const stream of [false, true]) {
      const startedAt = performance.now();
      const reply = await pair.chat({}, { stream });
      expect([reply.status, reply.error, reply.finishReason]).toEqual([200, null, "stop"]);
      // The second call may know better than to ask a.
      if (!stream || pair.path(reply) !== "b") expect(pair.path(reply)).toBe("ab");
      expect(performance.now() - startedAt).toBeLessThan(slowed(2_000));
    }
    await rig.check();
  });

  const refused = group({ a: { ...first, base_url: refusedUrl() }, b: {} });
  test("connection refused, and after five of them nobody dials any more", async () => {
    for (let round = 0; round < 8; round += 1) {
      const reply = await refused.chat();
      expect([reply.status, reply.response.header("x-sluice-attempts")]).toEqual([200, round < 5 ? "2" : "1"]);
    }
    await rig.check({ upstreams: [refused.member("b")] });
  });
});

describe("F49: when everybody fails, the client is told", () => {
  const short = { timeouts: { first_content: "800ms", first_byte: "800ms" } };
  const unreachable = group({ a: { base_url: nobody }, b: { base_url: nobody.replace("127.0.0.1", "127.0.0.2") } });
  const overloaded = group({ a: {}, b: {} });
  const limited = group({ a: {}, b: {} });
  const patient = group({ a: {}, b: {} });
  const hung = group({ a: short, b: short });
  const unauthorised = group({ a: {}, b: {} });
  const missing = group({ a: {}, b: {} });
  const broken = group({ a: {}, b: {} });

  async function ask(who: Group, fault: string, options: ChatOptions = {}): Promise<ChatReply> {
    for (const name of ["a", "b"]) who.member(name).behaviour = fault;
    return who.chat({}, options);
  }

  test("all refuse the connection: 502", async () => {
    const reply = await unreachable.chat();
    expect([reply.status, reply.error?.type, reply.error?.code]).toEqual([502, "api_error", "upstream_unreachable"]);
    expect(hints(reply)).toEqual({ retryAfter: null, retryAfterMs: null, shouldRetry: "false" });
    await rig.check();
  });

  test("all are overloaded: 503", async () => {
    const reply = await ask(overloaded, "fault:status@503");
    expect([reply.status, reply.error?.type, reply.error?.code]).toEqual([503, "service_unavailable_error", "upstream_unavailable"]);
    expect(hints(reply).shouldRetry).toBe("false");
    expect(overloaded.path(reply).length).toBe(3);
    await rig.check();
  });

  test("all limit us: 429 with the sooner of their waits, and at once the next time", async () => {
    limited.member("a").behaviour = "fault:rate-limit@retry-after=30";
    limited.member("b").behaviour = "fault:rate-limit@retry-after=12";
    const reply = await limited.chat();
    expect([reply.status, reply.error?.type, reply.error?.code]).toEqual([429, "rate_limit_error", "rate_limit_exceeded"]);
    expect(limited.path(reply).length).toBe(2);
    const again = await limited.chat();
    expect([again.status, limited.path(again)]).toEqual([429, ""]);
    for (const { retryAfter, retryAfterMs, shouldRetry } of [reply, again].map(hints)) {
      expect(Number(retryAfter)).toBeGreaterThanOrEqual(11);
      expect(Number(retryAfter)).toBeLessThanOrEqual(15);
      expect(Math.ceil(Number(retryAfterMs) / 1_000)).toBe(Number(retryAfter));
      expect(shouldRetry).toBe(null);
    }
    await rig.check();
  });

  test("for longer than clients understand: 429 that says not to retry", async () => {
    const reply = await ask(patient, "fault:rate-limit@retry-after=1000");
    expect([reply.status, hints(reply)]).toEqual([429, { retryAfter: "60", retryAfterMs: "60000", shouldRetry: "false" }]);
    await rig.check();
  });

  test.each([false, true])("all hang: 504 (stream %p)", async (stream) => {
    const startedAt = performance.now();
    const reply = await ask(hung, "fault:silent", { stream });
    expect([reply.status, reply.error?.type, reply.error?.code]).toEqual([504, "api_error", "upstream_timeout"]);
    expect(hints(reply).shouldRetry).toBe("false");
    expect(hung.path(reply).length).toBe(2);
    expect(performance.now() - startedAt).toBeLessThan(slowed(3_500));
    await rig.check();
  });

  test("all refuse our keys: 502, never the client's own 401", async () => {
    const reply = await ask(unauthorised, "fault:status@401");
    expect([reply.status, reply.error?.code, hints(reply).shouldRetry]).toEqual([502, "upstream_auth_failed", "false"]);
    await rig.check();
  });

  test("none has the model: 502", async () => {
    const reply = await ask(missing, "fault:status@404");
    expect([reply.status, reply.error?.code, hints(reply).shouldRetry]).toEqual([502, "upstream_model_missing", "false"]);
    await rig.check();
  });

  test("all send garbage: 502", async () => {
    const reply = await ask(broken, "fault:html-200");
    expect([reply.status, reply.error?.code, hints(reply).shouldRetry]).toEqual([502, "upstream_invalid_response", "false"]);
    await rig.check();
  });
});

describe("an outage of every channel", () => {
  const all = group({ a: { tier: 1 }, b: { tier: 2 } });

  test("is over for the clients when one of them recovers, whichever it is", async () => {
    const [a, b] = [all.member("a"), all.member("b")];
    a.behaviour = "fault:status@503";
    b.behaviour = "fault:recovering@9";
    await eventually("a call is served", async () => (await all.chat()).status === 200, 30_000);

    // They are asked in turn: between b's last failure and its first success, a was asked once or twice.
    const [failedAt, servedAt] = [b.ledger.chats[8]!.at, b.ledger.chats[9]!.at];
    expect(a.ledger.chats.filter(({ at }) => at > failedAt && at < servedAt).length).toBeLessThanOrEqual(3);

    // And from now on all of them are, though the other one is still down.
    for (let round = 0; round < 5; round += 1) expect((await all.chat()).status).toBe(200);
    await rig.check();
  });
});

describe("a refusal that only the client can fix is not repeated", () => {
  const sizes = group({
    a: { ...first, capabilities: { context_tokens: 8_192 } },
    b: { weight: 100, capabilities: { context_tokens: 8_192 } },
    c: { capabilities: { context_tokens: 128_000 } },
  });
  const small = group({ a: { ...first, capabilities: { context_tokens: 8_192 } }, b: {} });
  const unknown = group({ a: { ...first }, b: { weight: 100 }, c: { weight: 0.001 } });
  const bodies = group({ a: { ...first }, b: { weight: 100 }, c: { weight: 0.001 } });
  const policy = group({ a: first, b: {} });
  const invalid = group({ a: first, b: {} });

  test("a prompt that is too long goes to a larger declared context", async () => {
    sizes.member("a").behaviour = "fault:context-length";
    const reply = await sizes.chat();
    expect([reply.status, sizes.path(reply)]).toEqual([200, "ac"]);
    await rig.check();
  });

  test("or else to one whose context is not known", async () => {
    small.member("a").behaviour = "fault:context-length";
    const reply = await small.chat();
    expect([reply.status, small.path(reply)]).toEqual([200, "ab"]);
    await rig.check();
  });

  test("and then to nobody", async () => {
    for (const name of ["a", "b", "c"]) unknown.member(name).behaviour = "fault:context-length";
    const reply = await unknown.chat();
    expect([reply.status, reply.error?.code, unknown.path(reply), hints(reply).shouldRetry]).toEqual([
      400,
      "context_length_exceeded",
      "ab",
      "false",
    ]);
    await rig.check();
  });

  test("a body that is too large for the proxy of one host goes to another, once", async () => {
    for (const name of ["a", "b"]) bodies.member(name).behaviour = "fault:too-large-html";
    const reply = await bodies.chat();
    expect([reply.status, reply.error?.code, bodies.path(reply)]).toEqual([413, "request_too_large", "ab"]);
    bodies.member("b").behaviour = null;
    const served = await bodies.chat();
    expect([served.status, bodies.path(served)]).toEqual([200, "ab"]);
    await rig.check();
  });

  test("what a content policy refuses goes nowhere", async () => {
    policy.member("a").behaviour = "fault:content-policy";
    const reply = await policy.chat();
    expect([reply.status, reply.error?.code, policy.path(reply)]).toEqual([400, "content_policy_violation", "a"]);
    await rig.check();
  });

  test.each([400, 414, 422, 431])("nor does a mistake (%p), however often it is made", async (status) => {
    invalid.member("a").behaviour = `fault:status@${status}`;
    for (let round = 0; round < 7; round += 1) {
      const reply = await invalid.chat();
      expect([reply.status, invalid.path(reply)]).toEqual([status, "a"]);
    }
    await rig.check();
  });
});

describe("tools that act at the upstream", () => {
  const acting = group({ a: { ...first }, b: {} });
  const tools = [{ type: "web_search" }];

  test("are not set in motion twice when nobody knows whether they were once", async () => {
    acting.member("a").script(["fault:rst-before-headers"]);
    const reply = await acting.chat({ tools });
    expect([reply.status, acting.path(reply)]).toEqual([502, "a"]);
    await rig.check();
  });

  test("are, when the first was certainly turned away", async () => {
    acting.member("a").script(["fault:status@503"]);
    const reply = await acting.chat({ tools });
    expect([reply.status, acting.path(reply)]).toEqual([200, "ab"]);
    await rig.check();
  });
});

describe("a pooled channel", () => {
  const keys = ["1", "2", "3"].map((name) => `${upstreamKey("pool")}-${name}`);
  const rotating = group({ p: { api_keys: keys } });
  const faulty = ["fault:status@401", "fault:insufficient-quota", "fault:rate-limit@retry-after=40"].map((fault) => ({
    fault,
    pool: group({ p: { api_keys: keys } }),
  }));

  function keysUsed(who: Group): readonly string[] {
    return who.member("p").ledger.chats.map((attempt) => header(attempt, "authorization")?.replace("Bearer ", "") ?? "");
  }

  test("uses all its keys in turn", async () => {
    for (let round = 0; round < 60; round += 1) await rotating.chat();
    for (const key of keys) expect(keysUsed(rotating).filter((used) => used === key).length).toBeGreaterThan(5);
    await rig.check({ secrets: keys });
  });

  test.each(faulty)("leaves out a key that was refused, and no other ($fault)", async ({ fault, pool }) => {
    pool.member("p").script([fault]);
    const reply = await pool.chat();
    expect([reply.status, pool.path(reply)]).toEqual([200, "pp"]);
    const [refused, next] = keysUsed(pool);
    expect(next).not.toBe(refused);
    for (let round = 0; round < 25; round += 1) expect((await pool.chat()).status).toBe(200);
    const later = keysUsed(pool).slice(1);
    expect(later).not.toContain(refused);
    expect(new Set(later).size).toBe(2);
    await rig.check({ secrets: keys });
  });
});

describe("a cool-down", () => {
  const account = group({ a: { ...first, quota: "acme" }, b: { weight: 100, quota: "acme" }, c: {} });
  const other = group({ b: { quota: "acme" } });
  const alone = group({ a: first, b: {} });

  test("of an account holds for every channel that shares it", async () => {
    account.member("a").behaviour = "fault:rate-limit@retry-after=50";
    const reply = await account.chat();
    expect([reply.status, account.path(reply)]).toEqual([200, "ac"]);
    for (let round = 0; round < 5; round += 1) expect(account.path(await account.chat())).toBe("c");
    // Another model of the same account has nowhere to go, and is told when.
    const stranded = await other.chat();
    expect([stranded.status, other.path(stranded)]).toEqual([429, ""]);
    await rig.check();
  });

  test("of one channel is over when it was said to be", async () => {
    alone.member("a").script(["fault:rate-limit@retry-after=1"]);
    const reply = await alone.chat();
    expect(alone.path(reply)).toBe("ab");
    expect(alone.path(await alone.chat())).toBe("b");
    const limitedAt = alone.member("a").ledger.chats[0]!.at;
    await eventually("a is asked again", async () => alone.path(await alone.chat()) === "a", 5_000);
    expect(alone.member("a").ledger.chats[1]!.at - limitedAt).toBeGreaterThan(990);
    await rig.check();
  });
});

describe("the budget of retries", () => {
  const storm = group({ a: {}, b: {} });
  const mild = group({ a: {}, b: {} });
  const impatient = group({ a: { ...first }, b: {} });
  const calm = group({ a: { ...first }, b: {} });

  async function offer(who: Group, calls: number): Promise<readonly ChatReply[]> {
    const replies: ChatReply[] = [];
    const client = async (): Promise<void> => {
      while (replies.length + 50 <= calls) replies.push(await chat(rig.gateway, { model: who.model }, { key: clientKey }));
    };
    await Promise.all(Array.from({ length: 50 }, client));
    return replies;
  }

  function reached(who: Group): number {
    return ["a", "b"].reduce((sum, name) => sum + who.member(name).ledger.chats.length, 0);
  }

  test("P14: keeps a storm at a quarter more than was offered, whatever fails (503)", async () => {
    for (const name of ["a", "b"]) storm.member(name).behaviour = "fault:status@503";
    const replies = await offer(storm, 800);
    expect(reached(storm)).toBeLessThanOrEqual(1.25 * replies.length);
    for (const { status } of replies) expect([429, 502, 503]).toContain(status);
    await rig.check({ calls: replies.length });
  });

  test("P14: and where no breaker helps, because it is nobody's fault", async () => {
    for (const name of ["a", "b"]) mild.member(name).behaviour = "fault:finish-error";
    const replies = await offer(mild, 800);
    expect(reached(mild)).toBeLessThanOrEqual(1.25 * replies.length);
    expect(reached(mild)).toBeGreaterThan(replies.length);
    await rig.check({ calls: replies.length });
  });

  test("is drawn on by clients that retry by themselves", async () => {
    for (const [who, count, path] of [
      [calm, "0", "ab"],
      [impatient, "1", "a"],
    ] as const) {
      for (let round = 0; round < 45; round += 1) await who.chat({}, { headers: { "x-stainless-retry-count": count } });
      who.member("a").script(["fault:status@500"]);
      expect(who.path(await who.chat())).toBe(path);
    }
    await rig.check();
  });
});

describe("calls whose channel goes down under all of them", () => {
  const wave = group({ a: { tier: 1 }, b: { tier: 2 } });
  const narrowing = group({ a: { tier: 1 }, b: { tier: 2, concurrency: 5 }, c: { tier: 3 } });

  async function fallen(model: string, a: Rig<string>["upstream"][string]): Promise<readonly ChatReply[]> {
    a.behaviour = "fault:silent";
    const calls = await Promise.all(Array.from({ length: 25 }, () => rig.open({ model })));
    await a.waitFor(({ chats }) => chats.length >= 25);
    // Whoever finds its connection stale asks it once more.
    a.behaviour = "fault:status@500";
    await a.resetConnections();
    return Promise.all(calls.map(({ reply }) => reply));
  }

  test("are all served by the next one", async () => {
    const replies = await fallen(wave.model, wave.member("a"));
    expect(replies.filter(({ status }) => status !== 200)).toEqual([]);
    expect(wave.member("b").ledger.chats.length).toBe(25);
    await rig.check();
  });

  test("do not exceed its capacity", async () => {
    const b = narrowing.member("b");
    // Its places are taken until all the others have gone elsewhere.
    b.behaviour = "fault:held";
    const falling = fallen(narrowing.model, narrowing.member("a"));
    await narrowing.member("c").waitFor(({ chats }) => chats.length === 20);
    b.release();
    const replies = await falling;
    expect(replies.filter(({ status }) => status !== 200)).toEqual([]);
    expect(b.ledger.chats.length).toBe(5);
    await rig.check();
  });
});

describe("a channel that is full", () => {
  const busy = group({ a: { tier: 1, concurrency: 2 }, b: { tier: 2 } });
  const narrow = group({ a: { concurrency: 2 } });
  const waited = group({ a: { concurrency: 2 } });

  async function occupied(who: Group): Promise<readonly ChatCall[]> {
    who.member("a").behaviour = "fault:hang-after@2";
    const calls = await Promise.all([1, 2].map(() => rig.open({ model: who.model }, { stream: true })));
    for (const call of calls) await call.untilBody(100);
    return calls;
  }

  test("is passed over for the next", async () => {
    const calls = await occupied(busy);
    expect(busy.path(await busy.chat())).toBe("b");
    for (const call of calls) call.abort();
    busy.member("a").behaviour = null;
    await eventually("a has room again", async () => busy.path(await busy.chat()) === "a");
    await rig.check();
  });

  test("and alone is waited for, by as many as get capacity in two seconds", async () => {
    const calls = await occupied(waited);
    waited.member("a").behaviour = null;
    const waiting = await Promise.all(Array.from({ length: 5 }, () => rig.open({ model: waited.model })));
    const left = await rig.open({ model: waited.model }, { headers: { "x-request-id": "left-without-a-place" } });
    // Long enough for all of them to find it full. Whoever has not is served all the same.
    await Bun.sleep(Math.min(slowed(300), 1_000));
    expect(waited.member("a").ledger.chats.length).toBe(2);
    left.abort();
    expect(await rig.accessLine("left-without-a-place")).toMatchObject({ state: "abandoned", attempts: 0 });
    calls[0]!.abort();
    for (const { reply } of waiting) expect([(await reply).status, waited.path(await reply)]).toEqual([200, "a"]);
    calls[1]!.abort();
    await rig.check();
  });

  test("and alone makes it a 503 that says when to come back, where nobody leaves in time", async () => {
    const calls = await occupied(narrow);
    const fromMs = performance.now();
    const reply = await narrow.chat();
    expect(performance.now() - fromMs).toBeWithin(1_950, 4_000);
    expect([reply.status, reply.error?.code, narrow.path(reply)]).toEqual([503, "channel_saturated", ""]);
    expect(Number(hints(reply).retryAfter)).toBeGreaterThanOrEqual(1);
    expect(hints(reply).shouldRetry).toBe(null);
    for (const call of calls) call.abort();
    await rig.check();
  });

  test("and so does a gateway that is full, without looking at the request", async () => {
    await using own = await setUp({ a: {} }, { server: { in_flight: 2 } });
    const calls = await Promise.all([1, 2].map(() => own.open({ model: "fault:hang-after@2" }, { stream: true })));
    for (const call of calls) await call.untilBody(100);
    const reply = await own.chat("not even JSON");
    expect([reply.status, reply.error?.code, reply.response.header("retry-after")]).toEqual([503, "overloaded", "1"]);
    for (const call of calls) call.abort();
    await eventually("it has room again", async () => (await own.chat({ model: "fine" })).status === 200);
    await own.check();
  });
});

describe("an address that is discovered", () => {
  test("serves nothing while its list cannot be had, and everything once it can", async () => {
    await using upstream = await startChaos({ name: "late", models: ["late-model"] });
    upstream.modelsBehaviour = "fault:status@500";
    const channel = { name: "late", base_url: upstream.url };
    await using gateway = await startGateway({ config: { keys: [{ name: "tester", key: clientKey }], channels: [channel] } });
    const ask = () => chat(gateway, { model: "late-model" }, { key: clientKey });
    expect([(await ask()).status, (await ask()).error?.code]).toEqual([404, "model_not_found"]);
    expect(await gateway.waitForLog(({ event }) => event === "discovery_failed")).toMatchObject({ channel: "late" });

    upstream.modelsBehaviour = "ok";
    gateway.signal("SIGHUP");
    await gateway.waitForLog(({ event }) => event === "discovered");
    await eventually("it is served", async () => (await ask()).status === 200);

    // What was once known stays known when a later question fails.
    upstream.modelsBehaviour = "fault:status@500";
    const reloads = () => gateway.logs.filter(({ event }) => event === "reloaded").length;
    const before = reloads();
    gateway.signal("SIGHUP");
    await eventually("reloaded", () => reloads() > before);
    expect((await ask()).status).toBe(200);
  });
});

describe("a call's own time", () => {
  test("F73: ends it, with as many attempts as fit", async () => {
    const hanging = { timeouts: { first_content: "600ms", first_byte: "600ms" } };
    await using own = await setUp(
      { a: hanging, b: hanging, c: hanging },
      { routing: { attempts: 3, deadlines: { stream: "1s", whole: "1s" } } },
    );
    for (const upstream of own.upstreams) upstream.behaviour = "fault:silent";
    for (const stream of [false, true]) {
      const startedAt = performance.now();
      const reply = await own.chat({ model: `deadline-${stream}` }, { stream });
      const tookMs = performance.now() - startedAt;
      expect([reply.status, reply.error?.code]).toEqual([504, "upstream_timeout"]);
      expect(own.path(reply).length).toBe(2);
      expect(tookMs).toBeGreaterThan(900);
      expect(tookMs).toBeLessThan(slowed(1_100 + 1_000));
    }
    await own.check();
  });
});

describe.concurrent("over time", () => {
  /** Calls, a few at a time, until told to stop. */
  async function load(
    own: Rig<string>,
    model: string,
    during: () => Promise<void>,
  ): Promise<readonly { readonly at: number; readonly reply: ChatReply }[]> {
    const replies: { readonly at: number; readonly reply: ChatReply }[] = [];
    let over = false;
    const client = async (): Promise<void> => {
      while (!over) {
        const at = performance.now();
        // Of a length that a busy machine does not double, or channels would be told apart by that.
        const body = { model, x_first_ms: 40 };
        replies.push({ at, reply: await chat(own.gateway, body, { key: clientKey, stream: replies.length % 2 === 0 }) });
      }
    };
    const clients = Array.from({ length: 4 }, client);
    try {
      await during();
    } finally {
      over = true;
      await Promise.all(clients);
    }
    return replies;
  }

  function failed(replies: readonly { readonly reply: ChatReply }[]): number {
    return replies.filter(({ reply }) => reply.status !== 200 || reply.error !== null).length;
  }

  const rest = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

  test("F50, F52: a channel that flaps is left alone after five failures, probed by one call at a time, and eased back in", async () => {
    await using own = await setUp({ a: {}, b: {} });
    const { a } = own.upstream;
    const cooling = () => own.gateway.logs.filter(({ event }) => event === "cooling").length;
    let downAt = 0;
    let upAt = 0;
    const replies = await load(own, "flapping", async () => {
      for (let flap = 0; flap < 4; flap += 1) {
        a.behaviour = flap % 2 === 0 ? null : "fault:status@500";
        await rest(200);
      }
      a.behaviour = "fault:status@500";
      await eventually("the breaker is open", () => cooling() > 0);
      downAt = performance.now();
      await rest(500);
      // What a probe meets takes its time, so that two at once would be seen.
      a.behaviour = "fault:delay@150";
      await eventually("it has been probed", () => a.ledger.chats.some(({ at }) => at > downAt + 1_000), 8_000);
      upAt = a.ledger.chats.find(({ at }) => at > downAt + 1_000)!.at;
      await rest(1_500);
    });
    expect(failed(replies)).toBe(0);
    // Nobody asks while it is open: the first to come is the probe, and it comes alone.
    expect(upAt - downAt).toBeGreaterThan(3_500);
    const probes = a.ledger.chats.filter(({ at }) => at >= upAt).slice(0, 2);
    expect(probes[1]!.at).toBeGreaterThanOrEqual(probes[0]!.closedAt!);
    // Then it has a tenth of its weight, and more only over half a minute.
    const after = replies.filter(({ at }) => at > (probes[1]!.closedAt ?? 0));
    const share = after.filter(({ reply }) => reply.channel === "a").length / after.length;
    expect(share).toBeLessThan(0.4);
    await own.check({ calls: replies.length });
  });

  test("F51: a channel that fails now and then is kept, and nobody notices", async () => {
    await using own = await setUp({ a: {}, b: {} });
    const { a } = own.upstream;
    const good = "ok";
    const bad = "fault:status@500";
    a.script(Array.from({ length: 100 }, () => [good, bad, good, good, bad, good, good, bad, good, good]).flat());
    let replies: readonly { readonly at: number; readonly reply: ChatReply }[] = [];
    replies = await load(own, "moody", async () => eventually("enough", () => a.ledger.chats.length >= 120, 40_000));
    expect(failed(replies)).toBe(0);
    const late = replies.slice(-Math.floor(replies.length / 3));
    expect(late.filter(({ reply }) => own.path(reply).includes("a")).length).toBeGreaterThan(late.length * 0.25);
    expect(own.gateway.logs.some(({ event }) => event === "cooling")).toBe(false);
    await own.check({ calls: replies.length });
  });

  test("F53: the only channel is never given up: throttled while it fails, back within seconds", async () => {
    await using own = await setUp({ a: {} });
    const { a } = own.upstream;
    a.behaviour = "fault:status@500";
    const failing = await load(own, "only", () => rest(2_500));
    expect(failed(failing)).toBe(failing.length);
    for (const { reply } of failing) expect([502, 503]).toContain(reply.status);
    a.behaviour = null;
    const healedAt = performance.now();
    await eventually("it serves again", async () => (await chat(own.gateway, { model: "only" }, { key: clientKey })).status === 200, 5_000);
    expect(performance.now() - healedAt).toBeLessThan(slowed(5_000));
    await eventually("and again", async () => (await chat(own.gateway, { model: "only" }, { key: clientKey })).status === 200, 5_000);
    await own.gateway.waitForLog(({ event, state }) => event === "call" && state === "complete");
    expect(own.gateway.running).toBe(true);
  });
});
