// Needs: quiet. It mostly waits for clients that do not read; the memory that it measures is that of its own gateway.
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { openChat, readChat, RawConnection, RawResponse, rawRequest, type ChatCall, type ChatReply } from "../support/client.ts";
import { collected, collects } from "../support/collected.ts";
import type { Attempt } from "../support/chaos/ledger.ts";
import { eventually } from "../support/eventually.ts";
import { startGateway, type LogLine } from "../support/gateway.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

setDefaultTimeout(60_000);

const bodyLimit = 64 * 1024;
const bodyReadMs = 600;
const writeStallMs = 1_200;
const earlyHeadersMs = 200;
/** The promise is 50 ms; a machine that runs other tests as well may be late itself. */
const closedWithinMs = 250;

let rig: Rig<"a" | "b" | "lone" | "handshake">;
/** Used before everything else, so that it has been idle for long when the last tests come to it. */
let kept: RawConnection;
/** Begun before everything else: one never says anything, the other never comes to the end of its headers. */
let mute: Lingering;
let hesitant: Lingering;
const latencies: string[] = [];
/** The same in every phase, in milliseconds. */
const closedAfterMs: number[] = [];

beforeAll(async () => {
  rig = await setUp(
    {
      a: { tier: 1 },
      b: { tier: 2 },
      lone: { models: ["limited"] },
      // A plain listener never answers the first words of TLS, so the connection is never made.
      handshake: (upstream) => ({ models: ["stalled"], base_url: upstream.url.replace("http:", "https:") }),
    },
    {
      server: {
        body_limit: `${bodyLimit / 1024}KiB`,
        body_read: `${bodyReadMs}ms`,
        write_stall: `${writeStallMs}ms`,
        early_headers: `${earlyHeadersMs}ms`,
        in_flight: 1000,
        linger: "0ms",
      },
    },
    { env: collects },
  );
  kept = await RawConnection.open(rig.gateway.url);
  await exchange(kept, { model: "kept", stream: true }, "idle-1");
  mute = await linger(async () => {});
  hesitant = await linger((connection) => connection.send(head({}, ""), 1_000));
  await rig.check({ calls: 1 });
});

afterAll(async () => {
  if (latencies.length > 0) console.log(`upstream closed after the client left (ms): ${latencies.join(", ")}`);
  for (const connection of [kept, mute?.connection, hesitant?.connection]) connection?.close();
  await rig[Symbol.asyncDispose]();
});

afterEach(() => {
  for (const upstream of rig.upstreams) upstream.behaviour = null;
});

interface Lingering {
  readonly connection: RawConnection;
  readonly startedAt: number;
  endedAt: number | null;
}

async function linger(send: (connection: RawConnection) => Promise<void>): Promise<Lingering> {
  const connection = await RawConnection.open(rig.gateway.url);
  const lingering: Lingering = { connection, startedAt: performance.now(), endedAt: null };
  void connection.receive(new RawResponse()).then(() => (lingering.endedAt = performance.now()));
  void send(connection);
  return lingering;
}

async function exchange(connection: RawConnection, body: Record<string, unknown>, id: string): Promise<ChatReply> {
  await connection.send(request(body, { "x-request-id": id }));
  return readChat(await connection.receive(new RawResponse()), null);
}

let named = 0;

/** A call that is known by its id even if no answer ever comes. */
async function openNamed(
  body: Record<string, unknown>,
  options: Parameters<typeof rig.open>[1] = {},
): Promise<ChatCall & { readonly id: string }> {
  const id = `abort-${(named += 1)}`;
  const call = await rig.open(body, { ...options, headers: { "x-request-id": id } });
  return { ...call, id };
}

async function attemptOf(call: ChatCall): Promise<Attempt> {
  const attempts = () => rig.upstreams.flatMap(({ ledger }) => ledger.chats.filter((attempt) => attempt.call === call.call));
  await eventually("the attempt has arrived", () => attempts().length > 0);
  return attempts()[0]!;
}

