import { nanosOf } from "./dollars.ts";
import type { Price, PriceRates } from "./price.ts";
import list from "./prices.json" with { type: "json" };

/** Rates are dollars, written as text so that no digit is lost. */
interface ShippedPrice extends Readonly<Partial<Record<Exclude<keyof PriceRates, "longAboveTokens" | "stated">, string>>> {
  readonly provider: string;
  readonly model: string;
  /** The first day it applies to, such as `2026-07-30`; absent: it has no beginning. */
  readonly from?: string;
  readonly longAboveTokens?: number;
  readonly stated?: true;
}

const prices: readonly Price[] = (list.prices as readonly ShippedPrice[]).map(read);

/** The day on which the list was last compared with the providers' pages. */
export const shippedOn: string = list.checked;

/** The prices of common models. Every other source takes precedence. Their origin is described in docs/prices.md. */
export function shippedPrices(): readonly Price[] {
  return prices;
}

function read({ provider, model, from, longAboveTokens, stated, ...dollars }: ShippedPrice): Price {
  const rates = Object.entries(dollars).map(([name, amount]) => [name, nanosOf(amount)] as const);
  const wrong = rates.find(([, nanos]) => nanos === null);
  if (wrong !== undefined) throw new Error(`The shipped price of ${model} has an invalid rate: ${wrong[0]}.`);
  return {
    provider,
    model,
    fromMs: from === undefined ? 0 : Date.parse(from),
    rates: {
      ...Object.fromEntries(rates),
      ...(longAboveTokens === undefined ? undefined : { longAboveTokens }),
      ...(stated === undefined ? undefined : { stated }),
    },
  };
}
