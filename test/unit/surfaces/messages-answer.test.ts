import { describe, expect, test } from "bun:test";
import type { ErrorResponse, Message, MessageDeltaUsage, ModelInfo, Usage } from "@anthropic-ai/sdk/resources";
import type { ChatAnswer, Finish } from "../../../src/operations/conversation/answer-parts.ts";
import type { Part, ProviderValue } from "../../../src/operations/conversation/conversation.ts";
import type { AnswerContext, SurfaceFailure } from "../../../src/operations/conversation/surface.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { nothingCounted, type MeteredUsage } from "../../../src/operations/usage.ts";
import { modelBody, modelsBody, type ListedModel, type ModelsQuery } from "../../../src/surfaces/anthropic-messages/index.ts";
import { messageUsage } from "../../../src/surfaces/anthropic-messages/message.ts";
import { contextOf, surface, textOf } from "../../support/messages.ts";

const stop: Finish = { reason: "stop", stopSequence: null };

function messageOf(answer: Partial<ChatAnswer>, context: Partial<AnswerContext> = {}): Message {
  const whole: ChatAnswer = { id: "up-1", model: "served", createdSeconds: 1, parts: [], finish: stop, usage: null, ...answer };
  return JSON.parse(textOf(surface.whole(whole, contextOf(context)))) as Message;
}

function contentOf(parts: readonly Part[], context: Partial<AnswerContext> = {}): unknown {
  return messageOf({ parts }, context).content;
}

/** The official client's types say which fields there must be. */
const messageKeys: Record<keyof Message, true> = {
  ...{ id: true, type: true, role: true, model: true, content: true, usage: true },
  ...{ stop_reason: true, stop_sequence: true, stop_details: true, container: true, diagnostics: true },
};
const usageKeys: Record<keyof Usage, true> = {
  ...{ input_tokens: true, output_tokens: true, cache_creation: true, cache_creation_input_tokens: true, cache_read_input_tokens: true },
  ...{ inference_geo: true, output_tokens_details: true, server_tool_use: true, service_tier: true, speed: true },
};

