import { describe, expect, test } from "bun:test";
import { isFailure } from "../../../src/operations/failure.ts";
import type { Conversation } from "../../../src/operations/conversation/conversation.ts";
import type { AnswerContext } from "../../../src/operations/conversation/surface.ts";
import { ChunkParts } from "../../../src/dialects/openai/chat-parts.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";

const search = { type: "tool_search", execution: "client", description: "Finds tools.", parameters: { type: "object", properties: {} } };
const found = {
  type: "namespace",
  name: "mail",
  tools: [{ type: "function", name: "send", parameters: { type: "object", properties: {} } }],
};

function conversationOf(fields: Readonly<Record<string, unknown>>): Conversation {
  const body = new TextEncoder().encode(JSON.stringify({ model: "m", input: "hi", tools: [search], ...fields }));
  const facts = openaiResponses.parse(body);
  if (isFailure(facts)) throw new Error(facts.detail);
  expect(facts.hostedTools).toBe(false);
  const conversation = facts.toConversation(facts);
  if (isFailure(conversation)) throw new Error(conversation.detail);
  return conversation;
}

describe("a search for tools that the client does itself", () => {
  test("is declared as a function", () => {
    const { tools, uncarried } = conversationOf({});
    expect(tools).toMatchObject([{ name: "tool_search", description: "Finds tools.", search: true }]);
    expect(uncarried).toEqual([]);
  });

  test("is left behind where the upstream would do it", () => {
    const { tools, uncarried } = conversationOf({ tools: [{ type: "tool_search" }] });
    expect(tools).toEqual([]);
    expect(uncarried).toEqual(["tools.tool_search"]);
  });

  test("comes back with what it found, which is declared from then on, once", () => {
    const output = { type: "tool_search_output", execution: "client", call_id: "c1", status: "completed", tools: [found] };
    const { turns, tools } = conversationOf({
      input: [
        { role: "user", content: "hi" },
        { type: "tool_search_call", execution: "client", call_id: "c1", status: "completed", arguments: { query: "mail" } },
        output,
        { type: "tool_search_call", execution: "client", call_id: "c2", status: "completed", arguments: { query: "post" } },
        { ...output, call_id: "c2" },
      ],
    });
    expect(tools.map(({ name, namespace }) => [namespace, name])).toEqual([
      [undefined, "tool_search"],
      ["mail", "send"],
    ]);
    expect(turns.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant", "tool"]);
    expect(turns[1]?.parts).toMatchObject([{ kind: "tool_call", id: "c1", name: "tool_search", arguments: '{"query":"mail"}' }]);
    const result = turns[2]?.parts[0];
    const text = result?.kind === "tool_result" ? JSON.stringify(result.content) : "";
    expect(text).toContain("mail__send");
  });

  test("is asked for by an item of its own, with arguments that are an object", () => {
    const context: AnswerContext = {
      request: { model: "m", promptTokensEstimate: 1, maxCompletionTokens: null, echo: {} },
      idSeed: "0",
      nowSeconds: 0,
      seal: null,
    };
    const reader = new ChunkParts(conversationOf({}).tools);
    const writer = openaiResponses.writer(context);
    const call = (piece: Readonly<Record<string, unknown>>): Uint8Array =>
      writer.write(reader.read({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...piece }] } }] }));
    const frames = [
      call({ id: "c1", function: { name: "tool_search", arguments: "" } }),
      call({ function: { arguments: '{"query":' } }),
      call({ function: { arguments: '"mail"}' } }),
      writer.end(),
    ];
    const text = frames.map((bytes) => new TextDecoder().decode(bytes)).join("");
    const done = JSON.parse(/event: response\.output_item\.done\ndata: (.*)/.exec(text)?.[1] ?? "null") as { readonly item: unknown };
    expect(done.item).toEqual({
      id: "tsc_00000",
      type: "tool_search_call",
      status: "completed",
      execution: "client",
      call_id: "c1",
      arguments: { query: "mail" },
    });
    expect(text).not.toContain("function_call_arguments");
  });
});
