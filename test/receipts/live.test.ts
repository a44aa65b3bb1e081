// Needs: quiet. It mostly waits for upstreams that stall, and for receipts to be drained.
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Receipt } from "../../src/usage/receipt.ts";
import { outcomeOf } from "../../src/usage/call-outcome.ts";
import { formOf } from "../support/audio-call.ts";
import { eventually } from "../support/eventually.ts";
import { rawRequest } from "../support/raw-request.ts";
import { attempt, inputNanos, nanosOf, outputNanos, price, Receipts, tokens } from "../support/receipts.ts";
import { clientKey, setUp, type Rig } from "../support/rig.ts";
import { slowedSettingMs } from "../support/slowed.ts";

setDefaultTimeout(60_000);

/** Of the upstream, with its silence. On a busy machine one that hangs up is not heard at once. */
const patience = `${slowedSettingMs(500)}ms`;
let rig: Rig<"a" | "b">;
let receipts: Receipts;

/** The prompt of the tests, as the upstreams count it. */
const promptTokens = 2;
const limitedKey = "sk-limited-0123456789abcdef";
const poorKey = "sk-poor-0123456789abcdef";

beforeAll(async () => {
  rig = await setUp(
    {
      a: { tier: 1, capabilities: { audio_seconds: 15 }, timeouts: { first_byte: patience, first_content: patience, idle: patience } },
      b: { tier: 2 },
    },
    {
      keys: [
        { name: "tester", key: clientKey, long_audio: "split", long_input: "split" },
        { name: "limited", key: limitedKey, limits: { rpm: 1 } },
        { name: "poor", key: poorKey, limits: { budget_usd: 1 } },
      ],
      prices: [
        { model: "priced-*", ...price, cached_input: 1, reasoning: 30 },
        { model: "heard-*", second: 0.0001 },
        { model: "spoken-*", characters: 15 },
        { model: "spoken-tokens-*", input: 1, output: 2 },
      ],
      server: { audio_limit: "500KiB", speech_limit: 300 },
    },
  );
  receipts = await Receipts.open(rig.gateway.directory);
});

