import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { anthropicOn } from "../../../src/dialects/anthropic/anthropic.ts";
import type { EncodedRequest, Target } from "../../../src/dialects/dialect.ts";
import { bedrockHost, ownHost, vertexHost, type AnthropicHost } from "../../../src/dialects/anthropic/hosts.ts";
import { encodeMessages, type MessagesBodyOptions } from "../../../src/dialects/anthropic/messages-body.ts";
import type {
  Conversation,
  ConversationTurn,
  Part,
  ProviderValue,
  Tool,
  ToolResultPart,
} from "../../../src/operations/conversation/conversation.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { messagesSurface } from "../../../src/surfaces/index.ts";
import { emptyConversation } from "../../support/conversations.ts";
import { channel } from "../../support/plan-world.ts";
import { numRuns } from "../../support/properties.ts";

const newest = "claude-opus-5-5";
const older = "claude-sonnet-4-5-20250929";

type Body = Readonly<Record<string, unknown>>;

function attempt(change: Partial<Conversation>, options: Partial<MessagesBodyOptions> = {}): ReturnType<typeof encodeMessages> {
  return encodeMessages({ ...emptyConversation, ...change }, { host: ownHost, model: newest, ceiling: null, betas: [], ...options });
}

function encoded(change: Partial<Conversation>, options: Partial<MessagesBodyOptions> = {}): { body: Body; dropped: readonly string[] } {
  const result = attempt(change, options);
  if (isFailure(result)) throw new Error(result.detail);
  return { body: JSON.parse(new TextDecoder().decode(result.body)) as Body, dropped: result.dropped };
}

function refusedAs(change: Partial<Conversation>, options: Partial<MessagesBodyOptions> = {}): Failure {
  const result = attempt(change, options);
  if (!isFailure(result)) throw new Error("it was encoded");
  return result;
}

function messagesOf(turns: readonly ConversationTurn[], model = newest): unknown {
  return encoded({ turns }, { model }).body["messages"];
}

const text = (value: string): Part => ({ kind: "text", text: value });
const user = (value: string): ConversationTurn => ({ role: "user", parts: [text(value)] });
const assistant = (...parts: readonly Part[]): ConversationTurn => ({ role: "assistant", parts });
const system = (value: string): ConversationTurn => ({ role: "system", parts: [text(value)] });
const block = (value: string): object => ({ type: "text", text: value });
const own = (data: string): ProviderValue => ({ dialect: "anthropic", data });
const call = (id: string, args = "{}"): Part => ({ kind: "tool_call", id, name: "look", arguments: args });
const result = (callId: string, content: ToolResultPart["content"] = [], isError = false): Part => ({
  kind: "tool_result",
  callId,
  content,
  isError,
});
const tool: Tool = { name: "look", description: "Looks.", parameters: { type: "object", properties: {} }, strict: null };

