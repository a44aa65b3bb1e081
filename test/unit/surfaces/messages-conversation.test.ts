import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Part, ToolResultPart, ConversationTurn } from "../../../src/operations/conversation/conversation.ts";
import { conversationOf, mistakeOf, question, requestWith } from "../../support/messages.ts";

function turnsOf(...messages: readonly object[]): readonly ConversationTurn[] {
  return conversationOf(requestWith({ messages })).turns;
}

function userParts(...content: readonly object[]): readonly Part[] {
  return turnsOf({ role: "user", content })[0]!.parts;
}

function assistantParts(...content: readonly object[]): readonly Part[] {
  return turnsOf({ role: "assistant", content })[0]!.parts;
}

const text = (text: string): object => ({ type: "text", text });
const asked: ConversationTurn = { role: "user", parts: [{ kind: "text", text: "Why?" }] };

describe("the system prompt", () => {
  const system = (value: unknown): readonly ConversationTurn[] => conversationOf(requestWith({ system: value })).turns;

  test("is the first turn: a string as one text, blocks as they are", () => {
    expect(system("Be brief.")).toEqual([{ role: "system", parts: [{ kind: "text", text: "Be brief." }] }, asked]);
    expect(system([text("a"), { ...text("b"), cache_control: { type: "ephemeral" } }])).toEqual([
      {
        role: "system",
        parts: [
          { kind: "text", text: "a" },
          { kind: "text", text: "b", cache: { ttl: null } },
        ],
      },
      asked,
    ]);
    expect(system(null)).toEqual([asked]);
    expect(system([])).toEqual([asked]);
  });

  test("loses the line that one client writes about itself, which is another in each request", () => {
    const line = "x-anthropic-billing-header: cc_version=2.1; cch=5f3a9;";
    const brief: ConversationTurn = { role: "system", parts: [{ kind: "text", text: "Be brief." }] };
    expect(system([text(line), text("Be brief.")])).toEqual([brief, asked]);
    expect(system([text(`${line}\nBe brief.`)])).toEqual([brief, asked]);
    expect(system(`${line}\n\nBe brief.`)).toEqual([brief, asked]);
    expect(system([text(line)])).toEqual([asked]);
    // Elsewhere it is a text that somebody talks about.
    expect(system([text(`The header is ${line}`)])[0]!.parts).toEqual([{ kind: "text", text: `The header is ${line}` }]);
    expect(turnsOf({ role: "user", content: line })).toEqual([{ role: "user", parts: [{ kind: "text", text: line }] }]);
  });

  test("in the middle of the conversation stays there", () => {
    expect(turnsOf(question, { role: "system", content: "Now in French." }, { role: "system", content: [text("And short.")] })).toEqual([
      asked,
      { role: "system", parts: [{ kind: "text", text: "Now in French." }] },
      { role: "system", parts: [{ kind: "text", text: "And short." }] },
    ]);
  });
});

