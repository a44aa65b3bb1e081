import { describe, expect, test } from "bun:test";
import type { Conversation, ConversationTurn, Part, ReasoningRequest, Tool } from "../../../src/operations/conversation/conversation.ts";
import { conversationOf, failureOf, question, requestWith } from "../../support/chat-surface.ts";

function turnsOf(...messages: readonly object[]): readonly ConversationTurn[] {
  return conversationOf(requestWith({ messages })).turns;
}

function userParts(...content: readonly object[]): readonly Part[] {
  return turnsOf({ role: "user", content })[0]!.parts;
}

function answerParts(message: object): readonly Part[] {
  return turnsOf(question, { role: "assistant", ...message })[1]!.parts;
}

const text = (text: string): object => ({ type: "text", text });
const textPart = (text: string): Part => ({ kind: "text", text });
const call = (id: string, name = "f", args = "{}"): object => ({ id, type: "function", function: { name, arguments: args } });
const callPart = (id: string, name = "f", args = "{}"): Part => ({ kind: "tool_call", id, name, arguments: args });
const sealedPart = (id: string): Part => ({
  kind: "reasoning",
  text: "",
  signature: { dialect: "sluice", data: `sluice-v1.${id}` },
  redacted: true,
});
const resultPart = (callId: string, ...content: readonly string[]): Part => ({
  kind: "tool_result",
  callId,
  content: content.map((text) => ({ kind: "text", text })),
  isError: false,
});

describe("messages", () => {
  test("are turns with their roles, at their places", () => {
    const roles = ["system", "user", "developer", "user", "assistant", "system", "user"];
    const messages = roles.map((role, index) => ({ role, content: `${index}` }));
    expect(turnsOf(...messages)).toEqual(
      roles.map((role, index) => ({ role: role as ConversationTurn["role"], parts: [textPart(`${index}`)] })),
    );
  });

  test.each<[object, Part]>([
    [text("hi"), { kind: "text", text: "hi" }],
    [
      { ...text("hi"), cache_control: { type: "ephemeral", ttl: "1h" } },
      { kind: "text", text: "hi", cache: { ttl: "1h" } },
    ],
    [
      { ...text("hi"), cache_control: { type: "ephemeral", ttl: "2h" } },
      { kind: "text", text: "hi", cache: { ttl: null } },
    ],
    [
      { ...text("hi"), prompt_cache_breakpoint: { mode: "explicit" } },
      { kind: "text", text: "hi", cache: { ttl: null } },
    ],
    [
      { type: "image_url", image_url: { url: "data:image/png;base64,iVBO", detail: "low" } },
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "iVBO" }, detail: "low" },
    ],
    [
      { type: "image_url", image_url: { url: "data:image/jpg;base64,/9j/" } },
      { kind: "image", source: { kind: "data", mediaType: "image/jpeg", data: "/9j/" } },
    ],
    [
      { type: "image_url", image_url: { url: "DATA:image/PNG;name=a.png;BASE64,iVBO" } },
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "iVBO" } },
    ],
    [
      { type: "image_url", image_url: { url: "https://x.example/a.png" }, cache_control: { type: "ephemeral" } },
      { kind: "image", source: { kind: "url", url: "https://x.example/a.png" }, cache: { ttl: null } },
    ],
    [
      { type: "image_url", image_url: "https://x.example/a.png" },
      { kind: "image", source: { kind: "url", url: "https://x.example/a.png" } },
    ],
    [
      { type: "input_audio", input_audio: { data: "UklG", format: "wav" } },
      { kind: "audio", data: "UklG", format: "wav" },
    ],
    [
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBE" } },
      { kind: "file", name: "a.pdf", source: { kind: "data", mediaType: "application/pdf", data: "JVBE" } },
    ],
    [
      { type: "file", file: { filename: "a.PDF", file_data: "JVBE" } },
      { kind: "file", name: "a.PDF", source: { kind: "data", mediaType: "application/pdf", data: "JVBE" } },
    ],
    [
      { type: "file", file: { filename: "a", file_data: "https://x.example/a.pdf" } },
      { kind: "file", name: "a", source: { kind: "url", url: "https://x.example/a.pdf" } },
    ],
    [
      { type: "file", file: { file_id: "file-1" } },
      { kind: "file", name: null, source: { kind: "id", id: "file-1" } },
    ],
  ])("of a user may hold %j", (part, expected) => {
    expect(userParts(part)).toEqual([expected]);
  });

  test("that are marked as a whole have the marker at their last part", () => {
    const cache_control = { type: "ephemeral" };
    expect(turnsOf({ role: "system", content: "long", cache_control })[0]!.parts).toEqual([
      { kind: "text", text: "long", cache: { ttl: null } },
    ]);
    expect(answerParts({ content: "a", cache_control })).toEqual([{ kind: "text", text: "a", cache: { ttl: null } }]);
  });

  test("without content are no turns", () => {
    const empty = [
      { role: "assistant", content: null },
      { role: "user", content: [] },
      { role: "system", content: null },
    ];
    expect(turnsOf(question, ...empty)).toEqual([{ role: "user", parts: [textPart("Why?")] }]);
    expect(failureOf(requestWith({ messages: empty }))).toMatchObject({ kind: "invalid_request", param: "messages" });
  });
});

