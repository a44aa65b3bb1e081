import { nanosOf } from "./dollars.ts";
import type { Price, PriceRates } from "./price.ts";
import list from "./prices.json" with { type: "json" };

/** In the list, rates are dollars, written as text so that none of them loses a digit. */
interface Entry extends Readonly<Partial<Record<Exclude<keyof PriceRates, "longAboveTokens">, string>>> {
  readonly provider: string;
  readonly model: string;
  /** A day, such as `2026-07-30`; absent: as long as anybody can remember. */
  readonly from?: string;
  readonly longAboveTokens?: number;
}

const prices: readonly Price[] = (list.prices as readonly Entry[]).map(read);

/** The day on which the list was last compared with what providers publish. */
export const shippedOn: string = list.checked;

/** What is known of the prices of common models: the weakest of all sources. Where they come from: docs/prices.md. */
export function shippedPrices(): readonly Price[] {
  return prices;
}

function read({ provider, model, from, longAboveTokens, ...dollars }: Entry): Price {
  const rates = Object.entries(dollars).map(([name, amount]) => [name, nanosOf(amount)] as const);
  const wrong = rates.find(([, nanos]) => nanos === null);
  if (wrong !== undefined) throw new Error(`the shipped price of ${model} has a rate that is no amount: ${wrong[0]}`);
  return {
    provider,
    model,
    fromMs: from === undefined ? 0 : Date.parse(from),
    rates: { ...Object.fromEntries(rates), ...(longAboveTokens === undefined ? undefined : { longAboveTokens }) },
  };
}