describe("blocks of a user", () => {
  test.each<[object, Part]>([
    [text("hi"), { kind: "text", text: "hi" }],
    [
      { ...text("hi"), cache_control: { type: "ephemeral", ttl: "1h" } },
      { kind: "text", text: "hi", cache: { ttl: "1h" } },
    ],
    [
      { ...text("hi"), cache_control: null, citations: null },
      { kind: "text", text: "hi" },
    ],
    [
      { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" } },
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "iVBO" } },
    ],
    [
      { type: "image", source: { type: "url", url: "https://x.example/a.png" }, cache_control: { type: "ephemeral", ttl: "5m" } },
      { kind: "image", source: { kind: "url", url: "https://x.example/a.png" }, cache: { ttl: "5m" } },
    ],
    [
      { type: "image", source: { type: "file", file_id: "file_1" } },
      { kind: "image", source: { kind: "id", id: "file_1" } },
    ],
    [
      { type: "document", title: "a.pdf", source: { type: "base64", media_type: "application/pdf", data: "JVBE" } },
      { kind: "file", name: "a.pdf", source: { kind: "data", mediaType: "application/pdf", data: "JVBE" } },
    ],
    [
      { type: "document", source: { type: "text", media_type: "text/plain", data: "all of it" }, cache_control: { type: "ephemeral" } },
      { kind: "file", name: null, source: { kind: "text", text: "all of it" }, cache: { ttl: null } },
    ],
    [
      { type: "document", title: null, source: { type: "url", url: "https://x.example/a.pdf" } },
      { kind: "file", name: null, source: { kind: "url", url: "https://x.example/a.pdf" } },
    ],
    [
      { type: "document", source: { type: "file", file_id: "file_2" } },
      { kind: "file", name: null, source: { kind: "id", id: "file_2" } },
    ],
    [
      { type: "document", title: "t", source: { type: "content", content: "one" } },
      { kind: "file", name: "t", source: { kind: "text", text: "one" } },
    ],
    [
      { type: "search_result", source: "https://x.example", title: "X", content: [text("one"), text("two")] },
      { kind: "file", name: "X", source: { kind: "text", text: "https://x.example\none\ntwo" } },
    ],
  ])("%j", (block, part) => {
    expect(userParts(block)).toEqual([part]);
  });

  test("a document of blocks is a file for each run of texts, and its images between them", () => {
    const image = { type: "image", source: { type: "url", url: "https://x.example/a.png" } };
    const content = [text("one"), text("two"), image, text("three")];
    expect(userParts({ type: "document", title: "t", source: { type: "content", content }, cache_control: { type: "ephemeral" } })).toEqual(
      [
        { kind: "file", name: "t", source: { kind: "text", text: "one\ntwo" } },
        { kind: "image", source: { kind: "url", url: "https://x.example/a.png" } },
        { kind: "file", name: "t", source: { kind: "text", text: "three" }, cache: { ttl: null } },
      ],
    );
  });

  test("results of tools have a turn of their own before the rest of the message", () => {
    const result = (id: string, fields: object): object => ({ type: "tool_result", tool_use_id: id, ...fields });
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" } };
    const file = { type: "document", source: { type: "text", media_type: "text/plain", data: "d" } };
    const content = [
      text("first"),
      result("a", { content: "42" }),
      result("b", { content: [text("one"), image, file], is_error: true, cache_control: { type: "ephemeral" } }),
      result("c", {}),
      image,
      result("d", { content: [{ type: "tool_reference", tool_name: "grep" }] }),
    ];
    expect(turnsOf({ role: "user", content })).toEqual([
      {
        role: "tool",
        parts: [
          { kind: "tool_result", callId: "a", content: [{ kind: "text", text: "42" }], isError: false },
          {
            kind: "tool_result",
            callId: "b",
            content: [
              { kind: "text", text: "one" },
              { kind: "image", source: { kind: "data", mediaType: "image/png", data: "iVBO" } },
              { kind: "file", name: null, source: { kind: "text", text: "d" } },
            ],
            isError: true,
            cache: { ttl: null },
          },
          { kind: "tool_result", callId: "c", content: [], isError: false },
          { kind: "tool_result", callId: "d", content: [{ kind: "text", text: "grep" }], isError: false },
        ],
      },
      {
        role: "user",
        parts: [
          { kind: "text", text: "first" },
          { kind: "image", source: { kind: "data", mediaType: "image/png", data: "iVBO" } },
        ],
      },
    ]);
    expect(turnsOf({ role: "user", content: [result("a", { content: "42" })] }).map(({ role }) => role)).toEqual(["tool"]);
  });

  test("of two results of one call in a message the last one counts", () => {
    const content = ["old", "new"].map((content) => ({ type: "tool_result", tool_use_id: "a", content }));
    const [turn] = turnsOf({ role: "user", content });
    expect(turn!.parts.map((part) => (part as ToolResultPart).content)).toEqual([[{ kind: "text", text: "new" }]]);
  });
});

