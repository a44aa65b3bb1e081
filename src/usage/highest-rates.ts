import type { CallRequest } from "../operations/call-request.ts";
import { operationSpecs } from "../operations/operation.ts";
import type { PriceRates } from "./price.ts";

/**
 * Rates for a call before its parts are known: every token of the prompt and of the answer has the highest rate that may apply
 * to it.
 */
export function highestRates(rates: PriceRates, request: CallRequest): PriceRates {
  // Any message of a chat may contain audio; the answer has audio only if the request says so.
  const audioIn = operationSpecs[request.operation].audioInput;
  const audioOut = hasAudioOutput(request);
  let known = cache.get(rates);
  if (known === undefined) cache.set(rates, (known = []));
  return (known[(audioIn ? 1 : 0) + (audioOut ? 2 : 0)] ??= computeHighest(rates, audioIn, audioOut));
}

/** Cached, because every call of a key with a budget needs them. */
const cache = new WeakMap<PriceRates, PriceRates[]>();

function computeHighest(rates: PriceRates, audioIn: boolean, audioOut: boolean): PriceRates {
  const { input, cachedInput, cacheWrite, cacheWriteHour, output, reasoning, longInput, longOutput } = rates;
  const longParts = [
    rates.longCachedInput ?? cachedInput,
    rates.longCacheWrite ?? cacheWrite,
    rates.longCacheWriteHour ?? cacheWriteHour ?? rates.longCacheWrite,
  ];
  const audioInput = audioIn ? rates.audioInput : undefined;
  const audioOutput = audioOut ? rates.audioOutput : undefined;
  return {
    ...rates,
    ...rate("input", highest(input, cachedInput, cacheWrite, cacheWriteHour, audioInput)),
    ...rate("output", highest(output, reasoning, audioOutput)),
    ...rate("longInput", highest(longInput ?? input, ...longParts, audioInput)),
    ...rate("longOutput", highest(longOutput ?? output, reasoning, audioOutput)),
  };
}

function hasAudioOutput(request: CallRequest): boolean {
  const { audioOutput } = operationSpecs[request.operation];
  if (audioOutput !== "maybe") return audioOutput;
  if ("members" in request) for (const { key } of request.members) if (key === "modalities" || key === "audio") return true;
  return false;
}

/** Without a rate for the whole, the rates of its parts are not enough. */
function highest(whole: number | undefined, ...parts: readonly (number | undefined)[]): number | undefined {
  if (whole === undefined) return undefined;
  return parts.reduce<number>((most, part) => (part !== undefined && part > most ? part : most), whole);
}

function rate(name: "input" | "output" | "longInput" | "longOutput", value: number | undefined): PriceRates {
  return value === undefined ? {} : { [name]: value };
}