/** The upstream's own count stands still: whoever is in between has stopped reading. */
async function untilPaused(attempts: readonly Pick<Attempt, "bytesSent">[]): Promise<number> {
  const sum = () => attempts.reduce((bytes, attempt) => bytes + attempt.bytesSent, 0);
  let before = -1;
  let sinceMs = performance.now();
  await eventually("the upstream is paused", () => {
    const now = sum();
    if (now !== before) sinceMs = performance.now();
    before = now;
    return now > 0 && performance.now() - sinceMs > 150;
  });
  return before;
}

interface Phase {
  readonly name: string;
  readonly body: Record<string, unknown>;
  readonly stream: boolean;
  /** Resolves when the call has reached the phase. */
  readonly reached: (call: ChatCall) => Promise<void>;
}

const arrived = async (call: ChatCall): Promise<void> => void (await attemptOf(call));
const headSent = async (call: ChatCall): Promise<void> => {
  const attempt = await attemptOf(call);
  await eventually("the head has been sent", () => attempt.bytesSent > 0);
};

const phases: readonly Phase[] = [
  { name: "waits for the head of a stream", body: { model: "fault:silent" }, stream: true, reached: arrived },
  { name: "waits for an answer that is not streamed", body: { model: "fault:silent" }, stream: false, reached: arrived },
  { name: "waits for the first content", body: { model: "fault:hang-after-headers" }, stream: true, reached: headSent },
  { name: "has its own head and waits for content", body: { model: "fault:silent" }, stream: true, reached: (call) => call.untilBody(10) },
  { name: "waits for the body of a whole answer", body: { model: "fault:hang-after-headers" }, stream: false, reached: headSent },
  { name: "is in the middle of half a whole answer", body: { model: "fault:hang-after" }, stream: false, reached: headSent },
  {
    name: "reads a stream that has fallen silent",
    body: { model: "fault:hang-after@3" },
    stream: true,
    reached: (call) => call.untilBody(300),
  },
  {
    name: "reads a stream that flows",
    body: { model: "flows", x_tokens: 100_000, x_pace_ms: 2 },
    stream: true,
    reached: (call) => call.untilBody(300),
  },
  {
    name: "has stopped reading, and the stream is parked",
    body: { model: "fault:flood" },
    stream: true,
    reached: async (call) => {
      await call.untilBody(1_000);
      call.stopReading();
      await untilPaused([await attemptOf(call)]);
    },
  },
];

