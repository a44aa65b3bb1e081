import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ChatReply } from "./support/client.ts";
import { eventually } from "./support/eventually.ts";
import { setUp, type Rig } from "./support/rig.ts";

setDefaultTimeout(60_000);

/** `a` is asked first; `fluent` continues an unfinished message, `plain` can only start over; `spare` comes last. */
let rig: Rig<"a" | "fluent" | "plain" | "spare">;

const words = "word0 word1 word2 word3 word4";

beforeAll(async () => {
  const [continuing, restarting] = [modelsOf("continues"), modelsOf("restarts")];
  rig = await setUp(
    {
      a: { models: [...continuing, ...restarting], tier: 1 },
      fluent: { models: continuing, tier: 2, capabilities: { prefill: true } },
      plain: { models: restarting, tier: 2 },
      spare: { models: [...continuing, ...restarting], tier: 3 },
    },
    { routing: { rescue: "continue" } },
  );
});

afterAll(async () => {
  await rig[Symbol.asyncDispose]();
});

afterEach(() => {
  for (const upstream of rig.upstreams) upstream.behaviour = null;
});

/** A model for each test, so that none inherits a breaker from the one before. */
function modelsOf(kind: "continues" | "restarts"): readonly string[] {
  return Array.from({ length: 50 }, (_, at) => `${kind}-${at}`);
}

let models = 0;

function fresh(kind: "continues" | "restarts"): string {
  return `${kind}-${(models += 1)}`;
}

function chunksOf({ events }: ChatReply): readonly Record<string, unknown>[] {
  return events.filter((event) => event !== "[DONE]").map((event) => JSON.parse(event) as Record<string, unknown>);
}

/**
 * One whole answer of one model, as far as the client can see. Returns whether it was begun by the first channel, and what
 * the second was told the client had.
 */
function wholeAnswer(reply: ChatReply): { readonly begun: boolean; readonly told: string | null } {
  expect([reply.content, reply.finishReason, reply.done, reply.error]).toEqual([words, "stop", true, null]);
  const chunks = chunksOf(reply);
  for (const name of ["id", "created", "model"]) expect(new Set(chunks.map((chunk) => chunk[name])).size).toBe(1);
  const roles = chunks.filter((chunk) => JSON.stringify(chunk).includes('"role"'));
  expect(roles.length).toBe(1);
  // A cut may destroy what was sent just before it. If that was all, another channel simply answers the whole.
  const begun = String(chunks[0]?.["id"]).startsWith("chatcmpl-a");
  if (begun) expect(chunks.at(-1)).toMatchObject({ gateway: { resumed: true } });
  const last = Object.values(rig.upstream)
    .flatMap(({ ledger }) => ledger.ofCall(reply.call ?? ""))
    .toSorted((one, other) => one.at - other.at)
    .at(-1)!;
  const { messages } = JSON.parse(Buffer.from(last.body).toString()) as { messages: readonly { role: string; content: string }[] };
  return { begun, told: messages.at(-1)?.role === "assistant" ? messages.at(-1)!.content : null };
}

function isHonest(reply: ChatReply, said: string): void {
  expect([reply.status, reply.content, reply.finishReason, reply.done]).toEqual([200, said, null, false]);
  expect(reply.error).toMatchObject({ type: "upstream_error", code: "upstream_stream_interrupted", param: null });
  expect(reply.response.endedCleanly).toBe(true);
}

/** Ways to break off after three words, and whether they are certain to have arrived. */
const breaks = [
  ["fault:same-text+rst-after@3", false],
  ["fault:same-text+pace@20+fin-chunked-after@3", false],
  ["fault:same-text+fin-close-delimited-after@3", true],
  ["fault:same-text+sse-error-after@3", true],
  ["fault:same-text+end-after@3", true],
] as const;

describe("a text that breaks off is continued by a channel that can", () => {
  test.each(breaks)("after %s", async (fault, certain) => {
    rig.upstream.a.script([fault]);
    rig.upstream.fluent.script(["fault:same-text+prefix-continue"]);
    const reply = await rig.chat({ model: fresh("continues") }, { stream: true });
    const { told } = wholeAnswer(reply);
    expect("word0 word1 word2").toStartWith(told ?? "");
    if (certain) expect(told).toBe("word0 word1 word2");
    expect(rig.path(reply)).toEqual(["a", "fluent"]);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ state: "complete", attempts: 2, channel: "fluent", finish: "stop" });
    await rig.check({ oneAttemptSpeaks: false });
  });

  test.each([0, 8, 10, 300])("which may first repeat some of it (%p characters)", async (overlap) => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.script([`fault:same-text+prefix-continue@${overlap}`]);
    expect(wholeAnswer(await rig.chat({ model: fresh("continues") }, { stream: true })).told).toBe("word0 word1 word2");
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("with the usage of the one that finished, if the client wants it", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.script(["fault:same-text+prefix-continue"]);
    const reply = await rig.chat({ model: fresh("continues"), stream_options: { include_usage: true } }, { stream: true });
    expect([reply.content, reply.done, reply.usage]).toMatchObject([words, true, { completion_tokens: 2 }]);
    await rig.check({ oneAttemptSpeaks: false });
  });
});