describe("an earlier answer", () => {
  test.each<[object, readonly Part[]]>([
    [{ content: "a" }, [textPart("a")]],
    [{ content: [text("a"), text("b")] }, [textPart("a"), textPart("b")]],
    [{ content: null, refusal: "No." }, [{ kind: "refusal", text: "No." }]],
    [{ content: [{ type: "refusal", refusal: "No." }], refusal: "No." }, [{ kind: "refusal", text: "No." }]],
    [{ content: "a", tool_calls: [call("1"), call("2", "g", "")] }, [textPart("a"), callPart("1"), callPart("2", "g", "")]],
    [{ tool_calls: [{ ...call("1"), type: undefined }] }, [callPart("1")]],
    [{ tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: { a: 1 } } }] }, [callPart("1", "f", '{"a":1}')]],
    [
      { tool_calls: [{ id: "1", type: "custom", custom: { name: "patch", input: "*** Begin" } }] },
      [{ kind: "tool_call", id: "1", name: "patch", arguments: "*** Begin", custom: true }],
    ],
    [{ content: null, tool_calls: [call(""), call("")] }, [callPart("call_1_0"), callPart("call_1_1")]],
    [{ content: null, function_call: { name: "f", arguments: "{}" } }, [callPart("call_1_0")]],
    [{ content: "a", reasoning_content: "hm" }, [{ kind: "reasoning", text: "hm", signature: null }, textPart("a")]],
    [{ content: "a", reasoning: "hm" }, [{ kind: "reasoning", text: "hm", signature: null }, textPart("a")]],
    [
      { content: [{ type: "thinking", thinking: [text("h"), text("m")] }, text("a")] },
      [{ kind: "reasoning", text: "hm", signature: null }, textPart("a")],
    ],
    [
      {
        content: "a",
        reasoning_details: [
          { type: "reasoning.text", text: "h" },
          { type: "reasoning.summary", summary: "m", signature: "s" },
        ],
      },
      [{ kind: "reasoning", text: "hm", signature: null }, textPart("a")],
    ],
    [
      {
        content: "a",
        reasoning_content: "hm",
        reasoning_details: [
          ...[
            { type: "reasoning.encrypted", data: "sluice-v1.e" },
            { type: "reasoning.encrypted", data: "sluice-v1.e" },
          ],
          ...[{ type: "reasoning.encrypted", data: "of another" }, { type: "reasoning.encrypted" }, { type: "new" }, null],
        ],
      },
      [
        { kind: "reasoning", text: "hm", signature: null },
        { kind: "reasoning", text: "", signature: { dialect: "sluice", data: "sluice-v1.e" }, redacted: true },
        textPart("a"),
      ],
    ],
    [{ tool_calls: [{ ...call("1"), extra_content: { google: { thought_signature: "of another" } } }] }, [callPart("1")]],
    [
      {
        content: "abcd",
        tool_calls: [call("1"), call("2")],
        reasoning_details: ["at-1-0", "at-2-0", "at-9-0", "at-4-1", "at-4-9", "nowhere"].map((id) => ({
          ...{ type: "reasoning.encrypted", id, data: `sluice-v1.${id}` },
        })),
      },
      [
        ...[textPart("a"), sealedPart("at-1-0"), textPart("b"), sealedPart("at-2-0"), textPart("cd"), sealedPart("at-9-0")],
        ...[callPart("1"), sealedPart("at-4-1"), callPart("2"), sealedPart("at-4-9"), sealedPart("nowhere")],
      ],
    ],
    [
      { tool_calls: [{ ...call("1"), extra_content: { google: { thought_signature: "sluice-v1.c" } } }] },
      [{ kind: "tool_call", id: "1", name: "f", arguments: "{}", signature: { dialect: "sluice", data: "sluice-v1.c" } }],
    ],
  ])("%j", (message, parts) => {
    expect(answerParts(message)).toEqual([...parts]);
  });
});

