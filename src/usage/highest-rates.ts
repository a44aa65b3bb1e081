import type { CallRequest } from "../operations/call-request.ts";
import { operationSpecs } from "../operations/operation.ts";
import type { PriceRates } from "./price.ts";

/**
 * The same rates for a call of which nobody knows the parts yet: every token of its prompt and of its answer costs what the
 * dearest part costs that it may be.
 */
export function highestRates(rates: PriceRates, ask: CallRequest): PriceRates {
  // Sound may be anywhere in the messages of a chat; an answer is spoken only where that is asked for.
  const hears = operationSpecs[ask.operation].audioInput;
  const speaks = isSpoken(ask);
  let known = made.get(rates);
  if (known === undefined) made.set(rates, (known = []));
  return (known[(hears ? 1 : 0) + (speaks ? 2 : 0)] ??= dearestOf(rates, hears, speaks));
}

/** Every call of a key with a budget asks for them, and prices are few. */
const made = new WeakMap<PriceRates, PriceRates[]>();

function dearestOf(rates: PriceRates, hears: boolean, speaks: boolean): PriceRates {
  const { input, cachedInput, cacheWrite, output, reasoning, longInput, longCachedInput, longCacheWrite, longOutput } = rates;
  const audioInput = hears ? rates.audioInput : undefined;
  const audioOutput = speaks ? rates.audioOutput : undefined;
  return {
    ...rates,
    ...rate("input", dearest(input, cachedInput, cacheWrite, audioInput)),
    ...rate("output", dearest(output, reasoning, audioOutput)),
    ...rate("longInput", dearest(longInput ?? input, longCachedInput ?? cachedInput, longCacheWrite ?? cacheWrite, audioInput)),
    ...rate("longOutput", dearest(longOutput ?? output, reasoning, audioOutput)),
  };
}

function isSpoken(ask: CallRequest): boolean {
  const { audioOutput } = operationSpecs[ask.operation];
  if (audioOutput !== "maybe") return audioOutput;
  if ("members" in ask) for (const { key } of ask.members) if (key === "modalities" || key === "audio") return true;
  return false;
}

/** Where the rate of the whole is not known, what its parts cost does not tell. */
function dearest(whole: number | undefined, ...parts: readonly (number | undefined)[]): number | undefined {
  if (whole === undefined) return undefined;
  return parts.reduce<number>((most, part) => (part !== undefined && part > most ? part : most), whole);
}

function rate(name: "input" | "output" | "longInput" | "longOutput", value: number | undefined): PriceRates {
  return value === undefined ? {} : { [name]: value };
}