describe("a text that breaks off is begun again by a channel that can only do that", () => {
  test.each(breaks)("after %s: what is said again is swallowed", async (fault, certain) => {
    rig.upstream.a.script([fault]);
    rig.upstream.plain.script(["fault:same-text"]);
    const reply = await rig.chat({ model: fresh("restarts") }, { stream: true });
    const { begun } = wholeAnswer(reply);
    expect(begun || !certain).toBe(true);
    expect(rig.path(reply)).toEqual(["a", "plain"]);
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("and if it says something else, the client is told the truth", async () => {
    rig.upstream.a.script(["fault:different-text+end-after@3"]);
    rig.upstream.plain.script(["fault:different-text+pace@50"]);
    const reply = await rig.chat({ model: fresh("restarts") }, { stream: true });
    isHonest(reply, "a-word0 a-word1 a-word2");
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ state: "interrupted", error: "interrupted", attempts: 2 });
    // The other answer is of no use to anybody any more.
    await eventually("it is ended", () => rig.upstream.plain.ledger.chats.at(-1)?.endedBy === "client_closed");
    await rig.check();
  });

  test("nor is it passed off as whole if it ends before the place where the first broke off", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.plain.script(["fault:same-text+tokens@2"]);
    isHonest(await rig.chat({ model: fresh("restarts") }, { stream: true }), "word0 word1 word2");
    await rig.check();
  });
});

describe("it is tried once", () => {
  test.each(["fault:same-text+rst-after@4", "fault:same-text+prefix-continue+rst-after@1", "fault:status@503", "fault:html-200"])(
    "if the second breaks as well (%s), that is the end",
    async (fault) => {
      rig.upstream.a.script(["fault:same-text+end-after@3"]);
      for (const upstream of [rig.upstream.fluent, rig.upstream.spare]) upstream.behaviour = fault;
      const reply = await rig.chat({ model: fresh("continues") }, { stream: true });
      expect([reply.finishReason, reply.done, reply.error?.code]).toEqual([null, false, "upstream_stream_interrupted"]);
      expect(words).toStartWith(reply.content);
      expect(rig.path(reply)).toEqual(["a", "fluent"]);
      await rig.check({ oneAttemptSpeaks: false });
    },
  );

  test("and a client that leaves meanwhile takes the second with it", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.script(["fault:silent"]);
    const before = rig.upstream.fluent.ledger.chats.length;
    const call = await rig.open({ model: fresh("continues") }, { stream: true });
    await eventually("the second is asked", () => rig.upstream.fluent.ledger.chats.length > before);
    const abortedAt = performance.now();
    call.abort();
    const attempt = rig.upstream.fluent.ledger.chats.at(-1)!;
    await eventually("it is ended", () => attempt.endedBy === "client_closed");
    expect(attempt.closedAt! - abortedAt).toBeLessThan(250);
    const { requestId } = await call.reply;
    expect(await rig.accessLine(requestId)).toMatchObject({
      state: "abandoned",
      // Nobody has answered: the one broke off, and of the other not a word had come.
      channel: null,
      tries: [
        { channel: "a", outcome: "failed", error: "interrupted" },
        { channel: "fluent", outcome: "abandoned", error: "client_gone" },
      ],
    });
    await rig.check({ abortedAt });
  });
});

describe("nothing but plain text is joined", () => {
  const tools = [
    {
      type: "function",
      function: { name: "look", parameters: { type: "object", properties: { where: { type: "string" } }, required: ["where"] } },
    },
  ];
  const schema = {
    type: "json_schema",
    json_schema: { name: "x", schema: { type: "object", properties: { word: { type: "string" } }, required: ["word"] } },
  };

  test.each([
    ["a tool call", { tools, x_tool: true }],
    ["text where a tool might be called", { tools }],
    ["a structured answer", { response_format: schema }],
    ["one with log probabilities", { logprobs: true }],
    ["one of several choices", { n: 2 }],
  ])("not %s", async (_, body) => {
    rig.upstream.a.script(["fault:end-after@2"]);
    const reply = await rig.chat({ model: fresh("continues"), ...body }, { stream: true });
    expect([reply.status, reply.done, reply.error?.code]).toEqual([200, false, "upstream_stream_interrupted"]);
    expect(rig.path(reply)).toEqual(["a"]);
    await rig.check();
  });

  test.each([
    ["a thought", { reasoning_content: "hm" }],
    ["a tool call nobody offered", { tool_calls: [{ index: 0, id: "x", function: { name: "y", arguments: "{" } }] }],
    ["a refusal", { refusal: "no" }],
    ["a sound", { audio: { data: "AAAA" } }],
  ])("not after %s has been seen", async (_, delta) => {
    const chunk = (piece: object) => `data: ${JSON.stringify({ id: "x", choices: [{ index: 0, delta: piece, finish_reason: null }] })}\n\n`;
    const reply = await rig.chat({ model: fresh("continues"), x_raw: chunk({ content: "so far " }) + chunk(delta) }, { stream: true });
    expect([reply.content, reply.done, reply.error?.code]).toEqual(["so far ", false, "upstream_stream_interrupted"]);
    expect(rig.path(reply)).toEqual(["a"]);
    await rig.check({ oneAttemptSpeaks: false });
  });
});