describe("results of tools", () => {
  const asked = { role: "assistant", content: null, tool_calls: [call("1"), call("2")] };
  const result = (id: string | undefined, content: unknown): object => ({ role: "tool", tool_call_id: id, content });
  const resultsOf = (...messages: readonly object[]): readonly ConversationTurn[] => turnsOf(question, asked, ...messages).slice(2);

  test("of one answer are one turn", () => {
    expect(resultsOf(result("1", "a"), result("2", [text("b"), text("c")]), question)).toEqual([
      { role: "tool", parts: [resultPart("1", "a"), resultPart("2", "b", "c")] },
      { role: "user", parts: [textPart("Why?")] },
    ]);
    expect(resultsOf(result("1", null))).toEqual([{ role: "tool", parts: [resultPart("1")] }]);
  });

  test("may hold images", () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBO" } };
    expect(resultsOf(result("1", [text("a"), image]))[0]!.parts).toMatchObject([
      { callId: "1", content: [{ kind: "text" }, { kind: "image", source: { kind: "data", data: "iVBO" } }] },
    ]);
  });

  test("that tell more about one call are one result", () => {
    expect(resultsOf(result("1", "a"), result("2", "b"), result("1", "c"))).toEqual([
      { role: "tool", parts: [resultPart("1", "a", "c"), resultPart("2", "b")] },
    ]);
  });

  test("whose calls are gone are told by the user", () => {
    const told = (text: string): ConversationTurn => ({
      role: "user",
      parts: [textPart("The result of an earlier tool call:"), textPart(text)],
    });
    expect(resultsOf(result("3", "a"))).toEqual([told("a")]);
    expect(turnsOf(result("1", "a"))).toEqual([told("a")]);
    // An id that a later answer uses again is a call again.
    expect(turnsOf(asked, result("1", "a"), asked, result("1", "b"), result("2", "c")).at(-1)!.parts).toEqual([
      resultPart("1", "b"),
      resultPart("2", "c"),
    ]);
  });

  test("without an id answer the calls in their order", () => {
    expect(resultsOf(result(undefined, "a"), result("", "b"))).toEqual([
      { role: "tool", parts: [resultPart("1", "a"), resultPart("2", "b")] },
    ]);
    const legacy = { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } };
    expect(turnsOf(question, legacy, { role: "function", name: "f", content: "a" }).slice(1)).toEqual([
      { role: "assistant", parts: [callPart("call_1_0")] },
      { role: "tool", parts: [resultPart("call_1_0", "a")] },
    ]);
  });
});

