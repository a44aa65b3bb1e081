import { describe, expect, test } from "bun:test";
import { readMessage } from "../../../src/dialects/anthropic/answer.ts";
import { MessagesStream } from "../../../src/dialects/anthropic/stream.ts";
import type { EventDecoder } from "../../../src/dialects/dialect.ts";
import { readGeminiAnswer } from "../../../src/dialects/gemini/answer.ts";
import { GeminiStream } from "../../../src/dialects/gemini/stream.ts";
import { readResponse } from "../../../src/dialects/openai-responses/answer.ts";
import { ResponsesStream } from "../../../src/dialects/openai-responses/stream.ts";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import type { WholeAnswer } from "../../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../../src/operations/failure.ts";
import { tokenUsage, type MeteredUsage } from "../../../src/operations/usage.ts";
import { makePriceBook, priceOf } from "../../../src/usage/price-book.ts";
import type { Price } from "../../../src/usage/price.ts";
import { shippedOn, shippedPrices } from "../../../src/usage/shipped-prices.ts";
import { collectStream } from "../../support/collected-stream.ts";
import { invoice } from "../../support/invoice.ts";

type Json = Readonly<Record<string, unknown>>;

const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

function whole(read: WholeAnswer | Failure): MeteredUsage | null {
  if (isFailure(read)) throw new Error(read.detail);
  return read.usage;
}

