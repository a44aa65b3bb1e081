import { dollarsNumber } from "./dollars.ts";
import type { PriceRates } from "./price.ts";

/** Rates as they are written in the configuration file and the API. All are dollars except for `long_above_tokens`. */
export type PriceFields = Readonly<Partial<Record<PriceField, number>>>;

const rateOfField = {
  input: "input",
  cached_input: "cachedInput",
  cache_write: "cacheWrite",
  cache_write_hour: "cacheWriteHour",
  output: "output",
  reasoning: "reasoning",
  audio_input: "audioInput",
  audio_output: "audioOutput",
  characters: "characters",
  second: "seconds",
  image: "image",
  call: "call",
  web_search: "webSearch",
  searched_call: "searchedCall",
  file_search: "fileSearch",
  long_above_tokens: "longAboveTokens",
  long_input: "longInput",
  long_cached_input: "longCachedInput",
  long_cache_write: "longCacheWrite",
  long_cache_write_hour: "longCacheWriteHour",
  long_output: "longOutput",
} as const satisfies Record<string, Exclude<keyof PriceRates, "stated">>;

export type PriceField = keyof typeof rateOfField;
export const priceFieldNames = Object.keys(rateOfField) as readonly PriceField[];

/** Rates in dollars, without those that are not known. */
export function priceFields(rates: PriceRates): PriceFields {
  const fields: Partial<Record<PriceField, number>> = {};
  for (const field of priceFieldNames) {
    const figure = rates[rateOfField[field]];
    if (figure !== undefined) fields[field] = field === "long_above_tokens" ? figure : dollarsNumber(figure);
  }
  return fields;
}

/** The reverse, from amounts in billionths of a dollar. */
export function ratesOfFields(nanos: { readonly [W in PriceField]?: number | undefined }): PriceRates {
  const known = priceFieldNames.flatMap((field) => (nanos[field] === undefined ? [] : [[rateOfField[field], nanos[field]] as const]));
  return Object.fromEntries(known);
}