describe("the turns of a conversation", () => {
  test("at its beginning are the system prompt, and the others alternate", () => {
    const { body } = encoded({
      turns: [
        system("be brief"),
        { role: "developer", parts: [text("and kind")] },
        user("hi"),
        user("there"),
        assistant(text("yes")),
        user("ok"),
      ],
    });
    expect(body["system"]).toEqual([block("be brief"), block("and kind")]);
    expect(body["messages"]).toEqual([
      { role: "user", content: [block("hi"), block("there")] },
      { role: "assistant", content: [block("yes")] },
      { role: "user", content: [block("ok")] },
    ]);
  });

  test("with instructions in the middle keep them there, after the user's message, where the model takes them", () => {
    expect(messagesOf([user("hi"), assistant(text("yes")), system("be brief"), user("go on")])).toEqual([
      { role: "user", content: [block("hi")] },
      { role: "assistant", content: [block("yes")] },
      { role: "user", content: [block("go on")] },
      { role: "system", content: [block("be brief")] },
    ]);
  });

  test("with instructions in the middle tell them as a marked text to a model that takes none", () => {
    expect(messagesOf([user("hi"), assistant(text("yes")), system("be brief"), user("go on")], older)).toEqual([
      { role: "user", content: [block("hi")] },
      { role: "assistant", content: [block("yes")] },
      { role: "user", content: [block("<system>\nbe brief\n</system>"), block("go on")] },
    ]);
  });

  test("give the results of tools first, together, in their order, with images, and the last of two for a call", () => {
    const image = { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } } as const;
    const turns: ConversationTurn[] = [
      user("look"),
      assistant(text("wait"), call("a", '{"n":12345678901234567890}'), call("b")),
      { role: "tool", parts: [result("b", [{ kind: "text", text: "old" }])] },
      { role: "tool", parts: [result("a", [{ kind: "text", text: "this" }, image]), result("b", [{ kind: "text", text: "new" }], true)] },
      user("and now?"),
    ];
    const encodedBody = attempt({ turns, tools: [tool] });
    if (isFailure(encodedBody)) throw new Error(encodedBody.detail);
    expect(new TextDecoder().decode(encodedBody.body)).toContain('"input":{"n":12345678901234567890}');
    expect((messagesOf(turns) as unknown[])[2]).toEqual({
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "b", content: [block("new")], is_error: true },
        {
          type: "tool_result",
          tool_use_id: "a",
          content: [block("this"), { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }],
        },
        block("and now?"),
      ],
    });
  });

  test("leave out blank texts, and messages without content", () => {
    expect(messagesOf([user("hi"), assistant(text("  ")), { role: "user", parts: [text(""), text("there")] }])).toEqual([
      { role: "user", content: [block("hi"), block("there")] },
    ]);
  });

  test("begin with one of the user, whoever began", () => {
    expect(messagesOf([assistant(text("Welcome")), user("hi")])).toMatchObject([{ role: "user" }, { role: "assistant" }, { role: "user" }]);
    expect(encoded({ turns: [system("x")] }).body).toMatchObject({ system: [block("x")], messages: [{ role: "user" }] });
  });

  test("end with an unfinished answer only where the model goes on with it, without white space at its end", () => {
    const turns = [user("count"), assistant(text("one, two "))];
    expect((messagesOf(turns, older) as unknown[])[1]).toEqual({ role: "assistant", content: [block("one, two")] });
    expect(refusedAs({ turns }).kind).toBe("unsupported");
  });

  test("have ids of calls that the API accepts, also where a client gives none", () => {
    const turns = [
      user("x"),
      assistant(call("functions.look:0"), call(""), call("")),
      { role: "tool", parts: [result("functions.look:0"), result(""), result("")] } as const,
    ];
    const [, answer, results] = messagesOf(turns) as { content: Record<string, unknown>[] }[];
    const ids = answer!.content.map(({ id }) => id);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toMatch(/^[\w-]+$/);
    expect(results!.content.map(({ tool_use_id }) => tool_use_id)).toEqual(ids);
  });

  test("carry files as documents", () => {
    const file = (source: Extract<Part, { kind: "file" }>["source"], name: string | null = "a.pdf"): Part => ({
      kind: "file",
      source,
      name,
    });
    const parts: Part[] = [
      file({ kind: "data", mediaType: "application/pdf", data: "AAAA" }),
      file({ kind: "data", mediaType: "text/csv", data: btoa("a,b") }),
      file({ kind: "url", url: "https://example.com/a.pdf" }, null),
      file({ kind: "text", text: "plain" }, null),
      { kind: "image", source: { kind: "url", url: "https://example.com/a.png" } },
    ];
    expect(messagesOf([{ role: "user", parts }])).toEqual([
      {
        role: "user",
        content: [
          { type: "document", source: { type: "base64", media_type: "application/pdf", data: "AAAA" }, title: "a.pdf" },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "a,b" }, title: "a.pdf" },
          { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" } },
          { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
        ],
      },
    ]);
  });

  test.each([
    ["audio", { kind: "audio", format: "wav", data: "AAAA" }],
    ["an uploaded file", { kind: "file", source: { kind: "id", id: "file-1" }, name: null }],
    ["a type of image that it does not know", { kind: "image", source: { kind: "data", mediaType: "image/tiff", data: "AAAA" } }],
    [
      "a type of file that it does not know",
      { kind: "file", source: { kind: "data", mediaType: "application/zip", data: "AAAA" }, name: "a" },
    ],
    ["a text that is not base64", { kind: "file", source: { kind: "data", mediaType: "text/plain", data: "%%%" }, name: "a" }],
  ] as const)("with %s are left to another channel", (_what, part) => {
    expect(refusedAs({ turns: [{ role: "user", parts: [part] }] })).toMatchObject({ kind: "unsupported", blame: "client" });
    const inResult = [assistant(call("a")), { role: "tool", parts: [result("a", [part])] } as const];
    expect(refusedAs({ turns: [user("x"), ...inResult] }).kind).toBe("unsupported");
  });
});

