/**
 * What a model costs from a day on, in billionths of a dollar. A missing rate is not known; a rate of zero is free. Token rates
 * are per million tokens, the others per unit.
 */
export interface Price {
  /** The provider it applies to, as in a channel's `provider`; null: all of them. */
  readonly provider: string | null;
  /** The upstream's name of the model, or a pattern with `*`. */
  readonly model: string;
  /** Wall-clock milliseconds. */
  readonly fromMs: number;
  readonly rates: PriceRates;
}

/**
 * Ten thousand dollars for a million tokens or characters, a second or a call: far above any real price. A larger rate is a
 * mistake, such as a price per token in the wrong unit, and its sums would soon exceed the integers of a database.
 */
export const rateNanosMax = 1e13;

export interface PriceRates {
  /** Per million tokens. */
  readonly input?: number;
  /** Of the prompt tokens that came from a cache; absent: as `input`. */
  readonly cachedInput?: number;
  /** Of the prompt tokens that were put into a cache; absent: as `input`. */
  readonly cacheWrite?: number;
  /** Of those that stay there for an hour; absent: as `cacheWrite`. */
  readonly cacheWriteHour?: number;
  readonly output?: number;
  /** Of the completion tokens that were reasoning; absent: as `output`. */
  readonly reasoning?: number;
  /** Absent: as `input`. */
  readonly audioInput?: number;
  /** Absent: as `output`. */
  readonly audioOutput?: number;
  /** A prompt of more tokens than this is long: the rates below replace those above, for the whole call. */
  readonly longAboveTokens?: number;
  readonly longInput?: number;
  readonly longCachedInput?: number;
  readonly longCacheWrite?: number;
  readonly longCacheWriteHour?: number;
  readonly longOutput?: number;
  /** Per million characters of text to be spoken. */
  readonly characters?: number;
  /** Per second of audio that is transcribed. */
  readonly seconds?: number;
  /** Per generated image. */
  readonly image?: number;
  /** Per call. */
  readonly call?: number;
  /** Per search of the web. */
  readonly webSearch?: number;
  /** For all searches of the web in one call, instead of `webSearch`. */
  readonly searchedCall?: number;
  /** Per search in files that the provider keeps. */
  readonly fileSearch?: number;
  /** The provider states in its answers what they cost, and that counts. The rates are for answers without it. Only shipped prices have it. */
  readonly stated?: true;
}

/** How messages name a price, which has no name of its own. */
export function priceName({ provider, model }: Pick<Price, "provider" | "model">): string {
  return provider === null ? model : `${provider} ${model}`;
}