describe("F34: a client that leaves takes the upstream with it while it", () => {
  describe.each(["close", "reset"] as const)("(by %s)", (abortBy) => {
    test.each(phases)("$name", async ({ name, body, stream, reached }) => {
      const call = await openNamed(body, { stream, abortBy });
      await reached(call);
      const attempt = await attemptOf(call);
      const abortedAt = performance.now();
      call.abort();
      await eventually("the upstream is closed", () => attempt.closedAt !== null);
      const tookMs = attempt.closedAt! - abortedAt;
      latencies.push(`${Math.round(tookMs)} (${name})`);
      closedAfterMs.push(tookMs);
      expect(attempt.endedBy).toBe("client_closed");
      expect(tookMs).toBeLessThan(slowed(closedWithinMs));

      const line = await rig.accessLine(call.id);
      expect(line).toMatchObject({ state: "abandoned", error: "client_gone", attempts: 1, channel: null });
      // A status that was sent is told as it was; one that never was is told as the client's departure.
      expect(line["status"]).toBe(call.response.status === 0 ? 499 : 200);
      // A flood is not in the ledger of words.
      await rig.check({ abortedAt, oneAttemptSpeaks: body["model"] !== "fault:flood" });
    });
  });

  test("is closed within 50 ms in most of these, whatever else the machine does", () => {
    const sorted = closedAfterMs.toSorted((one, other) => one - other);
    expect(sorted.length).toBe(2 * phases.length);
    expect(sorted[Math.floor(sorted.length * 0.75)]).toBeLessThan(50);
  });

  test("waits for a connection to be made", async () => {
    const { ledger } = rig.upstream.handshake;
    const call = await openNamed({ model: "stalled" }, { stream: true });
    await eventually("somebody has called", () => ledger.connectionsOpen > 0);
    const abortedAt = performance.now();
    call.abort();
    await eventually("and has hung up", () => ledger.connectionsOpen === 0);
    const tookMs = (ledger.connections.at(-1)?.closedAt ?? Number.NaN) - abortedAt;
    latencies.push(`${Math.round(tookMs)} (connecting)`);
    expect(tookMs).toBeLessThan(slowed(closedWithinMs));
    expect(await rig.accessLine(call.id)).toMatchObject({ status: 499, state: "abandoned", attempts: 1 });
    await rig.check({ abortedAt });
  });

  test("backs off between two attempts, and while it is held back by another's back-off", async () => {
    const waitMs = 1_200;
    const { lone } = rig.upstream;
    lone.script([`fault:retry-after-ms@${waitMs}`]);
    const backingOff = await openNamed({ model: "limited" });
    const refused = await attemptOf(backingOff);
    await eventually("the refusal is out", () => refused.endedBy === "complete");
    await rig.gateway.waitForLog(({ event, scope }) => event === "cooling" && String(scope).includes("limited"));
    const heldBack = await openNamed({ model: "limited" });
    // Long enough to be read.
    await Bun.sleep(300);
    const abortedAt = performance.now();
    backingOff.abort();
    heldBack.abort();
    expect(await rig.accessLine(backingOff.id)).toMatchObject({ status: 499, state: "abandoned", attempts: 1 });
    expect(await rig.accessLine(heldBack.id)).toMatchObject({ status: 499, state: "abandoned", attempts: 0 });
    expect(performance.now() - abortedAt).toBeLessThan(slowed(waitMs / 2));
    // Had either gone on in secret, it would have been seen by now.
    await eventually("the wait would be over", () => performance.now() > refused.at + waitMs * 1.3);
    expect(lone.ledger.chats.length).toBe(1);
    await rig.check({ abortedAt });
  });

  test("still sends its request", async () => {
    const before = rig.upstreams.map(({ ledger }) => ledger.connectionsAccepted);
    const connection = await RawConnection.open(rig.gateway.url);
    await connection.send(head({ "x-request-id": "half-a-request", "Content-Length": "1000" }, '{"model":"flows",'));
    // Long enough to be read.
    await Bun.sleep(300);
    connection.close();
    expect(await rig.accessLine("half-a-request")).toMatchObject({ status: 499, state: "abandoned", attempts: 0, model: null });
    expect(rig.upstreams.map(({ ledger }) => ledger.connectionsAccepted)).toEqual(before);
    await rig.check({ calls: 1 });
  });

  test("is one of a hundred who leave at once", async () => {
    const calls = await Promise.all(
      Array.from({ length: 100 }, (_, at) =>
        openNamed(at % 2 === 0 ? { model: "fault:hang-after@2" } : { model: "fault:silent" }, { stream: at % 3 !== 0 }),
      ),
    );
    const attempts = await Promise.all(calls.map(attemptOf));
    const abortedAt = performance.now();
    for (const call of calls) call.abort();
    await eventually("every upstream is closed", () => attempts.every(({ closedAt }) => closedAt !== null));
    const slowest = Math.max(...attempts.map(({ closedAt }) => closedAt! - abortedAt));
    latencies.push(`${Math.round(slowest)} (the last of a hundred)`);
    expect(slowest).toBeLessThan(slowed(4 * closedWithinMs));
    await rig.check({ abortedAt });
    const lines = rig.gateway.accessLines().slice(-100);
    expect(lines.every(({ state }) => state === "abandoned")).toBe(true);
  });
});

