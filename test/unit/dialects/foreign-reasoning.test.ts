import { expect, test } from "bun:test";
import fc from "fast-check";
import { foreignReasoning } from "../../../src/dialects/openai/foreign-reasoning.ts";
import { removals, splice } from "../../../src/operations/splice.ts";
import { elementsOf, scanJson } from "../../../src/operations/json.ts";
import { askOf } from "../../support/chat-surface.ts";

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** What an upstream of the same API is sent of a message. */
function sent(message: string, needsReasoning = false): string {
  const ask = askOf(`{"model":"m","messages":[{"role":"user","content":"x"}, ${message}]}`);
  const text = new TextDecoder().decode(splice(ask.body, foreignReasoning(ask, needsReasoning)));
  return text.slice('{"model":"m","messages":[{"role":"user","content":"x"}, '.length, -2);
}

const sealed = '[{"type":"reasoning.encrypted","data":"sluice-v1.x"}]';

test("what the gateway sealed for a client is not sent to an upstream that speaks the client's API", () => {
  expect(sent(`{"role":"assistant","content":"a", "reasoning_details":${sealed}}`)).toBe('{"role":"assistant","content":"a"}');
  expect(sent(`{"reasoning_details" : ${sealed}, "role":"assistant","content":"a"}`)).toBe('{"role":"assistant","content":"a"}');
  expect(sent(`{"role":"assistant","reasoning_content":"t","reasoning_details":${sealed},"content":1.0}`, true)).toBe(
    '{"role":"assistant","reasoning_content":"","content":1.0}',
  );
  expect(sent(`{"role":"assistant","reasoning_content":"t","reasoning":"t","reasoning_details":${sealed},"content":1.0}`)).toBe(
    '{"role":"assistant","content":1.0}',
  );
  const extra = '{"google":{"thought_signature":"sluice-v1.x"}}';
  expect(
    sent(`{"role":"assistant","tool_calls":[{"id":"1","extra_content":${extra},"type":"function"},{"extra_content":${extra},"id":"2"}]}`),
  ).toBe('{"role":"assistant","tool_calls":[{"id":"1","type":"function"},{"id":"2"}]}');
});

test("what an upstream of the client's API wrote itself goes back as it came", () => {
  const own = [
    '{"role":"assistant","content":"a", "reasoning_content":"t","reasoning_details":[{"type":"reasoning.text","signature":"s"}]}',
    '{"role":"assistant","tool_calls":[{"id":"1","extra_content":{"google":{"thought_signature":"s"}}}]}',
  ];
  for (const message of own) expect(sent(message, true)).toBe(message);
  // Somebody only talks about it.
  const quoted = '{"role":"assistant","reasoning_content":"t","content":"It begins with sluice-v1."}';
  expect(sent(quoted, true)).toBe(quoted);
});

test("elements are cut out of a list with their commas, whichever they are", () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 8 }), (kept) => {
      const json = bytesOf(`[ ${kept.map((_, index) => ` ${index} `).join(",")} ]`);
      const elements = elementsOf(json, 0, json.length);
      const left = splice(
        json,
        removals(
          elements,
          elements.filter((_, index) => kept[index] === true),
        ),
      );
      expect(scanJson(left).ok).toBe(true);
      expect(JSON.parse(new TextDecoder().decode(left))).toEqual(kept.flatMap((isKept, index) => (isKept ? [index] : [])));
    }),
  );
});
