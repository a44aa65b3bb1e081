import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { strictQuirks, usualQuirks } from "../../../src/dialects/presets.ts";
import { encodeChatBody } from "../../../src/dialects/openai/chat-body.ts";
import type { Conversation, Part, ProviderValue, Tool, ConversationTurn } from "../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { emptyConversation } from "../../support/conversations.ts";

function encoded(
  change: Partial<Conversation>,
  quirks = usualQuirks,
): { readonly body: Record<string, unknown>; readonly dropped: readonly string[] } {
  const result = encodeChatBody(
    { ...emptyConversation, ...change },
    { model: "m", maxOutputTokens: change.maxOutputTokens ?? null, quirks, meterStream: true },
  );
  if (isFailure(result)) throw new Error(result.detail);
  return { body: JSON.parse(new TextDecoder().decode(result.body)) as Record<string, unknown>, dropped: result.dropped };
}

function messagesOf(...turns: readonly ConversationTurn[]): unknown {
  return encoded({ turns }).body["messages"];
}

const text = (value: string): Part => ({ kind: "text", text: value });

test("content that the API cannot carry is refused, and named", () => {
  const file: Part = { kind: "file", source: { kind: "url", url: "https://example.com/a.pdf" }, name: null };
  const result = encodeChatBody(
    { ...emptyConversation, turns: [{ role: "user", parts: [file] }] },
    { model: "m", maxOutputTokens: null, quirks: usualQuirks, meterStream: false },
  );
  expect(result).toMatchObject({ kind: "unsupported", publicMessage: "This model takes files as base64 data, not by URL." });
});