describe("blocks of the model", () => {
  test.each<[object, Part]>([
    [text("so"), { kind: "text", text: "so" }],
    [
      { ...text("so"), citations: [{ type: "char_location", cited_text: "x" }] },
      { kind: "text", text: "so", citations: { dialect: "anthropic", data: '[{"type":"char_location","cited_text":"x"}]' } },
    ],
    [
      { type: "thinking", thinking: "hm", signature: "EqQBCg" },
      { kind: "reasoning", text: "hm", signature: { dialect: "anthropic", data: "EqQBCg" } },
    ],
    [
      { type: "thinking", thinking: "hm", signature: "sluice-v1.abc" },
      { kind: "reasoning", text: "hm", signature: { dialect: "sluice", data: "sluice-v1.abc" } },
    ],
    [
      { type: "thinking", thinking: "hm", signature: "" },
      { kind: "reasoning", text: "hm", signature: null },
    ],
    [
      { type: "thinking", thinking: "hm" },
      { kind: "reasoning", text: "hm", signature: null },
    ],
    [
      { type: "thinking", thinking: "", signature: "EqQB" },
      { kind: "reasoning", text: "", signature: { dialect: "anthropic", data: "EqQB" } },
    ],
    [
      { type: "redacted_thinking", data: "EmwKAh" },
      { kind: "reasoning", text: "", signature: { dialect: "anthropic", data: "EmwKAh" }, redacted: true },
    ],
    [
      { type: "redacted_thinking", data: "sluice-v1.xyz" },
      { kind: "reasoning", text: "", signature: { dialect: "sluice", data: "sluice-v1.xyz" }, redacted: true },
    ],
    [
      { type: "tool_use", id: "toolu_1", name: "read", input: { path: "a", lines: [1, 2] }, cache_control: { type: "ephemeral" } },
      { kind: "tool_call", id: "toolu_1", name: "read", arguments: '{"path":"a","lines":[1,2]}', cache: { ttl: null } },
    ],
    [
      { type: "tool_use", id: "t", name: "now", input: {} },
      { kind: "tool_call", id: "t", name: "now", arguments: "{}" },
    ],
  ])("%j", (block, part) => {
    expect(assistantParts(block)).toEqual([part]);
  });

  test("keep their order", () => {
    const blocks = [
      { type: "thinking", thinking: "a", signature: "s" },
      text("b"),
      { type: "tool_use", id: "c", name: "f", input: {} },
      { type: "redacted_thinking", data: "d" },
    ];
    expect(assistantParts(...blocks).map(({ kind }) => kind)).toEqual(["reasoning", "text", "tool_call", "reasoning"]);
  });

  test("have inputs in every digit and every key that the client wrote, without the space between", () => {
    const messages = `[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"a"},
      {"input": { "id" : 12345678901234567890, "2": 1.0, "1": "a \\" b\\\\", "\\u00e9": "\\ud800 é" } , "type":"tool_use","id":"t","name":"f"},
      {"type":"tool_use","id":"u","name":"g","input":{"x":1},"input":{"x" : 2}}]}]`;
    const { turns } = conversationOf(`{"messages":[],"model":"m","max_tokens":1,"messages":${messages}}`);
    expect(turns[1]!.parts.slice(1)).toEqual([
      { kind: "tool_call", id: "t", name: "f", arguments: '{"id":12345678901234567890,"2":1.0,"1":"a \\" b\\\\","\\u00e9":"\\ud800 é"}' },
      { kind: "tool_call", id: "u", name: "g", arguments: '{"x":2}' },
    ]);
  });

  test("of the upstream's own tools are left out, and named", () => {
    const content = [
      { type: "server_tool_use", id: "s", name: "web_search", input: { query: "x" } },
      { type: "web_search_tool_result", tool_use_id: "s", content: [] },
      { type: "mcp_tool_use", id: "m", name: "x", server_name: "y", input: {} },
      { type: "container_upload", file_id: "f" },
      text("found"),
    ];
    const { turns, uncarried } = conversationOf(requestWith({ messages: [question, { role: "assistant", content }] }));
    expect(turns[1]!.parts).toEqual([{ kind: "text", text: "found" }]);
    expect(uncarried).toEqual([
      "messages.content.server_tool_use",
      "messages.content.web_search_tool_result",
      "messages.content.mcp_tool_use",
      "messages.content.container_upload",
    ]);
  });

  test("that leave nothing leave no turn", () => {
    expect(turnsOf(question, { role: "assistant", content: [] }, { role: "assistant", content: [{ type: "compaction" }] })).toEqual([
      asked,
    ]);
  });
});

