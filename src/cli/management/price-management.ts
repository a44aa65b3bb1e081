import type { Actor, StoredPrice } from "../../gateway/storage.ts";
import { listPrices, removePrice, setPrice, type PriceInput, type PriceSources } from "../../manage/prices.ts";
import { nanosOf } from "../../usage/dollars.ts";
import { priceFieldNames, priceFields, ratesOfFields, type PriceFields } from "../../usage/price-fields.ts";
import { priceName, type Price } from "../../usage/price.ts";
import { isoOrNull } from "../../usage/time-text.ts";
import type { RunningAdminApi } from "../admin-api.ts";
import type { OpenStore } from "../command-context.ts";
import { orThrow } from "../command-error.ts";
import { placeOf } from "./api-paths.ts";

/** What models cost. */
export interface PriceManagement {
  prices(): Promise<PriceSources>;
  /** Where the configuration defines a price, for messages. */
  priceOrigin(price: Price): string;
  setPrice(input: PriceInput): Promise<StoredPrice>;
  removePrice(id: string): Promise<void>;
}

export function storePriceManagement(store: OpenStore, actor: Actor): PriceManagement {
  return {
    prices: () => listPrices(store),
    priceOrigin: (price) => store.definedAt("prices", priceName(price)),
    setPrice: async (input) => orThrow(await setPrice(store, input, actor)),
    removePrice: (id) => removePrice(store, id, actor),
  };
}

export function apiPriceManagement(api: RunningAdminApi): PriceManagement {
  return {
    prices: async () => {
      const { prices } = await api.json<{ readonly prices: readonly ListedPrice[] }>("GET", "/prices");
      const of = (source: ListedPrice["source"]): readonly StoredPrice[] =>
        prices.filter((answer) => answer.source === source).map(priceOfRow);
      return { shipped: of("shipped"), store: of("store"), file: of("file") };
    },
    priceOrigin: () => "the configuration of the gateway",
    setPrice: async ({ provider, model, fromMs, rates, note }) => {
      const body = { provider, model, from: isoOrNull(fromMs) ?? undefined, rates: priceFields(rates), note };
      return priceOfRow(await api.json<ListedPrice>("PUT", "/prices", body));
    },
    removePrice: (id) => api.json("DELETE", placeOf("prices", id)),
  };
}

interface ListedPrice {
  /** Null unless it is in the store. */
  readonly id: string | null;
  readonly source: keyof PriceSources;
  readonly provider: string | null;
  readonly model: string;
  readonly from_at: string | null;
  readonly rates: PriceFields;
  readonly stated: boolean;
  readonly note: string | null;
  readonly created_at: string | null;
}

function priceOfRow({ id, provider, model, from_at, rates, stated, note, created_at }: ListedPrice): StoredPrice {
  return {
    id: id ?? "",
    provider,
    model,
    fromMs: from_at === null ? 0 : Date.parse(from_at),
    rates: { ...ratesOfFields(nanosOfFields(rates)), ...(stated ? { stated: true as const } : {}) },
    note,
    createdMs: created_at === null ? 0 : Date.parse(created_at),
  };
}

/** The reverse of what the admin API shows; the length of a long prompt is no amount. */
function nanosOfFields(fields: PriceFields): PriceFields {
  const known = priceFieldNames.flatMap((field) => {
    const figure = fields[field];
    if (figure === undefined) return [];
    return [[field, field === "long_above_tokens" ? figure : (nanosOf(figure) ?? 0)] as const];
  });
  return Object.fromEntries(known);
}
