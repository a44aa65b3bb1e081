import { z } from "zod";
import type { StoredPrice } from "../../gateway/storage.ts";
import { priceName, rateNanosMax, type Price } from "../../usage/price.ts";
import { ManageError } from "../../manage/error.ts";
import { listPrices, removePrice, setPrice } from "../../manage/prices.ts";
import { priceFieldNames, priceFields, ratesOfFields, type PriceField } from "../../usage/price-fields.ts";
import { isoMoment, isoOrNull } from "../../usage/time-text.ts";
import { dollarsField, line, moment, prose } from "../fields/scalars.ts";
import { momentField } from "../fields/moment-field.ts";
import { adminErrorOf } from "../admin-error.ts";
import { route, type AdminRoute } from "../route.ts";
import type { Services } from "../services.ts";

const rate = dollarsField(rateNanosMax).optional();
const rates = z
  .strictObject({
    ...(Object.fromEntries(priceFieldNames.map((word) => [word, rate])) as Record<Exclude<PriceField, "long_above_tokens">, typeof rate>),
    long_above_tokens: z.int().min(1).max(1e9).optional().describe("A prompt of more tokens than this has the `long_…` rates."),
  })
  .describe(
    "Dollars per million tokens or characters, per second, per search and per call. A rate that is not given is unknown, not free.",
  );

const shownRates = z.strictObject(
  Object.fromEntries(priceFieldNames.map((word) => [word, z.number().optional()])) as Record<PriceField, z.ZodOptional<z.ZodNumber>>,
);

const priceAnswer = z.strictObject({
  id: z.string().nullable().describe("The id to remove it by; null if it is not in the store."),
  source: z.enum(["shipped", "store", "file"]).describe("The file overrides the store, and the store overrides the shipped prices."),
  provider: z.string().nullable(),
  model: z.string(),
  from_at: moment.nullable(),
  rates: shownRates,
  stated: z.boolean().describe("Whether the provider states in its answers what they cost, which then counts instead of the rates."),
  in_force: z.boolean().describe("Whether no other price for the same provider and model overrides it now."),
  overridden_by: z
    .string()
    .nullable()
    .describe("The file and line of the price that overrides this one, whatever the store says; null if there is none."),
  note: z.string().nullable(),
  created_at: moment.nullable(),
});

type PriceView = z.input<typeof priceAnswer>;
type Source = PriceView["source"];

/** The prices of models. */
export const pricesRoutes: readonly AdminRoute[] = [
  route({
    method: "GET",
    path: "/admin/api/prices",
    access: "viewer",
    summary: "Lists all prices: the shipped ones, those of the store and those of the configuration file.",
    query: z.strictObject({
      search: line(200).optional().describe("Part of a model's or a provider's name, in any case, taken literally."),
      source: z.enum(["shipped", "store", "file"]).optional(),
    }),
    answer: z.strictObject({ prices: z.array(priceAnswer) }),
    handle: async ({ query: { search, source }, services }) => {
      const { shipped, store, file } = await listPrices(services);
      const all = [
        ...shipped.map((price) => ({ price, source: "shipped" as const })),
        ...store.map((price) => ({ price, source: "store" as const })),
        ...file.map((price) => ({ price, source: "file" as const })),
      ];
      const inForce = strongest(all, services.wallMs());
      const wanted = search?.toLowerCase() ?? "";
      return {
        prices: all
          .filter((entry) => source === undefined || entry.source === source)
          .filter(({ price }) => `${price.provider ?? ""}\n${price.model}`.toLowerCase().includes(wanted))
          .map((entry) => shownPrice(entry.price, entry.source, inForce, services)),
      };
    },
  }),
  route({
    method: "PUT",
    path: "/admin/api/prices",
    access: "admin",
    summary: "Sets the price of a model from a day on. One for the same provider, model and day is replaced.",
    body: z.strictObject({
      provider: line(64).nullable().optional().describe("As in a channel's `provider`; null means any provider."),
      model: line(200).describe("The upstream's name of the model, or a pattern with `*`."),
      from: momentField.optional().describe("The first day it applies; the default is today, in UTC."),
      rates,
      note: prose(10_000).nullable().optional(),
    }),
    answer: priceAnswer,
    handle: async ({ body, services, actor }) => {
      const { provider = null, model, from: fromMs = null, note = null } = body;
      const price = await setPrice(services, { provider, model, fromMs, rates: ratesOfFields(body.rates), note }, actor);
      if (price instanceof ManageError) return adminErrorOf(price);
      const { file } = services.prices();
      const stored = await services.storage.prices.list();
      const rivals = [
        ...stored.map((each) => ({ price: each.id === price.id ? price : each, source: "store" as const })),
        ...file.map((each) => ({ price: each, source: "file" as const })),
      ];
      return shownPrice(price, "store", strongest(rivals, services.wallMs()), services);
    },
  }),
  route({
    method: "DELETE",
    path: "/admin/api/prices/{id}",
    access: "admin",
    summary: "Removes a price of the store. The price that it had overridden applies again.",
    answer: z.strictObject({ removed: z.string() }),
    handle: async ({ params: { id }, services, actor }) => {
      await removePrice(services, id, actor);
      return { removed: id };
    },
  }),
];

function shownPrice(price: Price | StoredPrice, source: Source, inForce: PricesInForce, { definedAt }: Services): PriceView {
  const { provider, model, fromMs } = price;
  const byFile = source !== "file" && inForce.ofFile.has(priceName(price));
  return {
    id: "id" in price ? price.id : null,
    source,
    provider,
    model,
    from_at: fromMs === 0 ? null : isoMoment(fromMs),
    rates: { ...priceFields(price.rates) },
    stated: price.rates.stated === true,
    in_force: inForce.prices.has(price),
    overridden_by: byFile ? definedAt("prices", priceName(price)) : null,
    note: "note" in price ? price.note : null,
    created_at: isoOrNull("createdMs" in price ? price.createdMs : null),
  };
}

interface PricesInForce {
  readonly prices: ReadonlySet<Price>;
  /** The names of those that the configuration file sets. */
  readonly ofFile: ReadonlySet<string>;
}

/** For each provider and model, of the prices that have begun: the latest of the strongest source. Weaker sources come first in `all`. */
function strongest(all: readonly { readonly price: Price; readonly source: Source }[], nowMs: number): PricesInForce {
  const best = new Map<string, { readonly price: Price; readonly source: Source }>();
  for (const entry of all) {
    const { price, source } = entry;
    if (price.fromMs > nowMs) continue;
    const name = JSON.stringify([price.provider, price.model]);
    const before = best.get(name);
    if (before === undefined || before.source !== source || price.fromMs >= before.price.fromMs) best.set(name, entry);
  }
  const entries = [...best.values()];
  return {
    prices: new Set(entries.map(({ price }) => price)),
    ofFile: new Set(entries.filter(({ source }) => source === "file").map(({ price }) => priceName(price))),
  };
}
