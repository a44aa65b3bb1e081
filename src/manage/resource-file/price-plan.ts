import { priceName, type Price } from "../../usage/price.ts";
import { isoMoment } from "../../usage/time-text.ts";
import type { ManageContext } from "../context.ts";
import { removePrice, setPrice } from "../prices.ts";
import type { DesiredPrice, PlannedChange } from "./desired-resources.ts";
import { fieldChanges, priceFileFields } from "./fields.ts";

/** Prices are known by provider, model and day, as in the store. */
export async function plannedPrices(
  { storage }: ManageContext,
  desired: readonly DesiredPrice[] | null,
  prune: boolean,
): Promise<readonly PlannedChange[]> {
  if (desired === null) return [];
  const stored = new Map((await storage.prices.list()).map((price) => [dayName(price), price]));
  const changes = desired.flatMap(({ price, line }): PlannedChange[] => {
    const before = stored.get(dayName(price));
    const fields = fieldChanges(before === undefined ? {} : priceFileFields(before), priceFileFields(price));
    if (fields.length === 0) return [];
    return [
      {
        change: { what: "price", name: dayName(price), action: before === undefined ? "create" : "change", fields, line },
        run: (context, actor) => setPrice(context, price, actor),
      },
    ];
  });
  const wanted = new Set(desired.map(({ price }) => dayName(price)));
  const extra = prune ? [...stored].filter(([name]) => !wanted.has(name)) : [];
  return [
    ...changes,
    ...extra.map(([name, price]) => ({
      change: { what: "price", name, action: "remove", fields: fieldChanges(priceFileFields(price), {}), line: null } as const,
      run: (context: ManageContext, actor: Parameters<PlannedChange["run"]>[1]) => removePrice(context, price.id, actor),
    })),
  ];
}

/** Such as `PROVIDER MODEL from 2027-01-01`. */
export function dayName(price: Price): string {
  return price.fromMs === 0 ? priceName(price) : `${priceName(price)} from ${isoMoment(price.fromMs).slice(0, 10)}`;
}
