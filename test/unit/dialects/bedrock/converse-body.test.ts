import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { encodeConverse } from "../../../../src/dialects/bedrock/converse-body.ts";
import type { ConverseOptions } from "../../../../src/dialects/bedrock/converse-settings.ts";
import type { Conversation, ConversationTurn, Part, Tool } from "../../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../../src/operations/failure.ts";
import { anyTurns, emptyConversation } from "../../../support/conversations.ts";
import { numRuns } from "../../../support/properties.ts";

const plain: ConverseOptions = { model: "eu.amazon.nova-pro-v1:0", maxOutputTokens: null, ceiling: null };
const claude37 = "us.anthropic.claude-3-7-sonnet-20250219-v1:0";
const claude45 = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
const claude46 = "anthropic.claude-opus-4-6-v1";
type Body = Readonly<Record<string, unknown>>;

function encoded(change: Partial<Conversation>, options: Partial<ConverseOptions> = {}): { body: Body; dropped: readonly string[] } {
  const result = encodeConverse({ ...emptyConversation, ...change }, { ...plain, ...options });
  if (isFailure(result)) throw new Error(result.detail);
  return { body: JSON.parse(new TextDecoder().decode(result.body)) as Body, dropped: result.dropped };
}

function messagesOf(...turns: readonly ConversationTurn[]): unknown {
  return encoded({ turns }).body["messages"];
}

const text = (value: string): Part => ({ kind: "text", text: value });
const user = (...parts: readonly Part[]): ConversationTurn => ({ role: "user", parts });
const assistant = (...parts: readonly Part[]): ConversationTurn => ({ role: "assistant", parts });
const hi = user(text("hi"));
const own = (data: string) => ({ dialect: "bedrock-converse", data });
const call: Part = { kind: "tool_call", id: "call|1", name: "look up!", arguments: '{"q":1}' };
const look: Tool = { name: "look", description: "Looks.", parameters: { type: "object", properties: { q: {} } }, strict: null };