afterAll(async () => {
  await receipts[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

afterEach(() => {
  for (const upstream of rig.upstreams) upstream.behaviour = null;
});

let calls = 0;

/** A deployment of its own for each call, so that none has a history. */
function fresh(kind = "priced"): string {
  return `${kind}-${(calls += 1)}`;
}

/** The receipt of one chat, all of whose attempts at `a` meet this. */
async function chatted(
  behaviour: string | null,
  options: { readonly stream?: boolean; readonly model?: string; readonly body?: Record<string, unknown> } = {},
): Promise<Receipt> {
  rig.upstream.a.behaviour = behaviour;
  const { stream = false, model = fresh(), body = {} } = options;
  const reply = await rig.chat({ model, ...body }, { stream });
  rig.upstream.a.behaviour = null;
  return receipts.of(reply.requestId);
}

const both = [{ stream: false }, { stream: true }];
const nothingDelivered = { firstContentMs: null, delivered: tokens(null, null), generatedTokens: null };

describe("a call that was let in has one receipt", () => {
  test.each(both)("with what was delivered, generated and billed (stream: $stream)", async ({ stream }) => {
    const model = fresh();
    const before = Date.now();
    const receipt = await chatted(null, { stream, model, body: { x_tokens: 7 } });
    const nanos = nanosOf(promptTokens, 7);
    expect(receipt).toMatchObject({
      keyId: "file:tester",
      operation: "chat",
      model,
      channel: "a",
      upstreamModel: model,
      stream,
      status: 200,
      state: "complete",
      error: null,
      delivered: { ...tokens(promptTokens, 7), cachedTokens: null, reasoningTokens: null, audioSeconds: null, characters: null },
      generatedTokens: 7,
      billedNanos: nanos,
      hedgeWasteNanos: 0,
      costUncertain: false,
      estimated: false,
      partial: false,
      attempts: [attempt("a", "answered", { model, status: 200, error: null, blame: null, ...tokens(promptTokens, 7), nanos })],
    });
    expect(receipt.startedMs).toBeWithin(before - 1, Date.now() + 1);
    expect(receipt.firstContentMs!).toBeWithin(0, receipt.tookMs + 1);
    expect(receipt.attempts[0]!.afterMs + receipt.attempts[0]!.tookMs).toBeLessThanOrEqual(receipt.tookMs + 2);
  });

  test("and one that was refused has none", async () => {
    const refusals = [
      [401, await rig.chat({}, { key: "sk-nobody-0123456789abcdef" })],
      [400, await rig.chat({ messages: "none" })],
      [404, await rig.chat({ model: "" }).then((reply) => ({ ...reply, status: reply.status === 400 ? 404 : reply.status }))],
    ] as const;
    for (const [status, reply] of refusals) expect(reply.status).toBe(status);
    const allowed = await rig.chat({ model: fresh() }, { key: limitedKey });
    const limited = await rig.chat({ model: fresh() }, { key: limitedKey });
    const unpriced = await rig.chat({ model: fresh("nameless") }, { key: poorKey });
    expect([allowed.status, limited.status, unpriced.status]).toEqual([200, 429, expect.any(Number)]);
    expect(unpriced.status).toBeGreaterThanOrEqual(400);
    await receipts.of(allowed.requestId);
    const known = new Set((await receipts.all()).map(({ requestId }) => requestId));
    for (const { requestId } of [...refusals.map(([, reply]) => reply), limited, unpriced]) expect(known.has(requestId!)).toBe(false);
  });

  test("also where nobody could be asked", async () => {
    const model = fresh();
    const limited = "fault:rate-limit@retry-after=60";
    rig.upstream.b.behaviour = limited;
    const receipt = await chatted(limited, { model });
    expect(receipt).toMatchObject({
      state: "failed",
      status: 429,
      channel: null,
      billedNanos: 0,
      costUncertain: false,
      ...nothingDelivered,
    });
    expect(receipt.attempts).toMatchObject([
      attempt("a", "failed", { status: 429, error: "rate_limited", blame: "channel", nanos: 0 }),
      attempt("b", "failed", { status: 429, error: "rate_limited", blame: "channel", nanos: 0 }),
    ]);
    rig.upstream.b.behaviour = null;
    // Both cool down, and so the next call is let in and finds nobody.
    const next = await chatted(null, { model });
    expect(next).toMatchObject({ state: "failed", attempts: [], billedNanos: 0, costUncertain: false, ...nothingDelivered });
  });
});

describe("an attempt that failed before the one that answered", () => {
  test.each(both)("costs nothing where it was refused (stream: $stream)", async ({ stream }) => {
    const receipt = await chatted("fault:status@500", { stream });
    const refused = attempt("a", "failed", { status: 500, blame: "channel", ...tokens(null, null), nanos: 0, costUncertain: false });
    const answered = attempt("b", "answered", { ...tokens(promptTokens, 5), nanos: nanosOf(promptTokens, 5) });
    expect(receipt).toMatchObject({
      state: "complete",
      channel: "b",
      billedNanos: nanosOf(promptTokens, 5),
      costUncertain: false,
      estimated: false,
      generatedTokens: 5,
    });
    expect(receipt.attempts).toMatchObject([refused, refused, answered].slice(3 - receipt.attempts.length));
    expect(receipt.attempts.length).toBeGreaterThan(1);
  });

  test.each([
    { what: "cut in the middle of its head", behaviour: "fault:rst-mid-headers", error: "disconnected" },
    { what: "that never came", behaviour: "fault:silent", error: "timed_out" },
    { what: "that is no answer", behaviour: "fault:html-200", error: "bad_response" },
  ])("is in doubt with an answer $what", async ({ behaviour, error }) => {
    for (const { stream } of both) {
      const receipt = await chatted(behaviour, { stream });
      const doubtful = attempt("a", "failed", { error, ...tokens(null, null), nanos: 0, costUncertain: true, estimated: false });
      expect(receipt).toMatchObject({ state: "complete", channel: "b", billedNanos: nanosOf(promptTokens, 5), costUncertain: true });
      expect(receipt.attempts[0]).toMatchObject(doubtful);
      expect(receipt.attempts.at(-1)).toMatchObject({ outcome: "answered", costUncertain: false });
    }
  });
});

describe("a stream that breaks off", () => {
  test.each(["sse-error-after@4", "end-after@4", "fin-close-delimited-after@4", "hang-after@4"])(
    "is partial, and what came is billed by estimate: %s",
    async (fault) => {
      const receipt = await chatted(`fault:pace@5+${fault}`, { stream: true });
      const { completionTokens } = receipt.delivered;
      const sent = rig.upstream.a.ledger.chats.findLast(({ model }) => model === receipt.model)!.tokensSent;
      expect(sent).toHaveLength(4);
      // Each delta is a token, which is what its upstream counts.
      expect(completionTokens).toBe(4);
      expect(receipt).toMatchObject({
        state: "interrupted",
        status: 200,
        partial: true,
        estimated: true,
        costUncertain: true,
        error: "interrupted",
        generatedTokens: completionTokens,
        attempts: [attempt("a", "failed", { error: "interrupted", blame: "channel", completionTokens, estimated: true })],
      });
      expect(receipt.delivered.promptTokens).toBeWithin(promptTokens, 20);
      expect(receipt.billedNanos).toBe(nanosOf(receipt.delivered.promptTokens!, completionTokens!));
    },
  );

  test("is billed by its upstream's word, where it gave one", async () => {
    const withUsage = chunk({ content: "one" }, { prompt_tokens: 40, completion_tokens: 11 });
    const receipt = await chatted(null, {
      stream: true,
      body: { x_raw: `${withUsage}${chunk({ content: "two" }, { prompt_tokens: 40, completion_tokens: 12 })}` },
    });
    expect(receipt).toMatchObject({
      state: "interrupted",
      partial: true,
      estimated: false,
      costUncertain: true,
      delivered: tokens(40, 12),
      billedNanos: nanosOf(40, 12),
    });
  });
});

describe("a client that leaves", () => {
  test("in the middle of a stream pays for what was made", async () => {
    const id = `left-${fresh()}`;
    const call = await rig.open({ model: fresh(), x_tokens: 400, x_pace_ms: 10 }, { stream: true, headers: { "x-request-id": id } });
    await eventually("some of it arrived", () => call.response.bodyLength > 1_000);
    call.abort();
    await call.reply.catch(() => {});
    const receipt = await receipts.of(id);
    const [seen] = rig.upstream.a.ledger.ofCall(call.call!);
    expect(receipt).toMatchObject({ state: "abandoned", partial: true, estimated: true, costUncertain: true, error: "client_gone" });
    expect(receipt.generatedTokens).toBeWithin(2, 3 * seen!.tokensSent.length);
    expect(receipt.delivered.completionTokens).toBe(receipt.generatedTokens);
    expect(receipt.billedNanos).toBe(nanosOf(receipt.delivered.promptTokens!, receipt.generatedTokens!));
    expect(receipt.attempts).toMatchObject([attempt("a", "abandoned", { error: "client_gone", blame: "client" })]);
  });

  test.each(both)(
    "before there is any content pays for its prompt, and where it comes whole for what may have been made of it (stream: $stream)",
    async ({ stream }) => {
      const id = `left-${fresh()}`;
      rig.upstream.b.behaviour = "fault:silent";
      const model = fresh();
      const call = await rig.open({ model, x_first_ms: 300, max_tokens: 30 }, { stream, headers: { "x-request-id": id } });
      await rig.upstream.a.waitFor((ledger) => ledger.ofCall(call.call!).length > 0);
      call.abort();
      await call.reply.catch(() => {});
      const receipt = await receipts.of(id);
      const [only] = receipt.attempts;
      expect(receipt).toMatchObject({
        state: "abandoned",
        status: 499,
        partial: true,
        estimated: true,
        costUncertain: true,
        delivered: tokens(null, null),
      });
      expect(receipt.attempts).toHaveLength(1);
      expect(only).toMatchObject({ outcome: "abandoned", estimated: true, costUncertain: true });
      const made = only!.completionTokens!;
      // A hundred tokens a second, and not more than were asked for.
      expect(made).toBe(stream ? 0 : Math.min(30, Math.max(1, made)));
      expect(only!.promptTokens).toBeWithin(1, 20);
      expect(receipt.billedNanos).toBe(nanosOf(only!.promptTokens!, made));
    },
  );
});

describe("a call that was made twice to be quick", () => {
  const tiers = { a: { tier: 1 }, b: { tier: 2 } };
  const hedging = { routing: { hedge_after: "60ms" }, prices: [{ model: "priced-*", ...price }] };

  test.each(both)("pays for both, and says what the slower one cost (stream: $stream)", async ({ stream }) => {
    await using own = await setUp(tiers, hedging);
    await using kept = await Receipts.open(own.gateway.directory);
    own.upstream.a.behaviour = "fault:delay@5000";
    const reply = await own.chat({ model: fresh() }, { stream });
    expect([reply.status, reply.channel]).toEqual([200, "b"]);
    const receipt = await kept.of(reply.requestId);
    const [loser, winner] = receipt.attempts;
    expect(loser).toMatchObject(attempt("a", "abandoned", { completionTokens: 0, estimated: true, costUncertain: true }));
    expect(winner).toMatchObject(attempt("b", "answered", { hedge: true, ...tokens(promptTokens, 5), nanos: nanosOf(promptTokens, 5) }));
    const waste = loser!.promptTokens! * inputNanos;
    expect(waste).toBeGreaterThan(0);
    expect(receipt).toMatchObject({
      state: "complete",
      channel: "b",
      delivered: tokens(promptTokens, 5),
      generatedTokens: 5,
      billedNanos: waste + nanosOf(promptTokens, 5),
      hedgeWasteNanos: waste,
      costUncertain: true,
    });
    expect(outcomeOf(receipt)).toMatchObject({ hedges: 1, hedges_won: 1, extra_attempts: 1, hedge_nanos: waste });
  });

  test("and whose second answer broke off has that one delivered, and the first one wasted", async () => {
    await using own = await setUp(tiers, hedging);
    await using kept = await Receipts.open(own.gateway.directory);
    own.upstream.a.behaviour = "fault:delay@5000";
    own.upstream.b.behaviour = "fault:pace@5+end-after@3";
    const reply = await own.chat({ model: fresh() }, { stream: true });
    const receipt = await kept.of(reply.requestId);
    const [loser, broken] = receipt.attempts;
    expect(receipt.state).toBe("interrupted");
    expect(receipt.delivered).toMatchObject(tokens(broken!.promptTokens, broken!.completionTokens));
    expect(broken!.completionTokens).toBeGreaterThanOrEqual(3);
    expect(receipt.hedgeWasteNanos).toBe(loser!.nanos!);
  });

  test("and whose client left was not wasted, but left", async () => {
    await using own = await setUp(tiers, hedging);
    await using kept = await Receipts.open(own.gateway.directory);
    for (const upstream of own.upstreams) upstream.behaviour = "fault:silent";
    const id = "left-both";
    const call = await own.open({ model: fresh() }, { stream: true, headers: { "x-request-id": id } });
    await eventually("both are asked", () => own.path(call).length === 2);
    call.abort();
    const receipt = await kept.of(id);
    expect(receipt).toMatchObject({ state: "abandoned", hedgeWasteNanos: 0, costUncertain: true });
    expect(receipt.attempts.map(({ outcome }) => outcome)).toEqual(["abandoned", "abandoned"]);
    expect(receipt.billedNanos).toBe(2 * receipt.attempts[0]!.promptTokens! * inputNanos);
  });
});

describe("a stream that another channel went on with", () => {
  test.each([
    { how: "that continued it", capabilities: { prefill: true }, fault: "fault:same-text+prefix-continue", made: 2 },
    { how: "that began anew", capabilities: {}, fault: "fault:same-text", made: 5 },
  ])("counts what both made, by the one $how", async ({ capabilities, fault, made }) => {
    await using own = await setUp(
      { a: { tier: 1 }, b: { tier: 2, capabilities } },
      { routing: { rescue: "continue" }, prices: [{ model: "priced-*", ...price }] },
    );
    await using kept = await Receipts.open(own.gateway.directory);
    for (const counts of [true, false]) {
      own.upstream.a.behaviour = "fault:same-text+end-after@3";
      own.upstream.b.behaviour = counts ? fault : `${fault}+usage-missing`;
      const reply = await own.chat({ model: fresh() }, { stream: true });
      expect([reply.content, reply.done]).toEqual(["word0 word1 word2 word3 word4", true]);
      const receipt = await kept.of(reply.requestId);
      const [first, second] = receipt.attempts;
      const begun = 3;
      expect(first).toMatchObject(attempt("a", "failed", { completionTokens: begun, estimated: true, costUncertain: true }));
      expect(second).toMatchObject(attempt("b", "answered", { estimated: !counts, costUncertain: false }));
      expect(outcomeOf(receipt)).toMatchObject({ rescued: 1, extra_attempts: 1, rescue_nanos: second!.nanos! });
      expect(second!.completionTokens).toBe(counts ? chatTokens(own.upstream.b.ledger.ofCall(reply.call!)[0]!.usageSent) : made);
      expect(receipt).toMatchObject({
        state: "complete",
        channel: "b",
        partial: false,
        estimated: true,
        delivered: tokens(first!.promptTokens! + second!.promptTokens!, begun + second!.completionTokens!),
        generatedTokens: begun + second!.completionTokens!,
        billedNanos: first!.nanos! + second!.nanos!,
      });
    }
  });
});

function chatTokens(usage: string | null): number {
  return (JSON.parse(usage ?? "null") as { completion_tokens: number }).completion_tokens;
}

describe("usage of a stream", () => {
  test("is asked for and hidden from a client that did not ask", async () => {
    const reply = await rig.chat({ model: fresh() }, { stream: true });
    expect(reply.usage).toBeNull();
    expect(reply.events.some((event) => event.includes('"usage":{'))).toBe(false);
    expect(await receipts.of(reply.requestId)).toMatchObject({ delivered: tokens(promptTokens, 5), estimated: false });
    const asking = await rig.chat({ model: fresh(), stream_options: { include_usage: true } }, { stream: true });
    expect(asking.usage).toMatchObject({ prompt_tokens: promptTokens, completion_tokens: 5 });
    expect(await receipts.of(asking.requestId)).toMatchObject({ delivered: tokens(promptTokens, 5), estimated: false });
  });

  test.each([
    ["on-finish", "fault:usage-on-finish-chunk"],
    ["twice", "fault:usage-twice"],
    ["before a silence in place of an end", "fault:hang-after-finish"],
    ["without an end mark", "fault:no-done"],
  ])("counts once, and its last word: %s", async (_, behaviour) => {
    const receipt = await chatted(behaviour, { stream: true });
    expect(receipt).toMatchObject({ state: "complete", delivered: tokens(promptTokens, 5), generatedTokens: 5, estimated: false });
    expect(receipt.billedNanos).toBe(nanosOf(promptTokens, 5));
  });

  test.each(both)("that never comes is estimated (stream: $stream)", async ({ stream }) => {
    const reply = "The quick brown fox jumps over the lazy dog. ".repeat(20);
    const receipt = await chatted("fault:usage-missing", { stream, body: { x_reply: reply } });
    expect(receipt).toMatchObject({ state: "complete", estimated: true, costUncertain: false, partial: false });
    // Ten tokens a sentence.
    expect(receipt.delivered.completionTokens).toBeWithin(180, 260);
    expect(receipt.billedNanos).toBe(nanosOf(receipt.delivered.promptTokens!, receipt.delivered.completionTokens!));
  });

  test.each(["-1", "1e12", "string", "1.5", "null"])(
    "that cannot be true (%s) is left out and estimated, and the answer arrives",
    async (number) => {
      for (const { stream } of both) {
        rig.upstream.a.behaviour = `fault:absurd-usage@${number}`;
        const reply = await rig.chat({ model: fresh() }, { stream, key: poorKey });
        expect(reply.finishReason).toBe("stop");
        const receipt = await receipts.of(reply.requestId);
        expect(receipt).toMatchObject({ keyId: "file:poor", state: "complete", estimated: true });
        expect(receipt.delivered.promptTokens).toBeWithin(1, 20);
        expect(receipt.delivered.completionTokens).toBeWithin(5, 12);
        expect(receipt.billedNanos).toBe(nanosOf(receipt.delivered.promptTokens!, receipt.delivered.completionTokens!));
      }
      // A dollar is left of the dollar, but for a fraction of a cent.
      const after = await rig.chat({ model: fresh(), max_tokens: 1_000 }, { key: poorKey });
      expect(after.status).toBe(200);
    },
  );

  test("that is not even JSON loses its event in a stream, and its answer where it is whole", async () => {
    const streamed = await chatted("fault:absurd-usage@NaN", { stream: true });
    expect(streamed).toMatchObject({ state: "complete", estimated: true, channel: "a" });
    const whole = await chatted("fault:absurd-usage@NaN");
    expect(whole).toMatchObject({ state: "complete", estimated: false, channel: "b", costUncertain: true });
  });
});

describe("what a call costs", () => {
  test.each(both)("is told by its kinds of tokens (stream: $stream)", async ({ stream }) => {
    const usage = {
      prompt_tokens: 1_000,
      completion_tokens: 200,
      prompt_tokens_details: { cached_tokens: 600 },
      completion_tokens_details: { reasoning_tokens: 150 },
    };
    const raw = stream
      ? `${chunk({ content: "yes" })}${chunk({}, usage, "stop")}data: [DONE]\n\n`
      : JSON.stringify({ choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }], usage });
    const receipt = await chatted(null, { stream, body: { x_raw: raw } });
    expect(receipt).toMatchObject({
      delivered: { promptTokens: 1_000, cachedTokens: 600, completionTokens: 200, reasoningTokens: 150 },
      billedNanos: 400 * inputNanos + 600 * 1_000 + 50 * outputNanos + 150 * 30_000,
      estimated: false,
    });
  });

  test.each(both)("has the reasoning that a provider counts beside the completion (stream: $stream)", async ({ stream }) => {
    const usage = { prompt_tokens: 32, completion_tokens: 9, total_tokens: 135, completion_tokens_details: { reasoning_tokens: 94 } };
    const raw = stream
      ? `${chunk({ content: "yes" })}${chunk({}, usage, "stop")}data: [DONE]\n\n`
      : JSON.stringify({ choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }], usage });
    const receipt = await chatted(null, { stream, body: { x_raw: raw } });
    expect(receipt).toMatchObject({
      delivered: { promptTokens: 32, completionTokens: 103, reasoningTokens: 94 },
      generatedTokens: 103,
      billedNanos: 32 * inputNanos + 9 * outputNanos + 94 * 30_000,
      estimated: false,
    });
  });

  test("is unknown, and not nothing, where nobody knows the price", async () => {
    const model = fresh("nameless");
    const receipt = await chatted(null, { model });
    expect(receipt).toMatchObject({ billedNanos: null, costUncertain: false, attempts: [{ nanos: null }] });
    const usage = await receipts.storage.receipts.usage({ by: ["model"], sinceMs: null, untilMs: null, keyId: null, model, channel: null });
    expect(usage).toMatchObject([{ group: { model }, calls: 1, promptTokens, completionTokens: 5, nanos: 0, unpricedCalls: 1 }]);
  });
});