test("F34: at whatever moment a client leaves, its call ends once and is told of once", async () => {
  const behaviours = [
    "fault:silent",
    "fault:hang-after-headers",
    "fault:hang-after@2",
    "flows",
    "fault:status@503",
    "fault:rst-after@2",
    "fault:retry-after-ms@50",
  ];
  const left: { readonly id: string; readonly call: string | null }[] = [];
  for (let wave = 0; wave < 4; wave += 1) {
    const calls = await Promise.all(
      Array.from({ length: 70 }, async (_, at) => {
        const model = behaviours[at % behaviours.length]!;
        // Half of them leave while the head is sent to them on its own, which happens at the same moment for all.
        const afterMs = at % 2 === 0 ? earlyHeadersMs - 10 + at / 3 : at * 3;
        return openNamed({ model, x_tokens: 100, x_pace_ms: 2 }, { stream: at % 5 !== 0, abort: { afterMs } });
      }),
    );
    left.push(...calls);
    await Promise.all(calls.map((call) => call.ended));
  }
  // Who left may not have been heard yet. What comes after them all, and is over, is after all of theirs.
  const last = await rig.chat({ model: "flows" });
  await rig.accessLine(last.requestId);
  const reached = left.filter(({ call }) => rig.upstreams.some(({ ledger }) => ledger.ofCall(call ?? "").length > 0));
  for (const { id } of reached) await rig.accessLine(id);
  const ids = new Set(left.map(({ id }) => id));
  const lines = rig.gateway.accessLines().filter(({ id }) => ids.has(String(id)));
  expect(lines.length).toBeGreaterThanOrEqual(reached.length);
  await rig.check({ calls: lines.length + 1 });
});

describe("F35: a client that has closed its half of the connection", () => {
  test.each([
    ["a stream", { model: "flows", x_tokens: 40, x_pace_ms: 5 }, true],
    ["a stream whose first content takes its time", { model: "flows", x_tokens: 5, x_first_ms: 300 }, true],
    ["a whole answer", { model: "whole" }, false],
    ["a whole answer that takes its time", { model: "whole", x_first_ms: 300 }, false],
  ])("gets all of %s", async (_, body, stream) => {
    const call = await openNamed(body, { stream, halfClose: true });
    const reply = await call.reply;
    expect([reply.status, reply.response.endedCleanly, stream ? reply.done : true]).toEqual([200, true, true]);
    expect(await rig.accessLine(call.id)).toMatchObject({ state: "complete" });
    await rig.check();
  });
});

/** As much as the runtime reads from a socket in one go; see docs/decisions/runtime.md. */
const readAtOnceBytes = 512 * 1024;

