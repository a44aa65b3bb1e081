import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { presets } from "../../../src/dialects/presets.ts";
import { nothingCounted } from "../../../src/operations/usage.ts";
import { costNanos } from "../../../src/usage/cost.ts";
import { dollarsOf } from "../../../src/usage/dollars.ts";
import { makePriceBook, priceOf } from "../../../src/usage/price-book.ts";
import type { PriceRates } from "../../../src/usage/price.ts";
import { shippedOn, shippedPrices } from "../../../src/usage/shipped-prices.ts";

const book = makePriceBook([shippedPrices()]);
const todayMs = Date.parse(shippedOn);

function cost(provider: string, model: string, figures: object, atMs = todayMs): string | null {
  const { nanos } = costNanos(priceOf(book, { provider, model }, atMs), { ...nothingCounted, ...figures });
  return nanos === null ? null : dollarsOf(nanos);
}

describe("the shipped prices", () => {
  test("are many, of many providers, and none is there twice", () => {
    const names = shippedPrices().map(({ provider, model, fromMs }) => `${provider} ${model} ${fromMs}`);
    expect(names.length).toBeGreaterThan(100);
    expect(new Set(shippedPrices().map(({ provider }) => provider)).size).toBeGreaterThan(8);
    expect(new Set(names).size).toBe(names.length);
  });

  test("name providers that exist", () => {
    // The second is how any engine of this machine can be called.
    const known = [...presets.map(({ name }) => name), "local"];
    expect(shippedPrices().filter(({ provider }) => !known.includes(provider ?? ""))).toEqual([]);
  });

  test("are amounts that somebody could ask for", () => {
    const perMillion: readonly (keyof PriceRates)[] = [
      "input",
      "cachedInput",
      "cacheWrite",
      "cacheWriteHour",
      "output",
      "audioInput",
      "audioOutput",
      "longInput",
      "longOutput",
      "characters",
    ];
    for (const { model, rates, fromMs } of shippedPrices()) {
      for (const nanos of Object.values(rates) as number[]) expect(Number.isSafeInteger(nanos) && nanos >= 0).toBe(true);
      const highest = Math.max(...perMillion.map((name) => rates[name] ?? 0));
      expect([model, highest <= 600e9]).toEqual([model, true]);
      expect((rates.seconds ?? 0) <= 1e6).toBe(true);
      expect(fromMs >= 0 && fromMs <= todayMs).toBe(true);
    }
  });

  test("make cached input cheaper than input, output dearer, and long prompts dearer than short ones", () => {
    for (const { model, rates } of shippedPrices()) {
      const { input = 0, cachedInput = input, output = input, longAboveTokens, longInput = input, longOutput = output } = rates;
      const isSound = cachedInput <= input && output >= input && longInput >= input && longOutput >= output;
      expect([model, isSound]).toEqual([model, true]);
      expect([model, (longAboveTokens === undefined) === (rates.longInput === undefined)]).toEqual([model, true]);
    }
  });

  test("give a cost for whatever their model reports", () => {
    const everything = { promptTokens: 300_000, completionTokens: 10, cachedTokens: 5, reasoningTokens: 5, audioSeconds: 5, characters: 9 };
    for (const { provider, model, rates } of shippedPrices()) {
      const reported = model.includes("embedding") ? { ...everything, completionTokens: 0, reasoningTokens: 0 } : everything;
      expect([provider, model, costNanos(rates, reported).nanos]).toEqual([provider, model, expect.any(Number)]);
    }
  });
});

describe("by the shipped prices", () => {
  const million = { promptTokens: 1_000_000, completionTokens: 1_000_000 };

  test("a chat costs what its provider says", () => {
    expect(cost("openai", "gpt-4o-mini", million)).toBe("0.75");
    expect(cost("openai", "gpt-4o-2024-08-06", { promptTokens: 1000, cachedTokens: 400, completionTokens: 100 })).toBe("0.003");
    expect(cost("openai", "gpt-4o-2024-05-13", million)).toBe("20");
    expect(cost("openai", "gpt-5.4", { promptTokens: 272_000, completionTokens: 0 })).toBe("0.68");
    expect(cost("openai", "gpt-5.4", { promptTokens: 272_001, completionTokens: 0 })).toBe("1.360005");
    expect(cost("groq", "openai/gpt-oss-120b", million)).toBe("0.75");
  });

  test("a price that changed holds from its day on", () => {
    expect(cost("openai", "gpt-5.6-luna", { promptTokens: 1000, completionTokens: 0 }, Date.parse("2026-07-29"))).toBe("0.001");
    expect(cost("openai", "gpt-5.6-luna", { promptTokens: 1000, completionTokens: 0 }, Date.parse("2026-07-30"))).toBe("0.0002");
  });

  test("a minute of transcription and a million characters of speech cost what their provider says", () => {
    expect(cost("openai", "whisper-1", { audioSeconds: 60 })).toBe("0.006");
    expect(Number(cost("groq", "whisper-large-v3-turbo", { audioSeconds: 3600 }))).toBeCloseTo(0.04, 5);
    expect(cost("openai", "tts-1", { characters: 1_000_000 })).toBe("15");
    expect(cost("openai", "tts-1-hd", { characters: 1_000_000 })).toBe("30");
  });

  test("the models of this machine are free, whatever they are called and whether or not they count", () => {
    for (const provider of ["embedded", "local"]) {
      expect(costNanos(priceOf(book, { provider, model: "anything" }, 0), null)).toEqual({ nanos: 0, estimated: false });
    }
  });

  test("a model behind a router, or of somebody unknown, is unknown", () => {
    expect(cost("openrouter", "openai/gpt-4o", million)).toBeNull();
    expect(cost("openrouter", "gpt-4o", million)).toBeNull();
    expect(priceOf(book, { provider: null, model: "gpt-4o" }, todayMs)).toBeNull();
    expect(cost("openai", "gpt-4o-nonsense", million)).toBeNull();
  });
});

test("the documentation names the day the prices were checked on", () => {
  expect(readFileSync(join(import.meta.dir, "../../../docs/prices.md"), "utf8")).toContain(shippedOn);
});
