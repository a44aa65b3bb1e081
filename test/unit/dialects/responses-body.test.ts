import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type OpenAI from "openai";
import { encodeResponsesBody } from "../../../src/dialects/openai-responses/responses-body.ts";
import type { Conversation, ConversationTurn, Part, Tool } from "../../../src/operations/conversation/conversation.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";

const empty: Conversation = {
  turns: [],
  tools: [],
  toolChoice: null,
  parallelToolCalls: null,
  outputFormat: null,
  sampling: { temperature: null, topP: null, topK: null, presencePenalty: null, frequencyPenalty: null, seed: null, topLogprobs: null },
  reasoning: null,
  maxOutputTokens: null,
  stop: [],
  stream: false,
  endUser: null,
  promptCacheKey: null,
  serviceTier: null,
  verbosity: null,
  uncarried: [],
};

type Params = OpenAI.Responses.ResponseCreateParams;

function encode(
  change: Partial<Conversation>,
  model = "gpt-5.4",
): { readonly body: Params; readonly dropped: readonly string[] } | Failure {
  const conversation = { ...empty, ...change };
  const encoded = encodeResponsesBody(conversation, { model, maxOutputTokens: conversation.maxOutputTokens });
  if (isFailure(encoded)) return encoded;
  return { body: JSON.parse(new TextDecoder().decode(encoded.body)) as Params, dropped: encoded.dropped };
}

function encoded(change: Partial<Conversation>, model?: string): { readonly body: Params; readonly dropped: readonly string[] } {
  const result = encode(change, model);
  if (isFailure(result)) throw new Error(result.detail);
  return result;
}

function itemsOf(...turns: readonly ConversationTurn[]): unknown {
  return encoded({ turns }).body.input;
}

const text = (value: string): Part => ({ kind: "text", text: value });

