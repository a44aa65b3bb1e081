import { describe, expect, test } from "bun:test";
import { readMessage } from "../../../src/dialects/anthropic/answer.ts";
import { MessagesStream } from "../../../src/dialects/anthropic/stream.ts";
import { readConverse } from "../../../src/dialects/bedrock/converse-answer.ts";
import { ConverseStream } from "../../../src/dialects/bedrock/converse-stream.ts";
import { EventStreamReader } from "../../../src/dialects/bedrock/event-stream-reader.ts";
import { CohereStream, readCohere } from "../../../src/dialects/cohere/cohere-answer.ts";
import type { EventDecoder } from "../../../src/dialects/dialect.ts";
import { readGeminiAnswer } from "../../../src/dialects/gemini/answer.ts";
import { GeminiStream } from "../../../src/dialects/gemini/stream.ts";
import { readAnswer } from "../../../src/dialects/openai/answer.ts";
import { OpenAiStream } from "../../../src/dialects/openai/stream.ts";
import { readResponse } from "../../../src/dialects/openai-responses/answer.ts";
import { ResponsesStream } from "../../../src/dialects/openai-responses/stream.ts";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import type { MeteredUsage } from "../../../src/operations/usage.ts";
import { makePriceBook, priceOf } from "../../../src/usage/price-book.ts";
import type { PriceRates } from "../../../src/usage/price.ts";
import { collectStream } from "../../support/collected-stream.ts";
import { awsEvent } from "../../support/event-stream.ts";
import { invoice } from "../../support/invoice.ts";

/** Billionths of a dollar for a million tokens: another rate for everything that some provider bills apart. */
const dollar = 1_000_000_000;
const rates: PriceRates = {
  ...{ input: 2 * dollar, cachedInput: dollar / 2, cacheWrite: 3 * dollar, cacheWriteHour: 4 * dollar },
  ...{ output: 10 * dollar, audioInput: 7 * dollar, audioOutput: 20 * dollar },
};

type Json = Readonly<Record<string, unknown>>;
type StreamedAnswer = readonly [reader: Parameters<typeof collectStream>[0], pieces: readonly Uint8Array[]];

/** How a provider reports usage, in a whole answer and in a stream. */
interface Provider {
  whole(usage: Json): WholeAnswer | Failure;
  streamed(usage: Json): StreamedAnswer;
}

