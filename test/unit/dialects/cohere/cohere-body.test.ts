import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { encodeCohere } from "../../../../src/dialects/cohere/cohere-body.ts";
import type { Conversation, ConversationTurn, Part, Tool } from "../../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../../src/operations/failure.ts";
import { anyTurns, emptyConversation } from "../../../support/conversations.ts";
import { numRuns } from "../../../support/properties.ts";

type Body = Readonly<Record<string, unknown>>;

function encoded(change: Partial<Conversation>): { body: Body; dropped: readonly string[] } {
  const result = encodeCohere({ ...emptyConversation, ...change }, "command", change.maxOutputTokens ?? null);
  if (isFailure(result)) throw new Error(result.detail);
  return { body: JSON.parse(new TextDecoder().decode(result.body)) as Body, dropped: result.dropped };
}

const text = (value: string): Part => ({ kind: "text", text: value });
const hi: ConversationTurn = { role: "user", parts: [text("hi")] };
const look: Tool = { name: "look", description: "Looks.", parameters: { type: "object" }, strict: null };

describe("a conversation becomes a chat of Cohere", () => {
  test("whose calls keep the digits of long numbers", () => {
    const call: Part = { kind: "tool_call", id: "1", name: "look", arguments: '{"id":1234567890123456789}' };
    const { body } = encoded({ turns: [hi, { role: "assistant", parts: [call] }] });
    expect(JSON.stringify(body)).toContain("1234567890123456789");
  });

  test("with every role at its place", () => {
    const image: Part = { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" }, detail: "low" };
    const call: Part = { kind: "tool_call", id: "1", name: "look", arguments: "" };
    const result: Part = { kind: "tool_result", callId: "1", isError: true, content: [{ kind: "text", text: "no" }] };
    const { body, dropped } = encoded({
      turns: [
        { role: "system", parts: [text("be brief")] },
        { role: "user", parts: [text("hi"), text("there")] },
        { role: "assistant", parts: [{ kind: "reasoning", text: "hm", signature: null }, text("hello")] },
        { role: "developer", parts: [text("in French")] },
        { role: "user", parts: [text("what is this?"), image] },
        { role: "assistant", parts: [text("I look."), call] },
        { role: "tool", parts: [result] },
      ],
    });
    expect(body).toEqual({
      model: "command",
      stream: false,
      messages: [
        { role: "system", content: "be brief" },
        { role: "user", content: "hi\nthere" },
        { role: "assistant", content: "hello" },
        { role: "system", content: "in French" },
        {
          role: "user",
          content: [
            { type: "text", text: "what is this?" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AAAA", detail: "low" } },
          ],
        },
        {
          role: "assistant",
          tool_plan: "I look.",
          tool_calls: [{ id: "1", type: "function", function: { name: "look", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "1", content: "Error: no" },
      ],
    });
    expect(dropped).toEqual([]);
  });

  test.each<readonly [Conversation["toolChoice"], unknown, readonly string[]]>([
    [null, undefined, ["look", "other"]],
    [{ kind: "auto" }, undefined, ["look", "other"]],
    [{ kind: "none" }, "NONE", ["look", "other"]],
    [{ kind: "required" }, "REQUIRED", ["look", "other"]],
    [{ kind: "named", name: "look" }, "REQUIRED", ["look"]],
  ])("with the choice %j of tools", (toolChoice, choice, names) => {
    const { body } = encoded({ turns: [hi], tools: [look, { ...look, name: "other" }], toolChoice });
    expect(body["tool_choice"]).toEqual(choice);
    expect((body["tools"] as readonly { function: { name: string } }[]).map((tool) => tool.function.name)).toEqual([...names]);
  });

  test("with its names for the settings, and the rest reported", () => {
    const { body, dropped } = encoded({
      turns: [hi],
      maxOutputTokens: 10,
      sampling: { temperature: 0.3, topP: 1, topK: 5, presencePenalty: -1, frequencyPenalty: 0.5, seed: 7, topLogprobs: null },
      stop: ["a", "b", "c", "d", "e", "f"],
      outputFormat: { kind: "schema", name: null, description: null, schema: { type: "object" }, strict: true },
      verbosity: "low",
    });
    expect(body).toMatchObject({
      max_tokens: 10,
      temperature: 0.3,
      p: 0.99,
      k: 5,
      seed: 7,
      frequency_penalty: 0.5,
      stop_sequences: ["a", "b", "c", "d", "e"],
      response_format: { type: "json_object", json_schema: { type: "object" } },
    });
    expect([...dropped].toSorted()).toEqual(["presence_penalty", "stop", "verbosity"]);
  });

  test.each([
    ["none", null, { type: "disabled" }],
    ["medium", null, { type: "enabled", token_budget: 16_384 }],
    [null, 5000, { type: "enabled", token_budget: 5000 }],
    [null, 99_999, { type: "enabled", token_budget: 32_768 }],
  ] as const)("with reasoning %j %j", (effort, budgetTokens, thinking) => {
    expect(encoded({ turns: [hi], reasoning: { effort, budgetTokens, summary: null } }).body["thinking"]).toEqual(thinking);
  });

  test.each<readonly [string, Part]>([
    ["audio", { kind: "audio", format: "wav", data: "" }],
    ["a PDF", { kind: "file", name: null, source: { kind: "data", mediaType: "application/pdf", data: "" } }],
    ["an uploaded image", { kind: "image", source: { kind: "id", id: "1" } }],
  ])("or is refused for %s, so that another channel is tried", (_, part) => {
    expect(encodeCohere({ ...emptyConversation, turns: [{ role: "user", parts: [part] }] }, "m", null)).toMatchObject({
      kind: "unsupported",
    });
  });

  test("whose messages are a prefix of those of the longer conversation", () => {
    const withoutFiles = (turns: readonly ConversationTurn[]): readonly ConversationTurn[] =>
      turns.map(({ role, parts }) => ({ role, parts: parts.filter(({ kind }) => kind !== "file") }));
    const messages = (turns: readonly ConversationTurn[]): readonly string[] =>
      (encoded({ turns: withoutFiles(turns) }).body["messages"] as readonly unknown[]).map((message) => JSON.stringify(message));
    fc.assert(
      fc.property(anyTurns("cohere"), (turns) => {
        const all = messages(turns);
        for (let length = 0; length <= turns.length; length += 1) {
          const some = messages(turns.slice(0, length));
          expect(all.slice(0, some.length)).toEqual([...some]);
        }
      }),
      { numRuns: numRuns(100) },
    );
  });
});
