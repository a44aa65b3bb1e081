import { describe, expect, test } from "bun:test";
import type { Conversation } from "../../../src/operations/conversation/conversation.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";

function read(fields: Readonly<Record<string, unknown>>): Conversation | Failure {
  const facts = openaiResponses.parse(new TextEncoder().encode(JSON.stringify({ model: "m", input: "hi", ...fields })));
  return isFailure(facts) ? facts : facts.toConversation(facts);
}

const tools = [
  { type: "function", name: "f", parameters: { type: "object", properties: {} } },
  { type: "custom", name: "patch" },
  { type: "namespace", name: "mail", tools: [{ type: "function", name: "send", parameters: { type: "object", properties: {} } }] },
];

describe("the choice of a tool", () => {
  test.each([
    ["auto", { kind: "auto" }, ["f", "patch", "send"]],
    [{ type: "function", name: "f" }, { kind: "named", name: "f" }, ["f", "patch", "send"]],
    [{ type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "f" }] }, { kind: "required" }, ["f"]],
    [{ type: "allowed_tools", mode: "auto", tools: [{ type: "custom", name: "patch" }] }, { kind: "auto" }, ["patch"]],
    [{ type: "allowed_tools", mode: "auto", tools: [{ type: "namespace", name: "mail" }] }, { kind: "auto" }, ["send"]],
    [{ type: "allowed_tools", mode: "auto", tools: [{ type: "web_search" }] }, null, []],
  ])("%j is kept to, and tools that are not allowed are not told", (choice, toolChoice, names) => {
    const conversation = read({ tools, tool_choice: choice });
    if (isFailure(conversation)) throw new Error(conversation.detail);
    const told: readonly unknown[] = [conversation.toolChoice, conversation.tools.map(({ name }) => name), conversation.uncarried];
    expect(told).toEqual([toolChoice, names, []]);
  });
});

test("log probabilities are not left out in silence: another channel may have them", () => {
  expect(read({ include: ["message.output_text.logprobs"], top_logprobs: 2 })).toMatchObject({ kind: "unsupported", param: "include" });
  expect(read({ include: ["reasoning.encrypted_content"] })).toMatchObject({ uncarried: [] });
});