describe("thoughts", () => {
  test("go back unchanged to the API that signed them, and to no other", () => {
    const turns = [
      user("x"),
      assistant(
        { kind: "reasoning", text: "hm ", signature: own("sig+/=") },
        { kind: "reasoning", text: "", signature: own("enc"), redacted: true },
        { kind: "reasoning", text: "foreign", signature: { dialect: "gemini", data: "g" } },
        { kind: "reasoning", text: "unsigned", signature: null },
        { kind: "reasoning", text: "sealed", signature: { dialect: "sluice", data: "sluice-v1.a" } },
        text("yes"),
      ),
      user("y"),
    ];
    const thinking = { type: "thinking", thinking: "hm ", signature: "sig+/=" };
    const redacted = { type: "redacted_thinking", data: "enc" };
    expect((messagesOf(turns) as unknown[])[1]).toEqual({ role: "assistant", content: [thinking, redacted, block("yes")] });
  });

  const asked = (effort: Conversation["reasoning"], model: string, more: Partial<Conversation> = {}): Body =>
    encoded({ turns: [user("x")], reasoning: effort, ...more }, { model }).body;
  const effort = (level: "none" | "minimal" | "low" | "xhigh" | "max"): Conversation["reasoning"] => ({
    effort: level,
    budgetTokens: null,
    summary: null,
  });

  test("are asked for with an effort of models that decide by themselves", () => {
    expect(asked(effort("minimal"), newest)).toMatchObject({
      thinking: { type: "adaptive", display: "summarized" },
      output_config: { effort: "low" },
    });
    expect(asked(effort("xhigh"), newest)["output_config"]).toEqual({ effort: "xhigh" });
    expect(asked(effort("xhigh"), "claude-opus-4-6")["output_config"]).toEqual({ effort: "high" });
    expect(asked({ effort: null, budgetTokens: 9000, summary: "none" }, newest)).toMatchObject({
      thinking: { type: "adaptive", display: "omitted" },
      output_config: { effort: "medium" },
    });
  });

  test("are asked for with a number of tokens of older models, within what the client allows", () => {
    expect(asked(effort("low"), older)).toMatchObject({ max_tokens: 64_000, thinking: { type: "enabled", budget_tokens: 6400 } });
    expect(asked(effort("low"), older, { maxOutputTokens: 4000 })["thinking"]).toEqual({ type: "enabled", budget_tokens: 2000 });
    const small = encoded({ turns: [user("x")], reasoning: effort("low"), maxOutputTokens: 500 }, { model: older });
    expect(small.body["thinking"]).toBeUndefined();
    expect(small.dropped).toEqual(["reasoning_effort"]);
  });

  test("are switched off where they can be, and said to be, because newer models think unasked", () => {
    expect(asked(effort("none"), "claude-sonnet-5")["thinking"]).toEqual({ type: "disabled" });
    expect(asked(effort("none"), "claude-sonnet-5-5")["thinking"]).toEqual({ type: "between_tools" });
    expect(asked(effort("none"), newest)).toMatchObject({ thinking: { type: "adaptive" }, output_config: { effort: "low" } });
    expect(asked(null, newest)["thinking"]).toBeUndefined();
  });

  test("are not asked for between a call without them and its result, which an older model refuses", () => {
    const turns = [user("x"), assistant(call("a")), { role: "tool", parts: [result("a")] } as const];
    const unthought = encoded({ turns, tools: [tool], reasoning: effort("low") }, { model: older });
    expect(unthought.body["thinking"]).toBeUndefined();
    const signed = [user("x"), assistant({ kind: "reasoning", text: "t", signature: own("s") }, call("a")), turns[2]!];
    expect(encoded({ turns: signed, tools: [tool], reasoning: effort("low") }, { model: older }).body["thinking"]).toBeDefined();
  });

  test("give way to a tool that must be called", () => {
    const forced = { tools: [tool], toolChoice: { kind: "required" } } as const;
    const { body, dropped } = encoded({ turns: [user("x")], reasoning: effort("low"), ...forced }, { model: "claude-sonnet-5" });
    expect(body).toMatchObject({ thinking: { type: "disabled" }, tool_choice: { type: "any" } });
    expect(dropped).toEqual(["reasoning_effort"]);
  });
});