describe("a whole answer", () => {
  test("has every field that the official client's types require", () => {
    const message = messageOf({ parts: [{ kind: "text", text: "Because." }] });
    expect(Object.keys(message).toSorted()).toEqual(Object.keys(messageKeys).toSorted());
    expect(Object.keys(message.usage).toSorted()).toEqual(Object.keys(usageKeys).toSorted());
    expect(message).toMatchObject({
      id: "msg_seed",
      type: "message",
      role: "assistant",
      model: "served",
      container: null,
      diagnostics: null,
    });
    // The compiler compares these.
    const usage: Usage = messageUsage(null, 1, 1);
    const delta: MessageDeltaUsage = messageUsage(null, 1, 1);
    expect(usage.input_tokens + delta.output_tokens).toBe(2);
  });

  test("has the model of the request where the upstream named none", () => {
    expect(messageOf({ model: null }).model).toBe("m");
  });

  const signature = (dialect: string): ProviderValue => ({ dialect, data: `of-${dialect}` });
  const seal = (part: Part): string => `sluice-v1.${part.kind}`;

  test.each<[string, Part, unknown]>([
    ["a text", { kind: "text", text: "hi" }, [{ type: "text", text: "hi", citations: null }]],
    ["no text", { kind: "text", text: "" }, []],
    [
      "a text with citations of this API",
      { kind: "text", text: "hi", citations: { dialect: "anthropic", data: '[{"type":"page_location"}]' } },
      [{ type: "text", text: "hi", citations: [{ type: "page_location" }] }],
    ],
    [
      "a text with citations of another",
      { kind: "text", text: "hi", citations: { dialect: "gemini", data: "[]" } },
      [{ type: "text", text: "hi", citations: null }],
    ],
    ["a refusal", { kind: "refusal", text: "no" }, [{ type: "text", text: "no", citations: null }]],
    [
      "reasoning that nobody signed",
      { kind: "reasoning", text: "hm", signature: null },
      [{ type: "thinking", thinking: "hm", signature: "" }],
    ],
    [
      "reasoning that was signed for this API",
      { kind: "reasoning", text: "hm", signature: signature("anthropic") },
      [{ type: "thinking", thinking: "hm", signature: "of-anthropic" }],
    ],
    [
      "reasoning that another provider signed",
      { kind: "reasoning", text: "hm", signature: signature("gemini") },
      [{ type: "thinking", thinking: "hm", signature: "" }],
    ],
    ["no reasoning", { kind: "reasoning", text: "", signature: null }, []],
    [
      "redacted reasoning",
      { kind: "reasoning", text: "", signature: signature("anthropic"), redacted: true },
      [{ type: "redacted_thinking", data: "of-anthropic" }],
    ],
    ["redacted reasoning of another provider", { kind: "reasoning", text: "", signature: signature("openai"), redacted: true }, []],
    [
      "a call",
      { kind: "tool_call", id: "call_1", name: "f", arguments: '{"a":1}' },
      [{ type: "tool_use", id: "call_1", name: "f", input: { a: 1 }, caller: { type: "direct" } }],
    ],
    [
      "a call without an id",
      { kind: "tool_call", id: "", name: "f", arguments: "" },
      [{ type: "tool_use", id: "toolu_seed_0", name: "f", input: {}, caller: { type: "direct" } }],
    ],
    [
      "a call with null",
      { kind: "tool_call", id: "c", name: "f", arguments: " null " },
      [{ type: "tool_use", id: "c", name: "f", input: {}, caller: { type: "direct" } }],
    ],
    [
      "a call with arguments that are no JSON",
      { kind: "tool_call", id: "c", name: "f", arguments: '{"a":' },
      [{ type: "tool_use", id: "c", name: "f", input: { _raw: '{"a":' }, caller: { type: "direct" } }],
    ],
    [
      "a call with arguments that are no object",
      { kind: "tool_call", id: "c", name: "f", arguments: "[1]" },
      [{ type: "tool_use", id: "c", name: "f", input: { _raw: "[1]" }, caller: { type: "direct" } }],
    ],
    [
      "a call with free text",
      { kind: "tool_call", id: "c", name: "f", arguments: "x > y", custom: true },
      [{ type: "tool_use", id: "c", name: "f", input: { input: "x > y" }, caller: { type: "direct" } }],
    ],
  ])("holds %s", (_, part, blocks) => {
    expect(contentOf([part])).toEqual(blocks);
  });

  test("seals what another provider signed, where it can, beside what has no place for a signature", () => {
    const parts: readonly Part[] = [
      { kind: "reasoning", text: "hm", signature: signature("gemini") },
      { kind: "reasoning", text: "", signature: signature("openai"), redacted: true },
      { kind: "text", text: "so", signature: signature("gemini") },
      { kind: "tool_call", id: "c", name: "f", arguments: "{}", signature: signature("gemini") },
    ];
    expect(contentOf(parts, { seal })).toEqual([
      { type: "thinking", thinking: "hm", signature: "sluice-v1.reasoning" },
      { type: "redacted_thinking", data: "sluice-v1.reasoning" },
      { type: "text", text: "so", citations: null },
      { type: "redacted_thinking", data: "sluice-v1.text" },
      { type: "redacted_thinking", data: "sluice-v1.tool_call" },
      { type: "tool_use", id: "c", name: "f", input: {}, caller: { type: "direct" } },
    ]);
    expect(contentOf([{ kind: "reasoning", text: "hm", signature: signature("anthropic") }], { seal })).toEqual([
      { type: "thinking", thinking: "hm", signature: "of-anthropic" },
    ]);
  });

  test("has the digits of arguments as the upstream wrote them", () => {
    const call: Part = { kind: "tool_call", id: "c", name: "f", arguments: '{"id":12345678901234567890}' };
    const body = surface.whole({ id: null, model: null, createdSeconds: null, parts: [call], finish: stop, usage: null }, contextOf());
    expect(textOf(body)).toContain('"input":{"id":12345678901234567890}');
  });

  const text: Part = { kind: "text", text: "x" };
  const call: Part = { kind: "tool_call", id: "c", name: "f", arguments: "{}" };
  test.each<[Finish["reason"], string | null, readonly Part[], string, string | null]>([
    ["stop", null, [text], "end_turn", null],
    ["stop", "END", [text], "stop_sequence", "END"],
    ["length", null, [text], "max_tokens", null],
    ["length", null, [call], "max_tokens", null],
    ["tool_calls", null, [call], "tool_use", null],
    ["stop", null, [text, call], "tool_use", null],
    ["tool_calls", null, [text], "end_turn", null],
    ["content_filter", null, [text], "refusal", null],
    ["stop", null, [{ kind: "refusal", text: "no" }], "refusal", null],
  ])("that ended with %s (%s)", (reason, stopSequence, parts, stop_reason, stop_sequence) => {
    const message = messageOf({ parts, finish: { reason, stopSequence } });
    expect(message).toMatchObject({ stop_reason, stop_sequence });
    expect(message.stop_details === null).toBe(stop_reason !== "refusal");
  });

  test("explains a refusal", () => {
    expect(messageOf({ parts: [{ kind: "refusal", text: "I will not." }] }).stop_details).toEqual({
      type: "refusal",
      category: null,
      explanation: "I will not.",
    });
  });

  test.each<[Partial<MeteredUsage> | null, Partial<Usage>]>([
    [
      { promptTokens: 100, completionTokens: 7 },
      { input_tokens: 100, output_tokens: 7, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens_details: null },
    ],
    [
      { promptTokens: 100, completionTokens: 7, cachedTokens: 60, cacheWriteTokens: 30, reasoningTokens: 5 },
      { input_tokens: 10, cache_read_input_tokens: 60, cache_creation_input_tokens: 30, output_tokens_details: { thinking_tokens: 5 } },
    ],
    [
      { promptTokens: 100, completionTokens: 7, cacheWriteTokens: 30, cacheWriteHourTokens: 20 },
      { cache_creation_input_tokens: 30, cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 } },
    ],
    [
      { promptTokens: 10, completionTokens: 1, cachedTokens: 60 },
      { input_tokens: 0, cache_read_input_tokens: 60 },
    ],
    [null, { input_tokens: 9, output_tokens: 2 }],
    [{}, { input_tokens: 9, output_tokens: 2 }],
  ])("with the usage %j", (usage, expected) => {
    const message = messageOf({
      parts: [{ kind: "text", text: "seven" }],
      usage: usage === null ? null : { ...nothingCounted, ...usage },
    });
    expect(contextOf().request.promptTokensEstimate).toBe(9);
    expect(message.usage).toMatchObject(expected);
  });
});