function streamed(decoder: EventDecoder, ...events: readonly Json[]): MeteredUsage | null {
  const pieces = events.map((event) => new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n`));
  const { emissions, failure } = collectStream(new EventReader(decoder), pieces);
  if (failure !== null) throw new Error(failure.detail);
  return emissions.findLast(({ kind }) => kind === "usage")?.["usage" as never] ?? null;
}

const dollars = (amount: number): number => Math.round(amount * 1e9);

/** In billionths of a dollar, by the prices that come with the gateway and those of its operator. */
function billed(provider: string, model: string, usage: MeteredUsage | null, own: readonly Price[] = []): number | null {
  const book = makePriceBook([shippedPrices(), own]);
  return invoice(usage, () => priceOf(book, { provider, model }, Date.parse(shippedOn))).billedNanos;
}

const text = { type: "text", text: "hi" };

describe("searches of the web are counted as their provider bills them, whole and streamed:", () => {
  // https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
  test("Anthropic counts them in its usage, and the pages that were fetched beside them", () => {
    const counts = { input_tokens: 100, output_tokens: 30 };
    const usage = { ...counts, server_tool_use: { web_search_requests: 3, web_fetch_requests: 4 } };
    const reads = [
      whole(readMessage(bytes({ content: [text], stop_reason: "end_turn", usage }), null)),
      streamed(
        new MessagesStream(null),
        { type: "message_start", message: { id: "m", usage: { ...counts, server_tool_use: { web_search_requests: 0 } } } },
        { type: "content_block_start", index: 0, content_block: text },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
        { type: "message_stop" },
      ),
    ];
    for (const read of reads) {
      expect(read).toMatchObject({ promptTokens: 100, completionTokens: 30, webSearches: 3 });
      expect(billed("anthropic", "claude-sonnet-5", read)).toBe(dollars(0.0002 + 0.0003 + 0.03));
    }
    const without = whole(readMessage(bytes({ content: [text], stop_reason: "end_turn", usage: counts }), null));
    expect(without).not.toHaveProperty("webSearches");
  });

  // https://platform.openai.com/docs/guides/tools-web-search, https://platform.openai.com/docs/guides/tools-file-search
  test("the Responses API has an item for each, and opening a page is none", () => {
    const usage = { input_tokens: 100, output_tokens: 30, total_tokens: 130 };
    const output = [
      { type: "web_search_call", status: "completed", action: { type: "search", query: "a" } },
      { type: "web_search_call", status: "completed", action: { type: "open_page", url: "https://example.com" } },
      { type: "web_search_call", status: "completed", action: { type: "find_in_page", url: "https://example.com", pattern: "b" } },
      { type: "web_search_call", status: "completed" },
      { type: "web_search_call", status: "failed", action: { type: "search" } },
      { type: "file_search_call", status: "completed", queries: ["a", "b"] },
      { type: "code_interpreter_call", status: "completed" },
    ];
    const reads = [
      whole(readResponse(bytes({ status: "completed", output, usage }), null)),
      streamed(new ResponsesStream(null), { type: "response.completed", response: { output, usage } }),
    ];
    for (const read of reads) {
      expect(read).toMatchObject({ webSearches: 2, fileSearches: 1 });
      expect(billed("openai", "gpt-5", read)).toBe(dollars(0.000125 + 0.0003 + 0.02 + 0.0025));
    }
  });

  test("the Responses API may say how many requests the searches took, and that counts", () => {
    const usage = { input_tokens: 100, output_tokens: 30, total_tokens: 130 };
    const output = [{ type: "web_search_call", status: "completed", action: { type: "search", queries: ["a", "b", "c"] } }];
    const searches = (told: unknown): number | undefined =>
      whole(readResponse(bytes({ status: "completed", output, usage, tool_usage: { web_search: { num_requests: told } } }), null))
        ?.webSearches;
    expect([3, 0, -1, "many", null].map(searches)).toEqual([3, 1, 1, 1, 1]);
  });

  // https://ai.google.dev/gemini-api/docs/google-search
  test("Gemini names its queries, and costs by the query or by the prompt", () => {
    const usageMetadata = { promptTokenCount: 100, candidatesTokenCount: 30, totalTokenCount: 130 };
    const candidate = { index: 0, content: { role: "model", parts: [{ text: "hi" }] }, finishReason: "STOP" };
    const groundingMetadata = { webSearchQueries: ["a", "b", "a", "", 7] };
    const reads = [
      whole(readGeminiAnswer(bytes({ candidates: [{ ...candidate, groundingMetadata }], usageMetadata }), null)),
      // The queries may come before the last response.
      streamed(
        new GeminiStream({ choices: 1, tools: null }),
        { candidates: [{ ...candidate, finishReason: undefined, groundingMetadata }], usageMetadata },
        { candidates: [candidate], usageMetadata },
      ),
    ];
    for (const read of reads) {
      expect(read).toMatchObject({ webSearches: 2 });
      expect(billed("gemini", "gemini-3-flash-preview", read)).toBe(dollars(0.00005 + 0.00009 + 0.028));
      expect(billed("gemini", "gemini-2.5-flash", read)).toBe(dollars(0.00003 + 0.000075 + 0.035));
    }
  });
});

describe("a cost that the provider states", () => {
  const counts = { prompt_tokens: 100, completion_tokens: 30, total_tokens: 130 };

  test.each<[string, string, object, number | null]>([
    ["xai", "grok-4.5", { cost_in_usd_ticks: 37_756_000, num_sources_used: 2 }, 0.0037756],
    ["xai", "grok-99", { cost_in_usd_ticks: 0 }, 0],
    ["openrouter", "vendor/model", { cost: 0.95, cost_details: { upstream_inference_cost: 19 } }, 0.95],
    ["openrouter", "vendor/model", { cost: 0.05, is_byok: true, cost_details: { upstream_inference_cost: 1 } }, 1.05],
    ["perplexity", "sonar", { search_context_size: "low", cost: { request_cost: 0.005, total_cost: 0.00513 } }, 0.00513],
    // Without it, or with nonsense, the rates decide; where there are none, the cost is unknown.
    ["xai", "grok-4.5", {}, 0.0002 + 0.00018],
    ["xai", "grok-4.5", { cost_in_usd_ticks: -1 }, 0.0002 + 0.00018],
    ["xai", "grok-4.5", { cost_in_usd_ticks: "many" }, 0.0002 + 0.00018],
    ["openrouter", "vendor/model", {}, null],
    ["openrouter", "vendor/model", { cost: 1e9 }, null],
    ["openrouter", "vendor/model", { cost: Number.NaN, cost_details: null }, null],
    ["openrouter", "vendor/model", { cost: 1, is_byok: true }, null],
    ["perplexity", "sonar", { cost: { total_cost: "0.1" } }, null],
    // Whoever does not bill so is not believed.
    ["openai", "gpt-5", { cost: 7 }, 0.000125 + 0.0003],
  ])("of %s for %s counts: %j", (provider, model, more, amount) => {
    expect(billed(provider, model, tokenUsage({ ...counts, ...more }))).toBe(amount === null ? null : dollars(amount));
  });

  test("in a response counts too", () => {
    const usage = { input_tokens: 100, output_tokens: 30, total_tokens: 130, cost_in_usd_ticks: 20_000_000 };
    expect(billed("xai", "grok-4.5", whole(readResponse(bytes({ status: "completed", output: [], usage }), null)))).toBe(dollars(0.002));
  });

  test("does not count against the price that an operator has set", () => {
    const own = { provider: "openrouter", model: "vendor/*", fromMs: 0, rates: { input: 1e9, output: 0 } };
    expect(billed("openrouter", "vendor/model", tokenUsage({ ...counts, cost: 7 }), [own])).toBe(dollars(0.0001));
  });
});
