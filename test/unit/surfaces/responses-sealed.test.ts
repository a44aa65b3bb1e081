import { describe, expect, test } from "bun:test";
import type { ChatAnswer, StreamPart } from "../../../src/operations/conversation/answer-parts.ts";
import type { ConversationTurn, Part } from "../../../src/operations/conversation/conversation.ts";
import type { AnswerContext } from "../../../src/operations/conversation/surface.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { openaiResponses } from "../../../src/surfaces/openai-responses/index.ts";

/** As the gateway does it: what has no signature is not sealed. */
function seal(part: Part): string {
  if (!("signature" in part) || part.signature == null) return "";
  return `sluice-v1.${part.kind}.${part.kind === "tool_call" ? part.id : part.text}`;
}

const context: AnswerContext = {
  request: { model: "m", promptTokensEstimate: 1, maxCompletionTokens: null, echo: {} },
  idSeed: "seed",
  nowSeconds: 1,
  seal,
};
const value = { dialect: "other", data: "x" };
const own = { dialect: "openai-responses", data: "their own" };

/** Every item in short: its type, and what it carries. */
function outline(output: readonly unknown[]): readonly string[] {
  return (output as readonly OutlinedItem[]).map(
    ({ type, summary, encrypted_content, call_id }) => `${type} ${encrypted_content ?? call_id ?? JSON.stringify(summary) ?? ""}`,
  );
}

interface OutlinedItem {
  readonly type: string;
  readonly summary?: readonly unknown[];
  readonly encrypted_content?: string;
  readonly call_id?: string;
}

function whole(...parts: readonly Part[]): readonly string[] {
  const answer: ChatAnswer = {
    id: null,
    model: null,
    createdSeconds: null,
    parts,
    finish: { reason: "stop", stopSequence: null },
    usage: null,
  };
  return outline((JSON.parse(new TextDecoder().decode(openaiResponses.whole(answer, context))) as { output: unknown[] }).output);
}

function streamed(...parts: readonly StreamPart[]): readonly string[] {
  const writer = openaiResponses.writer(context);
  const text = [...parts.map((part) => writer.write([part])), writer.end()].map((bytes) => new TextDecoder().decode(bytes)).join("");
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(
    ([, data]) => JSON.parse(data!) as { type: string; item?: unknown; response?: unknown },
  );
  const done = events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
  const { output } = events.at(-1)!.response as { output: unknown[] };
  expect(output).toEqual(done);
  return outline(output);
}

describe("what only its provider understands", () => {
  test("is carried by reasoning items, and a call keeps the id that its signature has", () => {
    const items = [
      "reasoning sluice-v1.reasoning.hm",
      "reasoning sluice-v1.reasoning.",
      "message ",
      "reasoning sluice-v1.text.so",
      "reasoning sluice-v1.tool_call.call_seed0004",
      "function_call call_seed0004",
    ];
    expect(
      whole(
        { kind: "reasoning", text: "hm", signature: value },
        { kind: "reasoning", text: "", signature: value, redacted: true },
        { kind: "text", text: "so", signature: value },
        { kind: "tool_call", id: "", name: "f", arguments: "{}", signature: value },
      ),
    ).toEqual(items);
    expect(
      streamed(
        { kind: "reasoning", text: "h" },
        { kind: "reasoning", text: "m" },
        { kind: "reasoning_signature", signature: value, redacted: false },
        { kind: "reasoning_signature", signature: value, redacted: true },
        { kind: "text", text: "so" },
        { kind: "text_signature", signature: value },
        { kind: "tool_call", index: 0, id: "", name: "f", signature: value },
      ),
    ).toEqual(items);
  });

  test("is not sealed where it is of this API", () => {
    expect(whole({ kind: "reasoning", text: "hm", signature: own })).toEqual(["reasoning their own"]);
  });

  test("covers the thought of one channel only", () => {
    const start: StreamPart = { kind: "start", id: null, model: null, createdSeconds: null };
    const signature: StreamPart = { kind: "reasoning_signature", signature: value, redacted: false };
    expect(streamed({ kind: "reasoning", text: "broken" }, start, { kind: "reasoning", text: "whole" }, signature)).toEqual([
      'reasoning [{"type":"summary_text","text":"broken"}]',
      "reasoning sluice-v1.reasoning.whole",
    ]);
  });

  test("does not divide the answer that it comes back in", () => {
    const call = (id: string): object => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
    const sealed = (data: string): object => ({ type: "reasoning", summary: [], encrypted_content: data });
    const input = [{ role: "user", content: "hi" }, call("a"), sealed("sluice-v1.x"), call("b"), sealed("foreign"), call("c")];
    const request = openaiResponses.parse(new TextEncoder().encode(JSON.stringify({ model: "m", input })));
    const conversation = isFailure(request) ? request : request.toConversation(request);
    if (isFailure(conversation)) throw new Error(conversation.detail);
    const kinds = conversation.turns.map(({ role, parts }: ConversationTurn) => [role, ...parts.map(({ kind }) => kind)].join(" "));
    expect(kinds).toEqual(["user text", "assistant tool_call reasoning tool_call", "assistant reasoning tool_call"]);
  });
});
