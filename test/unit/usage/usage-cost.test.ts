import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { transcriptionUsage } from "../../../src/operations/transcription/transcription-usage.ts";
import { nothingCounted, tokenUsage, type MeteredUsage } from "../../../src/operations/usage.ts";
import { costNanos } from "../../../src/usage/cost.ts";
import { dollarsNumber, dollarsOf, nanosOf } from "../../../src/usage/dollars.ts";
import type { PriceRates } from "../../../src/usage/price.ts";

const dollar = 1_000_000_000;

function used(figures: Partial<MeteredUsage>): MeteredUsage {
  return { ...nothingCounted, ...figures };
}

function nanos(rates: PriceRates | null, figures: Partial<MeteredUsage> | null): number | null {
  return costNanos(rates, figures === null ? null : used(figures)).nanos;
}

describe("the cost of searches", () => {
  const rates: PriceRates = { input: 2 * dollar, output: 8 * dollar };
  const tokens = { promptTokens: 1000, completionTokens: 0 };

  test("is their number times their rate, beside the tokens", () => {
    const all = { ...rates, webSearch: 10_000_000, fileSearch: 2_500_000 };
    expect(nanos(all, { ...tokens, webSearches: 3, fileSearches: 2 })).toBe(2_000_000 + 30_000_000 + 5_000_000);
    expect(nanos(all, tokens)).toBe(2_000_000);
  });

  test("is one amount, however many there were, where the call costs and not the search", () => {
    const once = { ...rates, searchedCall: 35_000_000, webSearch: 1 };
    expect([0, 1, 9].map((webSearches) => nanos(once, { ...tokens, webSearches }))).toEqual([2_000_000, 37_000_000, 37_000_000]);
  });

  test("is unknown without a rate, and free with a rate of zero", () => {
    expect(nanos(rates, { ...tokens, webSearches: 1 })).toBeNull();
    expect(nanos({ ...rates, webSearch: 1 }, { ...tokens, fileSearches: 1 })).toBeNull();
    expect(nanos({ ...rates, webSearch: 0, fileSearch: 0 }, { ...tokens, webSearches: 5, fileSearches: 5 })).toBe(2_000_000);
  });

  test("is not estimated: what an upstream does not report did not happen", () => {
    const expected = used({ ...tokens, webSearches: 5 });
    expect(costNanos({ ...rates, webSearch: dollar }, used(tokens), expected)).toEqual({ nanos: 2_000_000, estimated: false });
  });

  test("does not depend on how much there is of it", () => {
    expect(nanos({ ...rates, webSearch: 1e13 }, { ...tokens, webSearches: 1e9 })).toBeGreaterThan(0);
    expect(nanos({ ...rates, webSearch: dollar }, { ...tokens, webSearches: -1 })).toBe(2_000_000);
  });
});