describe("a conversation becomes a Converse request", () => {
  test("whose calls keep the digits of long numbers", () => {
    const args = '{"id":1234567890123456789,"of":[-98765432109876543210,1.50,"0123456789012345678"]}';
    const result = encodeConverse({ ...emptyConversation, turns: [hi, assistant({ ...call, arguments: args })] }, plain);
    expect(isFailure(result) ? "" : new TextDecoder().decode(result.body)).toContain(`"input":${args}`);
  });

  test("with instructions at the beginning as system, and later ones at their place", () => {
    const { body } = encoded({
      turns: [
        { role: "system", parts: [text("be brief")] },
        { role: "developer", parts: [text("be kind")] },
        hi,
        { role: "system", parts: [text("in French")] },
      ],
    });
    expect(body).toEqual({
      system: [{ text: "be brief" }, { text: "be kind" }],
      messages: [{ role: "user", content: [{ text: "hi" }, { text: "<system>\nin French\n</system>" }] }],
    });
  });

  test("with roles that alternate and begin with the user", () => {
    expect(messagesOf(assistant(text("hello")), hi, user(text("there")), assistant(text("a")), assistant(text("b")))).toEqual([
      { role: "user", content: [{ text: "Continue." }] },
      { role: "assistant", content: [{ text: "hello" }] },
      { role: "user", content: [{ text: "hi" }, { text: "there" }] },
      { role: "assistant", content: [{ text: "a" }, { text: "b" }] },
    ]);
  });

  test("without blank texts, except beside reasoning", () => {
    const reasoning: Part = { kind: "reasoning", text: "hm", signature: own("sig") };
    expect(messagesOf(hi, assistant(text(" ")), user(text("")), assistant(reasoning, text("")))).toEqual([
      { role: "user", content: [{ text: "hi" }] },
      { role: "assistant", content: [{ reasoningContent: { reasoningText: { text: "hm", signature: "sig" } } }, { text: "" }] },
    ]);
  });

  test("with images, documents and recordings", () => {
    const turn = user(
      { kind: "image", source: { kind: "data", mediaType: "image/jpeg; x", data: "AAAA" } },
      { kind: "image", source: { kind: "url", url: "s3://bucket/a.webp" } },
      { kind: "file", name: "The plan (v2).final.pdf", source: { kind: "data", mediaType: "application/pdf", data: "BBBB" } },
      { kind: "file", name: "notes.md", source: { kind: "data", mediaType: "application/octet-stream", data: "CCCC" } },
      { kind: "audio", format: "wav", data: "DDDD" },
      { kind: "file", name: "a.txt", source: { kind: "text", text: "plain" } },
    );
    expect(messagesOf(turn)).toEqual([
      {
        role: "user",
        content: [
          { image: { format: "jpeg", source: { bytes: "AAAA" } } },
          { image: { format: "webp", source: { s3Location: { uri: "s3://bucket/a.webp" } } } },
          { document: { format: "pdf", name: "The plan (v2) final pdf 1", source: { bytes: "BBBB" } } },
          { document: { format: "md", name: "notes md 2", source: { bytes: "CCCC" } } },
          { audio: { format: "wav", source: { bytes: "DDDD" } } },
          { text: "a.txt:\n\nplain" },
        ],
      },
    ]);
  });

  test("with a text beside a document that has none", () => {
    const file: Part = { kind: "file", name: null, source: { kind: "data", mediaType: "text/csv", data: "AAAA" } };
    expect(messagesOf(user(file))).toEqual([
      {
        role: "user",
        content: [{ document: { format: "csv", name: "document 1", source: { bytes: "AAAA" } } }, { text: "The document is attached." }],
      },
    ]);
  });

  test.each<readonly [string, Part]>([
    ["an image by URL", { kind: "image", source: { kind: "url", url: "https://example.com/a.png" } }],
    ["an uploaded image", { kind: "image", source: { kind: "id", id: "file-1" } }],
    ["an image of another type", { kind: "image", source: { kind: "data", mediaType: "image/tiff", data: "" } }],
    ["a file by URL", { kind: "file", name: null, source: { kind: "url", url: "https://example.com/a.pdf" } }],
    ["a file of another type", { kind: "file", name: "a.zip", source: { kind: "data", mediaType: "application/zip", data: "" } }],
  ])("or is refused for %s, so that another channel is tried", (_, part) => {
    expect(encodeConverse({ ...emptyConversation, turns: [user(part)] }, plain)).toMatchObject({ kind: "unsupported" });
  });

  test("with calls and results that keep one id in the alphabet of the API", () => {
    const result: Part = { kind: "tool_result", callId: "call|1", isError: true, content: [{ kind: "text", text: "no" }] };
    const { body } = encoded({ turns: [hi, assistant(call), { role: "tool", parts: [result] }] });
    const [, called, answered] = body["messages"] as readonly { content: readonly Record<string, Record<string, unknown>>[] }[];
    const use = called?.content[0]?.["toolUse"];
    const returned = answered?.content[0]?.["toolResult"];
    expect(use).toMatchObject({ input: { q: 1 } });
    expect(String(use?.["toolUseId"])).toMatch(/^[\w-]{1,64}$/);
    expect(String(use?.["name"])).toMatch(/^[\w-]{1,64}$/);
    expect(returned).toEqual({ toolUseId: use?.["toolUseId"], content: [{ text: "no" }], status: "error" });
    // Tools that were called have to be declared, whether or not the client still does.
    expect(body["toolConfig"]).toMatchObject({ tools: [{ toolSpec: { name: use?.["name"] } }] });
  });

  test("with short ids for a model that takes no others, its own among them unchanged", () => {
    const turns = ["a1B2c3D4e", "call_of_another_provider"].flatMap((id): readonly ConversationTurn[] => [
      assistant({ kind: "tool_call", id, name: "look", arguments: "{}" }),
      { role: "tool", parts: [{ kind: "tool_result", callId: id, isError: false, content: [{ kind: "text", text: "x" }] }] },
    ]);
    const sent = JSON.stringify(encoded({ turns: [hi, ...turns] }, { model: "mistral.mistral-large-2407-v1:0" }).body);
    const ids = [...sent.matchAll(/"toolUseId":"([^"]+)"/g)].map(([, id = ""]) => id);
    expect(ids).toEqual(["a1B2c3D4e", "a1B2c3D4e", expect.stringMatching(/^[a-z0-9]{9}$/), ids[2] ?? ""]);
  });

  test.each([
    ["not JSON", { _raw: "not JSON" }],
    ["", {}],
    ["null", {}],
    ["[1]", { _raw: "[1]" }],
  ])("with the arguments %j as an object", (args, input) => {
    const content = messagesOf(hi, assistant({ kind: "tool_call", id: "1", name: "look", arguments: args }));
    expect(content).toMatchObject([{}, { content: [{ toolUse: { input } }] }]);
  });

  test("with its own signatures verbatim, and without those of others", () => {
    const turns = [
      hi,
      assistant(
        { kind: "reasoning", text: "mine", signature: own("s1+/=") },
        { kind: "reasoning", text: "", signature: own("cmVk"), redacted: true },
        { kind: "reasoning", text: "foreign", signature: { dialect: "other", data: "x" } },
        { kind: "reasoning", text: "unsigned", signature: null },
        text("done"),
      ),
    ];
    const { body } = encoded({ turns });
    expect((body["messages"] as readonly Body[])[1]).toEqual({
      role: "assistant",
      content: [
        { reasoningContent: { reasoningText: { text: "mine", signature: "s1+/=" } } },
        { reasoningContent: { redactedContent: "cmVk" } },
        { text: "done" },
      ],
    });
  });

  test("with marks of what to cache, where the model takes them", () => {
    const change: Partial<Conversation> = {
      turns: [
        { role: "system", parts: [{ kind: "text", text: "s", cache: { ttl: null } }] },
        user({ kind: "text", text: "u", cache: { ttl: "1h" } }),
      ],
      tools: [{ ...look, cache: { ttl: "5m" } }],
    };
    expect(encoded(change).body).toMatchObject({
      system: [{ text: "s" }, { cachePoint: { type: "default" } }],
      messages: [{ content: [{ text: "u" }, { cachePoint: { type: "default", ttl: "1h" } }] }],
      toolConfig: { tools: [{ toolSpec: { name: "look" } }, { cachePoint: { type: "default" } }] },
    });
    const other = encoded(change, { model: "meta.llama3-70b-instruct-v1:0" });
    expect(JSON.stringify(other.body)).not.toContain("cachePoint");
    expect(other.dropped).toEqual(["cache_control"]);
  });

  test.each<readonly [Conversation["toolChoice"], unknown]>([
    [null, undefined],
    [{ kind: "auto" }, { auto: {} }],
    [{ kind: "required" }, { any: {} }],
    [{ kind: "named", name: "look" }, { tool: { name: "look" } }],
  ])("with the choice %j of tools", (toolChoice, expected) => {
    const config = encoded({ turns: [hi], tools: [look], toolChoice }).body["toolConfig"] as Body;
    expect(config["tools"]).toEqual([
      { toolSpec: { name: "look", description: "Looks.", inputSchema: { json: { type: "object", properties: { q: {} } } } } },
    ]);
    expect(config["toolChoice"]).toEqual(expected);
  });

  test("without tools where none may be called", () => {
    expect(encoded({ turns: [hi], tools: [look], toolChoice: { kind: "none" } }).body["toolConfig"]).toBeUndefined();
    const later = encoded({ turns: [hi, assistant({ ...call, name: "look" })], tools: [look], toolChoice: { kind: "none" } });
    expect(later.body["toolConfig"]).toBeDefined();
    expect(later.dropped).toEqual(["tool_choice"]);
  });

  test("with the settings that the API has, and the rest reported", () => {
    const { body, dropped } = encoded(
      {
        turns: [hi],
        sampling: { temperature: 1.5, topP: 0.9, topK: 5, presencePenalty: 1, frequencyPenalty: 0, seed: 1, topLogprobs: null },
        stop: ["END", ""],
        serviceTier: "flex",
        parallelToolCalls: false,
        tools: [look],
        verbosity: "low",
        uncarried: ["logit_bias"],
      },
      { maxOutputTokens: 100 },
    );
    expect(body["inferenceConfig"]).toEqual({ maxTokens: 100, temperature: 1, topP: 0.9, stopSequences: ["END"] });
    expect(body["serviceTier"]).toEqual({ type: "flex" });
    expect([...dropped].toSorted()).toEqual(
      ["logit_bias", "parallel_tool_calls", "presence_penalty", "seed", "temperature", "top_k", "verbosity"].toSorted(),
    );
  });

  test("without the settings that the model refuses, which are reported", () => {
    const sampling = { ...emptyConversation.sampling, temperature: 0.5, topP: 0.9 };
    const { body, dropped } = encoded({ turns: [hi], sampling, stop: ["END"] }, { maxOutputTokens: 10, model: "openai.m" });
    expect(body["inferenceConfig"]).toEqual({ maxTokens: 10 });
    expect([...dropped].toSorted()).toEqual(["stop", "temperature", "top_p"]);
  });

  test("or is refused where log probabilities are asked for", () => {
    const sampling = { ...emptyConversation.sampling, topLogprobs: 2 };
    expect(encodeConverse({ ...emptyConversation, turns: [hi], sampling }, plain)).toMatchObject({
      kind: "unsupported",
      param: "logprobs",
    });
  });

  test("with a schema for the answer as text", () => {
    const schema = { type: "object", properties: { a: { type: "string" } } };
    const outputFormat = { kind: "schema", name: "thing", description: null, schema, strict: true } as const;
    expect(encoded({ turns: [hi], outputFormat }).body["outputConfig"]).toEqual({
      textFormat: { type: "json_schema", structure: { jsonSchema: { schema: JSON.stringify(schema), name: "thing" } } },
    });
  });

  const effort = (value: "none" | "low" | "max", budgetTokens: number | null = null) => ({
    effort: budgetTokens === null ? value : null,
    budgetTokens,
    summary: null,
  });
  test.each([
    [claude46, effort("none"), { thinking: { type: "disabled" } }],
    [claude46, effort("low"), { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "low" } }],
    [claude37, effort("none"), { thinking: { type: "disabled" } }],
    // A share of what it can write, and some of the output is left for the answer.
    [claude37, effort("low"), { thinking: { type: "enabled", budget_tokens: 4000 } }],
    [claude45, effort("low"), { thinking: { type: "enabled", budget_tokens: 4000 } }],
    [claude45, effort("low", 2000), { thinking: { type: "enabled", budget_tokens: 2000 } }],
    [claude45, effort("low", 90_000), { thinking: { type: "enabled", budget_tokens: 4000 } }],
    ["amazon.nova-2-lite", effort("low"), { reasoningConfig: { type: "enabled", maxReasoningEffort: "low" } }],
    // With a bound on the output, the highest level is refused.
    ["amazon.nova-2-lite", effort("max"), { reasoningConfig: { type: "enabled", maxReasoningEffort: "medium" } }],
    ["amazon.nova-2-lite", effort("none"), { reasoningConfig: { type: "disabled" } }],
    ["openai.gpt-oss-120b-1:0", effort("low"), { reasoning_effort: "low" }],
    ["us.openai.m", effort("max"), { reasoning: { effort: "high" } }],
    ["openai.m", effort("none"), { reasoning: { effort: "none" } }],
    ["meta.m", effort("none"), undefined],
  ] as const)("with reasoning as %s takes it for %j", (model, reasoning, expected) => {
    const { body, dropped } = encoded({ turns: [hi], reasoning }, { maxOutputTokens: 8000, model });
    expect(body["additionalModelRequestFields"]).toEqual(expected);
    expect(dropped).toEqual([]);
  });

  test("with the output that a budget for thinking is a part of, where the client allows any", () => {
    const asked = (options: Partial<ConverseOptions>) =>
      encoded({ turns: [hi], reasoning: effort("max") }, { model: claude45, ...options });
    expect(asked({}).body).toMatchObject({
      inferenceConfig: { maxTokens: 64_000 },
      additionalModelRequestFields: { thinking: { budget_tokens: 59_904 } },
    });
    expect(asked({ ceiling: 10_000 }).body).toMatchObject({
      inferenceConfig: { maxTokens: 10_000 },
      additionalModelRequestFields: { thinking: { budget_tokens: 5904 } },
    });
    expect(asked({ model: claude46 }).body["inferenceConfig"]).toBeUndefined();
  });

  test.each([claude37, claude45, claude46])("without the sampling that %s refuses while it thinks, which is reported", (model) => {
    const sampling = { ...emptyConversation.sampling, temperature: 0.5, topP: 0.9, topK: 5 };
    const thinking = encoded({ turns: [hi], sampling, reasoning: effort("low") }, { model, maxOutputTokens: 8000 });
    expect(thinking.body["inferenceConfig"]).toEqual({ maxTokens: 8000 });
    expect(thinking.body["additionalModelRequestFields"]).not.toHaveProperty("top_k");
    expect([...thinking.dropped].toSorted()).toEqual(["temperature", "top_k", "top_p"]);
    const silent = encoded({ turns: [hi], sampling: { ...sampling, topP: null } }, { model });
    expect(silent.body).toMatchObject({ inferenceConfig: { temperature: 0.5 }, additionalModelRequestFields: { top_k: 5 } });
    expect(silent.dropped).toEqual([]);
  });

  test.each([
    [{ kind: "required" }, { any: {} }],
    [{ kind: "named", name: "look" }, { tool: { name: "look" } }],
  ] as const)("with the tool that %j forces rather than with thinking", (toolChoice, expected) => {
    for (const model of [claude37, claude45, claude46]) {
      const { body, dropped } = encoded(
        { turns: [hi], tools: [look], toolChoice, reasoning: effort("low") },
        { model, maxOutputTokens: 8000 },
      );
      expect(body["toolConfig"]).toMatchObject({ toolChoice: expected });
      expect(body["additionalModelRequestFields"]).toBeUndefined();
      expect(dropped).toEqual(["reasoning_effort"]);
    }
    const newest = encoded({ turns: [hi], tools: [look], toolChoice }, { model: "us.anthropic.claude-opus-5-5" });
    expect(newest.body["toolConfig"]).toMatchObject({ toolChoice: { auto: {} } });
    expect(newest.dropped).toEqual(["tool_choice"]);
  });

  test("without thinking between a call that was made without it and the result", () => {
    const reasoning: Part = { kind: "reasoning", text: "hm", signature: own("sig") };
    const result: ConversationTurn = { role: "tool", parts: [{ kind: "tool_result", callId: "call|1", content: [], isError: false }] };
    const asked = (...parts: readonly Part[]) =>
      encoded({ turns: [hi, assistant(...parts), result], reasoning: effort("low") }, { model: claude45, maxOutputTokens: 8000 });
    expect(asked(call).dropped).toEqual(["reasoning_effort"]);
    expect(asked(call).body["additionalModelRequestFields"]).toBeUndefined();
    expect(asked(reasoning, call).body["additionalModelRequestFields"]).toMatchObject({ thinking: { type: "enabled" } });
  });

  test("and reasoning that a model cannot be asked for is reported", () => {
    expect(encoded({ turns: [hi], reasoning: effort("max") }, { model: "meta.m" }).dropped).toEqual(["reasoning_effort"]);
  });

  test("whose blocks are a prefix of those of the longer conversation", () => {
    const blocks = (turns: readonly ConversationTurn[]): readonly string[] => {
      const { body } = encoded({ turns });
      const system = (body["system"] as readonly unknown[] | undefined) ?? [];
      const messages = body["messages"] as readonly { role: string; content: readonly unknown[] }[];
      return [...system, ...messages.flatMap(({ role, content }) => content.map((block) => ({ role, block })))].map((block) =>
        JSON.stringify(block),
      );
    };
    fc.assert(
      fc.property(anyTurns("bedrock-converse"), (turns) => {
        const all = blocks(turns);
        for (let length = 0; length <= turns.length; length += 1) {
          const some = blocks(turns.slice(0, length));
          expect(all.slice(0, some.length)).toEqual([...some]);
        }
      }),
      { numRuns: numRuns(100) },
    );
  });
});