describe("an error", () => {
  const failure = (fields: Partial<SurfaceFailure>): SurfaceFailure => ({
    ...{ status: 400, type: "invalid_request_error", code: null, param: null, message: "It is wrong." },
    ...fields,
  });
  const body = (fields: Partial<SurfaceFailure>): ErrorResponse =>
    JSON.parse(textOf(surface.error(failure(fields), "req_1"))) as ErrorResponse;

  test.each([
    [400, "invalid_request_error"],
    [401, "authentication_error"],
    [402, "billing_error"],
    [403, "permission_error"],
    [404, "not_found_error"],
    [405, "invalid_request_error"],
    [409, "conflict_error"],
    [413, "request_too_large"],
    [422, "invalid_request_error"],
    [429, "rate_limit_error"],
    [500, "api_error"],
    [502, "api_error"],
    [503, "overloaded_error"],
    [504, "timeout_error"],
    [529, "overloaded_error"],
  ])("with the status %d is a %s", (status, type) => {
    expect(body({ status })).toEqual({ type: "error", error: { type, message: "It is wrong." }, request_id: "req_1" } as never);
  });

  test("has the code where clients of this API look for it", () => {
    expect(body({ code: "invalid_type" }).error).toMatchObject({ details: { error_code: "invalid_type" } });
  });

  test("about a prompt that is too long begins with the words that clients look for, once", () => {
    const code = "context_length_exceeded";
    expect(body({ code, message: "Too many tokens." }).error.message).toBe("prompt is too long: Too many tokens.");
    const native = "prompt is too long: 210000 tokens > 200000 maximum";
    expect(body({ code, message: native }).error.message).toBe(native);
  });

  test("of a gateway without a channel has the status that this API has for that", () => {
    expect(surface.status!(failure({ status: 503 }))).toBe(529);
    expect(surface.status!(failure({ status: 429 }))).toBe(429);
  });

  test("inside a stream is an event", () => {
    expect(textOf(surface.errorEvent(failure({ status: 502, message: "Broke\noff." }), "req_2"))).toBe(
      'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"Broke\\noff."},"request_id":"req_2"}\n\n',
    );
  });
});