describe("the cost of tokens", () => {
  const rates: PriceRates = { input: 2 * dollar, cachedInput: dollar / 2, output: 8 * dollar };

  test("is their number times the rate of a million", () => {
    expect(nanos(rates, { promptTokens: 1_000_000, completionTokens: 500_000 })).toBe(6 * dollar);
    expect(nanos(rates, { promptTokens: 1, completionTokens: 0 })).toBe(2000);
  });

  test("counts cached ones as a part of the prompt, at their own rate or else as any other", () => {
    expect(nanos(rates, { promptTokens: 1000, cachedTokens: 600, completionTokens: 0 })).toBe(400 * 2000 + 600 * 500);
    expect(nanos({ input: 2 * dollar, output: 0 }, { promptTokens: 1000, cachedTokens: 600, completionTokens: 0 })).toBe(1000 * 2000);
  });

  test("counts those put into a cache as a part of the prompt", () => {
    const figures = { promptTokens: 1000, cachedTokens: 100, cacheWriteTokens: 300, completionTokens: 0 };
    expect(nanos({ ...rates, cacheWrite: 3 * dollar }, figures)).toBe(600 * 2000 + 100 * 500 + 300 * 3000);
    expect(nanos(rates, figures)).toBe(900 * 2000 + 100 * 500);
  });

  test("counts those put there for an hour as a part of them, at their own rate or else as any other", () => {
    const figures = { promptTokens: 1000, cacheWriteTokens: 300, cacheWriteHourTokens: 100, completionTokens: 0 };
    expect(nanos({ ...rates, cacheWrite: 3 * dollar, cacheWriteHour: 4 * dollar }, figures)).toBe(700 * 2000 + 200 * 3000 + 100 * 4000);
    expect(nanos({ ...rates, cacheWrite: 3 * dollar }, figures)).toBe(700 * 2000 + 300 * 3000);
    const long = { ...rates, longAboveTokens: 500, longInput: 4 * dollar, longCacheWrite: 5 * dollar, longCacheWriteHour: 8 * dollar };
    expect(nanos(long, figures)).toBe(700 * 4000 + 200 * 5000 + 100 * 8000);
    expect(nanos({ ...rates, cacheWriteHour: 4 * dollar }, { ...figures, cacheWriteHourTokens: 9999 })).toBe(700 * 2000 + 300 * 4000);
  });

  test("counts reasoning as a part of the completion, at its own rate or else as any other", () => {
    const figures = { promptTokens: 0, completionTokens: 1000, reasoningTokens: 900 };
    expect(nanos(rates, figures)).toBe(1000 * 8000);
    expect(nanos({ ...rates, reasoning: 3 * dollar }, figures)).toBe(100 * 8000 + 900 * 3000);
  });

  test("counts sound at its own rate or else as text", () => {
    const figures = { promptTokens: 100, audioInputTokens: 60, completionTokens: 50, audioOutputTokens: 30 };
    expect(nanos(rates, figures)).toBe(100 * 2000 + 50 * 8000);
    expect(nanos({ ...rates, audioInput: 10 * dollar, audioOutput: 20 * dollar }, figures)).toBe(
      40 * 2000 + 60 * 10_000 + 20 * 8000 + 30 * 20_000,
    );
  });

  test("cuts parts that are larger than the whole", () => {
    expect(nanos(rates, { promptTokens: 100, cachedTokens: 5000, completionTokens: 0 })).toBe(100 * 500);
    const reasoned = { promptTokens: 0, completionTokens: 10, reasoningTokens: 99, audioOutputTokens: 99 };
    expect(nanos({ ...rates, reasoning: dollar, audioOutput: 4 * dollar }, reasoned)).toBe(10 * 4000);
  });

  test("is that of long prompts for the whole call once the prompt is longer than short ones are", () => {
    const tiered: PriceRates = {
      ...rates,
      longAboveTokens: 200_000,
      longInput: 4 * dollar,
      longCachedInput: dollar,
      longOutput: 12 * dollar,
    };
    expect(nanos(tiered, { promptTokens: 200_000, cachedTokens: 1000, completionTokens: 10 })).toBe(
      199_000 * 2000 + 1000 * 500 + 10 * 8000,
    );
    expect(nanos(tiered, { promptTokens: 200_001, cachedTokens: 1000, completionTokens: 10 })).toBe(
      199_001 * 4000 + 1000 * 1000 + 10 * 12_000,
    );
  });

  test("is rounded half up once, at the end", () => {
    expect(nanos({ input: 499_999, output: 0 }, { promptTokens: 1, completionTokens: 0 })).toBe(0);
    expect(nanos({ input: 500_000, output: 0 }, { promptTokens: 1, completionTokens: 0 })).toBe(1);
    expect(nanos({ input: 500_000, output: 500_000 }, { promptTokens: 1, completionTokens: 1 })).toBe(1);
    expect(nanos({ input: 400_000, output: 400_000 }, { promptTokens: 1, completionTokens: 1 })).toBe(1);
  });

  test("is exact for a billion tokens at any rate", () => {
    const rate = 123_456_789_012_345;
    expect(nanos({ input: rate, output: 0 }, { promptTokens: 999_999_937, completionTokens: 0 })).toBe(Number.MAX_SAFE_INTEGER);
    expect(nanos({ input: 60_000_000_001, output: 0 }, { promptTokens: 999_999_937, completionTokens: 0 })).toBe(
      Number((60_000_000_001n * 999_999_937n + 500_000n) / 1_000_000n),
    );
  });
});