describe("a client that does not read", () => {
  test("F36: pauses its upstream, costs no memory and is cut off; the others do not notice", async () => {
    const before = await collected(rig.gateway);
    const calls = await Promise.all(
      Array.from({ length: 20 }, () => openNamed({ model: "fault:flood" }, { stream: true, timeoutMs: 15_000, stopReadingAfterBytes: 1 })),
    );
    const attempts = await Promise.all(calls.map(attemptOf));
    const stalledAt = performance.now();
    const sent = await untilPaused(attempts);
    expect(sent / calls.length).toBeLessThan(16 * 1024 * 1024);
    expect((await rig.chat({ model: "control" })).status).toBe(200);
    const held = await collected(rig.gateway);
    // What we keep is five megabytes; before that the runtime reads half a mebibyte from each upstream, whether we want it or not.
    expect(held.bufferBytes - before.bufferBytes).toBeLessThan(calls.length * readAtOnceBytes + 5_000_000);
    expect(held.rssBytes - before.rssBytes).toBeLessThan(64 * 1024 * 1024);

    await eventually("every upstream is closed", () => attempts.every(({ endedBy }) => endedBy === "client_closed"), 3 * writeStallMs);
    expect(performance.now() - stalledAt).toBeGreaterThan(writeStallMs * 0.8);
    for (const call of calls) {
      expect(await rig.accessLine(call.id)).toMatchObject({
        status: 200,
        state: "abandoned",
        detail: expect.stringContaining("took no bytes"),
      });
    }
    // Whoever wakes up now finds what was under way and no end mark: the cut must not look like the end of an answer.
    for (const call of calls) call.resumeReading();
    for (const call of calls) {
      const reply = await call.reply;
      expect([reply.done, reply.finishReason]).toEqual([false, null]);
      expect(reply.response.endedCleanly && reply.error === null).toBe(false);
    }
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("and whose key goes, is told of when it leaves, also if its answer began with an early head", async () => {
    const delta = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "word ".repeat(10_000) } }] })}\n\n`;
    const attempt = { bytesSent: 0 };
    // Its first content comes after the early head, and then there is no end of it.
    const body = (): ReadableStream<Uint8Array> =>
      new ReadableStream({
        async pull(controller) {
          if (attempt.bytesSent === 0) await Bun.sleep(400);
          attempt.bytesSent += delta.length;
          controller.enqueue(Buffer.from(delta));
        },
      });
    const answer = (): Response => new Response(body(), { headers: { "content-type": "text/event-stream" } });
    await using upstream = Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 0, fetch: answer });
    const [stays, goes] = [
      { name: "stays", key: clientKey },
      { name: "goes", key: "sk-goes-canary-0123456789abcdef" },
    ];
    const channels = [{ name: "a", base_url: `http://127.0.0.1:${upstream.port}/v1`, models: ["endless"] }];
    const config = { keys: [stays, goes], channels, server: { early_headers: "50ms" } };
    await using gateway = await startGateway({ config });
    const call = await openChat(
      gateway,
      { model: "endless" },
      { key: goes.key, stream: true, timeoutMs: 30_000, stopReadingAfterBytes: 1 },
    );
    await untilPaused([attempt]);
    await gateway.rewriteConfig({ ...config, keys: [stays] });
    gateway.signal("SIGHUP");
    await gateway.waitForLog(({ event }) => event === "reloaded");
    call.abort();
    const line = await gateway.waitForLog(({ event, key }) => event === "call" && key === "file:goes");
    expect(line).toMatchObject({ status: 200, state: "abandoned", first_content_ms: expect.any(Number) });
  });

  test("F37: is not cut off as long as it reads, however slowly", async () => {
    const bytes = 12 * 1024 * 1024;
    const startedAt = performance.now();
    const reply = await rig.chat(
      { model: `fault:flood@${bytes}` },
      { stream: true, readBytesPerSecond: 6 * 1024 * 1024, timeoutMs: 15_000 },
    );
    expect(performance.now() - startedAt).toBeGreaterThan(writeStallMs);
    expect([reply.done, reply.error]).toEqual([true, null]);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ state: "complete" });
    await rig.check({ oneAttemptSpeaks: false });
  });
});

function head(headers: Record<string, string>, body: string | Uint8Array): Uint8Array {
  const complete = { Host: "gateway", Authorization: `Bearer ${clientKey}`, "Content-Type": "application/json", ...headers };
  const lines = Object.entries(complete).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`POST /v1/chat/completions HTTP/1.1\r\n${lines.join("")}\r\n`), Buffer.from(body)]);
}

function request(body: Record<string, unknown>, headers: Record<string, string> = {}): Uint8Array {
  const text = JSON.stringify({ messages: [{ role: "user", content: "hi" }], ...body });
  return head({ ...headers, "Content-Length": String(text.length) }, text);
}

function linesOf(prefix: string): readonly LogLine[] {
  return rig.gateway.accessLines().filter(({ id }) => String(id).startsWith(prefix));
}

