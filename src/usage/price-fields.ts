import { dollarsNumber } from "./dollars.ts";
import type { PriceRates } from "./price.ts";

/** Rates by the words people write them with. All are dollars except for `long_above_tokens`. */
export type PriceFields = Readonly<Partial<Record<PriceField, number>>>;

const rateOfField = {
  input: "input",
  cached_input: "cachedInput",
  cache_write: "cacheWrite",
  output: "output",
  reasoning: "reasoning",
  audio_input: "audioInput",
  audio_output: "audioOutput",
  characters: "characters",
  second: "seconds",
  call: "call",
  long_above_tokens: "longAboveTokens",
  long_input: "longInput",
  long_cached_input: "longCachedInput",
  long_cache_write: "longCacheWrite",
  long_output: "longOutput",
} as const satisfies Record<string, keyof PriceRates>;

export type PriceField = keyof typeof rateOfField;
export const priceFieldNames = Object.keys(rateOfField) as readonly PriceField[];

/** Rates in dollars. What is not known is not there. */
export function priceFields(rates: PriceRates): PriceFields {
  const words: Partial<Record<PriceField, number>> = {};
  for (const word of priceFieldNames) {
    const figure = rates[rateOfField[word]];
    if (figure !== undefined) words[word] = word === "long_above_tokens" ? figure : dollarsNumber(figure);
  }
  return words;
}

/** The other way round, of amounts that are billionths already. */
export function ratesOfFields(nanos: { readonly [W in PriceField]?: number | undefined }): PriceRates {
  const known = priceFieldNames.flatMap((word) => (nanos[word] === undefined ? [] : [[rateOfField[word], nanos[word]] as const]));
  return Object.fromEntries(known);
}
