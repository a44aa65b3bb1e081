import { describe, expect, test } from "bun:test";
import { isFailure } from "../../../src/operations/failure.ts";
import { splice } from "../../../src/operations/splice.ts";
import { foreignThinking } from "../../../src/dialects/anthropic/foreign-thinking.ts";
import { countTokensBody, readCountTokensRequest } from "../../../src/surfaces/anthropic-messages/index.ts";
import { askOf, bytesOf, mistakeOf, question, requestWith, surface, textOf } from "../../support/messages.ts";

describe("the facts of a request", () => {
  test("are those that the gateway decides on", () => {
    expect(askOf(requestWith({ stream: true, system: "Be brief." }))).toMatchObject({
      operation: "chat",
      surface: "anthropic-messages",
      model: "m",
      stream: true,
      wantsUsage: true,
      maxTokens: 100,
      maxCompletionTokens: null,
      choices: 1,
      hostedTools: false,
      reasons: false,
      plainText: true,
    });
  });

  test("count the largest max_tokens, and zero, which only fills a cache", () => {
    expect(askOf(`{"max_tokens":9,"model":"m","messages":[{}],"max_tokens":5}`).maxTokens).toBe(9);
    expect(askOf(requestWith({ max_tokens: 0 })).maxTokens).toBe(0);
  });

  test.each([
    [{ tools: [{ name: "f", input_schema: {} }] }, false],
    [{ tools: [{ type: "custom", name: "f", input_schema: {} }] }, false],
    [{ tools: [{ type: "bash_20250124", name: "bash" }] }, false],
    [{ tools: [{ type: "text_editor_20250728", name: "str_replace_based_edit_tool" }] }, false],
    [{ tools: [{ type: "web_search_20250305", name: "web_search" }] }, true],
    [{ tools: [{ type: "code_execution_20260120", name: "code_execution" }] }, true],
    [{ mcp_servers: [{ type: "url", url: "https://x.example", name: "x" }] }, true],
    [{ mcp_servers: [] }, false],
  ])("tell whether tools act at the upstream: %j", (fields, hosted) => {
    expect(askOf(requestWith(fields)).hostedTools).toBe(hosted);
  });

  test.each([
    [{}, false],
    [{ thinking: { type: "enabled", budget_tokens: 2000 } }, true],
    [{ thinking: { type: "adaptive" } }, true],
    [{ thinking: { type: "disabled" } }, false],
    [{ thinking: { type: "disabled" }, output_config: { effort: "high" } }, false],
    [{ output_config: { effort: "low" } }, true],
    [{ thinking: null }, false],
  ])("tell whether it is asked to think: %j", (fields, reasons) => {
    expect(askOf(requestWith(fields)).reasons).toBe(reasons);
  });

  test.each([
    [{}, true],
    [{ tools: [] }, true],
    [{ tools: [{ name: "f", input_schema: {} }] }, false],
    [{ output_config: { effort: "low" } }, true],
    [{ output_config: { format: { type: "json_schema", schema: {} } } }, false],
    [{ output_format: { type: "json_schema", schema: {} } }, false],
  ])("tell whether the answer is plain text: %j", (fields, plain) => {
    expect(askOf(requestWith(fields)).plainText).toBe(plain);
  });
});

describe("the estimate of a prompt", () => {
  const image = (bytes: number): object => ({
    type: "image",
    source: { type: "base64", media_type: "image/png", data: "A".repeat(bytes) },
  });
  const estimate = (fields: object): number => askOf(requestWith(fields)).promptTokensEstimate;

  test("has the messages, the system prompt and the tools in it", () => {
    const bare = estimate({});
    expect(estimate({ system: "x".repeat(4000) })).toBeGreaterThan(bare + 990);
    expect(estimate({ tools: [{ name: "f", description: "x".repeat(4000), input_schema: {} }] })).toBeGreaterThan(bare + 990);
    expect(estimate({ messages: [{ role: "user", content: "x".repeat(4000) }] })).toBeGreaterThan(990);
  });

  test("does not take the bytes of an image or a file for text, wherever it stands", () => {
    const user = (content: unknown): object => ({ messages: [{ role: "user", content }] });
    expect(estimate(user([image(400_000)]))).toBeLessThan(2_000);
    expect(estimate(user([{ type: "tool_result", tool_use_id: "t", content: [image(400_000)] }]))).toBeLessThan(2_000);
    const file = { type: "base64", media_type: "application/pdf", data: "A".repeat(600_000) };
    expect(estimate(user([{ type: "document", source: file }]))).toBeLessThan(30_000);
    expect(estimate(user([image(5_000), image(5_000)]))).toBeLessThan(3_400);
    const dataFirst = { type: "image", source: { data: "A".repeat(400_000), type: "base64", media_type: "image/png" } };
    expect(estimate(user([{ type: "text", text: "x ".repeat(1000) }, dataFirst]))).toBeLessThan(2_300);
    // A text is one, whatever it is in and whatever it looks like.
    const text = { type: "text", media_type: "text/plain", data: "x".repeat(400_000) };
    expect(estimate(user([{ type: "document", source: text }]))).toBeGreaterThan(90_000);
    expect(estimate(user("A".repeat(400_000)))).toBeGreaterThan(90_000);
  });

  test("is what a request to count tokens is answered with", () => {
    const body = { model: "m", messages: [question], system: "x".repeat(400) };
    const read = readCountTokensRequest(bytesOf(body));
    if (isFailure(read)) throw new Error(read.detail);
    expect(read).toMatchObject({
      model: "m",
      maxTokens: null,
      promptTokensEstimate: askOf({ ...body, max_tokens: 1 }).promptTokensEstimate,
    });
    expect(textOf(countTokensBody(12))).toBe('{"input_tokens":12}');
    expect(readCountTokensRequest(bytesOf({ model: "m" }))).toMatchObject({ param: "messages", status: 400 });
  });
});