describe("a conversation becomes a request to the Responses API", () => {
  test("that the upstream does not store, with the reasoning encrypted for the client to keep", () => {
    expect(encoded({ turns: [{ role: "user", parts: [text("hi")] }] }).body).toEqual({
      model: "gpt-5.4",
      input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] }],
      store: false,
      include: ["reasoning.encrypted_content"],
    });
  });

  test.each(["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "chatgpt-4o-latest", "gpt-5-chat-latest", "gpt-5.2-chat-latest"])(
    "without encrypted reasoning for %s, which has none and refuses to be asked",
    (model) => {
      expect(encoded({}, model).body).not.toHaveProperty("include");
    },
  );

  test.each(["gpt-5", "gpt-5.4", "o3", "o4-mini", "openai/gpt-5.4", "gpt-oss-120b"])("with it for %s", (model) => {
    expect(encoded({}, model).body.include).toEqual(["reasoning.encrypted_content"]);
  });

  test("with every role at its place", () => {
    const roles = ["system", "user", "assistant", "developer", "user"] as const;
    const items = itemsOf(...roles.map((role) => ({ role, parts: [text(role)] }))) as readonly { readonly role: string }[];
    expect(items.map(({ role }) => role)).toEqual([...roles]);
    expect(items[2]).toEqual({
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text: "assistant", annotations: [] }],
    } as never);
  });

  test("with images and files as parts", () => {
    const parts: readonly Part[] = [
      text("look"),
      text(""),
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } },
      { kind: "image", source: { kind: "url", url: "https://example.com/a.png" }, detail: "low" },
      { kind: "image", source: { kind: "id", id: "file-1" } },
      { kind: "file", source: { kind: "data", mediaType: "application/pdf", data: "BBBB" }, name: "a.pdf" },
      { kind: "file", source: { kind: "url", url: "https://example.com/a.pdf" }, name: null },
      { kind: "file", source: { kind: "id", id: "file-2" }, name: null },
      { kind: "file", source: { kind: "text", text: "a note" }, name: "n.txt" },
    ];
    expect(itemsOf({ role: "user", parts })).toEqual([
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: "look" },
          { type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "auto" },
          { type: "input_image", image_url: "https://example.com/a.png", detail: "low" },
          { type: "input_image", file_id: "file-1", detail: "auto" },
          { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,BBBB" },
          { type: "input_file", file_url: "https://example.com/a.pdf" },
          { type: "input_file", file_id: "file-2" },
          { type: "input_text", text: "n.txt:\n\na note" },
        ],
      },
    ]);
  });

  test("with calls and their results, also images, as items of their own", () => {
    const items = itemsOf(
      {
        role: "assistant",
        parts: [
          text("wait"),
          { kind: "tool_call", id: "a", name: "look", arguments: '{"at":1}' },
          { kind: "tool_call", id: "b", name: "apply_patch", arguments: "*** Begin", custom: true },
          { kind: "tool_call", id: "c", name: "find", namespace: "crm", arguments: "" },
        ],
      },
      {
        role: "tool",
        parts: [
          { kind: "tool_result", callId: "a", content: [{ kind: "text", text: "old" }], isError: false },
          {
            kind: "tool_result",
            callId: "a",
            content: [
              { kind: "text", text: "here" },
              { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } },
            ],
            isError: false,
          },
          { kind: "tool_result", callId: "b", content: [{ kind: "text", text: "no such file" }], isError: true },
          { kind: "tool_result", callId: "c", content: [], isError: false },
        ],
      },
    );
    expect(items).toEqual([
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "wait", annotations: [] }] },
      { type: "function_call", call_id: "a", name: "look", arguments: '{"at":1}' },
      { type: "custom_tool_call", call_id: "b", name: "apply_patch", input: "*** Begin" },
      { type: "function_call", call_id: "c", name: "find", namespace: "crm", arguments: "{}" },
      {
        type: "function_call_output",
        call_id: "a",
        output: [
          { type: "input_text", text: "here" },
          { type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "auto" },
        ],
      },
      { type: "custom_tool_call_output", call_id: "b", output: "Error: no such file" },
      { type: "function_call_output", call_id: "c", output: "" },
    ]);
  });

  test("with reasoning as text for a model that shows all of its own, and for no other", () => {
    const parts: readonly Part[] = [
      { kind: "reasoning", text: "Hm.", signature: null },
      { kind: "reasoning", text: "in short", summary: true, signature: null },
      { kind: "text", text: "Hello." },
    ];
    const inputFor = (model: string): unknown => encoded({ turns: [{ role: "assistant", parts }] }, model).body.input;
    const said = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello.", annotations: [] }] };
    const thought = { type: "reasoning", id: "rs_0", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] };
    expect(inputFor("openai/gpt-oss-120b")).toEqual([thought, said]);
    expect(inputFor("gpt-5.4")).toEqual([said]);
  });

  test("with its own encrypted reasoning as it came, and no other", () => {
    const thought = (dialect: string, data: string, words = ""): Part => ({ kind: "reasoning", text: words, signature: { dialect, data } });
    expect(
      itemsOf({
        role: "assistant",
        parts: [
          thought("openai-responses", "enc-1", "a summary"),
          thought("openai-responses", "enc-2"),
          thought("anthropic", "sig"),
          thought("openai", "else"),
          thought("sluice", "sluice-v1.sealed"),
          { kind: "reasoning", text: "unsigned", signature: null },
          { kind: "tool_call", id: "a", name: "look", arguments: "{}" },
        ],
      }),
    ).toEqual([
      { type: "reasoning", summary: [{ type: "summary_text", text: "a summary" }], encrypted_content: "enc-1" },
      { type: "reasoning", summary: [], encrypted_content: "enc-2" },
      { type: "function_call", call_id: "a", name: "look", arguments: "{}" },
    ]);
  });

  test("with functions, grammars and namespaces as tools", () => {
    const tools: readonly Tool[] = [
      { name: "look", description: "Looks.", parameters: { type: "object", properties: {} }, strict: null },
      { name: "sure", description: null, parameters: null, strict: true },
      { name: "patch", description: "Patches.", parameters: null, strict: null, custom: { format: "start: /.+/", syntax: "lark" } },
      { name: "say", description: "Says.", parameters: null, strict: null, custom: { format: "anything" } },
      { name: "find", description: null, parameters: null, strict: false, namespace: "crm", namespaceDescription: "Customers." },
      { name: "last", description: null, parameters: null, strict: false },
      { name: "add", description: null, parameters: null, strict: false, namespace: "crm" },
    ];
    const nothing = { type: "object", properties: {} };
    const { body } = encoded({ tools, toolChoice: { kind: "named", name: "patch" }, parallelToolCalls: false });
    expect(body.tools).toEqual([
      { type: "function", name: "look", description: "Looks.", parameters: nothing, strict: false },
      { type: "function", name: "sure", parameters: nothing, strict: true },
      { type: "custom", name: "patch", description: "Patches.", format: { type: "grammar", syntax: "lark", definition: "start: /.+/" } },
      { type: "custom", name: "say", description: "Says.\n\nThe input has to match this format:\nanything" },
      {
        type: "namespace",
        name: "crm",
        description: "Customers.",
        tools: [
          { type: "function", name: "find", parameters: nothing, strict: false },
          { type: "function", name: "add", parameters: nothing, strict: false },
        ],
      },
      { type: "function", name: "last", parameters: nothing, strict: false },
    ]);
    expect(body.tool_choice).toEqual({ type: "custom", name: "patch" });
    expect(body.parallel_tool_calls).toBe(false);
    for (const kind of ["auto", "none", "required"] as const) expect(encoded({ tools, toolChoice: { kind } }).body.tool_choice).toBe(kind);
  });

  test("with the settings of the answer under their names in this API", () => {
    const schema = { type: "object" };
    const { body, dropped } = encoded({
      outputFormat: { kind: "schema", name: null, description: null, schema, strict: null },
      verbosity: "low",
      reasoning: { effort: "high", budgetTokens: null, summary: "auto" },
      maxOutputTokens: 500,
      sampling: { ...empty.sampling, temperature: 1, topP: 0.5 },
      endUser: "u".repeat(100),
      promptCacheKey: "k",
      serviceTier: "flex",
      stream: true,
    });
    expect(body).toMatchObject({
      text: { format: { type: "json_schema", name: "structured_output", schema, strict: false }, verbosity: "low" },
      reasoning: { effort: "high", summary: "auto" },
      max_output_tokens: 500,
      temperature: 1,
      top_p: 0.5,
      prompt_cache_key: "k",
      service_tier: "flex",
      stream: true,
    });
    expect(body.safety_identifier).toHaveLength(64);
    expect(dropped).toEqual([]);
    expect(encoded({ outputFormat: { kind: "json" } }).body.text).toEqual({ format: { type: "json_object" } });
    expect(encoded({ outputFormat: { kind: "text" } }).body.text).toEqual({ format: { type: "text" } });
  });

  test.each([
    [{ effort: null, budgetTokens: 1024, summary: null }, { effort: "low" }],
    [{ effort: null, budgetTokens: 8000, summary: "none" }, { effort: "medium" }],
    [
      { effort: null, budgetTokens: 32_000, summary: "detailed" },
      { effort: "high", summary: "detailed" },
    ],
    [
      { effort: "none", budgetTokens: null, summary: "every word" },
      { effort: "none", summary: "auto" },
    ],
    [{ effort: null, budgetTokens: null, summary: null }, undefined],
  ] as const)("with reasoning %j as %j", (reasoning, expected) => {
    expect(encoded({ reasoning }).body.reasoning).toEqual(expected as never);
  });

  test("with at least as many tokens as the API takes", () => {
    expect(encoded({ maxOutputTokens: 1 }).body.max_output_tokens).toBe(16);
  });

  test("and names what the API has no field for", () => {
    const sampling = { temperature: null, topP: null, topK: 3, presencePenalty: 1, frequencyPenalty: 0, seed: 7, topLogprobs: 0 };
    const { body, dropped } = encoded({ sampling, stop: ["x"], uncarried: ["metadata"] });
    expect(dropped).toEqual(["metadata", "top_k", "presence_penalty", "seed", "logprobs", "stop"]);
    expect(Object.keys(body)).toEqual(["model", "input", "store", "include"]);
  });

  test("unless it holds audio, which another channel may take", () => {
    const audio: Part = { kind: "audio", format: "wav", data: "CCCC" };
    expect(encode({ turns: [{ role: "user", parts: [audio] }] })).toMatchObject({ kind: "unsupported", blame: "client" });
  });

  test("with ids no longer than the API takes, the same for a call and its result", () => {
    const id = "x".repeat(80);
    const items = itemsOf(
      { role: "assistant", parts: [{ kind: "tool_call", id, name: "n".repeat(80), arguments: "{}" }] },
      { role: "tool", parts: [{ kind: "tool_result", callId: id, content: [], isError: false }] },
    ) as readonly { readonly call_id: string; readonly name?: string }[];
    expect(items[0]?.call_id).toHaveLength(64);
    expect(items[0]?.name).toHaveLength(64);
    expect(items[1]?.call_id).toBe(items[0]!.call_id);
  });
});

