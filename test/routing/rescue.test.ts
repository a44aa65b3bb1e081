// Needs: quiet. It mostly waits for streams that break off and are taken over.
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { estimateTokens } from "../../src/usage/token-estimate.ts";
import type { ChatReply } from "../support/client.ts";
import { eventually } from "../support/eventually.ts";
import { setUp, type Rig } from "../support/rig.ts";
import { slowed } from "../support/slowed.ts";

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
function wholeAnswer(reply: ChatReply): { readonly begun: boolean; readonly prefix: string | null } {
  expect([reply.content, reply.finishReason, reply.done, reply.error]).toEqual([words, "stop", true, null]);
  const chunks = chunksOf(reply);
  for (const name of ["id", "created", "model"]) expect(new Set(chunks.map((chunk) => chunk[name])).size).toBe(1);
  const roles = chunks.filter((chunk) => JSON.stringify(chunk).includes('"role"'));
  expect(roles.length).toBe(1);
  // A cut may destroy what was sent just before it. If that was all, another channel simply answers the whole.
  const begun = String(chunks[0]?.["id"]).startsWith("chatcmpl-a");
  if (begun) expect(chunks.at(-1)).toMatchObject({ gateway: { resumed: true } });
  const { messages } = lastRequest(reply);
  return { begun, prefix: messages.at(-1)?.role === "assistant" ? messages.at(-1)!.content : null };
}