describe("tools", () => {
  const tool = (name: string, fields: object = {}): object => ({ type: "function", function: { name, ...fields } });
  const parameters = { type: "object", properties: { town: { type: "string" } } };
  const plain = (name: string): Tool => ({ name, description: null, parameters: { type: "object", properties: {} }, strict: null });

  test.each<[object, Tool]>([
    [tool("f"), plain("f")],
    [tool("f", { description: "d", parameters, strict: true }), { name: "f", description: "d", parameters, strict: true }],
    [
      { ...tool("f"), cache_control: { type: "ephemeral" } },
      { ...plain("f"), cache: { ttl: null } },
    ],
    [
      { type: "custom", custom: { name: "c", description: "d" } },
      { name: "c", description: "d", parameters: null, strict: null, custom: { format: null } },
    ],
    [
      { type: "custom", custom: { name: "c", format: { type: "grammar", grammar: { syntax: "lark", definition: "start: /a/" } } } },
      { name: "c", description: null, parameters: null, strict: null, custom: { format: "start: /a/", syntax: "lark" } },
    ],
  ])("%j", (declared, expected) => {
    expect(conversationOf(requestWith({ tools: [declared] })).tools).toEqual([expected]);
  });

  test("of one name are one, and those that run at the upstream are named as dropped", () => {
    const { tools, uncarried } = conversationOf(
      requestWith({ tools: [tool("f"), tool("f", { description: "again" }), { type: "web_search" }] }),
    );
    expect(tools).toEqual([plain("f")]);
    expect(uncarried).toEqual(["tools.web_search"]);
  });

  test("may be declared as functions, of which one is called at a time", () => {
    expect(conversationOf(requestWith({ functions: [{ name: "f", parameters }], function_call: { name: "f" } }))).toMatchObject({
      tools: [{ name: "f", parameters }],
      toolChoice: { kind: "named", name: "f" },
      parallelToolCalls: false,
    });
  });

  test.each<[unknown, Conversation["toolChoice"], readonly string[]]>([
    [undefined, null, ["f", "g"]],
    [null, null, ["f", "g"]],
    ["auto", { kind: "auto" }, ["f", "g"]],
    ["none", { kind: "none" }, ["f", "g"]],
    ["required", { kind: "required" }, ["f", "g"]],
    ["any", { kind: "required" }, ["f", "g"]],
    [{ type: "function", function: { name: "g" } }, { kind: "named", name: "g" }, ["f", "g"]],
    [{ type: "allowed_tools", allowed_tools: { mode: "required", tools: [tool("g")] } }, { kind: "required" }, ["g"]],
    [{ type: "allowed_tools", allowed_tools: { mode: "auto", tools: [tool("g"), tool("f")] } }, { kind: "auto" }, ["f", "g"]],
  ])("may be chosen from: %j", (tool_choice, choice, names) => {
    const { tools, toolChoice } = conversationOf(requestWith({ tools: [tool("f"), tool("g")], tool_choice }));
    expect(toolChoice).toEqual(choice);
    expect(tools.map(({ name }) => name)).toEqual([...names]);
  });

  test("that are not there are not chosen", () => {
    expect(conversationOf(requestWith({ tools: [], tool_choice: "required", parallel_tool_calls: true }))).toMatchObject({
      toolChoice: null,
      parallelToolCalls: null,
      uncarried: ["tool_choice"],
    });
    const named = { type: "function", function: { name: "h" } };
    expect(failureOf(requestWith({ tools: [tool("f")], tool_choice: named }))).toMatchObject({
      kind: "invalid_request",
      param: "tool_choice",
    });
  });
});