describe("a request that is wrong is refused with the name of the field", () => {
  test.each<[object | string, string | null]>([
    ["[]", null],
    ["{", null],
    [{ max_tokens: 1, messages: [question] }, "model"],
    [requestWith({ model: 7 }), "model"],
    [requestWith({ model: "" }), "model"],
    [requestWith({ model: "x".repeat(513) }), "model"],
    [requestWith({ model: "\ud800" }), "model"],
    [{ model: "m", messages: [question] }, "max_tokens"],
    [requestWith({ max_tokens: "100" }), "max_tokens"],
    [requestWith({ max_tokens: 1.5 }), "max_tokens"],
    [requestWith({ max_tokens: -1 }), "max_tokens"],
    [requestWith({ messages: "Why?" }), "messages"],
    [requestWith({ messages: [] }), "messages"],
    [requestWith({ stream: 1 }), "stream"],
    [requestWith({ tools: {} }), "tools"],
    [requestWith({ tools: Array.from({ length: 1025 }, () => ({})) }), "tools"],
    [requestWith({ stop_sequences: "x" }), "stop_sequences"],
    [requestWith({ stop_sequences: Array.from({ length: 257 }, () => "x") }), "stop_sequences"],
    [requestWith({ stop_sequences: ["x".repeat(70_000)] }), "stop_sequences"],
    [{ ...requestWith({}), Max_Tokens: 5 }, "max_tokens"],
  ])("%j", (body, param) => {
    const failure = surface.parse(bytesOf(body));
    if (!isFailure(failure)) throw new Error("it was read");
    expect(failure).toMatchObject({ kind: "invalid_request", status: 400, param });
    if (param !== null) expect(failure.publicMessage).toContain(`'${param}'`);
  });
});