describe("F38: a connection", () => {
  test("carries one call after another, streamed or not, refused or not", async () => {
    const connection = await RawConnection.open(rig.gateway.url);
    for (let round = 0; round < 5; round += 1) {
      expect((await exchange(connection, { model: "kept", stream: true }, `kept-${round}-s`)).done).toBe(true);
      expect((await exchange(connection, { model: "kept" }, `kept-${round}-w`)).status).toBe(200);
      expect((await exchange(connection, { model: "fault:status@400" }, `kept-${round}-r`)).status).toBe(400);
    }
    connection.close();
    await rig.check({ calls: 15 });
  });
});

test("F40: of requests sent without waiting for answers, each is served in its turn", async () => {
  const connection = await RawConnection.open(rig.gateway.url);
  const asked = Array.from({ length: 20 }, (_, at) => `in-turn-${at}`);
  await connection.send(Buffer.concat(asked.map((id, at) => request({ model: "kept", stream: at % 2 === 0 }, { "x-request-id": id }))));
  for (const id of asked) {
    const answer = await connection.receive(new RawResponse());
    expect([answer.status, answer.header("x-request-id"), answer.endedCleanly]).toEqual([200, id, true]);
  }
  connection.close();
  await rig.check({ calls: asked.length });
});

test("F40: of requests sent without waiting for answers, by a client that leaves, each ends once and none is left behind", async () => {
  const attemptsBefore = rig.upstream.a.ledger.chats.length;
  const connection = await RawConnection.open(rig.gateway.url);
  const requests = Array.from({ length: 100 }, (_, at) =>
    request({ model: "fault:hang-after@1", stream: true }, { "x-request-id": `pipelined-${at}` }),
  );
  await connection.send(Buffer.concat(requests));
  const attempts = () => rig.upstream.a.ledger.chats.slice(attemptsBefore);
  await eventually("the first is asked for", () => attempts().length === 1);
  connection.reset();
  await rig.accessLine("pipelined-0");
  await eventually("the upstreams are closed", () => attempts().every(({ endedBy }) => endedBy === "client_closed"));
  const ids = linesOf("pipelined-").map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(linesOf("pipelined-").every(({ state }) => state === "abandoned")).toBe(true);
  await rig.check({ calls: ids.length });
});