const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const sse = (decoder: EventDecoder, ...events: readonly Json[]): StreamedAnswer => [
  new EventReader(decoder),
  events.map((event) => new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n`)),
];
const text = { type: "text", text: "hi" };

const providers = {
  anthropic: {
    whole: (usage) => readMessage(bytes({ content: [text], stop_reason: "end_turn", usage }), null),
    streamed: (usage) =>
      sse(
        new MessagesStream(null),
        { type: "message_start", message: { id: "m", usage: { ...usage, output_tokens: 1 } } },
        { type: "content_block_start", index: 0, content_block: text },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
        { type: "message_stop" },
      ),
  },
  "openai-responses": {
    whole: (usage) => readResponse(bytes({ status: "completed", output: [], usage }), null),
    streamed: (usage) => sse(new ResponsesStream(null), { type: "response.completed", response: { output: [], usage } }),
  },
  gemini: {
    whole: (usage) => readGeminiAnswer(bytes({ candidates: [candidate], usageMetadata: usage }), null),
    streamed: (usage) => sse(new GeminiStream({ choices: 1, tools: null }), { candidates: [candidate], usageMetadata: usage }),
  },
  "bedrock-converse": {
    whole: (usage) => readConverse(bytes({ output: { message: { content: [{ text: "hi" }] } }, stopReason: "end_turn", usage }), []),
    streamed: (usage) => [
      new EventStreamReader(new ConverseStream([])),
      [
        awsEvent("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "hi" } }),
        awsEvent("messageStop", { stopReason: "end_turn" }),
        awsEvent("metadata", { usage }),
      ],
    ],
  },
  cohere: {
    whole: (usage) => readCohere(bytes({ message: { content: [text] }, finish_reason: "COMPLETE", usage }), []),
    streamed: (usage) => sse(new CohereStream([]), { type: "message-end", delta: { finish_reason: "COMPLETE", usage } }),
  },
} as const satisfies Record<string, Provider>;
const candidate = { index: 0, content: { role: "model", parts: [{ text: "hi" }] }, finishReason: "STOP" };

interface Shape {
  readonly dialect: keyof typeof providers;
  readonly about: string;
  /** As the provider documents it. */
  readonly usage: Json;
  readonly means: Partial<MeteredUsage>;
  readonly nanos: number;
}

const plain = { promptTokens: 100, completionTokens: 30 };
const plainNanos = 100 * 2000 + 30 * 10_000;

const shapes: readonly Shape[] = [
  // https://platform.claude.com/docs/en/api/messages
  { dialect: "anthropic", about: "two counts", usage: { input_tokens: 100, output_tokens: 30 }, means: plain, nanos: plainNanos },
  {
    dialect: "anthropic",
    about: "a cache beside the input, written for five minutes and for an hour",
    usage: {
      ...{ input_tokens: 10, cache_read_input_tokens: 40, cache_creation_input_tokens: 50, output_tokens: 30 },
      cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 },
    },
    means: { ...plain, cachedTokens: 40, cacheWriteTokens: 50, cacheWriteHourTokens: 30 },
    nanos: 10 * 2000 + 40 * 500 + 20 * 3000 + 30 * 4000 + 30 * 10_000,
  },
  {
    dialect: "anthropic",
    about: "a cache that is written, without a word on how long it is kept",
    usage: { input_tokens: 50, cache_read_input_tokens: 0, cache_creation_input_tokens: 50, output_tokens: 30 },
    means: { ...plain, cachedTokens: 0, cacheWriteTokens: 50 },
    nanos: 50 * 2000 + 50 * 3000 + 30 * 10_000,
  },
  {
    dialect: "anthropic",
    about: "thinking within the output",
    usage: { input_tokens: 100, output_tokens: 30, output_tokens_details: { thinking_tokens: 20 } },
    means: { ...plain, reasoningTokens: 20 },
    nanos: plainNanos,
  },
  {
    dialect: "anthropic",
    about: "a summary before the message, which the totals leave out",
    usage: {
      ...{ input_tokens: 20, output_tokens: 10 },
      iterations: [
        { type: "compaction", input_tokens: 80, output_tokens: 20 },
        { type: "message", input_tokens: 20, output_tokens: 10 },
      ],
    },
    means: plain,
    nanos: plainNanos,
  },
  {
    dialect: "anthropic",
    about: "a fallback, which the totals are those of",
    usage: {
      ...{ input_tokens: 100, output_tokens: 30 },
      iterations: [
        { type: "message", input_tokens: 90, output_tokens: 0 },
        { type: "fallback_message", input_tokens: 100, output_tokens: 30 },
      ],
    },
    means: plain,
    nanos: plainNanos,
  },
  // https://platform.openai.com/docs/api-reference/responses/object
  {
    dialect: "openai-responses",
    about: "all details, within the wholes",
    usage: {
      ...{ input_tokens: 100, output_tokens: 30, total_tokens: 130 },
      ...{ input_tokens_details: { cached_tokens: 40, cache_write_tokens: 0 }, output_tokens_details: { reasoning_tokens: 20 } },
    },
    means: { ...plain, cachedTokens: 40, reasoningTokens: 20 },
    nanos: 60 * 2000 + 40 * 500 + 30 * 10_000,
  },
  {
    dialect: "openai-responses",
    about: "tokens written to a cache",
    usage: {
      ...{ input_tokens: 100, output_tokens: 30, total_tokens: 130 },
      ...{ input_tokens_details: { cached_tokens: 40, cache_write_tokens: 50 }, output_tokens_details: { reasoning_tokens: 0 } },
    },
    means: { ...plain, cachedTokens: 40, cacheWriteTokens: 50 },
    nanos: 10 * 2000 + 40 * 500 + 50 * 3000 + 30 * 10_000,
  },
  // https://ai.google.dev/api/generate-content#UsageMetadata
  {
    dialect: "gemini",
    about: "thoughts beside the candidates, and a cached part within the prompt",
    usage: {
      ...{ promptTokenCount: 100, cachedContentTokenCount: 40, candidatesTokenCount: 10, thoughtsTokenCount: 20, totalTokenCount: 130 },
    },
    means: { ...plain, cachedTokens: 40, reasoningTokens: 20 },
    nanos: 60 * 2000 + 40 * 500 + 30 * 10_000,
  },
  {
    dialect: "gemini",
    about: "what a tool of the provider read, beside the prompt",
    usage: { promptTokenCount: 30, toolUsePromptTokenCount: 70, candidatesTokenCount: 30, totalTokenCount: 130 },
    means: plain,
    nanos: plainNanos,
  },
  {
    dialect: "gemini",
    about: "sound in both directions",
    usage: {
      ...{ promptTokenCount: 100, candidatesTokenCount: 30, totalTokenCount: 130 },
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 40 },
        { modality: "AUDIO", tokenCount: 50 },
        { modality: "IMAGE", tokenCount: 10 },
      ],
      candidatesTokensDetails: [{ modality: "AUDIO", tokenCount: 25 }],
    },
    means: { ...plain, audioInputTokens: 50, audioOutputTokens: 25 },
    nanos: 50 * 2000 + 50 * 7000 + 5 * 10_000 + 25 * 20_000,
  },
  {
    dialect: "gemini",
    about: "sound that came from the cache, which is not billed again as sound",
    usage: {
      ...{ promptTokenCount: 100, cachedContentTokenCount: 40, candidatesTokenCount: 30, totalTokenCount: 130 },
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 40 },
        { modality: "AUDIO", tokenCount: 60 },
      ],
      cacheTokensDetails: [{ modality: "AUDIO", tokenCount: 40 }],
    },
    means: { ...plain, cachedTokens: 40, audioInputTokens: 20 },
    nanos: 40 * 2000 + 20 * 7000 + 40 * 500 + 30 * 10_000,
  },
  // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
  {
    dialect: "bedrock-converse",
    about: "two counts and their sum",
    usage: { inputTokens: 100, outputTokens: 30, totalTokens: 130 },
    means: plain,
    nanos: plainNanos,
  },
  {
    dialect: "bedrock-converse",
    about: "a cache beside the input, written for five minutes and for an hour",
    usage: {
      ...{ inputTokens: 10, outputTokens: 30, totalTokens: 130, cacheReadInputTokens: 40, cacheWriteInputTokens: 50 },
      cacheDetails: [
        { ttl: "1h", inputTokens: 30 },
        { ttl: "5m", inputTokens: 20 },
      ],
    },
    means: { ...plain, cachedTokens: 40, cacheWriteTokens: 50, cacheWriteHourTokens: 30 },
    nanos: 10 * 2000 + 40 * 500 + 20 * 3000 + 30 * 4000 + 30 * 10_000,
  },
  // https://docs.cohere.com/reference/chat
  {
    dialect: "cohere",
    about: "what is billed, which is less than what was read",
    usage: { billed_units: { input_tokens: 100, output_tokens: 30 }, tokens: { input_tokens: 300, output_tokens: 35 }, cached_tokens: 64 },
    means: plain,
    nanos: plainNanos,
  },
  {
    dialect: "cohere",
    about: "what was read, where nothing is said of a bill",
    usage: { tokens: { input_tokens: 100, output_tokens: 30 }, cached_tokens: 40 },
    means: { ...plain, cachedTokens: 40 },
    nanos: 60 * 2000 + 40 * 500 + 30 * 10_000,
  },
];

function wholeUsage(read: WholeAnswer | Failure): MeteredUsage | null {
  if (isFailure(read)) throw new Error(read.detail);
  return read.usage;
}

function streamedUsage([reader, pieces]: StreamedAnswer): MeteredUsage | null {
  const { emissions, failure } = collectStream(reader, pieces);
  if (failure !== null) throw new Error(failure.detail);
  return emissions.findLast(({ kind }) => kind === "usage")?.["usage" as never] ?? null;
}

describe("the invoice of a provider with an API of its own is what the gateway computes:", () => {
  test.each(shapes)("$dialect: $about", ({ dialect, usage, means, nanos }) => {
    const { whole, streamed } = providers[dialect];
    for (const read of [wholeUsage(whole(usage)), streamedUsage(streamed(usage))]) {
      expect(read).toMatchObject(means);
      expect(invoice(read, rates)).toMatchObject({ billedNanos: nanos, estimated: false });
    }
  });
});

describe("an answer is priced by the model that served", () => {
  const price = (model: string, input: number) => ({ provider: null, model, fromMs: 0, rates: { input, output: 0 } });
  const book = makePriceBook([[price("large", 1000 * dollar), price("small", dollar)]]);
  const billed = (usage: MeteredUsage | null): number | null =>
    invoice(usage, (provider, model, atMs, served) => priceOf(book, { provider, model, served }, atMs)).billedNanos;

  const fallback = { type: "fallback", from: { model: "large" }, to: { model: "small" } };
  const counted = { input_tokens: 100, output_tokens: 30 };
  const completion = {
    choices: [{ index: 0, delta: {}, message: {}, finish_reason: "stop" }],
    usage: { prompt_tokens: 100, completion_tokens: 30 },
  };
  const response = { status: "completed", output: [], usage: counted };
  const generated = { candidates: [candidate], usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 30 } };

  test.each([
    ["a provider that fell back", readMessage(bytes({ content: [fallback, text], stop_reason: "end_turn", usage: counted }), null)],
    ["a router", readAnswer(bytes({ ...completion, model: "small" }))],
    ["a response", readResponse(bytes({ ...response, model: "small" }), null)],
    ["an alias", readGeminiAnswer(bytes({ ...generated, modelVersion: "small" }), null)],
  ])("of %s", (_, read) => {
    expect(billed(wholeUsage(read))).toBe(100 * 1000);
  });

  test.each([
    [
      "a provider that fell back",
      sse(
        new MessagesStream(null),
        { type: "message_start", message: { id: "m", model: "large", usage: counted } },
        { type: "content_block_start", index: 0, content_block: fallback },
        { type: "content_block_stop", index: 0 },
        { type: "content_block_start", index: 1, content_block: text },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: counted },
        { type: "message_stop" },
      ),
    ],
    ["a router", sse(new OpenAiStream({ hidesUsage: false, choices: 1 }), { ...completion, model: "small" })],
    ["a response", sse(new ResponsesStream(null), { type: "response.completed", response: { ...response, model: "small" } })],
    ["an alias", sse(new GeminiStream({ choices: 1, tools: null }), { ...generated, modelVersion: "small" })],
  ] as const)("of %s in a stream", (_, stream) => {
    expect(billed(streamedUsage(stream))).toBe(100 * 1000);
  });

  test("and what an adviser did by that model, without which the cost is unknown", () => {
    const iterations = [
      { type: "message", ...counted },
      { type: "advisor_message", model: "small", input_tokens: 50, output_tokens: 7 },
    ];
    const { whole, streamed } = providers.anthropic;
    for (const read of [whole, (usage: Json) => streamed(usage)]) {
      const billedWith = (model: string): number | null => {
        const answer = read({ ...counted, iterations: iterations.map((step) => ("model" in step ? { ...step, model } : step)) });
        return billed("kind" in answer ? wholeUsage(answer) : streamedUsage(answer));
      };
      expect(billedWith("small")).toBe(100 * 1_000_000 + 50 * 1000);
      expect(billedWith("unheard-of")).toBeNull();
    }
  });

  test("and by the one that was asked for, where the other has no price, or is no name", () => {
    for (const model of ["large", "large-2026-01-31", "unheard-of", "", 7, null, "x".repeat(1000)]) {
      expect(billed(wholeUsage(readAnswer(bytes({ ...completion, model }))))).toBe(100 * 1_000_000);
    }
  });
});
