import { describe, expect, test } from "bun:test";
import { failure, isFailure } from "../../../src/operations/failure.ts";
import { addAnswer, newOutputAverage, OutputAverages } from "../../../src/gateway/admission/output-averages.ts";
import type { Demand } from "../../../src/limits/limits.ts";
import type { CallRequest } from "../../../src/operations/call-request.ts";
import type { ChatRequest } from "../../../src/operations/chat/chat-request.ts";
import { readPassthroughRequest } from "../../../src/operations/passthrough/passthrough-request.ts";
import type { SpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import type { TranscriptionRequest } from "../../../src/operations/transcription/transcription-request.ts";
import { nothingCounted } from "../../../src/operations/usage.ts";
import { costNanos } from "../../../src/usage/cost.ts";
import { highestCost, expectedDemand, expectedUse, actualDemand, type DemandOptions } from "../../../src/usage/demand.ts";
import type { PriceRates } from "../../../src/usage/price.ts";
import { estimateTokens, TokenCount } from "../../../src/usage/token-estimate.ts";
import fc from "fast-check";
import { anyText } from "../../support/properties.ts";

const dollar = 1_000_000_000;
const rates: PriceRates = { input: dollar, output: 2 * dollar };
const usual: DemandOptions = { outputAverage: null, ceiling: null, hard: true };

/** What is reserved for a call at one price: of the money for the longest answer, unless `hard` is false. */
function demandOf(ask: CallRequest, price: PriceRates | null, options: DemandOptions): Demand {
  if (price === null) return expectedDemand(null, ask, options);
  const use = expectedUse(ask, price, options, false);
  return actualDemand(use, options.hard === false ? costNanos(price, use).nanos : highestCost(ask, [price], options));
}

const japanese =
  "人工知能は私たちの生活を大きく変えつつあります。朝起きたときの音声アシスタントから、夜寝る前のおすすめ機能まで、機械学習は日常のあらゆる場面に入り込んでいます。" +
  "しかし、技術の進歩は新しい課題ももたらしました。プライバシー、雇用、公平性などです。革新と責任のバランスを取ることが大切だと、多くの専門家が指摘しています。";

function chat(facts: Partial<ChatRequest>): CallRequest {
  const ask: ChatRequest = {
    operation: "chat",
    surface: "openai-chat",
    toConversation: () => failure("unsupported", "not translated"),
    body: new Uint8Array(),
    document: { start: 0, end: 0 },
    members: [],
    model: "large",
    stream: false,
    wantsUsage: false,
    maxTokens: null,
    maxCompletionTokens: null,
    choices: 1,
    hostedTools: false,
    reasons: false,
    plainText: true,
    promptTokensEstimate: 100,
    ...facts,
  };
  return ask;
}

function transcription(seconds: number | null, bytes: number): CallRequest {
  const content = { length: bytes, head: new Uint8Array(), read: async () => new Uint8Array() };
  const ask: TranscriptionRequest = {
    operation: "transcription",
    task: "transcribe",
    model: "listener",
    stream: false,
    format: "json",
    language: null,
    wantsWords: false,
    wantsSegments: false,
    fields: [],
    file: { name: "a.wav", type: null, content },
    seconds,
    isCut: false,
  };
  return ask;
}

function speech(input: string): CallRequest {
  const ask: SpeechRequest = {
    operation: "speech",
    body: new Uint8Array(),
    document: { start: 0, end: 0 },
    members: [],
    model: "speaker",
    input,
    characters: [...input].length,
    voice: "alloy",
    format: "mp3",
    events: false,
  };
  return ask;
}

describe("a chat is expected to take", () => {
  const tokens = (facts: Partial<ChatRequest>, options: Partial<DemandOptions> = {}): number =>
    demandOf(chat(facts), rates, { ...usual, ...options }).tokens;
  const nanos = (facts: Partial<ChatRequest>, options: Partial<DemandOptions> = {}): number | null =>
    demandOf(chat(facts), rates, { ...usual, ...options }).nanos;

  test("its prompt and a usual answer as tokens, and not more than it asks for", () => {
    expect(tokens({ maxTokens: 500 })).toBe(600);
    expect(tokens({ maxTokens: 500 }, { outputAverage: 80 })).toBe(180);
    expect(tokens({ maxTokens: 50 }, { outputAverage: 80 })).toBe(150);
    expect(tokens({}, { outputAverage: 80.2 })).toBe(181);
    expect(tokens({})).toBe(100 + 1024);
  });

  test("money for the longest answer it asks for, where money is strict, and for a usual one where it is not", () => {
    expect(nanos({ maxTokens: 500 }, { outputAverage: 80 })).toBe(100 * 1000 + 500 * 2000);
    expect(nanos({ maxTokens: 500 }, { outputAverage: 80, hard: false })).toBe(100 * 1000 + 80 * 2000);
    expect(nanos({}, { outputAverage: 80, hard: false })).toBe(100 * 1000 + 80 * 2000);
    expect(nanos({}, { hard: false })).toBe(100 * 1000 + 1024 * 2000);
  });

  test("money for a long answer where it does not say how long one may be, however short others were", () => {
    expect(nanos({})).toBe(100 * 1000 + 4096 * 2000);
    expect(nanos({}, { outputAverage: 1 })).toBe(100 * 1000 + 4096 * 2000);
    expect(nanos({}, { outputAverage: 5_000 })).toBe(100 * 1000 + 5_000 * 2000);
    expect(nanos({}, { outputAverage: 1e12 })).toBe(100 * 1000 + 1_000_000 * 2000);
    expect(nanos({ choices: 3 }, { outputAverage: 1 })).toBe(100 * 1000 + 3 * 4096 * 2000);
  });

  test("money is strict unless it is said not to be", () => {
    expect(demandOf(chat({ maxTokens: 500 }), rates, { outputAverage: 80, ceiling: null }).nanos).toBe(100 * 1000 + 500 * 2000);
  });

  test("as many answers as it asks for", () => {
    expect(tokens({ choices: 3, maxTokens: 10 })).toBe(130);
    expect(nanos({ choices: 3, maxTokens: 10 })).toBe(100 * 1000 + 30 * 2000);
    for (const choices of [0, -5, Number.NaN]) expect(tokens({ choices, maxTokens: 10 })).toBe(110);
    expect(tokens({ choices: 1e9, maxTokens: 10 })).toBe(100 + 128 * 10);
  });

  test("an answer to each prompt of a batch, however many there are", () => {
    const prompts = (count: number, n: number): CallRequest => {
      const body = JSON.stringify({ model: "m", prompt: Array<string>(count).fill("hi"), n, max_tokens: 10 });
      const read = readPassthroughRequest("completion", Buffer.from(body));
      if (isFailure(read)) throw new Error(read.publicMessage);
      return { ...read, promptTokensEstimate: 100 };
    };
    expect(demandOf(prompts(2000, 1), rates, usual)).toMatchObject({ tokens: 100 + 2000 * 10, nanos: 100 * 1000 + 2000 * 10 * 2000 });
    expect(demandOf(prompts(20, 128), rates, usual)).toMatchObject({ tokens: 100 + 2560 * 10 });
  });

  test("no more than whoever serves it allows", () => {
    expect(tokens({ maxTokens: 9000 }, { ceiling: 50 })).toBe(150);
    expect(nanos({ maxTokens: 9000 }, { ceiling: 50 })).toBe(100 * 1000 + 50 * 2000);
  });

  test("more than whoever serves it allows where it does not say how much: only a number is lowered on the way", () => {
    expect(nanos({}, { ceiling: 50, outputAverage: 80 })).toBe(100 * 1000 + 4096 * 2000);
    expect(tokens({}, { ceiling: 50, outputAverage: 80 })).toBe(180);
  });

  test("the larger of two lengths it asks for", () => {
    expect(nanos({ maxTokens: 10, maxCompletionTokens: 30 })).toBe(100 * 1000 + 30 * 2000);
  });

  test("what is usual where the length it asks for is none", () => {
    for (const maxTokens of [-1, 0, Number.NaN, -Infinity]) expect(nanos({ maxTokens })).toBe(100 * 1000 + 4096 * 2000);
    expect(nanos({ maxTokens: 1e300 })).toBe(100 * 1000 + 1_000_000 * 2000);
    expect(nanos({ maxTokens: Infinity })).toBe(100 * 1000 + 1_000_000 * 2000);
    expect(nanos({ maxTokens: 2.5 })).toBe(100 * 1000 + 3 * 2000);
  });

  test("money for some searches where its tools run at the upstream, if a search has a price", () => {
    const searching = chat({ hostedTools: true, maxTokens: 100 });
    const dearer = (more: PriceRates): number | null => {
      const [one, other] = [{ ...rates, ...more }, rates].map((price) => highestCost(searching, [price], usual));
      return one == null || other == null ? null : one - other;
    };
    expect(dearer({ webSearch: 10_000_000 })).toBe(50_000_000);
    expect(dearer({ searchedCall: 35_000_000 })).toBe(35_000_000);
    expect(dearer({})).toBe(0);
    expect(highestCost(chat({ maxTokens: 100 }), [{ ...rates, webSearch: dollar }], usual)).toBe(300_000);
  });

  test("an unknown amount of money where its price is unknown", () => {
    expect(demandOf(chat({}), null, usual).nanos).toBeNull();
    expect(demandOf(chat({}), { input: 1 }, usual).nanos).toBeNull();
    expect(demandOf(chat({}), { input: 0, output: 0 }, usual).nanos).toBe(0);
  });

  test("amounts that can be added up, whatever it says of itself", () => {
    const absurd = fc.oneof(fc.integer(), fc.double(), fc.constantFrom(Number.NaN, Infinity, -Infinity, 1e308, -1));
    fc.assert(
      fc.property(
        fc.record({ maxTokens: absurd, maxCompletionTokens: absurd, choices: absurd, promptTokensEstimate: absurd }),
        fc.record({ outputAverage: absurd, ceiling: absurd, hard: fc.boolean() }),
        (facts, options) => {
          const { tokens, nanos, audioSeconds, characters } = demandOf(chat(facts), rates, options);
          expect(Number.isSafeInteger(tokens) && tokens >= 0).toBe(true);
          expect(Number.isSafeInteger(nanos) && nanos! >= 0).toBe(true);
          expect([audioSeconds, characters]).toEqual([0, 0]);
        },
      ),
    );
  });

  test("at least as much money strictly as usually", () => {
    const count = fc.integer({ min: 0, max: 100_000 });
    fc.assert(
      fc.property(fc.option(count), fc.option(count), fc.option(count), (maxTokens, outputAverage, ceiling) => {
        const of = (hard: boolean): number => demandOf(chat({ maxTokens }), rates, { outputAverage, ceiling, hard }).nanos!;
        expect(of(true)).toBeGreaterThanOrEqual(of(false));
      }),
    );
  });
});

describe("a transcription is expected to take", () => {
  test("the seconds that its file plays", () => {
    expect(demandOf(transcription(12.5, 1e6), { seconds: 100_000 }, usual)).toEqual({
      tokens: 0,
      audioSeconds: 12.5,
      characters: 0,
      nanos: 1_250_000,
    });
  });

  test("what its bytes would play at a low rate, where the file does not tell", () => {
    expect(demandOf(transcription(null, 60_000), { seconds: 100_000 }, usual)).toMatchObject({ audioSeconds: 30, nanos: 3_000_000 });
    expect(demandOf(transcription(Number.NaN, 60_000), null, usual).audioSeconds).toBe(30);
    expect(demandOf(transcription(-1, 60_000), null, usual).audioSeconds).toBe(30);
  });

  test("tokens where it is billed by them", () => {
    const { tokens, nanos } = demandOf(transcription(60, 1e6), { input: 2.5 * dollar, output: 10 * dollar }, usual);
    expect(tokens).toBe(60 * 25);
    expect(nanos).toBe(60 * 20 * 2500 + 60 * 5 * 10_000);
  });
});

describe("speech is expected to take", () => {
  test("the characters of its text", () => {
    expect(demandOf(speech("Grüße 🎉"), { characters: 15 * dollar }, usual)).toEqual({
      tokens: 0,
      audioSeconds: 0,
      characters: 7,
      nanos: 105_000,
    });
  });

  test("tokens where it is billed by them", () => {
    const text = "Read this aloud, please.";
    const { tokens, nanos } = demandOf(speech(text), { input: dollar, output: 12 * dollar }, usual);
    expect(tokens).toBe(estimateTokens(text) + 2 * text.length);
    expect(nanos).toBe(estimateTokens(text) * 1000 + 2 * text.length * 12_000);
  });

  test("and is billed by that where its upstream counts nothing", () => {
    const byToken: PriceRates = { input: dollar, output: 12 * dollar };
    const ask = speech("Read this aloud, please.");
    const metered = { ...nothingCounted, characters: 24 };
    expect(costNanos(byToken, metered, expectedUse(ask, byToken, usual))).toEqual({
      nanos: demandOf(ask, byToken, usual).nanos,
      estimated: true,
    });
  });
});

describe("the most that a call may cost", () => {
  const nanosAt = (ask: CallRequest, ...all: readonly (PriceRates | null)[]): number | null => highestCost(ask, all, usual);
  const member = (key: string): ChatRequest["members"][number] => ({ key, kind: "object", empty: false, start: 0, end: 0, keyStart: 0 });

  test("is found for the call itself: whoever has the dearest prompt need not have the dearest answer", () => {
    const dearPrompt: PriceRates = { input: 10 * dollar, output: 11 * dollar };
    const dearAnswer: PriceRates = { input: dollar, output: 20 * dollar };
    const long = chat({ promptTokensEstimate: 100_000, maxTokens: 100 });
    const short = chat({ promptTokensEstimate: 100, maxTokens: 1_000 });
    for (const all of [
      [dearPrompt, dearAnswer],
      [dearAnswer, dearPrompt],
    ]) {
      expect(nanosAt(long, ...all)).toBe(100_000 * 10_000 + 100 * 11_000);
      expect(nanosAt(short, ...all)).toBe(100 * 1_000 + 1_000 * 20_000);
    }
  });

  test("is at the rates of a long prompt where it is one", () => {
    const flat: PriceRates = { input: 3 * dollar, output: 15 * dollar };
    const steep: PriceRates = {
      input: dollar,
      output: 10 * dollar,
      longAboveTokens: 1_000,
      longInput: 6 * dollar,
      longOutput: 20 * dollar,
    };
    expect(nanosAt(chat({ promptTokensEstimate: 1_000, maxTokens: 10 }), flat, steep)).toBe(1_000 * 3_000 + 10 * 15_000);
    expect(nanosAt(chat({ promptTokensEstimate: 1_001, maxTokens: 10 }), flat, steep)).toBe(1_001 * 6_000 + 10 * 20_000);
  });

  test("is at the rates of the dearest parts that it may have", () => {
    const ask = chat({ maxTokens: 10 });
    expect(nanosAt(ask, { ...rates, cachedInput: 1, cacheWrite: 4 * dollar })).toBe(100 * 4_000 + 10 * 2_000);
    expect(nanosAt(ask, { ...rates, reasoning: 7 * dollar })).toBe(100 * 1_000 + 10 * 7_000);
    expect(nanosAt(ask, { ...rates, audioInput: 40 * dollar })).toBe(100 * 40_000 + 10 * 2_000);
    const spoken: PriceRates = { ...rates, audioOutput: 80 * dollar };
    expect(nanosAt(ask, spoken)).toBe(100 * 1_000 + 10 * 2_000);
    for (const key of ["modalities", "audio"]) {
      expect(nanosAt(chat({ maxTokens: 10, members: [member(key)] }), spoken)).toBe(100 * 1_000 + 10 * 80_000);
    }
    expect(nanosAt(transcription(60, 1e6), { ...rates, audioInput: 6 * dollar })).toBe(60 * 20 * 6_000 + 60 * 5 * 2_000);
    expect(nanosAt(speech("abc"), { ...spoken, audioInput: 40 * dollar })).toBe(estimateTokens("abc") * 1_000 + 2 * 3 * 80_000);
  });

  test("is not known where it is not known at one of them, or where there is none", () => {
    expect(nanosAt(chat({}), rates, null)).toBeNull();
    expect(nanosAt(chat({}), rates, { input: 1 })).toBeNull();
    expect(nanosAt(chat({}), { input: 1, cacheWrite: 5, audioOutput: 5 }, rates)).toBeNull();
    expect(nanosAt(chat({}))).toBeNull();
  });

  test("is no less than any call costs that keeps to what it asked for, at any of them, whatever its parts are", () => {
    const figure = fc.integer({ min: 0, max: 100 * dollar });
    const some = fc.record(
      {
        input: figure,
        output: figure,
        cachedInput: figure,
        cacheWrite: figure,
        cacheWriteHour: figure,
        reasoning: figure,
        audioInput: figure,
        longInput: figure,
        longOutput: figure,
        longCacheWrite: figure,
        longCacheWriteHour: figure,
        longAboveTokens: fc.nat(2_000),
        call: figure,
      },
      { requiredKeys: ["input", "output"] },
    );
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const part = (whole: number, of: number): number => Math.floor(whole * of);
    fc.assert(
      fc.property(
        fc.array(some, { minLength: 1, maxLength: 4 }),
        fc.nat(3_000),
        fc.integer({ min: 1, max: 3_000 }),
        fc.array(share, { minLength: 5, maxLength: 5 }),
        (all, promptTokensEstimate, maxTokens, [cached, written, heard, thought, length]) => {
          const completionTokens = part(maxTokens, length!);
          const metered = {
            ...nothingCounted,
            promptTokens: promptTokensEstimate,
            completionTokens,
            cachedTokens: part(promptTokensEstimate, cached!),
            cacheWriteTokens: part(promptTokensEstimate, written!),
            cacheWriteHourTokens: part(part(promptTokensEstimate, written!), thought!),
            audioInputTokens: part(promptTokensEstimate, heard!),
            reasoningTokens: part(completionTokens, thought!),
          };
          const most = nanosAt(chat({ promptTokensEstimate, maxTokens }), ...all)!;
          for (const one of all) expect(costNanos(one, metered).nanos!).toBeLessThanOrEqual(most);
        },
      ),
    );
  });
});

describe("what a call took", () => {
  test("is what was counted, and nothing of what was not", () => {
    const metered = { ...nothingCounted, promptTokens: 7, completionTokens: 5, audioSeconds: 2.5, characters: 3 };
    expect(actualDemand(metered, 42)).toEqual({ tokens: 12, audioSeconds: 2.5, characters: 3, nanos: 42 });
    expect(actualDemand({ ...nothingCounted, promptTokens: 7 }, null)).toEqual({ tokens: 7, audioSeconds: 0, characters: 0, nanos: null });
    expect(actualDemand(null, 0)).toEqual({ tokens: 0, audioSeconds: 0, characters: 0, nanos: 0 });
  });

  test("is never negative, and never without end", () => {
    const metered = { ...nothingCounted, promptTokens: -5, completionTokens: Number.NaN, audioSeconds: Infinity, characters: 1e300 };
    expect(actualDemand(metered, 1)).toEqual({ tokens: 0, audioSeconds: 36_000_000, characters: 1e9, nanos: 1 });
  });
});

describe("an estimate of tokens", () => {
  test("is near the count of a tokenizer", () => {
    // The counts are those of the o200k vocabulary.
    const counted: readonly (readonly [text: string, tokens: number])[] = [
      ["Sure! Here's how you can do that:\n\n1. **Install the package** with your package manager.\n", 21],
      ["The old lighthouse keeper had not spoken to another person in eleven days.", 14],
      ["export function add(a: number, b: number): number {\n  return a + b;\n}\n", 20],
      ['{"name":"item 4","price":"5.48","active":true}', 17],
      ["Искусственный интеллект меняет наш образ жизни.", 11],
      ["Great job! 🎉🎉 Let's go 🚀 and celebrate 🥳 with everyone 👩‍👩‍👧 👍🏽 ❤️", 30],
      [japanese, 125],
    ];
    for (const [text, tokens] of counted) expect([text, Math.abs(estimateTokens(text) / tokens - 1) <= 0.25]).toEqual([text, true]);
  });

  test("is nothing for nothing, and something for anything", () => {
    expect(estimateTokens("")).toBe(0);
    fc.assert(fc.property(anyText({ minLength: 1 }), (text) => expect(estimateTokens(text)).toBeGreaterThan(0)));
  });

  test("does not depend on where a text is cut", () => {
    fc.assert(
      fc.property(anyText({ maxLength: 200 }), fc.array(fc.nat(200)), (text, cuts) => {
        const count = new TokenCount();
        const edges = [0, ...cuts.toSorted((a, b) => a - b), text.length];
        edges.forEach((edge, at) => count.push(text.slice(edge, edges[at + 1] ?? edge)));
        expect(count.tokens).toBe(estimateTokens(text));
      }),
    );
  });
});

describe("the usual length of answers", () => {
  test("is their mean at first, and follows later ones slowly", () => {
    const first = newOutputAverage();
    for (const length of [100, 200, 600]) addAnswer(first, length);
    expect(first.tokens).toBe(300);
    const settled = newOutputAverage();
    for (let answer = 0; answer < 100; answer += 1) addAnswer(settled, 100);
    addAnswer(settled, 1100);
    expect(settled.tokens).toBe(150);
  });

  test("ignores what is no count", () => {
    const averages = new OutputAverages();
    for (const wrong of [null, -1, Number.NaN, Infinity, 1e12]) averages.learn("a", wrong);
    expect(averages.of("a")).toBeNull();
    averages.learn("a", 100);
    for (const wrong of [null, -1, Number.NaN, Infinity, 1e12]) averages.learn("a", wrong);
    expect(averages.of("a")).toBe(100);
    averages.learn("a", 200);
    expect(averages.of("a")).toBe(150);
  });

  test("is kept for so many, and those without news go first", () => {
    const averages = new OutputAverages(2);
    averages.learn("a", 10);
    averages.learn("b", 20);
    averages.learn("a", 30);
    averages.learn("c", 5);
    expect(["a", "b", "c"].map((name) => averages.of(name))).toEqual([20, null, 5]);
  });

  test("costs a newcomer as much when many are kept as when few are", () => {
    const averages = new OutputAverages(50_000);
    for (let at = 0; at < 300_000; at += 1) averages.learn(`model-${at}`, 10);
    expect([averages.of("model-0"), averages.of("model-299999")]).toEqual([null, 10]);
  });
});