describe("F41: a body", () => {
  const large = JSON.stringify({ model: "large", messages: ["x".repeat(bodyLimit)] });
  const url = () => `${rig.gateway.url}/v1/chat/completions`;
  const headers = { Authorization: `Bearer ${clientKey}`, "Content-Type": "application/json" };

  function isRefusal(response: RawResponse, status: number, code: string | null): void {
    expect([response.status, response.endedCleanly, response.header("content-type")]).toEqual([status, true, "application/json"]);
    expect(response.json()).toEqual({
      error: { message: expect.any(String), type: "invalid_request_error", param: null, code, request_id: response.header("x-request-id") },
    });
  }

  test.each([
    ["that declares its length", false],
    ["that comes in chunks", true],
  ])("over the limit %s is refused in the envelope", async (_, chunked) => {
    isRefusal(await rawRequest(url(), { headers, body: large, chunked }), 413, "request_too_large");
    await rig.check({ calls: 1 });
  });

  test("of exactly the limit is let through", async () => {
    const text = large.slice(0, bodyLimit - 3) + large.slice(-3);
    expect([text.length, (await rawRequest(url(), { headers, body: text })).status]).toEqual([bodyLimit, 200]);
    expect((await rawRequest(url(), { headers, body: text, chunked: true })).status).toBe(200);
    await rig.check({ calls: 2 });
  });

  test.each([
    ["declared", { "Content-Length": String(256 * 1024 * 1024) }, (block: Uint8Array) => block],
    [
      "in chunks",
      { "Transfer-Encoding": "chunked" },
      (block: Uint8Array) => Buffer.concat([Buffer.from(`${block.length.toString(16)}\r\n`), block, Buffer.from("\r\n")]),
    ],
  ])("that goes on after its refusal is not kept in memory (%s)", async (_, framing, framed) => {
    const rssBefore = rig.gateway.rss() ?? 0;
    const connection = await RawConnection.open(rig.gateway.url);
    const response = new RawResponse();
    const received = connection.receive(response);
    await connection.send(head(framing, ""));
    const block = framed(Buffer.alloc(1024 * 1024, "x"));
    for (let sent = 0; sent < 128; sent += 1) await connection.send(block);
    await received;
    isRefusal(response, 413, "request_too_large");
    expect((rig.gateway.rss() ?? 0) - rssBefore).toBeLessThan(32 * 1024 * 1024);
    connection.close();
    await rig.check({ calls: 1 });
  });

  test("longer than it declares ends where it declared, and the rest is no request", async () => {
    const text = JSON.stringify({ model: "short", messages: [{ role: "user", content: "hi" }] });
    const connection = await RawConnection.open(rig.gateway.url);
    const rest = `${"x".repeat(4_000)}\r\n\r\n`;
    await connection.send(head({ "Content-Length": String(text.length), "x-request-id": "longer" }, text + rest));
    const first = await connection.receive(new RawResponse());
    expect(first.status).toBe(200);
    const second = await connection.receive(new RawResponse());
    expect([second.status, second.header("connection")]).toEqual([400, "close"]);
    await eventually("one line", () => linesOf("longer").length === 1);
    const attempts = rig.upstream.a.ledger.chats.filter(({ model }) => model === "short");
    expect(attempts.every(({ body }) => Buffer.from(body).toString() === text)).toBe(true);
    connection.close();
    await rig.check({ calls: 1 });
  });

  test.each([
    ["that stops half-way", head({ "Content-Length": "1000" }, '{"model":')],
    ["that stops between two chunks", head({ "Transfer-Encoding": "chunked" }, '9\r\n{"model":\r\n')],
  ])("%s is waited for, then refused with 408 and hung up on", async (_, bytes) => {
    const startedAt = performance.now();
    const connection = await RawConnection.open(rig.gateway.url);
    const response = new RawResponse();
    await connection.send(bytes);
    isRefusal(await connection.receive(response), 408, null);
    expect(performance.now() - startedAt).toBeGreaterThan(bodyReadMs * 0.9);
    expect(performance.now() - startedAt).toBeLessThan(slowed(bodyReadMs * 4));
    // The rest of the body would be taken for the next request.
    expect(response.header("connection")).toBe("close");
    const after = await connection.receive(new RawResponse());
    expect(after.status).toBe(0);
    await rig.check({ calls: 1 });
  });

  test("that drips is refused when its time is over, however steadily it drips", async () => {
    const response = await rawRequest(url(), {
      headers,
      body: JSON.stringify({ model: "drips", messages: ["x".repeat(500)] }),
      sendByteMs: 5,
    });
    isRefusal(response, 408, null);
    await rig.check({ calls: 1 });
  });
});

describe("F38, F39: at the end of all this", () => {
  test("a connection that was used and then idle is still good", async () => {
    const reply = await exchange(kept, { model: "kept" }, "idle-2");
    expect([reply.status, reply.response.wasReset]).toEqual([200, false]);
    await rig.check({ calls: 1 });
  });

  test.each([
    ["that says nothing", () => mute],
    ["that never comes to the end of its headers", () => hesitant],
  ])("a connection %s has been hung up on", async (_, lingering) => {
    const { startedAt } = lingering();
    await eventually("it is closed", () => lingering().endedAt !== null, startedAt + 20_000 - performance.now());
    expect(lingering().endedAt! - startedAt).toBeLessThan(slowed(20_000));
  });
});

test("after all of this no call is left behind: told to stop, it has nobody to wait for", async () => {
  const toldAt = performance.now();
  rig.gateway.signal("SIGTERM");
  expect(await rig.gateway.exited).toBe(0);
  expect(performance.now() - toldAt).toBeLessThan(slowed(3_000));
  expect(await rig.gateway.waitForLog(({ event }) => event === "stopping")).toMatchObject({ calls: 0 });
});