describe("audio", () => {
  test("that is transcribed or translated is counted in seconds", async () => {
    for (const translate of [false, true]) {
      for (const stream of translate ? [false] : [false, true]) {
        const id = await transcribe(fresh("heard"), silence(3), { translate, stream });
        const receipt = await receipts.of(id);
        expect(receipt).toMatchObject({
          operation: "transcription",
          state: "complete",
          delivered: { ...tokens(null, null), audioSeconds: 5, characters: null },
          generatedTokens: null,
          billedNanos: 500_000,
          estimated: false,
        });
      }
    }
  });

  test("whose length its upstream does not tell is as long as the upload", async () => {
    const id = await transcribe(fresh("heard"), silence(3), { format: "text" });
    expect(await receipts.of(id)).toMatchObject({ delivered: { audioSeconds: 3 }, billedNanos: 300_000, estimated: true });
  });

  test("that was cut off on its way is transcribed as far as it came, and the receipt warns of that", async () => {
    const whole = silence(3);
    expect(await receipts.of(await transcribe(fresh("heard"), whole))).toMatchObject({ state: "complete", warning: null });
    const id = await transcribe(fresh("heard"), whole.subarray(0, 44 + 16_000), { format: "text" });
    expect(await receipts.of(id)).toMatchObject({ state: "complete", warning: "truncated_audio", delivered: { audioSeconds: 1 } });
    const long = await transcribe(fresh("heard"), silence(60).subarray(0, 640_000));
    expect(await receipts.of(long)).toMatchObject({ state: "complete", warning: "truncated_audio" });
  });

  test("that is too long for one request is the sum of its parts", async () => {
    const model = fresh("heard");
    const id = await transcribe(model, silence(40));
    const receipt = await receipts.of(id);
    const asked = rig.upstream.a.ledger.chats.filter((one) => one.model === model);
    expect(asked.length).toBeGreaterThan(1);
    expect(receipt.attempts).toHaveLength(asked.length);
    expect(receipt).toMatchObject({
      state: "complete",
      delivered: { audioSeconds: 5 * asked.length },
      billedNanos: asked.length * 500_000,
    });
  });

  test("that is spoken is counted in characters, whether in bytes or in events", async () => {
    for (const events of [false, true]) {
      const { id } = await speak(fresh("spoken"), "Twenty characters !!", { events });
      expect(await receipts.of(id)).toMatchObject({
        operation: "speech",
        state: "complete",
        delivered: { characters: 20, audioSeconds: null },
        billedNanos: 300_000,
        estimated: false,
      });
    }
  });

  test("that is spoken by a model that is paid by tokens is estimated where they are not reported", async () => {
    const spoken = await speak(fresh("spoken-tokens"), "Twenty characters !!", { events: true });
    expect(await receipts.of(spoken.id)).toMatchObject({
      delivered: { promptTokens: 7, characters: 20 },
      estimated: false,
      billedNanos: 7 * 1_000 + 64 * 2_000,
    });
    const untoldHow = await speak(fresh("spoken-tokens"), "Twenty characters !!", { events: false });
    const receipt = await receipts.of(untoldHow.id);
    expect(receipt).toMatchObject({ delivered: { characters: 20 }, estimated: true });
    expect(receipt.billedNanos).toBeGreaterThan(0);
  });

  test("of a text that is too long for one request is the sum of its parts, also of one that was said twice", async () => {
    const text = "This is a sentence of a long story. ".repeat(20).trim();
    const model = fresh("spoken");
    rig.upstream.a.script(["ok", "fault:status@500"]);
    const { id } = await speak(model, text, {});
    const receipt = await receipts.of(id);
    expect(receipt.attempts.filter(({ outcome }) => outcome === "answered").length).toBeGreaterThan(2);
    expect(receipt).toMatchObject({
      state: "complete",
      delivered: { characters: text.length },
      billedNanos: text.length * outputNanos,
      costUncertain: false,
    });
  });

  test("that breaks off is billed for its text, and delivered in part", async () => {
    const model = fresh("spoken");
    rig.upstream.a.script(["fault:pace@5+rst-after@20"]);
    const { id } = await speak(model, "Twenty characters !!", {});
    const receipt = await receipts.of(id);
    expect(receipt).toMatchObject({ state: "interrupted", partial: true, costUncertain: true, billedNanos: 300_000 });
    expect(receipt.attempts).toMatchObject([{ outcome: "failed", characters: 20 }]);
  });
});