describe("tools", () => {
  const turns = [user("x")];
  const tools: readonly Tool[] = [
    tool,
    { name: "apply_patch", description: "Patches.", parameters: null, strict: null, custom: { format: "lark" } },
    { name: "search", namespace: "docs", description: null, parameters: null, strict: true },
  ];

  test("are declared with a schema each, under names that the API accepts", () => {
    expect(encoded({ turns, tools }).body["tools"]).toEqual([
      { name: "look", description: "Looks.", input_schema: { type: "object", properties: {} } },
      {
        name: "apply_patch",
        description: "Patches.\n\nThe input has to match this format:\nlark",
        input_schema: { type: "object", properties: { input: { type: "string" } }, required: ["input"], additionalProperties: false },
      },
      { name: "docs__search", input_schema: { type: "object", properties: {}, additionalProperties: false }, strict: true },
    ]);
  });

  test.each([
    [{ kind: "auto" }, { type: "auto" }],
    [{ kind: "none" }, { type: "none" }],
    [{ kind: "required" }, { type: "any" }],
    [
      { kind: "named", name: "search" },
      { type: "tool", name: "docs__search" },
    ],
  ] as const)("are chosen: %o", (toolChoice, expected) => {
    expect(encoded({ turns, tools, toolChoice }, { model: older }).body["tool_choice"]).toEqual(expected);
  });

  test("are called one at a time where the client says so", () => {
    const one = { parallelToolCalls: false, tools, turns };
    expect(encoded(one).body["tool_choice"]).toEqual({ type: "auto", disable_parallel_tool_use: true });
    expect(encoded({ ...one, toolChoice: { kind: "none" } }).body["tool_choice"]).toEqual({ type: "none" });
    expect(encoded({ ...one, tools: [] }).body["tool_choice"]).toBeUndefined();
  });

  test("cannot be forced on every model, which is reported", () => {
    const { body, dropped } = encoded({ turns, tools, toolChoice: { kind: "required" } });
    expect(body["tool_choice"]).toEqual({ type: "auto" });
    expect(dropped).toEqual(["tool_choice"]);
  });
});