describe("tools", () => {
  const f = { name: "f", description: "does", input_schema: { type: "object", properties: { a: { type: "string" } } } };

  test("with a schema are carried", () => {
    const tools = [f, { type: "custom", name: "g", input_schema: { type: "object" }, strict: true, cache_control: { type: "ephemeral" } }];
    expect(conversationOf(requestWith({ tools })).tools).toEqual([
      { name: "f", description: "does", parameters: f.input_schema, strict: null },
      { name: "g", description: null, parameters: { type: "object" }, strict: true, cache: { ttl: null } },
    ]);
  });

  test("without one are not, and neither are wishes that only their provider knows", () => {
    const tools = [
      { ...f, defer_loading: true, eager_input_streaming: true, allowed_callers: ["direct"] },
      { type: "web_search_20250305", name: "web_search" },
    ];
    const { tools: carried, uncarried } = conversationOf(requestWith({ tools }));
    expect(carried.map(({ name }) => name)).toEqual(["f"]);
    expect(uncarried).toEqual(["tools.allowed_callers", "tools.defer_loading", "tools.web_search_20250305"]);
  });

  test.each([
    [{ type: "auto" }, { kind: "auto" }, null],
    [{ type: "any" }, { kind: "required" }, null],
    [{ type: "none" }, { kind: "none" }, null],
    [{ type: "tool", name: "f" }, { kind: "named", name: "f" }, null],
    [{ type: "auto", disable_parallel_tool_use: true }, { kind: "auto" }, false],
    [{ type: "any", disable_parallel_tool_use: false }, { kind: "required" }, true],
  ])("are chosen by %j", (tool_choice, toolChoice, parallelToolCalls) => {
    expect(conversationOf(requestWith({ tools: [f], tool_choice }))).toMatchObject({ toolChoice, parallelToolCalls });
  });

  test("are not chosen from where none is left", () => {
    const search = { type: "web_search_20250305", name: "web_search" };
    const chosen = (tools: readonly object[], tool_choice: object): unknown => {
      const { toolChoice, parallelToolCalls, uncarried } = conversationOf(requestWith({ tools, tool_choice }));
      return [toolChoice, parallelToolCalls, uncarried];
    };
    expect(chosen([search], { type: "any", disable_parallel_tool_use: true })).toEqual([
      null,
      null,
      ["tools.web_search_20250305", "tool_choice"],
    ]);
    expect(chosen([search], { type: "auto" })).toEqual([null, null, ["tools.web_search_20250305"]]);
    expect(chosen([search, f], { type: "tool", name: "web_search" })).toEqual([null, null, ["tools.web_search_20250305", "tool_choice"]]);
  });
});

