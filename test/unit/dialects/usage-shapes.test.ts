import { describe, expect, test } from "bun:test";
import type { SseEvent } from "../../../src/dialects/dialect.ts";
import { readAnswer } from "../../../src/dialects/openai/answer.ts";
import { OpenAiStream } from "../../../src/dialects/openai/stream.ts";
import { presets } from "../../../src/dialects/presets.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { transcriptionUsage } from "../../../src/operations/transcription/transcription-usage.ts";
import { nothingCounted, tokenUsage, type MeteredUsage } from "../../../src/operations/usage.ts";
import { accessLine } from "../../../src/telemetry/access.ts";
import type { PriceRates } from "../../../src/usage/price.ts";
import type { Receipt } from "../../../src/usage/receipt.ts";
import { invoice, recorded } from "../../support/invoice.ts";

/** Billionths of a dollar for a million tokens: another rate for everything that is billed apart. */
const dollar = 1_000_000_000;
const rates: PriceRates = { input: 2 * dollar, cachedInput: dollar / 2, output: 10 * dollar };

interface Shape {
  readonly provider: string;
  readonly about: string;
  /** As the provider documents or sends it. */
  readonly usage: object;
  readonly means: Partial<MeteredUsage>;
  /** What the call costs at the rates above, or at its own. */
  readonly nanos: number;
  readonly rates?: PriceRates;
}

