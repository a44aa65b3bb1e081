import { describe, expect, test } from "bun:test";
import { cohere } from "../../../../src/dialects/cohere/cohere.ts";
import { CohereStream, readCohere } from "../../../../src/dialects/cohere/cohere-answer.ts";
import { EventReader } from "../../../../src/dialects/readers/event-reader.ts";
import type { StreamPart } from "../../../../src/operations/conversation/answer-parts.ts";
import { isFailure } from "../../../../src/operations/failure.ts";
import { collectStream, type CollectedStream } from "../../../support/collected-stream.ts";
import { bytewise } from "../../../support/cuts.ts";

const encoder = new TextEncoder();

function whole(answer: unknown) {
  const read = readCohere(encoder.encode(JSON.stringify(answer)), []);
  if (isFailure(read)) throw new Error(read.detail);
  return read;
}

const usage = {
  billed_units: { input_tokens: 46, output_tokens: 14 },
  tokens: { input_tokens: 1445, output_tokens: 43 },
  cached_tokens: 704,
};

describe("a whole answer of Cohere", () => {
  test("is read with its plan, thoughts, texts, calls and what is billed", () => {
    const {
      answer,
      finish,
      usage: counted,
    } = whole({
      id: "c1",
      finish_reason: "TOOL_CALL",
      message: {
        role: "assistant",
        tool_plan: "I look.",
        content: [
          { type: "thinking", thinking: "hm" },
          { type: "text", text: "hello" },
        ],
        tool_calls: [
          { id: "t1", type: "function", function: { name: "look", arguments: '{"q":1}' } },
          { id: "t2", type: "function", function: { name: "now", arguments: "null" } },
        ],
        citations: [],
      },
      usage,
    });
    expect(answer?.id).toBe("c1");
    expect(answer?.parts).toEqual([
      { kind: "reasoning", text: "I look.", signature: null },
      { kind: "reasoning", text: "hm", signature: null },
      { kind: "text", text: "hello" },
      { kind: "tool_call", id: "t1", name: "look", arguments: '{"q":1}' },
      { kind: "tool_call", id: "t2", name: "now", arguments: "{}" },
    ]);
    expect(finish).toBe("tool_calls");
    expect(counted).toEqual({ promptTokens: 46, completionTokens: 14, cachedTokens: null, reasoningTokens: null });
  });

  test.each([
    ["COMPLETE", "stop"],
    ["STOP_SEQUENCE", "stop"],
    ["MAX_TOKENS", "length"],
    ["SOMETHING_NEW", "stop"],
  ])("that finished with %s finishes with %s", (reason, finish) => {
    expect(whole({ finish_reason: reason, message: { content: [{ type: "text", text: "a" }] } }).finish).toBe(finish);
  });

  test.each([
    [{ finish_reason: "ERROR", message: { content: [] } }, "model_failed"],
    [{ message: "no such thing" }, "bad_response"],
    [{}, "bad_response"],
    [[], "bad_response"],
    [null, "bad_response"],
  ])("of %j is a failure", (answer, kind) => {
    expect(readCohere(encoder.encode(JSON.stringify(answer)), [])).toMatchObject({ kind });
  });
});

function stream(pieces: readonly Uint8Array[]): CollectedStream {
  return collectStream(new EventReader(new CohereStream([])), pieces);
}

function events(...bodies: readonly unknown[]): Uint8Array {
  return encoder.encode(bodies.map((body) => `event: ${(body as { type: string }).type}\ndata: ${JSON.stringify(body)}\n\n`).join(""));
}

const content = (piece: Record<string, string>, type = "content-delta") => ({ type, index: 0, delta: { message: { content: piece } } });
const toolCall = (type: string, call: unknown) => ({ type, index: 0, delta: { message: { tool_calls: call } } });
const start = { id: "c1", type: "message-start", delta: { message: { role: "assistant", content: [], tool_plan: "", tool_calls: [] } } };
const end = (reason: string) => ({ type: "message-end", delta: { finish_reason: reason, usage } });

