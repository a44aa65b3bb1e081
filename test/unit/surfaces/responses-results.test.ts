import { describe, expect, test } from "bun:test";
import { isFailure } from "../../../src/operations/failure.ts";
import type { ConversationTurn } from "../../../src/operations/conversation/conversation.ts";
import { FieldReader } from "../../../src/surfaces/field-reader.ts";
import { MessageReader } from "../../../src/surfaces/openai-chat/messages.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";
import { ItemReader } from "../../../src/surfaces/openai-responses/items.ts";
import { Uncarried } from "../../../src/surfaces/uncarried.ts";

const call = { type: "custom_tool_call", call_id: "c1", name: "exec", input: "notify('one')" };
const output = (text: string) => ({ type: "custom_tool_call_output", call_id: "c1", output: text });

function turnsOf(...input: readonly unknown[]): readonly ConversationTurn[] {
  const facts = openaiResponses.parse(new TextEncoder().encode(JSON.stringify({ model: "m", input })));
  const conversation = isFailure(facts) ? facts : facts.toConversation(facts);
  if (isFailure(conversation)) throw new Error(conversation.detail);
  return conversation.turns;
}

test("two results of one call become one, because upstreams take no more", () => {
  const turns = turnsOf({ role: "user", content: "hi" }, call, output("two"), output("one"));
  expect(turns.at(-1)).toEqual({
    role: "tool",
    parts: [
      {
        kind: "tool_result",
        callId: "c1",
        content: [
          { kind: "text", text: "two" },
          { kind: "text", text: "one" },
        ],
        isError: false,
      },
    ],
  });
});

test("a result that comes after the next answer is told by the user", () => {
  const turns = turnsOf({ role: "user", content: "hi" }, call, output("two"), { role: "assistant", content: "Good." }, output("one"));
  expect(turns.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
  expect(JSON.stringify(turns.at(-1))).toContain("one");
});

test("a result without its call is told by the user with all that it contains", () => {
  const image = { type: "input_image", image_url: "data:image/png;base64,AAAA" };
  const file = { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,BBBB" };
  const parts = [{ type: "input_text", text: "seen" }, image, file];
  expect(turnsOf({ role: "user", content: "hi" }, { type: "function_call_output", call_id: "gone", output: parts }).at(-1)).toEqual({
    role: "user",
    parts: [
      { kind: "text", text: "The result of an earlier tool call:" },
      { kind: "text", text: "seen" },
      { kind: "image", source: { kind: "data", mediaType: "image/png", data: "AAAA" } },
      { kind: "file", name: "a.pdf", source: { kind: "data", mediaType: "application/pdf", data: "BBBB" } },
    ],
  });
});

/** Quadratic work would take more than the limit. */
describe("many items are read in linear time", () => {
  const many = Array.from({ length: 100_000 }, (_, index) => index);
  const limitMs = 10_000;
  const function_call = { type: "function_call", call_id: "c1", name: "f", arguments: "{}" };

  function itemsRead(items: readonly unknown[]): readonly ConversationTurn[] {
    const reader = new ItemReader(new FieldReader(), new Uncarried());
    reader.read(items);
    return reader.turns;
  }

  test(
    "as the words of one answer",
    () => {
      const [turn, ...others] = itemsRead(many.map(() => ({ role: "assistant", content: "a" })));
      expect(turn?.parts.length).toBe(many.length);
      expect(others).toEqual([]);
    },
    limitMs,
  );

  test(
    "as the results of one call",
    () => {
      const outputs = many.map(() => ({ type: "function_call_output", call_id: "c1", output: "a" }));
      const result = itemsRead([function_call, ...outputs]).at(-1)?.parts[0];
      expect(result?.kind === "tool_result" && result.content.length).toBe(many.length);
    },
    limitMs,
  );

  test(
    "as the results of as many calls",
    () => {
      const calls = many.map((index) => ({ ...function_call, call_id: `c${index}` }));
      const outputs = many.map((index) => ({ type: "function_call_output", call_id: `c${index}`, output: "a" }));
      const turns = itemsRead([...calls, ...outputs]);
      expect(turns.map(({ role, parts }) => [role, parts.length])).toEqual([
        ["assistant", many.length],
        ["tool", many.length],
      ]);
    },
    limitMs,
  );

  test(
    "as messages of a chat with the results of one call",
    () => {
      const call = { role: "assistant", tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }] };
      const results = many.map(() => ({ role: "tool", tool_call_id: "c1", content: "a" }));
      const result = new MessageReader(new FieldReader(), new Uncarried()).read([call, ...results]).at(-1)?.parts[0];
      expect(result?.kind === "tool_result" && result.content.length).toBe(many.length);
    },
    limitMs,
  );
});