describe("hostile input", () => {
  const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;

  test.each([
    ["nested too deep", `{"model":"m","max_tokens":1,"messages":${nested(100)}}`],
    ["of too many values", `{"model":"m","max_tokens":1,"messages":[${"{},".repeat(130_000)}{}]}`],
    ["of too many fields", `{"model":"m","max_tokens":1,"messages":[{}],${'"a":1,'.repeat(50_001)}"b":1}`],
  ])("%s is refused by the scan", (_, body) => {
    expect(mistakeOf(body)).toMatchObject({ status: 400, code: "json_too_complex" });
  });

  test("__proto__ and the like are names like any other", () => {
    const body = `{"model":"m","max_tokens":1,"__proto__":{"stream":true},"constructor":{},
      "messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"__proto__":{"x":1}}}]},
      {"role":"user","__proto__":{"content":"x"},"content":[{"__proto__":{"type":"text"},"type":"text","text":"hi"}]}]}`;
    const ask = askOf(body);
    expect(ask.stream).toBe(false);
    const conversation = ask.toConversation(ask);
    if (isFailure(conversation)) throw new Error(conversation.detail);
    expect(conversation.uncarried).toEqual(["__proto__", "constructor"]);
    expect(conversation.turns[0]!.parts[0]).toMatchObject({ arguments: '{"__proto__":{"x":1}}' });
    expect(conversation.turns[1]!.parts).toEqual([{ kind: "text", text: "hi" }]);
  });

  test("a number of many digits is not taken for an image without an end", () => {
    const digits = "1".repeat(10_000);
    expect(askOf(`{"model":"m","max_tokens":1,"messages":[${digits}]}`).promptTokensEstimate).toBe(2501);
    expect(askOf(`{"max_tokens":1,"messages":[${digits}, ${digits}],"model":"m"}`).promptTokensEstimate).toBe(5001);
  });

  test("names of fields that would not fit into a header are not repeated", () => {
    const body = {
      ...requestWith({}),
      "a\r\nb": 1,
      ["x".repeat(500)]: 1,
      ...Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`f${at}`, 1])),
    };
    const ask = askOf(body);
    const conversation = ask.toConversation(ask);
    if (isFailure(conversation)) throw new Error(conversation.detail);
    expect(conversation.uncarried.length).toBe(32);
    for (const name of conversation.uncarried) expect(name).toMatch(/^[\w.-]{1,80}$/);
  });

  test("a value of any type in any place is a conversation or a mistake, and never an exception", () => {
    const good = {
      model: "m",
      max_tokens: 10,
      system: [{ type: "text", text: "s", cache_control: { type: "ephemeral", ttl: "1h" } }],
      messages: [
        {
          role: "user",
          content: [
            { type: "image", source: { type: "base64", media_type: "image/png", data: "AA" } },
            { type: "text", text: "x" },
          ],
        },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "t", signature: "s" },
            { type: "redacted_thinking", data: "d" },
            { type: "tool_use", id: "i", name: "n", input: { a: 1 } },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "i",
              is_error: true,
              content: [
                { type: "text", text: "r" },
                { type: "document", source: { type: "content", content: [{ type: "text", text: "c" }] } },
              ],
            },
            { type: "search_result", source: "u", title: "t", content: [{ type: "text", text: "x" }] },
          ],
        },
      ],
      tools: [{ name: "n", description: "d", input_schema: { type: "object" }, strict: true }],
      tool_choice: { type: "tool", name: "n", disable_parallel_tool_use: true },
      thinking: { type: "enabled", budget_tokens: 1024, display: "omitted" },
      output_config: { effort: "high", format: { type: "json_schema", schema: {} } },
      stop_sequences: ["x"],
      metadata: { user_id: "u" },
      temperature: 0.5,
      cache_control: { type: "ephemeral" },
      service_tier: "auto",
    };
    expect(mistakeOf(good)).toBeNull();
    const wrong = [null, 0, -1, 1e308, true, "", "x", "\ud800", [], [[]], {}, { type: "x" }, { __proto__: null }];
    let tried = 0;
    const visit = (value: unknown, replaced: (by: unknown) => object): void => {
      for (const by of wrong) {
        mistakeOf(replaced(by));
        tried++;
      }
      if (typeof value !== "object" || value === null) return;
      for (const [key, inner] of Object.entries(value)) {
        const withInner = (by: unknown): object =>
          replaced(Array.isArray(value) ? value.map((one: unknown, at) => (String(at) === key ? by : one)) : { ...value, [key]: by });
        visit(inner, withInner);
      }
    };
    for (const [key, inner] of Object.entries(good)) visit(inner, (by) => ({ ...good, [key]: by }));
    expect(tried).toBeGreaterThan(500);
  });
});

describe("thinking that no upstream of this API has signed", () => {
  const thinking = (signature: string | undefined): object => ({
    type: "thinking",
    thinking: "hm",
    ...(signature === undefined ? {} : { signature }),
  });
  const text = { type: "text", text: "so" };
  const cut = (messages: readonly object[]): unknown => {
    const ask = askOf(requestWith({ messages }));
    return (JSON.parse(textOf(splice(ask.body, foreignThinking(ask)))) as { messages: unknown }).messages;
  };
  const own = thinking("EqQB");
  const sealed = { type: "redacted_thinking", data: "sluice-v1.x" };

  test.each<[string, readonly object[], readonly object[]]>([
    ["first", [thinking(""), text], [text]],
    ["last", [text, sealed], [text]],
    ["in the middle", [own, thinking("sluice-v1.abc"), text], [own, text]],
    ["in a row", [thinking(undefined), sealed, own, sealed, sealed, text, thinking("")], [own, text]],
    ["nowhere", [own, { type: "redacted_thinking", data: "d" }, text], [own, { type: "redacted_thinking", data: "d" }, text]],
  ])("is cut out: %s", (_, before, after) => {
    expect(cut([question, { role: "assistant", content: before }, question])).toEqual([
      question,
      { role: "assistant", content: after },
      question,
    ]);
  });

  test("takes a message with it that is nothing else, and no message of another role", () => {
    expect(cut([question, { role: "assistant", content: [sealed] }, question])).toEqual([question, question]);
    expect(cut([{ role: "assistant", content: [sealed, thinking("")] }, question])).toEqual([question]);
    const user = { role: "user", content: [thinking("")] };
    expect(cut([user, { role: "assistant", content: "x" }, { role: "assistant", content: [] }])).toEqual([
      user,
      { role: "assistant", content: "x" },
      { role: "assistant", content: [] },
    ]);
  });

  test("leaves every other byte as it was", () => {
    const body = `{ "model":"m",  "max_tokens":1,"messages":[ {"role":"assistant","content":[ {"type":"thinking","thinking":"x"} , {"type":"text", "text":"\\u0041", "n":1.0} ]} ] }`;
    const ask = askOf(body);
    expect(textOf(splice(ask.body, foreignThinking(ask)))).toBe(
      `{ "model":"m",  "max_tokens":1,"messages":[ {"role":"assistant","content":[ {"type":"text", "text":"\\u0041", "n":1.0} ]} ] }`,
    );
    expect(foreignThinking(askOf(requestWith({})))).toEqual([]);
  });
});