const words = fc.string({ maxLength: 8 });
const call = fc.record({ kind: fc.constant("tool_call" as const), id: words, name: words, arguments: words, custom: fc.boolean() });
const thought = fc.record({
  kind: fc.constant("reasoning" as const),
  text: words,
  signature: fc.option(fc.record({ dialect: fc.constantFrom("openai-responses", "anthropic", "sluice"), data: words })),
});
const said = fc.record({ kind: fc.constant("text" as const), text: words });
const result = fc.record({ kind: fc.constant("tool_result" as const), callId: words, content: fc.array(said), isError: fc.boolean() });
const turn: fc.Arbitrary<ConversationTurn> = fc.oneof(
  fc.record({ role: fc.constantFrom("system", "developer", "user"), parts: fc.array(said, { maxLength: 3 }) }),
  fc.record({ role: fc.constant("assistant" as const), parts: fc.array(fc.oneof(said, call, thought), { maxLength: 4 }) }),
  fc.record({ role: fc.constant("tool" as const), parts: fc.array(result, { maxLength: 3 }) }),
);

test("a conversation that goes on begins with the same items, so that prompt caches hold", () => {
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 6 }), turn, (turns, next) => {
      const before = JSON.stringify(itemsOf(...turns));
      const after = JSON.stringify(itemsOf(...turns, next));
      expect(after.startsWith(before.slice(0, -1)), `${after} goes on from ${before}`).toBe(true);
    }),
  );
});
