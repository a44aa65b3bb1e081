import { describe, expect, test } from "bun:test";
import { explainAws } from "../../../../src/dialects/bedrock/bedrock-errors.ts";
import { readConverse } from "../../../../src/dialects/bedrock/converse-answer.ts";
import { ConverseStream } from "../../../../src/dialects/bedrock/converse-stream.ts";
import { EventStreamReader } from "../../../../src/dialects/bedrock/event-stream-reader.ts";
import type { StreamPart } from "../../../../src/operations/conversation/answer-parts.ts";
import type { Tool } from "../../../../src/operations/conversation/conversation.ts";
import { isFailure } from "../../../../src/operations/failure.ts";
import { collectStream, type CollectedStream } from "../../../support/collected-stream.ts";
import { bytewise } from "../../../support/cuts.ts";
import { awsEvent, awsException, eventStreamMessage } from "../../../support/event-stream.ts";

const patch: Tool = { name: "patch", description: null, parameters: null, strict: null, custom: { format: null } };
const encoder = new TextEncoder();

function whole(answer: unknown) {
  const read = readConverse(encoder.encode(JSON.stringify(answer)), [patch]);
  if (isFailure(read)) throw new Error(read.detail);
  return read;
}

const answered = (content: readonly unknown[], more: Record<string, unknown> = {}) => ({
  output: { message: { role: "assistant", content } },
  stopReason: "end_turn",
  usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
  metrics: { latencyMs: 1 },
  ...more,
});

describe("a whole Converse answer", () => {
  test("is read with its texts, calls, reasoning and usage", () => {
    const { answer, usage, finish } = whole(
      answered(
        [
          { reasoningContent: { reasoningText: { text: "hm", signature: "sig" } } },
          { reasoningContent: { redactedContent: "cmVk" } },
          { text: "hello" },
          { citationsContent: { content: [{ text: " cited" }], citations: [] } },
          { toolUse: { toolUseId: "t1", name: "look", input: { q: 1 } } },
          { toolUse: { toolUseId: "t2", name: "patch", input: { input: "*** Begin" } } },
        ],
        { stopReason: "tool_use", usage: { inputTokens: 10, outputTokens: 5, cacheReadInputTokens: 100, cacheWriteInputTokens: 20 } },
      ),
    );
    expect(answer?.parts).toEqual([
      { kind: "reasoning", text: "hm", signature: { dialect: "bedrock-converse", data: "sig" } },
      { kind: "reasoning", text: "", signature: { dialect: "bedrock-converse", data: "cmVk" }, redacted: true },
      { kind: "text", text: "hello" },
      { kind: "text", text: " cited" },
      { kind: "tool_call", id: "t1", name: "look", arguments: '{"q":1}' },
      { kind: "tool_call", id: "t2", name: "patch", custom: true, arguments: "*** Begin" },
    ]);
    expect(usage).toEqual({ promptTokens: 130, completionTokens: 5, cachedTokens: 100, reasoningTokens: null, cacheWriteTokens: 20 });
    expect(finish).toBe("tool_calls");
  });

  test("keeps the digits of long numbers in calls", () => {
    const body = JSON.stringify(answered([{ text: "I look." }, { toolUse: { toolUseId: "t1", name: "look", input: { id: "LONG" } } }]));
    const read = readConverse(encoder.encode(body.replace('"LONG"', "1234567890123456789")), [patch]);
    const parts = isFailure(read) ? [] : read.answer?.parts;
    expect(parts?.[1]).toEqual({ kind: "tool_call", id: "t1", name: "look", arguments: '{"id":1234567890123456789}' });
  });

  test("counts what is cached for an hour apart, as it costs more", () => {
    const cacheDetails = [
      { inputTokens: 5, ttl: "5m" },
      { inputTokens: 15, ttl: "1h" },
    ];
    const { usage } = whole(answered([], { usage: { inputTokens: 1, outputTokens: 2, cacheWriteInputTokens: 20, cacheDetails } }));
    expect(usage).toMatchObject({ promptTokens: 21, cacheWriteTokens: 20, cacheWriteHourTokens: 15 });
  });

  test.each([
    ["end_turn", "stop"],
    ["stop_sequence", "stop"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["content_filtered", "content_filter"],
    ["guardrail_intervened", "content_filter"],
    ["something_new", "stop"],
  ])("that stopped for %s finishes with %s", (stopReason, finish) => {
    expect(whole(answered([{ text: "a" }], { stopReason })).finish).toBe(finish);
  });

  test.each([
    ["malformed tool use", answered([], { stopReason: "malformed_tool_use" }), "model_failed"],
    ["no message", {}, "bad_response"],
    ["no content", { output: { message: { role: "assistant" } } }, "bad_response"],
    ["an array", [], "bad_response"],
    ["null", null, "bad_response"],
  ])("with %s is a failure", (_, answer, kind) => {
    expect(readConverse(encoder.encode(JSON.stringify(answer)), [])).toMatchObject({ kind });
  });

  test.each(["", "{", "<html>"])("of %j is a failure", (body) => {
    expect(readConverse(encoder.encode(body), [])).toMatchObject({ kind: "bad_response" });
  });
});

function stream(pieces: readonly Uint8Array[], tools: readonly Tool[] = [patch]): CollectedStream {
  return collectStream(new EventStreamReader(new ConverseStream(tools)), pieces);
}

const start = awsEvent("messageStart", { role: "assistant" });
const text = (value: string): Uint8Array => awsEvent("contentBlockDelta", { contentBlockIndex: 0, delta: { text: value } });
const stopBlock = (contentBlockIndex: number): Uint8Array => awsEvent("contentBlockStop", { contentBlockIndex });
const stop = (stopReason: string): Uint8Array => awsEvent("messageStop", { stopReason });
const metadata = awsEvent("metadata", { usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 }, metrics: { latencyMs: 1 } });
const started: StreamPart = { kind: "start", id: null, model: null, createdSeconds: null };
const finished = (reason: "stop" | "tool_calls"): StreamPart => ({ kind: "finish", finish: { reason, stopSequence: null } });