describe("the other fields", () => {
  const turns = [user("x")];

  test("are carried, or reported where the model takes none", () => {
    const change: Partial<Conversation> = {
      turns,
      sampling: { ...emptyConversation.sampling, temperature: 1.5, topP: 0.5, topK: 4, seed: 1, presencePenalty: 0 },
      stop: ["END", " \n"],
      endUser: "u1",
      serviceTier: "default",
      verbosity: "low",
      stream: true,
      maxOutputTokens: 10,
      uncarried: ["logit_bias"],
    };
    const { body, dropped } = encoded(change, { model: older });
    expect(body).toEqual({
      model: older,
      max_tokens: 10,
      messages: [{ role: "user", content: [block("x")] }],
      temperature: 1,
      top_k: 4,
      stop_sequences: ["END"],
      metadata: { user_id: "u1" },
      service_tier: "standard_only",
      stream: true,
    });
    expect(dropped).toEqual(["logit_bias", "top_p", "seed", "stop", "verbosity"]);
    expect(encoded(change).dropped).toEqual(["logit_bias", "temperature", "top_p", "top_k", "seed", "stop", "verbosity"]);
    expect(encoded({ turns, serviceTier: "flex" }).dropped).toEqual(["service_tier"]);
  });

  test("say how many tokens: the client's number, the channel's, or the model's", () => {
    expect(encoded({ turns }).body["max_tokens"]).toBe(128_000);
    expect(encoded({ turns }, { ceiling: 500 }).body["max_tokens"]).toBe(500);
    expect(encoded({ turns, maxOutputTokens: 0 }).body["max_tokens"]).toBe(1);
    expect(encoded({ turns }, { model: "claude-3-haiku-20240307" }).body["max_tokens"]).toBe(4096);
    expect(encoded({ turns }, { model: "claude-next-9" }).body["max_tokens"]).toBe(128_000);
    expect(encoded({ turns }, { model: "some-other-model" }).body["max_tokens"]).toBe(8192);
  });

  test("hold an answer to a schema where the model can be held to one, closed and without what it does not enforce", () => {
    const schema = {
      type: "object",
      properties: { n: { type: "integer", minimum: 1, description: "A number." }, who: { oneOf: [{ type: "string", format: "regex" }] } },
      required: ["n"],
    };
    const outputFormat = { kind: "schema", name: "s", description: null, schema, strict: true } as const;
    expect(encoded({ turns, outputFormat }).body["output_config"]).toEqual({
      format: {
        type: "json_schema",
        schema: {
          type: "object",
          properties: {
            n: { type: "integer", description: "A number. (minimum: 1)" },
            who: { anyOf: [{ type: "string", description: '(format: "regex")' }] },
          },
          required: ["n"],
          additionalProperties: false,
        },
      },
    });
    // Elsewhere it has to answer with a tool, unless there are others or it cannot be made to.
    expect(encoded({ turns, outputFormat }, { model: "claude-3-haiku" }).body).toMatchObject({
      tools: [{ name: "structured_answer", input_schema: schema }],
      tool_choice: { type: "tool", name: "structured_answer" },
    });
    const beside = { turns, outputFormat, tools: [tool] };
    expect(refusedAs(beside, { model: "claude-3-haiku" })).toMatchObject({ kind: "unsupported", param: "response_format" });
    expect(refusedAs({ turns, outputFormat }, { host: vertexHost }).kind).toBe("unsupported");
    const asked = encoded({ ...beside, outputFormat: { ...outputFormat, strict: null } }, { model: "claude-3-haiku" }).body;
    expect(JSON.stringify(asked["system"])).toContain("minimum");
    expect(encoded({ turns, outputFormat: { kind: "json" } }).body["system"]).toBeDefined();
  });

  test("keep the last four cache markers, which is as many as the API takes", () => {
    const marked = (value: string): Part => ({ kind: "text", text: value, cache: { ttl: null } });
    const { body } = encoded({
      turns: [
        { role: "system", parts: [marked("a")] },
        { role: "user", parts: [marked("b"), marked("c"), { kind: "text", text: "d", cache: { ttl: "1h" } }, text("e"), marked("f")] },
      ],
      tools: [{ ...tool, cache: { ttl: null } }],
    });
    expect(JSON.stringify(body).match(/cache_control/g)?.length).toBe(4);
    expect(JSON.stringify(body)).toContain('{"type":"text","text":"d","cache_control":{"type":"ephemeral","ttl":"1h"}}');
    expect(JSON.stringify(body["tools"])).not.toContain("cache_control");
  });

  test("mark the end of a prompt that the client says it will send again, unless it has marks of its own", () => {
    const marker = { cache_control: { type: "ephemeral" } };
    const keyed = encoded({ turns: [system("s"), user("x")], promptCacheKey: "session" }).body;
    expect(keyed).toMatchObject({ system: [block("s")], messages: [{ content: [{ ...block("x"), ...marker }] }] });
    const own: Part = { kind: "text", text: "s", cache: { ttl: null } };
    const marked = encoded({ turns: [{ role: "system", parts: [own] }, user("x")], promptCacheKey: "session" }).body;
    expect(marked).toMatchObject({ system: [{ ...block("s"), ...marker }] });
    expect(marked["messages"]).toEqual([{ role: "user", content: [block("x")] }]);
  });

  test("that would change what the answer is are left to another channel", () => {
    expect(refusedAs({ turns, sampling: { ...emptyConversation.sampling, topLogprobs: 0 } })).toMatchObject({
      kind: "unsupported",
      param: "logprobs",
    });
  });
});