const usual = {
  prompt_tokens: 2006,
  completion_tokens: 300,
  total_tokens: 2306,
  prompt_tokens_details: { cached_tokens: 1920, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 120, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
};
const usualMeaning = { promptTokens: 2006, completionTokens: 300, cachedTokens: 1920, reasoningTokens: 120 };
const usualNanos = 86 * 2000 + 1920 * 500 + 300 * 10_000;

const plain = { prompt_tokens: 26, completion_tokens: 298, total_tokens: 324 };
const plainMeans = { promptTokens: 26, completionTokens: 298, cachedTokens: null, reasoningTokens: null };
const plainNanos = 26 * 2000 + 298 * 10_000;

const shapes: readonly Shape[] = [
  { provider: "openai", about: "reasoning within the completion", usage: usual, means: usualMeaning, nanos: usualNanos },
  { provider: "azure-openai", about: "the same", usage: usual, means: usualMeaning, nanos: usualNanos },
  { provider: "bedrock", about: "the same", usage: usual, means: usualMeaning, nanos: usualNanos },
  {
    provider: "groq",
    about: "times beside the counts",
    usage: { queue_time: 0.03, prompt_time: 0.001, completion_time: 0.46, total_time: 0.461, ...plain },
    means: plainMeans,
    nanos: plainNanos,
  },
  { provider: "mistral", about: "three counts", usage: plain, means: plainMeans, nanos: plainNanos },
  {
    provider: "mistral",
    about: "no sound, said as an empty object",
    usage: { ...plain, prompt_audio_seconds: {} },
    means: plainMeans,
    nanos: plainNanos,
  },
  {
    provider: "mistral",
    about: "sound by the second, whose tokens are in the total alone",
    usage: { prompt_audio_seconds: 203, prompt_tokens: 4, total_tokens: 3264, completion_tokens: 635 },
    means: { promptTokens: 4, completionTokens: 635, audioSeconds: 203 },
    rates: { ...rates, seconds: 50_000 },
    nanos: 203 * 50_000 + 4 * 2000 + 635 * 10_000,
  },
  {
    provider: "deepseek",
    about: "hits and misses of the cache at the top",
    usage: {
      prompt_tokens: 1000,
      prompt_cache_hit_tokens: 896,
      prompt_cache_miss_tokens: 104,
      completion_tokens: 50,
      total_tokens: 1050,
      completion_tokens_details: { reasoning_tokens: 40 },
    },
    means: { promptTokens: 1000, completionTokens: 50, cachedTokens: 896, reasoningTokens: 40 },
    nanos: 104 * 2000 + 896 * 500 + 50 * 10_000,
  },
  {
    provider: "openrouter",
    about: "a cost of its own, and null where there are no details",
    usage: { ...plain, cost: 0.0123, is_byok: false, cost_details: { upstream_inference_cost: null }, prompt_tokens_details: null },
    means: plainMeans,
    nanos: plainNanos,
  },
  {
    provider: "openrouter",
    about: "a prompt without what was in the cache, which the total holds",
    usage: { prompt_tokens: 1000, completion_tokens: 435, total_tokens: 8887, prompt_tokens_details: { cached_tokens: 7452 } },
    means: { promptTokens: 8452, completionTokens: 435, cachedTokens: 7452 },
    nanos: 1000 * 2000 + 7452 * 500 + 435 * 10_000,
  },
  {
    provider: "together",
    about: "cached tokens at the top",
    usage: { ...plain, cached_tokens: 16 },
    means: { ...plainMeans, cachedTokens: 16 },
    nanos: 10 * 2000 + 16 * 500 + 298 * 10_000,
  },
  {
    provider: "fireworks",
    about: "cached tokens in the details",
    usage: { ...plain, prompt_tokens_details: { cached_tokens: 16 } },
    means: { ...plainMeans, cachedTokens: 16 },
    nanos: 10 * 2000 + 16 * 500 + 298 * 10_000,
  },
  {
    provider: "xai",
    about: "reasoning beside the completion, as documented",
    usage: {
      prompt_tokens: 32,
      completion_tokens: 9,
      total_tokens: 135,
      prompt_tokens_details: { text_tokens: 32, audio_tokens: 0, image_tokens: 0, cached_tokens: 6 },
      completion_tokens_details: { reasoning_tokens: 94, audio_tokens: 0, accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
      num_sources_used: 0,
    },
    means: { promptTokens: 32, completionTokens: 103, cachedTokens: 6, reasoningTokens: 94 },
    nanos: 26 * 2000 + 6 * 500 + 103 * 10_000,
  },
  {
    provider: "xai",
    about: "a call whose price the provider told itself: 232856000 ticks, which is $0.0232856",
    usage: {
      prompt_tokens: 10_120,
      completion_tokens: 1499,
      total_tokens: 14_428,
      prompt_tokens_details: { cached_tokens: 128 },
      completion_tokens_details: { reasoning_tokens: 2809 },
      cost_in_usd_ticks: 232_856_000,
    },
    means: { promptTokens: 10_120, completionTokens: 4308, cachedTokens: 128, reasoningTokens: 2809 },
    rates: { input: 1.25 * dollar, cachedInput: 0.2 * dollar, output: 2.5 * dollar },
    nanos: 23_285_600,
  },
  {
    provider: "cerebras",
    about: "accepted predictions",
    usage: {
      ...plain,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
    },
    means: { ...plainMeans, cachedTokens: 0 },
    nanos: plainNanos,
  },
  {
    provider: "perplexity",
    about: "a search",
    usage: { ...plain, search_context_size: "low", cost: { total_cost: 0.006 } },
    means: plainMeans,
    nanos: plainNanos,
  },
  {
    provider: "perplexity",
    about: "research, with what was read and reasoned beside both wholes",
    usage: {
      prompt_tokens: 33,
      completion_tokens: 7163,
      total_tokens: 7196,
      citation_tokens: 20_016,
      num_search_queries: 18,
      reasoning_tokens: 73_997,
    },
    means: { promptTokens: 20_049, completionTokens: 81_160, reasoningTokens: 73_997 },
    rates: { input: 2 * dollar, output: 8 * dollar, reasoning: 3 * dollar },
    nanos: 20_049 * 2000 + 7163 * 8000 + 73_997 * 3000,
  },
  { provider: "nvidia", about: "null details", usage: { ...plain, prompt_tokens_details: null }, means: plainMeans, nanos: plainNanos },
  {
    provider: "gemini",
    about: "thoughts in the total alone",
    usage: { prompt_tokens: 20, completion_tokens: 198, total_tokens: 623 },
    means: { promptTokens: 20, completionTokens: 603 },
    nanos: 20 * 2000 + 603 * 10_000,
  },
  {
    provider: "gemini",
    about: "nothing but thoughts, and no word of a completion",
    usage: { prompt_tokens: 10, total_tokens: 109 },
    means: { promptTokens: 10, completionTokens: 99 },
    nanos: 10 * 2000 + 99 * 10_000,
  },
  {
    provider: "gemini",
    about: "nothing but thoughts, in the details",
    usage: { prompt_tokens: 21, completion_tokens: 0, total_tokens: 81, completion_tokens_details: { reasoning_tokens: 60 } },
    means: { promptTokens: 21, completionTokens: 60, reasoningTokens: 60 },
    nanos: 21 * 2000 + 60 * 10_000,
  },
  { provider: "ollama", about: "three counts", usage: plain, means: plainMeans, nanos: plainNanos },
  { provider: "vllm", about: "null details", usage: { ...plain, prompt_tokens_details: null }, means: plainMeans, nanos: plainNanos },
  {
    provider: "lmstudio",
    about: "reasoning within the completion",
    usage: { ...plain, completion_tokens_details: { reasoning_tokens: 98 } },
    means: { ...plainMeans, reasoningTokens: 98 },
    nanos: plainNanos,
  },
  {
    provider: "llama.cpp",
    about: "cached tokens in the details",
    usage: { ...plain, prompt_tokens_details: { cached_tokens: 20 } },
    means: { ...plainMeans, cachedTokens: 20 },
    nanos: 6 * 2000 + 20 * 500 + 298 * 10_000,
  },
  {
    provider: "embedded",
    about: "all details, none of which apply",
    usage: { ...plain, prompt_tokens_details: { cached_tokens: 0 }, completion_tokens_details: { reasoning_tokens: 0 } },
    means: { ...plainMeans, cachedTokens: 0, reasoningTokens: 0 },
    nanos: plainNanos,
  },
];

/** Reports that contradict themselves, as servers are known to send them. */
const contradictions: readonly Shape[] = [
  {
    provider: "sglang",
    about: "more reasoning than completion, which the total contradicts",
    usage: { prompt_tokens: 164, completion_tokens: 23_870, reasoning_tokens: 23_871, total_tokens: 24_034 },
    means: { promptTokens: 164, completionTokens: 23_870, reasoningTokens: 23_870 },
    nanos: 164 * 2000 + 23_870 * 10_000,
  },
  {
    provider: "unknown",
    about: "more reasoning than completion, and no total",
    usage: { prompt_tokens: 32, completion_tokens: 9, completion_tokens_details: { reasoning_tokens: 94 } },
    means: { promptTokens: 32, completionTokens: 103, reasoningTokens: 94 },
    nanos: 32 * 2000 + 103 * 10_000,
  },
  {
    provider: "azure-openai",
    about: "more in the cache than in the prompt",
    usage: { prompt_tokens: 100, completion_tokens: 5, total_tokens: 105, prompt_tokens_details: { cached_tokens: 128 } },
    means: { promptTokens: 100, completionTokens: 5, cachedTokens: 100 },
    nanos: 100 * 500 + 5 * 10_000,
  },
  {
    provider: "unknown",
    about: "more sound and more written to the cache than there is",
    usage: {
      ...plain,
      prompt_tokens_details: { audio_tokens: 27, cache_write_tokens: 99 },
      completion_tokens_details: { audio_tokens: 299 },
    },
    means: { ...plainMeans, audioInputTokens: 26, cacheWriteTokens: 26, audioOutputTokens: 298 },
    nanos: plainNanos,
  },
];

function asAnswer(usage: object): MeteredUsage | null {
  const choices = [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }];
  const whole = readAnswer(new TextEncoder().encode(JSON.stringify({ choices, usage })));
  if (isFailure(whole)) throw new Error(whole.detail);
  return whole.usage;
}

function asStream(usage: object): MeteredUsage | null {
  const stream = new OpenAiStream({ hidesUsage: false, choices: 1 });
  const read = stream.read(event({ choices: [], usage }));
  if (isFailure(read)) throw new Error(read.detail);
  return read[0]?.kind === "usage" ? read[0].usage : null;
}

function event(data: object): SseEvent {
  const text = JSON.stringify(data);
  return { name: "", data: text, frame: new TextEncoder().encode(`data: ${text}\n\n`) };
}

const answered = (receipt: Receipt): Partial<MeteredUsage> => receipt.attempts[0]!;

/** What a receipt has no room for is in the cost. */
function figuresOf({ promptTokens, completionTokens, cachedTokens, reasoningTokens, audioSeconds }: Partial<MeteredUsage>): object {
  return Object.fromEntries(
    Object.entries({ promptTokens, completionTokens, cachedTokens, reasoningTokens, audioSeconds }).filter(([, it]) => it !== undefined),
  );
}

describe("usage is billed as its provider means it", () => {
  test.each(shapes)("$provider: $about", (shape) => {
    const { usage, means, nanos } = shape;
    for (const read of [asAnswer, asStream]) {
      const metered = read(usage);
      expect(metered).toMatchObject(means);
      expect(metered).not.toHaveProperty("corrected");
      const receipt = invoice(metered, shape.rates ?? rates);
      expect(receipt).toMatchObject({ billedNanos: nanos, generatedTokens: means.completionTokens!, estimated: false });
      expect(answered(receipt)).toMatchObject(figuresOf(means));
    }
  });

  test("for every provider that is known by name and speaks the OpenAI API: the others have tests of their own", () => {
    const byChat = presets.filter(({ operations, dialect }) => operations.includes("chat") && dialect === "openai").map(({ name }) => name);
    expect(new Set(shapes.map(({ provider }) => provider))).toEqual(new Set(byChat));
  });

  test("of a stream that reports it in an extension, with its last delta", () => {
    const stream = new OpenAiStream({ hidesUsage: true, choices: 1 });
    const last = {
      choices: [{ index: 0, delta: {}, finish_reason: "stop" }],
      x_groq: { id: "req_1", usage: { ...plain, queue_time: 0.1 } },
    };
    for (const [extra, reported] of [
      [last, plainMeans],
      [{ ...last, usage: null }, plainMeans],
      [{ ...last, x_groq: { id: "req_1" } }, undefined],
      [{ ...last, x_groq: null }, undefined],
    ] as const) {
      const read = stream.read(event(extra));
      if (isFailure(read)) throw new Error(read.detail);
      expect(read.find(({ kind }) => kind === "usage")?.["usage" as never]).toEqual(reported as never);
    }
  });

  test("of a transcription in tokens, and of one by the second", () => {
    const input_token_details = { text_tokens: 4, audio_tokens: 10 };
    expect(transcriptionUsage({ type: "tokens", input_tokens: 14, input_token_details, output_tokens: 6, total_tokens: 20 }, null)).toEqual(
      {
        ...nothingCounted,
        promptTokens: 14,
        completionTokens: 6,
        audioInputTokens: 10,
        audioSeconds: null,
      },
    );
    const spoken = { prompt_audio_seconds: 203, prompt_tokens: 4, total_tokens: 3264, completion_tokens: 635 };
    expect(transcriptionUsage(spoken, null)).toMatchObject({ promptTokens: 4, completionTokens: 635, audioSeconds: 203 });
    expect(transcriptionUsage({ type: "duration", seconds: 4 }, null)).toMatchObject({ promptTokens: null, audioSeconds: 4 });
  });
});

describe("a part that is greater than its whole", () => {
  test.each(contradictions)("is corrected, and the receipt and the log say so: $about", (shape) => {
    const { usage, means, nanos } = shape;
    for (const read of [asAnswer, asStream]) {
      const metered = read(usage);
      expect(metered).toMatchObject({ ...means, corrected: true });
      const receipt = invoice(metered, rates);
      expect(receipt).toMatchObject({ billedNanos: nanos, estimated: true });
      expect(answered(receipt)).toMatchObject({ ...figuresOf(means), estimated: true });
      expect(accessLine(recorded(metered), "now")).toMatchObject({ usage_corrected: true });
    }
  });
});

describe("a total", () => {
  test("that is less than its parts, or no count, changes nothing", () => {
    for (const total_tokens of [0, 323, -1, 1e12, 324.5, "9999", null])
      expect(tokenUsage({ ...plain, total_tokens })).toMatchObject(plainMeans);
  });

  test("tells the one figure that is missing", () => {
    expect(tokenUsage({ completion_tokens: 298, total_tokens: 324 })).toEqual(plainMeans);
    expect(tokenUsage({ total_tokens: 324 })).toEqual(nothingCounted);
    expect(tokenUsage({ prompt_tokens: 26, total_tokens: 20 })).toMatchObject({ promptTokens: 26, completionTokens: null });
  });
});

describe("the model that served", () => {
  const figures = [
    plain,
    { ...plain, total_tokens: 400 },
    { ...plain, prompt_tokens_details: { cached_tokens: 5000, audio_tokens: 3 } },
    { ...plain, cost: 0.01 },
    { ...plain, citation_tokens: 10 },
  ];

  test("is kept with the usage, however that was corrected", () => {
    for (const usage of figures) expect(tokenUsage(usage, "served-2")).toEqual({ ...tokenUsage(usage)!, servedModel: "served-2" });
  });

  test("is absent where the upstream gives no name", () => {
    for (const name of [undefined, null, "", 4, {}, "m".repeat(257)]) expect(tokenUsage(plain, name)).not.toHaveProperty("servedModel");
  });
});