/** What was asked of the channel that was asked last. */
function lastRequest(reply: ChatReply): { readonly messages: readonly { readonly role: string; readonly content: string }[] } {
  const attempts = rig.upstreams.flatMap(({ ledger }) => ledger.ofCall(reply.call ?? ""));
  const last = attempts.toSorted((one, other) => one.at - other.at).at(-1)!;
  return JSON.parse(Buffer.from(last.body).toString()) as ReturnType<typeof lastRequest>;
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
    const { prefix } = wholeAnswer(reply);
    expect("word0 word1 word2").toStartWith(prefix ?? "");
    if (certain) expect(prefix).toBe("word0 word1 word2");
    expect(rig.path(reply)).toEqual(["a", "fluent"]);
    expect(await rig.accessLine(reply.requestId)).toMatchObject({ state: "complete", attempts: 2, channel: "fluent", finish: "stop" });
    await rig.check({ oneAttemptSpeaks: false });
  });

  test.each([0, 8, 10, 300])("which may first repeat some of it (%p characters)", async (overlap) => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.script([`fault:same-text+prefix-continue@${overlap}`]);
    expect(wholeAnswer(await rig.chat({ model: fresh("continues") }, { stream: true })).prefix).toBe("word0 word1 word2");
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("with the usage of the one that finished, if the client wants it", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.script(["fault:same-text+prefix-continue"]);
    const reply = await rig.chat({ model: fresh("continues"), stream_options: { include_usage: true } }, { stream: true });
    expect([reply.content, reply.done, reply.usage]).toMatchObject([words, true, { completion_tokens: 2 }]);
    await rig.check({ oneAttemptSpeaks: false });
  });

  test.each([
    ["", "stop"],
    ["+done-without-finish", null],
  ])("whose words are all there, if it ends while they may still be a repetition (%p)", async (fault, finish) => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.script([`fault:same-text+tokens@2${fault}`]);
    const reply = await rig.chat({ model: fresh("continues") }, { stream: true });
    expect([reply.content, reply.finishReason, reply.done]).toEqual(["word0 word1 word2word0 word1", finish, true]);
    expect(new Set(chunksOf(reply).map(({ id }) => id)).size).toBe(1);
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("whose words are all there, also those that came with the last of its reasoning", async () => {
    const chunk = { id: "x", choices: [{ index: 0, delta: { reasoning_content: "hm", content: "word0 word1" }, finish_reason: null }] };
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    const raw = `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`;
    const reply = await rig.chat({ model: fresh("continues"), x_raw: raw }, { stream: true });
    expect([reply.content, reply.done, reply.error]).toEqual(["word0 word1 word2word0 word1", true, null]);
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

  test.each(["fault:same-text+tokens@2", "fault:same-text+tokens@2+done-without-finish"])(
    "nor is it passed off as whole if it ends before the place where the first broke off: %s",
    async (fault) => {
      rig.upstream.a.script(["fault:same-text+end-after@3"]);
      rig.upstream.plain.script([fault]);
      isHonest(await rig.chat({ model: fresh("restarts") }, { stream: true }), "word0 word1 word2");
      await rig.check();
    },
  );
});

describe("a text that breaks off is continued by a channel that is asked to repeat the end of it", () => {
  const long = Array.from({ length: 20 }, (_, at) => `word${at}`).join(" ");

  test.each([
    ["as it is", "fault:same-text+tokens@20+repeat-continue"],
    ["and repeats more than that", "fault:same-text+tokens@20+repeat-continue@60"],
    ["and breaks lines elsewhere", "fault:same-text+tokens@20+repeat-continue@46,\n"],
  ])("%s", async (_, fault) => {
    rig.upstream.a.script(["fault:same-text+tokens@20+end-after@12"]);
    rig.upstream.plain.script([fault]);
    const reply = await rig.chat({ model: fresh("restarts") }, { stream: true });
    expect([reply.content, reply.finishReason, reply.done, reply.error]).toEqual([long, "stop", true, null]);
    expect(rig.path(reply)).toEqual(["a", "plain"]);
    const { messages } = lastRequest(reply);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
    expect(messages[1]!.content).toBe(long.slice(0, long.indexOf(" word12")));
    expect(messages[2]!.content).toContain("word6 word7 word8 word9 word10 word11");
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("also if it was said to continue an unfinished message, and refuses to", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.fluent.behaviour = "fault:refuse-prefill+same-text+repeat-continue";
    const reply = await rig.chat({ model: fresh("continues") }, { stream: true });
    expect(wholeAnswer(reply)).toEqual({ begun: true, prefix: null });
    expect(rig.path(reply)).toEqual(["a", "fluent", "fluent"]);
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("and if it does not repeat it, the client is told the truth", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    rig.upstream.plain.script(["fault:same-text+repeat-continue@5"]);
    isHonest(await rig.chat({ model: fresh("restarts") }, { stream: true }), "word0 word1 word2");
    await rig.check();
  });

  test("unless the client began the answer itself", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3"]);
    const messages = [
      { role: "user", content: "Say something." },
      { role: "assistant", content: "So:" },
    ];
    const reply = await rig.chat({ model: fresh("restarts"), messages }, { stream: true });
    isHonest(reply, "word0 word1 word2");
    expect(rig.path(reply)).toEqual(["a"]);
    await rig.check();
  });
});

describe("a stream that breaks off while it has only reasoned is answered by another channel", () => {
  test.each(["fault:reasoning-only@3", "fault:reasoning-only@3,done"])("after %s", async (fault) => {
    rig.upstream.a.script([fault]);
    rig.upstream.plain.script(["fault:same-text"]);
    const asked = { max_tokens: 100, reasoning_effort: "high" };
    const reply = await rig.chat({ model: fresh("restarts"), ...asked }, { stream: true });
    expect(wholeAnswer(reply).begun).toBe(true);
    expect(rig.path(reply)).toEqual(["a", "plain"]);
    // It is the same question, and all of the answer is still to come.
    expect(lastRequest(reply)).toMatchObject({ ...asked, messages: [{ role: "user" }] });
    expect(reply.events.filter((event) => event.includes('"reasoning_content"')).length).toBe(3);
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("whose own reasoning is told apart from the first", async () => {
    const chunk = (delta: object, finish: string | null = null) =>
      `data: ${JSON.stringify({ id: "x", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
    const raw =
      chunk({ role: "assistant", content: "" }) +
      chunk({ reasoning_content: "again", reasoning_details: [{ type: "reasoning.text", text: "again", signature: "s" }] }) +
      chunk({ reasoning_content: " and again" }) +
      chunk({ content: "so" }) +
      chunk({}, "stop") +
      "data: [DONE]\n\n";
    rig.upstream.a.script(["fault:reasoning-only@2"]);
    const reply = await rig.chat({ model: fresh("restarts"), x_raw: raw }, { stream: true });
    expect([reply.content, reply.done, reply.error]).toEqual(["so", true, null]);
    const thoughts = reply.events.map((event) => /"reasoning_content":"([^"]*)"/.exec(event)?.[1] ?? "").join("");
    expect(thoughts).toBe(" thought0 thought1\\n\\nagain and again");
    expect(reply.response.text).not.toContain("signature");
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("or has only broken lines", async () => {
    await using own = await setUp(
      { a: { tier: 1, models: ["blank"] }, b: { tier: 2, models: ["blank"] } },
      { routing: { rescue: "auto" } },
    );
    own.upstream.a.script(["fault:blank-then-end"]);
    const reply = await own.chat({ model: "blank" }, { stream: true });
    expect([reply.content, reply.finishReason, reply.done]).toEqual([
      `\n\n${own.upstream.b.ledger.chats[0]!.tokensSent.join("")}`,
      "stop",
      true,
    ]);
    await own.check({ oneAttemptSpeaks: false });
  });

  test("and a text that came after reasoning is continued like any other", async () => {
    rig.upstream.a.script(["fault:same-text+end-after@3,2"]);
    rig.upstream.plain.script(["fault:same-text+repeat-continue"]);
    const reply = await rig.chat({ model: fresh("restarts") }, { stream: true });
    expect(wholeAnswer(reply).begun).toBe(true);
    expect(reply.events.filter((event) => event.includes('"reasoning_content"')).length).toBe(2);
    await rig.check({ oneAttemptSpeaks: false });
  });
});

describe("the second part", () => {
  test.each([1, 5])("does not repeat the fewer than eight characters that the client has (%p of them)", async (overlap) => {
    rig.upstream.a.script(["fault:same-text+end-after@1"]);
    rig.upstream.fluent.script([`fault:same-text+prefix-continue${overlap === 5 ? "@5" : ""}`]);
    expect(wholeAnswer(await rig.chat({ model: fresh("continues") }, { stream: true }))).toEqual({ begun: true, prefix: "word0" });
    await rig.check({ oneAttemptSpeaks: false });
  });

  test("has what is left of the tokens that the client allowed", async () => {
    const allowed = { max_tokens: 50, max_completion_tokens: 60 };
    rig.upstream.a.script(["fault:same-text+end-after@3", "fault:same-text+end-after@3"]);
    // Each of its deltas is a token.
    const spent = 3;
    rig.upstream.fluent.script(["fault:same-text+prefix-continue"]);
    const continued = await rig.chat({ model: fresh("continues"), ...allowed }, { stream: true });
    expect(wholeAnswer(continued).begun).toBe(true);
    expect(lastRequest(continued)).toMatchObject({ max_tokens: 50 - spent, max_completion_tokens: 60 - spent });

    rig.upstream.plain.script(["fault:same-text+repeat-continue"]);
    const repeated = await rig.chat({ model: fresh("restarts"), ...allowed }, { stream: true });
    expect(wholeAnswer(repeated).begun).toBe(true);
    // What is repeated is not given to the client, so it does not count.
    expect(lastRequest(repeated)).toMatchObject({ max_tokens: 50 - spent + Math.min(spent, estimateTokens("word0 word1 word2")) });
    await rig.check({ oneAttemptSpeaks: false });
  });
});

describe("without a setting, a text that breaks off is continued", () => {
  let own: Rig<"a" | "other" | "same">;
  const models = ["both", "others", "sames"];

  beforeAll(async () => {
    own = await setUp(
      {
        a: { models, tier: 1 },
        other: { models: { both: "another-model", others: "another-model" }, tier: 2, capabilities: { prefill: true } },
        same: { models: { both: "maker/BOTH", sames: "sames" }, tier: 3 },
      },
      { routing: { rescue: "auto" } },
    );
  });

  afterAll(async () => {
    await own[Symbol.asyncDispose]();
  });

  test.each(["both", "sames"])("by a channel that serves the same upstream model (%s)", async (model) => {
    own.upstream.a.script(["fault:same-text+end-after@3"]);
    own.upstream.same.script(["fault:same-text+repeat-continue"]);
    const reply = await own.chat({ model }, { stream: true });
    expect([reply.content, reply.finishReason, reply.done, reply.error]).toEqual([words, "stop", true, null]);
    expect(own.path(reply)).toEqual(["a", "same"]);
    await own.check({ oneAttemptSpeaks: false });
  });

  test("not by one that serves another", async () => {
    own.upstream.a.script(["fault:same-text+end-after@3"]);
    const reply = await own.chat({ model: "others" }, { stream: true });
    isHonest(reply, "word0 word1 word2");
    expect(own.path(reply)).toEqual(["a"]);
    await own.check();
  });

  test.each([
    ["the operator wants an error", { rescue: "error" }],
    ["the call may have one attempt only", { rescue: "continue", attempts: 1 }],
  ])("but not where %s", async (_, routing) => {
    await using strict = await setUp({ a: { tier: 1 }, b: { tier: 2, capabilities: { prefill: true } } }, { routing });
    strict.upstream.a.script(["fault:same-text+end-after@3"]);
    const reply = await strict.chat({ model: "strict" }, { stream: true });
    isHonest(reply, "word0 word1 word2");
    expect(strict.path(reply)).toEqual(["a"]);
    await strict.check();
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
    expect(attempt.closedAt! - abortedAt).toBeLessThan(slowed(250));
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