/** In the order and the shapes of recorded streams, one of which has a call without any arguments. */
const long = [
  start,
  { type: "tool-plan-delta", delta: { message: { tool_plan: "I will" } } },
  { type: "tool-plan-delta", delta: { message: { tool_plan: " look." } } },
  content({ type: "thinking", thinking: "" }, "content-start"),
  content({ thinking: "hm" }),
  { type: "content-end", index: 0 },
  content({ type: "text", text: "Hé" }, "content-start"),
  content({ text: "llo" }),
  { type: "citation-start", index: 0, delta: { message: { citations: { start: 0, end: 1, text: "H", sources: [] } } } },
  { type: "citation-end", index: 0 },
  { type: "content-end", index: 1 },
  toolCall("tool-call-start", { id: "t1", type: "function", function: { name: "look", arguments: '{"' } }),
  toolCall("tool-call-delta", { function: { arguments: 'q":1}' } }),
  { type: "tool-call-end", index: 0 },
  toolCall("tool-call-start", { id: "t2", type: "function", function: { name: "now", arguments: "" } }),
  { type: "tool-call-end", index: 1 },
  end("TOOL_CALL"),
];
const longParts: readonly StreamPart[] = [
  { kind: "start", id: "c1", model: null, createdSeconds: null },
  { kind: "reasoning", text: "I will" },
  { kind: "reasoning", text: " look." },
  { kind: "reasoning", text: "hm" },
  { kind: "text", text: "Hé" },
  { kind: "text", text: "llo" },
  { kind: "tool_call", index: 0, id: "t1", name: "look" },
  { kind: "tool_arguments", index: 0, text: '{"' },
  { kind: "tool_arguments", index: 0, text: 'q":1}' },
  { kind: "tool_call", index: 1, id: "t2", name: "now" },
  { kind: "tool_arguments", index: 1, text: "{}" },
  { kind: "finish", finish: { reason: "tool_calls", stopSequence: null } },
];

describe("a stream of Cohere", () => {
  test("says its parts in order, reports what is billed, and ends once", () => {
    const { parts, emissions, failure } = stream([events(...long)]);
    expect(failure).toBeNull();
    expect(parts).toEqual([...longParts]);
    expect(emissions.slice(-2)).toEqual([
      { kind: "usage", frame: null, usage: { promptTokens: 46, completionTokens: 14, cachedTokens: null, reasoningTokens: null } },
      { kind: "end", frame: new Uint8Array(), finish: "tool_calls" },
    ]);
  });

  test("says the same cut at every byte", () => {
    const bytes = events(...long);
    expect(stream(bytewise(bytes)).parts).toEqual([...longParts]);
    for (let at = 1; at < bytes.length; at += 11) {
      expect(stream([bytes.subarray(0, at), bytes.subarray(at)]).parts).toEqual([...longParts]);
    }
  });

  test("that breaks off between two events is a failure, never an end", () => {
    for (let length = 0; length < long.length; length += 1) {
      const { failure, emissions } = stream([events(...long.slice(0, length))]);
      expect([length, failure?.kind]).toEqual([length, length < 2 ? "bad_response" : "interrupted"]);
      expect(emissions.some(({ kind }) => kind === "end")).toBe(false);
    }
  });

  test("that ends with an error is a failure", () => {
    expect(stream([events(start, end("ERROR"))]).failure).toMatchObject({ kind: "model_failed" });
    expect(stream([events(start, content({ text: "a" }), end("ERROR"))]).failure).toMatchObject({ kind: "interrupted" });
  });

  test("passes over events that it does not know", () => {
    const { failure, emissions } = stream([events(start, { type: "debug" }, content({ text: "a" }), end("COMPLETE"))]);
    expect(failure).toBeNull();
    expect(emissions.at(-1)).toMatchObject({ kind: "end", finish: "stop" });
  });
});

describe("an error response of Cohere", () => {
  test.each([
    [400, "too many tokens: total number of tokens in the prompt cannot exceed 128000", "context_length"],
    [400, "invalid request: messages must not be empty", "invalid_request"],
    [401, "invalid api token", "unauthorized"],
    [402, "billing limit reached", "quota_exhausted"],
    [404, "model 'x' not found", "model_missing"],
    [429, "You are using a Trial key, which is limited to 20 API calls / minute.", "rate_limited"],
    [429, "You are using a Trial key, which is limited to 1000 API calls / month.", "quota_exhausted"],
    [500, "internal server error", "overloaded"],
  ])("%d %j is explained", (status, message, kind) => {
    expect(cohere.chat?.explain({ status, header: () => null, body: JSON.stringify({ message }) })).toMatchObject({ kind });
  });

  test("and the list of models is read by its names", () => {
    expect(cohere.models?.read('{"models":[{"name":"command-a"},{"name":""},null,{}]}')).toEqual(["command-a"]);
    expect(cohere.models?.read("[]")).toBeNull();
    expect(cohere.models?.read("<html>")).toBeNull();
  });
});