describe("a conversation becomes a chat completion request", () => {
  test("with every role at its place", () => {
    expect(
      messagesOf(
        { role: "system", parts: [text("be brief")] },
        { role: "user", parts: [text("hi")] },
        { role: "assistant", parts: [text("hello")] },
        { role: "system", parts: [text("now in French")] },
        { role: "user", parts: [text("again")] },
      ),
    ).toEqual([
      { role: "system", content: "be brief" },
      { role: "user", content: "hi" },
      { role: "assistant", content: "hello" },
      { role: "system", content: "now in French" },
      { role: "user", content: "again" },
    ]);
  });

  test("whose instructions of a developer have the only role that most upstreams know", () => {
    const turns: readonly ConversationTurn[] = [
      { role: "developer", parts: [text("be polite")] },
      { role: "user", parts: [text("hi")] },
    ];
    expect(encoded({ turns }).body["messages"]).toMatchObject([{ role: "system", content: "be polite" }, { role: "user" }]);
    expect(encoded({ turns }, strictQuirks).body["messages"]).toMatchObject([
      { role: "developer", content: "be polite" },
      { role: "user" },
    ]);
  });

  test("with images, files and audio as parts", () => {
    const parts: readonly Part[] = [
      text("look"),
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } },
      { kind: "image", source: { kind: "url", url: "https://example.com/a.png" }, detail: "low" },
      { kind: "file", source: { kind: "data", mediaType: "application/pdf", data: "BBBB" }, name: "a.pdf" },
      { kind: "file", source: { kind: "text", text: "a note" }, name: null },
      { kind: "audio", format: "wav", data: "CCCC" },
    ];
    expect(messagesOf({ role: "user", parts })).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
          { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } },
          { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,BBBB" } },
          { type: "text", text: "a note" },
          { type: "input_audio", input_audio: { data: "CCCC", format: "wav" } },
        ],
      },
    ]);
  });

  test("with tool calls and results, whose images follow in a message of the user", () => {
    const result = messagesOf(
      {
        role: "assistant",
        parts: [
          { kind: "reasoning", text: "let me look", signature: null },
          text("looking"),
          { kind: "tool_call", id: "a", name: "read", arguments: '{"path":"x"}' },
          { kind: "tool_call", id: "b", name: "list", arguments: "" },
          { kind: "tool_call", id: "c", name: "odd", arguments: "not json" },
        ],
      },
      {
        role: "tool",
        parts: [
          { kind: "tool_result", callId: "a", content: [{ kind: "text", text: "x" }], isError: false },
          { kind: "tool_result", callId: "b", content: [{ kind: "image", source: { kind: "url", url: "u" } }], isError: false },
          { kind: "tool_result", callId: "c", content: [{ kind: "text", text: "no such tool" }], isError: true },
        ],
      },
    );
    expect(result).toEqual([
      {
        role: "assistant",
        content: "looking",
        reasoning_content: "let me look",
        tool_calls: [
          { id: "a", type: "function", function: { name: "read", arguments: '{"path":"x"}' } },
          { id: "b", type: "function", function: { name: "list", arguments: "{}" } },
          { id: "c", type: "function", function: { name: "odd", arguments: '{"_raw":"not json"}' } },
        ],
      },
      { role: "tool", tool_call_id: "a", content: "x" },
      { role: "tool", tool_call_id: "b", content: "" },
      { role: "tool", tool_call_id: "c", content: "Error: no such tool" },
      {
        role: "user",
        content: [
          { type: "text", text: "The tool results above include:" },
          { type: "image_url", image_url: { url: "u" } },
        ],
      },
    ]);
  });

  test("without the reasoning of earlier answers where the upstream refuses it", () => {
    const turns: readonly ConversationTurn[] = [
      { role: "assistant", parts: [{ kind: "reasoning", text: "hm", signature: null }, text("yes")] },
    ];
    expect(encoded({ turns }, { ...usualQuirks, reasoningHistory: false }).body["messages"]).toEqual([
      { role: "assistant", content: "yes" },
    ]);
  });

  test("with the reasoning of its own as it came, and never that of another provider", () => {
    const details = [{ type: "reasoning.encrypted", data: "xyz", index: 0 }];
    const own = (form: object): ProviderValue => ({ dialect: "openai", data: JSON.stringify(form) });
    const answer = (...parts: readonly Part[]): unknown => messagesOf({ role: "assistant", parts: [...parts, text("yes")] });
    expect(answer({ kind: "reasoning", text: "hm", signature: own({}) })).toEqual([
      { role: "assistant", content: "yes", reasoning_content: "hm" },
    ]);
    expect(
      answer(
        { kind: "reasoning", text: "hm", signature: own({ field: "reasoning", details }) },
        { kind: "reasoning", text: "m", signature: own({ field: "reasoning" }) },
      ),
    ).toEqual([{ role: "assistant", content: "yes", reasoning: "hmm", reasoning_details: details }]);
    expect(answer({ kind: "reasoning", text: "hm", signature: { dialect: "other", data: "s" } })).toEqual([
      { role: "assistant", content: "yes" },
    ]);
    expect(answer({ kind: "reasoning", text: "", redacted: true, signature: { dialect: "sluice", data: "sluice-v1.x" } })).toEqual([
      { role: "assistant", content: "yes" },
    ]);
  });

  test("with what an upstream of its own added to a call", () => {
    const extra = { google: { thought_signature: "abc" } };
    const call = (dialect: string): Part => ({
      ...{ kind: "tool_call", id: "c", name: "f", arguments: "{}" },
      signature: { dialect, data: JSON.stringify(extra) },
    });
    const sent = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
    expect(messagesOf({ role: "assistant", parts: [call("openai")] })).toMatchObject([{ tool_calls: [{ ...sent, extra_content: extra }] }]);
    expect(messagesOf({ role: "assistant", parts: [call("other")] })).toMatchObject([{ tool_calls: [sent] }]);
  });

  test("with an empty reasoning where an upstream insists on one and has none of its own", () => {
    const quirks = { ...usualQuirks, needsReasoning: true } as const;
    const turns: readonly ConversationTurn[] = [
      { role: "assistant", parts: [{ kind: "reasoning", text: "hm", signature: { dialect: "other", data: "s" } }, text("yes")] },
    ];
    const tool: Tool = { name: "f", description: null, parameters: null, strict: null };
    expect(encoded({ turns, tools: [tool] }, quirks).body["messages"]).toEqual([
      { role: "assistant", content: "yes", reasoning_content: "" },
    ]);
    expect(encoded({ turns }, quirks).body["messages"]).toEqual([{ role: "assistant", content: "yes" }]);
  });

  test("with custom tools as functions of one text, and namespaces as prefixes", () => {
    const tools: readonly Tool[] = [
      { name: "apply_patch", description: "Patches.", parameters: null, strict: null, custom: { format: "start: X" } },
      { name: "search", namespace: "docs", description: null, parameters: { type: "object" }, strict: true },
    ];
    const { body } = encoded({ tools, toolChoice: { kind: "named", name: "search" }, parallelToolCalls: false });
    expect(body["tools"]).toEqual([
      {
        type: "function",
        function: {
          name: "apply_patch",
          description: "Patches.\n\nThe input has to match this format:\nstart: X",
          parameters: {
            type: "object",
            properties: { input: { type: "string" } },
            required: ["input"],
            additionalProperties: false,
          },
        },
      },
      { type: "function", function: { name: "docs__search", parameters: { type: "object" }, strict: true } },
    ]);
    expect(body["tool_choice"]).toEqual({ type: "function", function: { name: "docs__search" } });
    expect(body["parallel_tool_calls"]).toBe(false);
  });

  test("with a short name of its user, and at least one token", () => {
    expect(encoded({ endUser: "u1" }).body["user"]).toBe("u1");
    expect(encoded({ endUser: "u".repeat(150) }).body["user"]).toMatch(/^u{50,55}_[0-9a-f]{8}$/);
    expect(encoded({ maxOutputTokens: 0 }).body["max_tokens"]).toBe(1);
  });

  test("with the name of a text file", () => {
    const parts: readonly Part[] = [{ kind: "file", source: { kind: "text", text: "b" }, name: "a.txt" }];
    expect(messagesOf({ role: "user", parts })).toEqual([{ role: "user", content: [{ type: "text", text: "a.txt:\n\nb" }] }]);
  });

  test("without a tool choice where no tool is left", () => {
    expect(encoded({ toolChoice: { kind: "required" } }).body).not.toHaveProperty("tool_choice");
  });

  test("with its bound on tokens under the name that the upstream knows", () => {
    expect(encoded({ maxOutputTokens: 7 }).body["max_tokens"]).toBe(7);
    expect(encoded({ maxOutputTokens: 7 }, { ...usualQuirks, tokenBound: "max_completion_tokens" }).body["max_completion_tokens"]).toBe(7);
  });

  test("and names what it could not carry", () => {
    const { dropped, body } = encoded({
      uncarried: ["mcp_servers"],
      sampling: { ...emptyConversation.sampling, topK: 5 },
      stop: ["a", "b", "c", "d", "e"],
    });
    expect(dropped).toEqual(["mcp_servers", "top_k", "stop_sequences"]);
    expect(body["stop"]).toEqual(["a", "b", "c", "d"]);
  });
});

const part: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ kind: fc.constant("text" as const), text: fc.string() }),
  fc.record({ kind: fc.constant("tool_call" as const), id: fc.string({ minLength: 1 }), name: fc.string(), arguments: fc.json() }),
  fc.record({ kind: fc.constant("reasoning" as const), text: fc.string(), signature: fc.constant(null) }),
  fc.record({
    kind: fc.constant("tool_result" as const),
    callId: fc.string(),
    content: fc.array(fc.record({ kind: fc.constant("text" as const), text: fc.string() }), { maxLength: 2 }),
    isError: fc.boolean(),
  }),
);
const turn: fc.Arbitrary<ConversationTurn> = fc.record({
  role: fc.constantFrom("system" as const, "developer" as const, "user" as const, "assistant" as const, "tool" as const),
  parts: fc.array(part, { maxLength: 3 }),
});

test("a conversation that goes on begins with the same bytes, so that prompt caches hold", () => {
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 6 }), turn, (turns, next) => {
      const before = JSON.stringify(messagesOf(...turns));
      const after = JSON.stringify(messagesOf(...turns, next));
      expect(after.startsWith(before.slice(0, -1)), `${after} goes on from ${before}`).toBe(true);
    }),
  );
});