describe("the other fields", () => {
  test("that have a place in the model", () => {
    const fields = {
      stream: true,
      temperature: 0.3,
      top_p: 0.9,
      top_k: 40,
      stop_sequences: ["\n\nHuman:", "END"],
      metadata: { user_id: "user_abc" },
      service_tier: "standard_only",
    };
    expect(conversationOf(requestWith(fields))).toEqual({
      turns: [asked],
      tools: [],
      toolChoice: null,
      parallelToolCalls: null,
      outputFormat: null,
      sampling: { temperature: 0.3, topP: 0.9, topK: 40, presencePenalty: null, frequencyPenalty: null, seed: null, topLogprobs: null },
      reasoning: null,
      maxOutputTokens: 100,
      stop: ["\n\nHuman:", "END"],
      stream: true,
      endUser: "user_abc",
      promptCacheKey: null,
      serviceTier: "default",
      verbosity: null,
      uncarried: [],
    });
    expect(conversationOf(requestWith({ service_tier: "auto", metadata: {} }))).toMatchObject({ serviceTier: "auto", endUser: null });
  });

  test("that have none are named", () => {
    const fields = {
      mcp_servers: [],
      container: "c",
      context_management: { edits: [] },
      inference_geo: "us",
      speed: "fast",
      diagnostics: null,
    };
    expect(conversationOf(requestWith(fields)).uncarried).toEqual([
      "mcp_servers",
      "container",
      "context_management",
      "inference_geo",
      "speed",
    ]);
  });

  test.each<[object, object | null]>([
    [{}, null],
    [{ thinking: { type: "enabled", budget_tokens: 2048 } }, { effort: null, budgetTokens: 2048, summary: null }],
    [{ thinking: { type: "enabled" } }, { effort: "medium", budgetTokens: null, summary: null }],
    [{ thinking: { type: "adaptive" } }, { effort: "high", budgetTokens: null, summary: null }],
    [{ thinking: { type: "adaptive", display: "omitted" } }, { effort: "high", budgetTokens: null, summary: "none" }],
    [{ thinking: { type: "adaptive", display: "summarized" } }, { effort: "high", budgetTokens: null, summary: "auto" }],
    [{ thinking: { type: "between_tools" } }, { effort: "low", budgetTokens: null, summary: null }],
    [{ thinking: { type: "disabled" } }, { effort: "none", budgetTokens: null, summary: null }],
    [
      { thinking: { type: "disabled" }, output_config: { effort: "max" } },
      { effort: "none", budgetTokens: null, summary: null },
    ],
    [
      { thinking: { type: "adaptive" }, output_config: { effort: "low" } },
      { effort: "low", budgetTokens: null, summary: null },
    ],
    [
      { thinking: { type: "enabled", budget_tokens: 1024 }, output_config: { effort: "xhigh" } },
      { effort: "xhigh", budgetTokens: 1024, summary: null },
    ],
    [{ output_config: { effort: "max" } }, { effort: "max", budgetTokens: null, summary: null }],
    [{ output_config: { effort: null } }, null],
  ])("thinking: %j", (fields, reasoning) => {
    expect(conversationOf(requestWith(fields)).reasoning).toEqual(reasoning as never);
  });

  test("the format of the answer, by its new name and its old", () => {
    const schema = { type: "object", properties: { a: { type: "number" } } };
    const format = { type: "json_schema", schema };
    const carried = { kind: "schema" as const, name: "structured_output", description: null, schema, strict: null };
    expect(conversationOf(requestWith({ output_config: { format } })).outputFormat).toEqual(carried);
    expect(conversationOf(requestWith({ output_format: format })).outputFormat).toEqual(carried);
    expect(conversationOf(requestWith({ output_config: {} })).outputFormat).toBeNull();
  });

  test("a cache marker of the request marks its last part", () => {
    const mark = (messages: readonly object[]): unknown =>
      conversationOf(requestWith({ cache_control: { type: "ephemeral", ttl: "1h" }, messages })).turns.at(-1)?.parts;
    expect(mark([question, { role: "user", content: [text("a"), text("b")] }])).toEqual([
      { kind: "text", text: "a" },
      { kind: "text", text: "b", cache: { ttl: "1h" } },
    ]);
    expect(mark([{ role: "assistant", content: [text("a"), { type: "thinking", thinking: "x", signature: "s" }] }])).toEqual([
      { kind: "text", text: "a", cache: { ttl: "1h" } },
      { kind: "reasoning", text: "x", signature: { dialect: "anthropic", data: "s" } },
    ]);
  });
});