describe("settings", () => {
  test("have their places", () => {
    const fields = {
      ...{ temperature: 0.5, top_p: 0.9, top_k: 40, presence_penalty: 1, frequency_penalty: -1, seed: 7, max_completion_tokens: 100 },
      ...{ stop: ["a", "", "b"], stream: true, user: "u", prompt_cache_key: "k", service_tier: "flex", verbosity: "low" },
    };
    expect(conversationOf(requestWith(fields))).toMatchObject({
      sampling: { temperature: 0.5, topP: 0.9, topK: 40, presencePenalty: 1, frequencyPenalty: -1, seed: 7, topLogprobs: null },
      maxOutputTokens: 100,
      stop: ["a", "b"],
      stream: true,
      endUser: "u",
      promptCacheKey: "k",
      serviceTier: "flex",
      verbosity: "low",
      uncarried: [],
    });
    expect(conversationOf(requestWith({ stop: "x", safety_identifier: "s", user: "u" }))).toMatchObject({ stop: ["x"], endUser: "s" });
  });

  test.each<[object, number | null]>([
    [{}, null],
    [{ max_tokens: 5 }, 5],
    [{ max_tokens: 5, max_completion_tokens: 7 }, 7],
    [{ n_predict: -1 }, null],
  ])("bound the answer: %j", (fields, bound) => {
    expect(conversationOf(requestWith(fields)).maxOutputTokens).toBe(bound);
  });

  test.each<[object, ReasoningRequest | null]>([
    [{}, null],
    [{ reasoning_effort: "low" }, { effort: "low", budgetTokens: null, summary: null }],
    [{ reasoning_effort: "ultra" }, { effort: "max", budgetTokens: null, summary: null }],
    [{ reasoning: { effort: "high", exclude: true } }, { effort: "high", budgetTokens: null, summary: "none" }],
    [{ reasoning: { max_tokens: 2000 } }, { effort: null, budgetTokens: 2000, summary: null }],
    [{ reasoning: { enabled: false } }, { effort: "none", budgetTokens: null, summary: null }],
    [{ thinking: { type: "enabled", budget_tokens: 2000 } }, { effort: null, budgetTokens: 2000, summary: null }],
    [{ thinking: { type: "disabled" } }, { effort: "none", budgetTokens: null, summary: null }],
    [{ enable_thinking: true }, { effort: "medium", budgetTokens: null, summary: null }],
    [{ enable_thinking: false }, { effort: "none", budgetTokens: null, summary: null }],
  ])("ask for reasoning: %j", (fields, reasoning) => {
    expect(conversationOf(requestWith(fields)).reasoning).toEqual(reasoning);
  });

  const schema = { type: "object", properties: { a: { type: "string" } } };
  test.each<[unknown, Conversation["outputFormat"]]>([
    [null, null],
    [{ type: "text" }, { kind: "text" }],
    [{ type: "json_object" }, { kind: "json" }],
    [
      { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
      { kind: "schema", name: "n", description: null, schema, strict: true },
    ],
    [{ type: "json_schema", json_schema: { name: "n" } }, { kind: "json" }],
  ])("ask for a format: %j", (response_format, format) => {
    expect(conversationOf(requestWith({ response_format })).outputFormat).toEqual(format);
  });

  test("that have no place are named, unless they ask for nothing", () => {
    const fields = {
      ...{ logit_bias: { "1": 2 }, store: true, metadata: { a: "b" }, prediction: { type: "content", content: "x" }, min_p: 0.1 },
      ...{ web_search_options: { search_context_size: "low" }, prompt_cache_retention: "24h", transforms: ["middle-out"] },
    };
    expect([...conversationOf(requestWith(fields)).uncarried].toSorted()).toEqual(Object.keys(fields).toSorted());
    const idle = {
      logit_bias: {},
      store: false,
      metadata: null,
      prediction: null,
      n: 1,
      logprobs: false,
      modalities: ["text"],
      transforms: [],
    };
    expect(conversationOf(requestWith(idle)).uncarried).toEqual([]);
    const named = { role: "user", name: "Ann", content: "hi" };
    expect(conversationOf(requestWith({ messages: [named] })).uncarried).toEqual(["messages.name"]);
    expect(conversationOf(requestWith({ "a header\r\n": 1 })).uncarried).toEqual(["unnamable"]);
  });
});

describe("what an upstream of another API cannot do", () => {
  test.each<[object, string]>([
    [{ n: 2 }, "n"],
    [{ logprobs: true }, "logprobs"],
    [{ modalities: ["text", "audio"], audio: { voice: "alloy", format: "mp3" } }, "modalities"],
    [{ response_format: { type: "grammar", grammar: "x" } }, "response_format"],
    [{ messages: [{ role: "user", content: [{ type: "video_url", video_url: { url: "https://x.example" } }] }] }, "messages.0.content.0"],
    [{ messages: [question, { role: "assistant", audio: { id: "a" } }] }, "messages.1.audio"],
    [{ messages: [{ role: "ipython", content: "x" }] }, "messages.0.role"],
  ])("lets another channel be tried: %j", (fields, param) => {
    expect(failureOf(requestWith(fields))).toMatchObject({ kind: "unsupported", param, code: "unsupported_parameter" });
  });
});

test.each<[object, string]>([
  [{ messages: ["hi"] }, "messages.0"],
  [{ messages: [{ content: "hi" }] }, "messages.0.role"],
  [{ messages: [{ role: "user", content: 5 }] }, "messages.0.content"],
  [{ messages: [{ role: "user", content: [{ type: "image_url" }] }] }, "messages.0.content.0.image_url"],
  [{ messages: [question, { role: "assistant", tool_calls: [{ id: "1", type: "function" }] }] }, "messages.1.tool_calls.0.function"],
  [{ tools: [{ type: "function", function: {} }] }, "tools.0.function.name"],
  [{ tools: [{ type: "function", function: { name: "f" } }], tool_choice: "perhaps" }, "tool_choice"],
  [{ temperature: "hot" }, "temperature"],
  [{ stop: [1] }, "stop.0"],
  [{ verbosity: "chatty" }, "verbosity"],
  [{ response_format: { type: "json_schema" } }, "response_format.json_schema"],
])("a mistake is named by its place: %j", (fields, param) => {
  expect(failureOf(requestWith(fields))).toMatchObject({ kind: "invalid_request", param });
});
