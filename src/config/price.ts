import type { Price, PriceRates } from "../usage/price.ts";
import type { PriceEntry } from "./schema.ts";

/** A price of the file. A rate that is absent stays unknown. */
export function readPrice(entry: PriceEntry): Price {
  const given: { readonly [K in keyof PriceRates]: number | undefined } = {
    input: entry.input,
    cachedInput: entry.cached_input,
    output: entry.output,
    reasoning: entry.reasoning,
    audioInput: entry.audio_input,
    audioOutput: entry.audio_output,
    characters: entry.characters,
    seconds: entry.second,
    call: entry.call,
  };
  const rates = Object.fromEntries(Object.entries(given).filter(([, nanos]) => nanos !== undefined));
  return { provider: entry.provider ?? null, model: entry.model, fromMs: entry.from ?? 0, rates };
}