describe("the cost of what is not counted in tokens", () => {
  test("is by the second, also by parts of it", () => {
    expect(nanos({ seconds: 100_000 }, { audioSeconds: 60 })).toBe(6_000_000);
    expect(nanos({ seconds: 100_000 }, { audioSeconds: 2.3 })).toBe(230_000);
    expect(nanos({ seconds: 1 }, { audioSeconds: 0.5 })).toBe(1);
  });

  test("is by the million characters, and by the call", () => {
    expect(nanos({ characters: 15 * dollar }, { characters: 4096 })).toBe(61_440_000);
    expect(nanos({ call: 5_000_000 }, null)).toBe(5_000_000);
    expect(nanos({ call: 5, input: dollar, output: 0 }, { promptTokens: 3, completionTokens: 0 })).toBe(3005);
  });

  test("leaves tokens out where the price is not by tokens", () => {
    expect(nanos({ seconds: 100_000 }, { audioSeconds: 1, promptTokens: 14, completionTokens: 5 })).toBe(100_000);
  });
});

describe("a cost is unknown", () => {
  const rates: PriceRates = { input: dollar, output: dollar };

  test("without a price, and with a price that has no rates", () => {
    expect(nanos(null, { promptTokens: 1, completionTokens: 1 })).toBeNull();
    expect(nanos({}, { promptTokens: 1, completionTokens: 1 })).toBeNull();
    expect(nanos({ longAboveTokens: 5 }, { promptTokens: 1, completionTokens: 1 })).toBeNull();
  });

  test("without a rate that is needed, and known where it is not", () => {
    expect(nanos({ input: dollar }, { promptTokens: 1, completionTokens: 1 })).toBeNull();
    expect(nanos({ input: dollar }, { promptTokens: 1, completionTokens: 0 })).toBe(1000);
    expect(nanos({ input: dollar }, { promptTokens: 1, completionTokens: null })).toBeNull();
    expect(nanos({ cachedInput: dollar, output: 0 }, { promptTokens: 2, cachedTokens: 1, completionTokens: 0 })).toBeNull();
    expect(nanos({ cachedInput: dollar, output: 0 }, { promptTokens: 2, cachedTokens: 2, completionTokens: 0 })).toBe(2000);
  });

  test("without a figure that is needed, and known where it is free", () => {
    expect(nanos(rates, null)).toBeNull();
    expect(nanos(rates, { promptTokens: 5 })).toBeNull();
    expect(nanos({ seconds: 1 }, { promptTokens: 5, completionTokens: 5 })).toBeNull();
    expect(nanos({ characters: 1 }, {})).toBeNull();
    expect(nanos({ input: 0, output: 0, seconds: 0, characters: 0 }, null)).toBe(0);
    expect(nanos({ input: 0, output: dollar }, { completionTokens: 2 })).toBe(2000);
    expect(nanos({ input: 0, audioInput: dollar, output: 0 }, { completionTokens: 2 })).toBeNull();
  });

  test("at a rate that is no amount", () => {
    for (const input of [Number.NaN, -1, 0.5, Infinity, 1e300]) {
      expect(nanos({ input, output: 0 }, { promptTokens: 5, completionTokens: 0 })).toBeNull();
      expect(nanos({ seconds: input }, { audioSeconds: 5 })).toBeNull();
    }
  });
});

describe("an estimate", () => {
  const rates: PriceRates = { input: dollar, output: 2 * dollar };
  const estimate = used({ promptTokens: 100, completionTokens: 50, audioSeconds: 3, characters: 9 });

  test("fills in what was not told, and is marked", () => {
    expect(costNanos(rates, null, estimate)).toEqual({ nanos: 200_000, estimated: true });
    expect(costNanos(rates, used({ promptTokens: 7 }), estimate)).toEqual({ nanos: 107_000, estimated: true });
    expect(costNanos({ seconds: 10 }, null, estimate)).toEqual({ nanos: 30, estimated: true });
  });

  test("does not count where everything was told, or nothing is charged for it", () => {
    expect(costNanos(rates, used({ promptTokens: 7, completionTokens: 1 }), estimate)).toEqual({ nanos: 9000, estimated: false });
    expect(costNanos({ characters: dollar }, used({ characters: 4 }), estimate)).toEqual({ nanos: 4000, estimated: false });
    expect(costNanos({ seconds: 0 }, null, estimate)).toEqual({ nanos: 0, estimated: false });
  });

  test("that came with the figures is marked as well", () => {
    expect(costNanos({ seconds: 10 }, used({ audioSeconds: 2, estimated: true }))).toEqual({ nanos: 20, estimated: true });
    expect(costNanos(null, used({ audioSeconds: 2, estimated: true }))).toEqual({ nanos: null, estimated: false });
  });
});