describe("other hosts", () => {
  const bedrock = bedrockHost(ownHost.reader);
  const on = (host: AnthropicHost, change: Partial<Conversation> = {}): Body =>
    encoded({ turns: [user("x")], stream: true, ...change }, { host, betas: ["context-1m-2025-08-07"] }).body;

  test("have the model in the path and the version in the body, and one of them is told to stream by its path alone", () => {
    expect(on(bedrock)).toEqual({
      anthropic_version: "bedrock-2023-05-31",
      anthropic_beta: ["context-1m-2025-08-07"],
      max_tokens: 128_000,
      messages: [{ role: "user", content: [block("x")] }],
    });
    expect(on(vertexHost)).toEqual({
      anthropic_version: "vertex-2023-10-16",
      max_tokens: 128_000,
      messages: [{ role: "user", content: [block("x")] }],
      stream: true,
    });
  });

  test.each([
    ["bedrock", bedrock, undefined],
    ["vertex", vertexHost, true],
  ] as const)("get the same of a client that speaks the API itself: %s", (_, host, stream) => {
    const { body } = passed(host, { stream: true });
    expect([body["model"], body["stream"]]).toEqual([undefined, stream]);
  });

  /** The request of a client that speaks the API itself. */
  function passed(host: AnthropicHost, sent: Body, more: Partial<Target> = {}): EncodedRequest & { readonly body: Body } {
    const whole = { model: "m", max_tokens: 5, messages: [{ role: "user", content: "x" }], ...sent };
    const ask = messagesSurface.parse(new TextEncoder().encode(JSON.stringify(whole)));
    if (isFailure(ask)) throw new Error(ask.detail);
    const target = { channel: channel("a"), model: "m", ceiling: null, meterStream: false, forwarded: {}, ...more };
    const made = anthropicOn(host).chat!.encode(ask, target);
    if (isFailure(made)) throw new Error(made.detail);
    return { ...made, body: JSON.parse(new TextDecoder().decode(made.request.body as Uint8Array)) as Body };
  }

  const [old, unheard] = ["interleaved-thinking-2025-05-14", "not-heard-of-2027-01-01"];
  const header = { "anthropic-beta": `${unheard}, ${old}` };

  test.each([
    [null, [unheard, old], [], "known"],
    ["known", [old], [`betas.${unheard}`], "none"],
    ["none", undefined, [`betas.${unheard}`, `betas.${old}`, "context_management"], null],
  ] as const)("that refuse beta features are named fewer of them, and the client reads which: %s", (betas, names, dropped, fewer) => {
    const sent = passed(bedrock, { context_management: { edits: [] } }, { forwarded: header, betas });
    expect(sent).toMatchObject({ dropped, fewerBetas: fewer });
    expect(sent.body["anthropic_beta"]).toEqual(names);
    expect(sent.body["context_management"] === undefined).toBe(betas === "none");
    const inHeader = passed(vertexHost, {}, { forwarded: header, betas }).request.headers["anthropic-beta"];
    expect(inHeader).toBe(names?.join(","));
  });

  test("are named what the operator has configured, and the provider itself all that a client names", () => {
    const configured = { ...channel("a"), headers: { "anthropic-beta": unheard } };
    expect(passed(bedrock, {}, { channel: configured, betas: "none" })).toMatchObject({
      fewerBetas: null,
      body: { anthropic_beta: [unheard] },
    });
    const own = passed(ownHost, {}, { forwarded: header, betas: "none" });
    expect(own).toMatchObject({ dropped: [], fewerBetas: null, request: { headers: header } });
  });

  test("fetch no images", () => {
    const image: Part = { kind: "image", source: { kind: "url", url: "https://example.com/a.png" } };
    expect(refusedAs({ turns: [{ role: "user", parts: [image] }] }, { host: vertexHost }).kind).toBe("unsupported");
  });
});

/** Turns of any kind, in any order; ids repeat now and then. An answer says something. */
const anyTurn: fc.Arbitrary<ConversationTurn> = fc.oneof(
  fc.record({ role: fc.constantFrom("system", "developer", "user"), parts: fc.array(fc.string().map(text), { maxLength: 2 }) }),
  fc.record({
    role: fc.constant("assistant" as const),
    parts: fc
      .array(
        fc.oneof(
          fc.string().map(text),
          fc.constantFrom("a", "b", "").map((id) => call(id)),
          fc.string().map((thought): Part => ({ kind: "reasoning", text: thought, signature: own("s") })),
        ),
        { maxLength: 3 },
      )
      .map((parts) => [text("said"), ...parts]),
  }),
  fc.record({
    role: fc.constant("tool" as const),
    parts: fc.array(
      fc.constantFrom("a", "b", "").map((id) => result(id)),
      { maxLength: 2 },
    ),
  }),
);

/** Messages of one role that follow one another are one to the model. */
function blocksOf(body: Body): unknown[] {
  return (body["messages"] as { role: string; content: unknown[] }[]).flatMap(({ role, content }) => content.map((one) => [role, one]));
}

test("a conversation that goes on after an answer is sent with the same beginning", () => {
  fc.assert(
    fc.property(fc.array(anyTurn, { maxLength: 8 }), fc.constantFrom(newest, older), (turns, model) => {
      const whole = encoded({ turns: [...turns, user("end")], tools: [tool] }, { model }).body;
      for (const [at, turn] of turns.entries()) {
        // What was answered was sent; the rest of an answer that came in several turns was not.
        if (turn.role !== "assistant" || turns[at - 1]?.role === "assistant" || at === 0) continue;
        const before = encoded({ turns: turns.slice(0, at), tools: [tool] }, { model }).body;
        expect(whole["tools"]).toEqual(before["tools"]);
        expect(whole["system"]).toEqual(before["system"]);
        const [sent, later] = [blocksOf(before), blocksOf(whole)];
        expect(later.slice(0, sent.length)).toEqual(sent);
      }
    }),
    { numRuns: numRuns(200) },
  );
});