describe("the list of models", () => {
  const models: readonly ListedModel[] = ["a", "b", "c", "d", "e"].map((id, at) => ({ id, displayName: null, createdSeconds: at }));
  const all: ModelsQuery = { limit: null, afterId: null, beforeId: null };
  const page = (
    query: Partial<ModelsQuery>,
  ): { ids: readonly string[]; has_more: boolean; first_id: string | null; last_id: string | null } => {
    const bytes = modelsBody(models, { ...all, ...query });
    if (isFailure(bytes)) throw new Error(bytes.detail);
    const { data, ...rest } = JSON.parse(textOf(bytes)) as {
      data: readonly ModelInfo[];
      has_more: boolean;
      first_id: string;
      last_id: string;
    };
    return { ids: data.map(({ id }) => id), ...rest };
  };

  test("has every field that the official client's types require", () => {
    const modelKeys: Record<keyof ModelInfo, true> = {
      ...{ id: true, type: true, display_name: true, created_at: true, lifecycle: true, line: true, capabilities: true },
      ...{ deprecated_at: true, retires_at: true, max_input_tokens: true, max_tokens: true },
    };
    const info = JSON.parse(textOf(modelBody({ id: "m", displayName: "The model", createdSeconds: 1_700_000_000 }))) as ModelInfo;
    expect(Object.keys(info).toSorted()).toEqual(Object.keys(modelKeys).toSorted());
    expect(info).toMatchObject({ type: "model", id: "m", display_name: "The model", created_at: "2023-11-14T22:13:20.000Z" });
    for (const createdSeconds of [-1, 1e20])
      expect(textOf(modelBody({ id: "m", displayName: null, createdSeconds }))).toContain('"display_name":"m"');
  });

  test("comes in pages", () => {
    expect(page({})).toEqual({ ids: ["a", "b", "c", "d", "e"], has_more: false, first_id: "a", last_id: "e" });
    expect(page({ limit: "2" })).toEqual({ ids: ["a", "b"], has_more: true, first_id: "a", last_id: "b" });
    expect(page({ limit: "2", afterId: "b" })).toEqual({ ids: ["c", "d"], has_more: true, first_id: "c", last_id: "d" });
    expect(page({ limit: "2", afterId: "d" })).toEqual({ ids: ["e"], has_more: false, first_id: "e", last_id: "e" });
    expect(page({ limit: "2", beforeId: "d" })).toEqual({ ids: ["b", "c"], has_more: true, first_id: "b", last_id: "c" });
    expect(page({ limit: "2", beforeId: "b" })).toEqual({ ids: ["a"], has_more: false, first_id: "a", last_id: "a" });
    for (const query of [{ afterId: "x" }, { beforeId: "x" }, { afterId: "e" }, { beforeId: "a" }]) {
      expect(page(query)).toEqual({ ids: [], has_more: false, first_id: null, last_id: null });
    }
    expect(page({ limit: "1000" }).ids.length).toBe(5);
  });

  test.each(["0", "1001", "-1", "x", "", "1e2", "1.5"])("has no page of %j models", (limit) => {
    expect(modelsBody(models, { ...all, limit })).toMatchObject({ param: "limit", status: 400 });
  });
});