describe("a mistake is told with the place where it is", () => {
  const inUser = (...content: readonly unknown[]): object => requestWith({ messages: [question, { role: "user", content }] });
  const inModel = (...content: readonly unknown[]): object => requestWith({ messages: [question, { role: "assistant", content }] });
  const source = (source: unknown): object => inUser({ type: "image", source });

  test.each<[object, string]>([
    [requestWith({ messages: [question, "x"] }), "messages.1"],
    [requestWith({ messages: [{ content: "x" }] }), "messages.0.role"],
    [requestWith({ messages: [{ role: "tool", content: "x" }] }), "messages.0.role"],
    [requestWith({ messages: [{ role: "user" }] }), "messages.0.content"],
    [requestWith({ messages: [{ role: "user", content: 5 }] }), "messages.0.content"],
    [inUser("x"), "messages.1.content.0"],
    [inUser({ text: "x" }), "messages.1.content.0.type"],
    [inUser({ type: "text" }), "messages.1.content.0.text"],
    [inUser({ type: "text", text: null }), "messages.1.content.0.text"],
    [inUser({ type: "txt", text: "x" }), "messages.1.content.0.type"],
    [inUser({ type: "tool_use", id: "a", name: "b", input: {} }), "messages.1.content.0.type"],
    [inUser({ type: "thinking", thinking: "x", signature: "s" }), "messages.1.content.0.type"],
    [inModel({ type: "tool_result", tool_use_id: "a" }), "messages.1.content.0.type"],
    [inUser({ type: "image" }), "messages.1.content.0.source"],
    [source("https://x.example/a.png"), "messages.1.content.0.source"],
    [source({ url: "x" }), "messages.1.content.0.source.type"],
    [source({ type: "ftp" }), "messages.1.content.0.source.type"],
    [source({ type: "base64", data: "x" }), "messages.1.content.0.source.media_type"],
    [source({ type: "base64", media_type: "image/png", data: "" }), "messages.1.content.0.source.data"],
    [source({ type: "url" }), "messages.1.content.0.source.url"],
    [source({ type: "file", file_id: 7 }), "messages.1.content.0.source.file_id"],
    [inUser({ type: "document", source: { type: "content", content: [{ type: "audio" }] } }), "messages.1.content.0.source.content.0.type"],
    [inUser({ type: "tool_result" }), "messages.1.content.0.tool_use_id"],
    [inUser({ type: "tool_result", tool_use_id: "a", is_error: "no" }), "messages.1.content.0.is_error"],
    [inUser({ type: "tool_result", tool_use_id: "a", content: 5 }), "messages.1.content.0.content"],
    [inUser({ type: "tool_result", tool_use_id: "a", content: [{ type: "image" }] }), "messages.1.content.0.content.0.source"],
    [inUser({ type: "text", text: "x", cache_control: "ephemeral" }), "messages.1.content.0.cache_control"],
    [inUser({ type: "text", text: "x", cache_control: { ttl: "1d" } }), "messages.1.content.0.cache_control.ttl"],
    [inModel({ type: "tool_use", id: "a", name: "f" }), "messages.1.content.0.input"],
    [inModel({ type: "tool_use", id: "a", name: "f", input: "x" }), "messages.1.content.0.input"],
    [inModel({ type: "tool_use", id: "a", name: "", input: {} }), "messages.1.content.0.name"],
    [inModel({ type: "tool_use", name: "f", input: {} }), "messages.1.content.0.id"],
    [inModel({ type: "thinking", signature: "s" }), "messages.1.content.0.thinking"],
    [inModel({ type: "redacted_thinking" }), "messages.1.content.0.data"],
    [requestWith({ messages: [{ role: "user", content: [] }] }), "messages"],
    [requestWith({ system: 5 }), "system"],
    [requestWith({ system: [{ type: "image", source: {} }] }), "system.0.type"],
    [requestWith({ tools: ["f"] }), "tools.0"],
    [requestWith({ tools: [{ input_schema: {} }] }), "tools.0.name"],
    [requestWith({ tools: [{ name: "f" }] }), "tools.0.input_schema"],
    [requestWith({ tools: [{ name: "f", input_schema: {}, description: 5 }] }), "tools.0.description"],
    [requestWith({ tool_choice: "auto" }), "tool_choice"],
    [requestWith({ tool_choice: { type: "required" } }), "tool_choice.type"],
    [requestWith({ tool_choice: { type: "tool" } }), "tool_choice.name"],
    [requestWith({ tools: [{ name: "f", input_schema: {} }], tool_choice: { type: "tool", name: "g" } }), "tool_choice.name"],
    [requestWith({ thinking: "on" }), "thinking"],
    [requestWith({ thinking: { type: "on" } }), "thinking.type"],
    [requestWith({ thinking: { type: "enabled", budget_tokens: "x" } }), "thinking.budget_tokens"],
    [requestWith({ output_config: { effort: "huge" } }), "output_config.effort"],
    [requestWith({ output_config: { format: { type: "xml" } } }), "output_config.format.type"],
    [requestWith({ output_config: { format: { type: "json_schema" } } }), "output_config.format.schema"],
    [requestWith({ temperature: "hot" }), "temperature"],
    [requestWith({ stop_sequences: [5] }), "stop_sequences.0"],
    [requestWith({ metadata: { user_id: 5 } }), "metadata.user_id"],
  ])("%j", (body, param) => {
    const failure = mistakeOf(body);
    expect(failure).toMatchObject({ kind: "invalid_request", blame: "client", status: 400, param });
    const place = param.replace(/\.type$/, "");
    expect(failure!.publicMessage).toContain(place);
  });
});

