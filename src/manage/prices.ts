import type { Actor, StoredPrice } from "../gateway/storage.ts";
import { periodStartMs } from "../limits/period.ts";
import type { Price } from "../usage/price.ts";
import { priceFieldNames } from "../usage/price-fields.ts";
import type { ManageContext } from "./context.ts";
import { ManageError } from "./error.ts";

export interface PriceInput extends Omit<Price, "fromMs"> {
  /** The first day on which it applies; null for today, in UTC. */
  readonly fromMs: number | null;
  readonly note: string | null;
}

/** A price for the same provider, model and day is replaced. */
export async function setPrice(context: ManageContext, input: PriceInput, actor: Actor): Promise<StoredPrice | ManageError> {
  if (Object.keys(input.rates).length === 0) {
    return new ManageError("invalid_value", `A price needs a rate: give one of ${priceFieldNames.join(", ")}.`, "rates");
  }
  const fromMs = input.fromMs ?? periodStartMs("day", context.wallMs());
  return context.storage.prices.set({ ...input, fromMs }, actor);
}

/** Removes a price of the store. The price that it had overridden applies again. */
export async function removePrice({ storage }: ManageContext, id: string, actor: Actor): Promise<void> {
  await storage.prices.remove(id, actor);
}

/** The prices of each source. The file overrides the store, and the store overrides the shipped prices. */
export interface PriceSources {
  readonly shipped: readonly Price[];
  readonly store: readonly StoredPrice[];
  readonly file: readonly Price[];
}

export async function listPrices({ prices, reports }: ManageContext): Promise<PriceSources> {
  return { ...prices(), store: await reports.prices.list() };
}