describe("whatever is reported", () => {
  const count = fc.integer({ min: 0, max: 1_000_000_000 });
  const small = fc.integer({ min: 0, max: 2_000_000 });
  const rate = fc.integer({ min: 0, max: 200 * dollar });
  const anyRates = fc.record({
    input: rate,
    cachedInput: rate,
    cacheWrite: rate,
    cacheWriteHour: rate,
    output: rate,
    reasoning: rate,
    audioInput: rate,
    audioOutput: rate,
    characters: rate,
    seconds: fc.integer({ min: 0, max: dollar }),
    call: rate,
  });
  const figures = (size: fc.Arbitrary<number>): fc.Arbitrary<MeteredUsage> =>
    fc.record({
      promptTokens: size,
      completionTokens: size,
      cachedTokens: size,
      reasoningTokens: size,
      cacheWriteTokens: size,
      cacheWriteHourTokens: size,
      audioInputTokens: size,
      audioOutputTokens: size,
      audioSeconds: fc.integer({ min: 0, max: 100_000 }),
      characters: size,
    });

  test("a cost is an amount that is not negative and is held exactly, or unknown", () => {
    const absurd = fc.oneof(count, fc.constantFrom(-1, 1e12, Number.NaN, Infinity, 0.5, null), fc.string()) as fc.Arbitrary<number>;
    fc.assert(
      fc.property(anyRates, figures(absurd), figures(absurd), (rates, metered, estimate) => {
        const { nanos } = costNanos(rates, metered, estimate);
        expect(nanos === null || (nanos >= 0 && Number.isSafeInteger(nanos))).toBe(true);
      }),
    );
  });

  test("a figure that cannot be a count is as good as none", () => {
    const rates: PriceRates = { input: dollar, output: dollar };
    for (const promptTokens of [-1, 1e12, Number.NaN, Infinity, 0.5, "12" as unknown as number]) {
      expect(nanos(rates, { promptTokens, completionTokens: 1 })).toBeNull();
      expect(nanos(rates, { promptTokens: 4, cachedTokens: promptTokens, completionTokens: 1 })).toBe(5000);
    }
    for (const audioSeconds of [-1, Number.NaN, Infinity, 1e12]) expect(nanos({ seconds: 1 }, { audioSeconds })).toBeNull();
  });

  test("more of anything never costs less", () => {
    const wholes = fc.constantFrom("promptTokens", "completionTokens", "audioSeconds", "characters" as const);
    fc.assert(
      fc.property(anyRates, figures(small), wholes, fc.integer({ min: 1, max: 1000 }), (rates, metered, figure, more) => {
        const before = costNanos(rates, metered).nanos!;
        expect(costNanos(rates, { ...metered, [figure]: metered[figure]! + more }).nanos!).toBeGreaterThanOrEqual(before);
      }),
    );
  });

  test("two calls cost what they cost together, but for a rounding", () => {
    const plain = fc.record({ promptTokens: small, completionTokens: small, characters: small });
    fc.assert(
      fc.property(fc.record({ input: rate, output: rate, characters: rate }), plain, plain, (rates, a, b) => {
        const sum = {
          promptTokens: a.promptTokens + b.promptTokens,
          completionTokens: a.completionTokens + b.completionTokens,
          characters: a.characters + b.characters,
        };
        expect(Math.abs(nanos(rates, sum)! - nanos(rates, a)! - nanos(rates, b)!)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test("it is the same as with all digits", () => {
    fc.assert(
      fc.property(rate, rate, count, count, (input, output, promptTokens, completionTokens) => {
        const exact = (BigInt(input) * BigInt(promptTokens) + BigInt(output) * BigInt(completionTokens) + 500_000n) / 1_000_000n;
        const most = BigInt(Number.MAX_SAFE_INTEGER);
        expect(nanos({ input, output }, { promptTokens, completionTokens })).toBe(Number(exact > most ? most : exact));
      }),
    );
  });
});

describe("a report of usage", () => {
  test("tells the sound in a chat, and what was put into a cache", () => {
    expect(
      tokenUsage({
        prompt_tokens: 30,
        completion_tokens: 20,
        prompt_tokens_details: { audio_tokens: 12, cached_tokens: 3, cache_write_tokens: 8 },
        completion_tokens_details: { audio_tokens: 9 },
      }),
    ).toEqual({
      promptTokens: 30,
      completionTokens: 20,
      cachedTokens: 3,
      reasoningTokens: null,
      cacheWriteTokens: 8,
      audioInputTokens: 12,
      audioOutputTokens: 9,
    });
  });

  test("says nothing of sound where it does not, or where it makes no sense", () => {
    const usage = tokenUsage({ prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: { audio_tokens: -1 } });
    expect(Object.keys(usage!).toSorted()).toEqual(["cachedTokens", "completionTokens", "promptTokens", "reasoningTokens"]);
  });

  test("tells the sound in a transcription", () => {
    const usage = { type: "tokens", input_tokens: 14, input_token_details: { text_tokens: 4, audio_tokens: 10 }, output_tokens: 6 };
    expect(transcriptionUsage(usage, null)).toMatchObject({ promptTokens: 14, audioInputTokens: 10, completionTokens: 6 });
  });
});

describe("an amount of dollars", () => {
  test("is read without losing a billionth", () => {
    expect(nanosOf("0.15")).toBe(150_000_000);
    expect(nanosOf(0.1)).toBe(100_000_000);
    expect(nanosOf(0.1 + 0.2)).toBe(300_000_000);
    expect(nanosOf("0.000000001")).toBe(1);
    expect(nanosOf(1e-7)).toBe(100);
    expect(nanosOf("2.5E3")).toBe(2500 * dollar);
    expect(nanosOf(" 1.25 ")).toBe(1_250_000_000);
    expect(nanosOf(".5")).toBe(500_000_000);
    expect(nanosOf("5.")).toBe(5 * dollar);
    expect(nanosOf(0)).toBe(0);
    expect(nanosOf("9007199.254740991")).toBe(Number.MAX_SAFE_INTEGER);
  });

  test("is rounded half up where it is finer than that", () => {
    expect(nanosOf("0.0000000005")).toBe(1);
    expect(nanosOf("0.00000000049999999999")).toBe(0);
    expect(nanosOf("0.0000000014999999999999999999")).toBe(1);
    expect(nanosOf("1e-99")).toBe(0);
  });

  test("is refused where it is none, is negative, or is too much to be exact", () => {
    for (const wrong of [
      "",
      " ",
      ".",
      "e5",
      "-1",
      "+1",
      "$5",
      "1,5",
      "1_000",
      "0x10",
      "NaN",
      "Infinity",
      "1e999",
      "9007199.254740992",
      "1".repeat(99),
    ]) {
      expect(nanosOf(wrong)).toBeNull();
    }
    for (const wrong of [Number.NaN, Infinity, -0.01, -1, 1e21, Number.MAX_VALUE]) expect(nanosOf(wrong)).toBeNull();
  });

  test("is written with the digits it needs", () => {
    expect([0, 1, 150_000_000, 2 * dollar, 1_234_567_890_000_000_000].map(dollarsOf)).toEqual([
      "0",
      "0.000000001",
      "0.15",
      "2",
      "1234567890",
    ]);
    expect(dollarsOf(-2_500_000_000)).toBe("-2.5");
    expect(dollarsOf(-1)).toBe("-0.000000001");
    expect(dollarsNumber(150_000_000)).toBe(0.15);
  });

  test("comes back as it was", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (nanos) => {
        expect(nanosOf(dollarsOf(nanos))).toBe(nanos);
        expect(Number(dollarsOf(nanos))).toBe(dollarsNumber(nanos));
      }),
    );
  });
});