const long: readonly Uint8Array[] = [
  start,
  awsEvent("contentBlockDelta", { contentBlockIndex: 0, delta: { reasoningContent: { text: "hm" } } }),
  awsEvent("contentBlockDelta", { contentBlockIndex: 0, delta: { reasoningContent: { signature: "si" } } }),
  awsEvent("contentBlockDelta", { contentBlockIndex: 0, delta: { reasoningContent: { signature: "g" } } }),
  stopBlock(0),
  awsEvent("contentBlockDelta", { contentBlockIndex: 1, delta: { reasoningContent: { redactedContent: "cmVk" } } }),
  stopBlock(1),
  awsEvent("contentBlockStart", { contentBlockIndex: 2, start: {} }),
  awsEvent("contentBlockDelta", { contentBlockIndex: 2, delta: { text: "héllo" } }),
  stopBlock(2),
  awsEvent("contentBlockStart", { contentBlockIndex: 3, start: { toolUse: { toolUseId: "t1", name: "look" } } }),
  awsEvent("contentBlockDelta", { contentBlockIndex: 3, delta: { toolUse: { input: '{"q"' } } }),
  awsEvent("contentBlockDelta", { contentBlockIndex: 3, delta: { toolUse: { input: ":1}" } } }),
  stopBlock(3),
  awsEvent("contentBlockStart", { contentBlockIndex: 4, start: { toolUse: { toolUseId: "t2", name: "none" } } }),
  stopBlock(4),
  awsEvent("contentBlockStart", { contentBlockIndex: 5, start: { toolUse: { toolUseId: "t3", name: "patch" } } }),
  awsEvent("contentBlockDelta", { contentBlockIndex: 5, delta: { toolUse: { input: '{"input":"a\\nb"}' } } }),
  stopBlock(5),
  stop("tool_use"),
  metadata,
];
const longParts: readonly StreamPart[] = [
  started,
  { kind: "reasoning", text: "hm" },
  { kind: "reasoning_signature", signature: { dialect: "bedrock-converse", data: "sig" }, redacted: false },
  { kind: "reasoning_signature", signature: { dialect: "bedrock-converse", data: "cmVk" }, redacted: true },
  { kind: "text", text: "héllo" },
  { kind: "tool_call", index: 0, id: "t1", name: "look" },
  { kind: "tool_arguments", index: 0, text: '{"q"' },
  { kind: "tool_arguments", index: 0, text: ":1}" },
  { kind: "tool_call", index: 1, id: "t2", name: "none" },
  { kind: "tool_arguments", index: 1, text: "{}" },
  { kind: "tool_call", index: 2, id: "t3", name: "patch", custom: true },
  { kind: "tool_arguments", index: 2, text: "a\nb" },
  finished("tool_calls"),
];

