import type { Ask } from "../operations/ask.ts";
import type { Rates } from "./price.ts";

/**
 * The same rates for a call of which nobody knows the parts yet: every token of its prompt and of its answer costs what the
 * dearest part costs that it may be.
 */
export function dearestRates(rates: Rates, ask: Ask): Rates {
  const { input, cachedInput, cacheWrite, output, reasoning, longInput, longCachedInput, longCacheWrite, longOutput } = rates;
  // Sound may be anywhere in the messages of a chat; an answer is spoken only where that is asked for.
  const audioInput = ask.operation === "speech" ? undefined : rates.audioInput;
  const audioOutput = isSpoken(ask) ? rates.audioOutput : undefined;
  return {
    ...rates,
    ...rate("input", dearest(input, cachedInput, cacheWrite, audioInput)),
    ...rate("output", dearest(output, reasoning, audioOutput)),
    ...rate("longInput", dearest(longInput ?? input, longCachedInput ?? cachedInput, longCacheWrite ?? cacheWrite, audioInput)),
    ...rate("longOutput", dearest(longOutput ?? output, reasoning, audioOutput)),
  };
}

function isSpoken(ask: Ask): boolean {
  switch (ask.operation) {
    case "chat":
      return ask.members.some(({ key }) => key === "modalities" || key === "audio");
    case "transcription":
      return false;
    case "speech":
      return true;
  }
}

/** Where the rate of the whole is not known, what its parts cost does not tell. */
function dearest(whole: number | undefined, ...parts: readonly (number | undefined)[]): number | undefined {
  if (whole === undefined) return undefined;
  return parts.reduce<number>((most, part) => (part !== undefined && part > most ? part : most), whole);
}

function rate(name: "input" | "output" | "longInput" | "longOutput", value: number | undefined): Rates {
  return value === undefined ? {} : { [name]: value };
}