function chunk(delta: object, usage: object | null = null, finish: string | null = null): string {
  const value = {
    id: "x",
    object: "chat.completion.chunk",
    created: 0,
    model: "m",
    choices: [{ index: 0, delta, finish_reason: finish }],
    usage,
  };
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** A WAV of so many seconds, of which none sounds. */
function silence(seconds: number): Uint8Array {
  const bytes = seconds * 16_000;
  const head = Buffer.alloc(44);
  head.write("RIFF\0\0\0\0WAVEfmt ", "latin1");
  head.writeUInt32LE(36 + bytes, 4);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(8_000, 24);
  head.writeUInt32LE(16_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36, "latin1");
  head.writeUInt32LE(bytes, 40);
  return Buffer.concat([head, Buffer.alloc(bytes)]);
}

interface Transcribing {
  readonly translate?: boolean;
  readonly stream?: boolean;
  readonly format?: string;
}

async function transcribe(
  model: string,
  file: Uint8Array,
  { translate = false, stream = false, format = "json" }: Transcribing = {},
): Promise<string> {
  const fields = [["model", model], ["response_format", format], ...(stream ? [["stream", "true"]] : [])] as [string, string][];
  const { body, type } = formOf(fields, file);
  const id = `heard-${(calls += 1)}`;
  const response = await rawRequest(`${rig.gateway.url}/v1/audio/${translate ? "translations" : "transcriptions"}`, {
    headers: { "Content-Type": type, Authorization: `Bearer ${clientKey}`, "x-request-id": id },
    body,
  });
  expect(response.status).toBe(200);
  return id;
}

async function speak(model: string, input: string, { events = false }: { readonly events?: boolean }): Promise<{ readonly id: string }> {
  const id = `spoken-${(calls += 1)}`;
  const asked = { model, input, voice: "alloy", response_format: "pcm", ...(events ? { stream_format: "sse" } : {}) };
  const response = await rawRequest(`${rig.gateway.url}/v1/audio/speech`, {
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${clientKey}`, "x-request-id": id },
    body: JSON.stringify(asked),
  });
  expect(response.status).toBe(200);
  return { id };
}