describe("a Converse stream", () => {
  test("says its parts in order, and ends once", () => {
    const { parts, emissions, failure } = stream(long);
    expect(failure).toBeNull();
    expect(parts).toEqual([...longParts]);
    expect(emissions.filter(({ kind }) => kind === "usage" || kind === "end")).toEqual([
      { kind: "usage", frame: null, usage: { promptTokens: 3, completionTokens: 2, cachedTokens: null, reasoningTokens: null } },
      { kind: "end", frame: new Uint8Array(), finish: "tool_calls" },
    ]);
  });

  test("says the same cut at every byte", () => {
    const bytes = new Uint8Array(Buffer.concat(long));
    expect(stream(bytewise(bytes)).parts).toEqual([...longParts]);
    for (let at = 0; at < bytes.length; at += 7) {
      expect(stream([bytes.subarray(0, at), bytes.subarray(at)]).parts).toEqual([...longParts]);
    }
  });

  test("that breaks off anywhere before its end is a failure, never an end", () => {
    const bytes = new Uint8Array(Buffer.concat([start, text("a"), stopBlock(0), stop("end_turn")]));
    const outputAt = start.length + text("a").length;
    for (let at = 0; at < bytes.length; at += 1) {
      const { failure, emissions } = stream([bytes.subarray(0, at)]);
      expect([at, failure?.kind]).toEqual([at, at < outputAt ? "bad_response" : "interrupted"]);
      expect(emissions.some(({ kind }) => kind === "end")).toBe(false);
    }
    expect(stream([bytes]).emissions.at(-1)).toMatchObject({ kind: "end", finish: "stop" });
  });

  test("may report its usage before its stop reason", () => {
    const { emissions } = stream([start, text("a"), metadata, stop("end_turn")]);
    expect(emissions.map(({ kind }) => kind)).toEqual(["delta", "delta", "usage", "delta", "end"]);
  });

  test.each([
    ["throttlingException", "rate_limited"],
    ["serviceUnavailableException", "overloaded"],
    ["internalServerException", "overloaded"],
    ["modelStreamErrorException", "overloaded"],
    ["modelTimeoutException", "timed_out"],
    ["validationException", "invalid_request"],
    ["accessDeniedException", "unauthorized"],
  ] as const)("with a %s before its output is %s, and interrupted after it", (type, kind) => {
    expect(stream([start, awsException(type, "no")]).failure).toMatchObject({ kind });
    const after = stream([start, text("a"), awsException(type, "no")]);
    expect(after.failure).toMatchObject({ kind: "interrupted" });
    expect(after.parts).toEqual([started, { kind: "text", text: "a" }]);
  });

  test("with an exception as the service was recorded to send it is a failure", () => {
    const recorded =
      "AAAA3QAAAGfHkZB6DTptZXNzYWdlLXR5cGUHAAlleGNlcHRpb24POmV4Y2VwdGlvbi10eXBlBwAZbW9kZWxTdHJlYW1FcnJvckV4Y2VwdGlvbg06Y29udGVudC10" +
      "eXBlBwAQYXBwbGljYXRpb24vanNvbnsibWVzc2FnZSI6Ik1vZGVsIFN0cmVhbSBFcnJvciIsIm9yaWdpbmFsU3RhdHVzQ29kZSI6NTAwLCJvcmlnaW5hbE1lc3Nh" +
      "Z2UiOiJUaGUgbW9kZWwgc3RyZWFtIGZhaWxlZC4ifVczQxM=";
    expect(stream([Buffer.from(recorded, "base64")]).failure).toMatchObject({ kind: "overloaded" });
  });

  test("with an error of the transport is a failure", () => {
    const error = eventStreamMessage({ ":message-type": "error", ":error-code": "InternalServerException", ":error-message": "no" }, "");
    expect(stream([start, error]).failure).toMatchObject({ kind: "overloaded" });
  });

  test("returns what was good before bytes that are not", () => {
    const { parts, failure } = stream([new Uint8Array(Buffer.concat([start, text("a"), Buffer.from("not a message at all")]))]);
    expect(parts).toEqual([started, { kind: "text", text: "a" }]);
    expect(failure).toMatchObject({ kind: "interrupted" });
  });

  test.each(["[]", "null", "{", '"x"', "1"])("with the event %s is a failure", (payload) => {
    const event = eventStreamMessage({ ":message-type": "event", ":event-type": "contentBlockDelta" }, payload);
    expect(stream([start, event]).failure).toMatchObject({ kind: "bad_response" });
  });

  test("passes over events that it does not know", () => {
    const { failure, parts } = stream([start, awsEvent("somethingNew", { a: 1 }), text("a"), stop("end_turn"), metadata]);
    expect(failure).toBeNull();
    expect(parts.at(-1)).toEqual(finished("stop"));
  });
});

describe("an error response", () => {
  test.each([
    [400, "ValidationException:http://internal.amazon.com/", "Input is too long for requested model.", "context_length"],
    [400, "ValidationException", "The provided model identifier is invalid.", "model_missing"],
    [400, "ValidationException", "messages.0 is not valid", "invalid_request"],
    [403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", "model_missing"],
    [403, "UnrecognizedClientException", "The security token included in the request is invalid.", "unauthorized"],
    [403, "ExpiredTokenException", "The security token included in the request is expired", "unauthorized"],
    [403, "InvalidSignatureException", "The request signature we calculated does not match", "unauthorized"],
    [404, "ResourceNotFoundException", "Could not resolve the foundation model from the provided model identifier.", "model_missing"],
    [429, "ThrottlingException", "Too many requests, please wait before trying again.", "rate_limited"],
    [400, "ServiceQuotaExceededException", "Too many tokens, please wait.", "rate_limited"],
    [424, "ModelErrorException", "The model failed.", "overloaded"],
    [408, "ModelTimeoutException", "Timed out.", "timed_out"],
    [500, "InternalServerException", "Oops.", "overloaded"],
    [503, "ServiceUnavailableException", "Busy.", "overloaded"],
  ] as const)("%d %s is explained by its class", (status, type, message, kind) => {
    const header = (name: string): string | null => (name === "x-amzn-errortype" ? type : null);
    expect(explainAws({ status, header, body: JSON.stringify({ message }) })).toMatchObject({ kind });
  });
});
