import { dollarsNumber } from "./dollars.ts";
import type { Rates } from "./price.ts";

/** Rates by the words people write them with. All are dollars except for `long_above_tokens`. */
export type RateWords = Readonly<Partial<Record<RateWord, number>>>;

const rateOfWord = {
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
} as const satisfies Record<string, keyof Rates>;

export type RateWord = keyof typeof rateOfWord;
export const rateWordList = Object.keys(rateOfWord) as readonly RateWord[];

/** Rates in dollars. What is not known is not there. */
export function rateWords(rates: Rates): RateWords {
  const words: Partial<Record<RateWord, number>> = {};
  for (const word of rateWordList) {
    const figure = rates[rateOfWord[word]];
    if (figure !== undefined) words[word] = word === "long_above_tokens" ? figure : dollarsNumber(figure);
  }
  return words;
}

/** The other way round, of amounts that are billionths already. */
export function ratesOfWords(nanos: { readonly [W in RateWord]?: number | undefined }): Rates {
  const known = rateWordList.flatMap((word) => (nanos[word] === undefined ? [] : [[rateOfWord[word], nanos[word]] as const]));
  return Object.fromEntries(known);
}