describe("a well-formed conversation", () => {
  const words = fc.string({ unit: "grapheme", maxLength: 20 });
  const name = fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/);
  const input = fc.dictionary(words, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 });
  const userBlock = fc.oneof(
    fc.record({ type: fc.constant("text"), text: words }),
    fc.record({
      type: fc.constant("tool_result"),
      tool_use_id: fc.uuid(),
      content: fc.oneof(words, fc.array(fc.record({ type: fc.constant("text"), text: words }), { maxLength: 3 })),
      is_error: fc.boolean(),
    }),
  );
  const modelBlock = fc.oneof(
    fc.record({ type: fc.constant("text"), text: words }),
    fc.record({ type: fc.constant("thinking"), thinking: words, signature: fc.oneof(name, fc.constant("sluice-v1.abc"), fc.constant("")) }),
    fc.record({ type: fc.constant("redacted_thinking"), data: name }),
    fc.record({ type: fc.constant("tool_use"), id: name, name, input }),
  );
  const message = fc.oneof(
    fc.record({ role: fc.constant("user"), content: fc.oneof(words, fc.array(userBlock, { minLength: 1, maxLength: 4 })) }),
    fc.record({ role: fc.constant("assistant"), content: fc.oneof(words, fc.array(modelBlock, { minLength: 1, maxLength: 4 })) }),
    fc.record({ role: fc.constant("system"), content: words }),
  );
  type Message = (typeof message extends fc.Arbitrary<infer T> ? T : never) & { readonly content: unknown };
  interface AnyBlock {
    readonly type: string;
    readonly [key: string]: unknown;
  }

  /** What must not be lost, in the order that the model has it. */
  function essence(messages: readonly Message[]): readonly unknown[] {
    return messages.flatMap(({ role, content }): readonly unknown[] => {
      const blocks = typeof content === "string" ? [{ type: "text", text: content }] : (content as readonly AnyBlock[]);
      const results = blocks.filter(({ type }) => type === "tool_result");
      return [...results, ...blocks.filter(({ type }) => type !== "tool_result")].map((block: AnyBlock) => {
        switch (block.type) {
          case "text":
            return [role, block["text"]];
          case "thinking":
            return [role, block["thinking"], block["signature"]];
          case "redacted_thinking":
            return [role, "", block["data"]];
          case "tool_use":
            return [role, block["id"], block["name"], block["input"]];
          default: {
            const inner = block["content"];
            const texts = typeof inner === "string" ? [inner] : (inner as readonly AnyBlock[]).map(({ text }) => text);
            return ["tool", block["tool_use_id"], texts, block["is_error"]];
          }
        }
      });
    });
  }

  function essenceOfParts(turns: readonly ConversationTurn[]): readonly unknown[] {
    return turns.flatMap(({ role, parts }) =>
      parts.map((part): unknown => {
        switch (part.kind) {
          case "text":
            return [role, part.text];
          case "reasoning":
            return [role, part.text, part.signature?.data ?? ""];
          case "tool_call":
            return [role, part.id, part.name, JSON.parse(part.arguments)];
          case "tool_result":
            return [role, part.callId, part.content.map((inner) => (inner.kind === "text" ? inner.text : null)), part.isError];
          default:
            return part;
        }
      }),
    );
  }

  test("loses no text, no id, no argument and no signature", () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 6 }), (messages) => {
        const { turns, uncarried } = conversationOf(requestWith({ messages }));
        expect(essenceOfParts(turns)).toEqual(essence(messages as unknown as readonly Message[]));
        expect(uncarried).toEqual([]);
      }),
    );
  });

  test("begins like the one it continues", () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 2, maxLength: 6 }), fc.nat(), (messages, cut) => {
        const count = 1 + (cut % (messages.length - 1));
        const whole = conversationOf(requestWith({ messages })).turns;
        const beginning = conversationOf(requestWith({ messages: messages.slice(0, count) })).turns;
        expect(whole.slice(0, beginning.length)).toEqual([...beginning]);
      }),
    );
  });
});
