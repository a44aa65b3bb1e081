// Needs: servers. It uses a real PostgreSQL or Redis.
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Price } from "../../src/usage/price.ts";
import { priceFields, ratesOfFields, priceFieldNames } from "../../src/usage/price-fields.ts";
import { shippedPrices } from "../../src/usage/shipped-prices.ts";
import { nanosOf } from "../../src/usage/dollars.ts";
import { codeOf, startAdmin, type Called, type ErrorBody } from "../support/admin.ts";

interface PriceView {
  readonly id: string | null;
  readonly source: string;
  readonly provider: string | null;
  readonly model: string;
  readonly from_at: string | null;
  readonly rates: Readonly<Record<string, number>>;
  readonly in_force: boolean;
  readonly overridden_by: string | null;
}

async function rig(prices: { readonly shipped?: readonly Price[]; readonly file?: readonly Price[] } = {}) {
  const world = await startAdmin({ services: { prices: () => ({ shipped: prices.shipped ?? [], file: prices.file ?? [] }) } });
  const [admin, viewer] = [await world.token("admin"), await world.token("viewer")];
  return {
    world,
    set: (body: unknown): Promise<Called> => world.call("PUT", "/admin/api/prices", { headers: admin, body }),
    remove: (id: string): Promise<Called> => world.call("DELETE", `/admin/api/prices/${id}`, { headers: admin }),
    list: async (query = ""): Promise<readonly PriceView[]> =>
      ((await world.call("GET", `/admin/api/prices${query}`, { headers: viewer })).json as { readonly prices: readonly PriceView[] })
        .prices,
  };
}

describe("prices", () => {
  test("of every source are listed, with those in force", async () => {
    const price = (model: string, input: number, fromMs = 0, provider: string | null = null): Price => ({
      provider,
      model,
      fromMs,
      rates: { input },
    });
    const { set, list, remove } = await rig({
      shipped: [price("large", 1e9, Date.UTC(2024, 6, 1)), price("small", 1e8), price("old", 1e8)],
      file: [price("small", 3e8), price("large", 9e9, Date.UTC(2099, 0, 1))],
    });
    const made = (await set({ model: "large", from: "2020-01-01", rates: { input: 2 } })).json as PriceView;
    await set({ model: "small", rates: { input: 2 } });
    await set({ model: "large", from: "2024-06-01", rates: { input: 4 } });
    const inForce = async (): Promise<unknown> =>
      (await list()).filter((each) => each.in_force).map(({ source, model, rates }) => [source, model, rates["input"]]);
    expect(await inForce()).toEqual([
      ["shipped", "old", 0.1],
      ["store", "large", 4],
      ["file", "small", 0.3],
    ]);
    const overridden = (await list()).filter((each) => each.overridden_by !== null);
    expect(overridden.map(({ source, model, overridden_by: by }) => [source, model, by])).toEqual([
      ["shipped", "small", "sluice.yaml, line 5"],
      ["store", "small", "sluice.yaml, line 5"],
    ]);
    expect((await list()).length).toBe(8);
    expect((await list("?source=store&search=LAR")).map(({ from_at }) => from_at)).toEqual([
      "2020-01-01T00:00:00.000Z",
      "2024-06-01T00:00:00.000Z",
    ]);
    expect((await list("?search=%25")).length).toBe(0);
    expect((await remove(made.id!)).json).toEqual({ removed: made.id });
    expect((await remove(made.id!)).status).toBe(404);
    expect((await list("?source=store")).length).toBe(2);
  });

  test("are exact, and what is not given stays unknown", async () => {
    const { world, set } = await rig();
    const called = await set({
      provider: "somebody",
      model: "large*",
      rates: { input: 0.1, cached_input: "0.0125", output: 0, second: "0.000000001" },
    });
    expect(called.json).toMatchObject({
      source: "store",
      // Today, unless it is said.
      from_at: `${new Date(world.services.wallMs()).toISOString().slice(0, 10)}T00:00:00.000Z`,
      in_force: true,
      rates: { input: 0.1, cached_input: 0.0125, output: 0, second: 1e-9 },
    });
    const [stored] = await world.storage.prices.list();
    expect(stored).toMatchObject({ provider: "somebody", rates: { input: 100_000_000, cachedInput: 12_500_000, output: 0, seconds: 1 } });
    expect(Object.keys(stored!.rates).length).toBe(4);
  });

  test("for the same model and day replace one another", async () => {
    const { set, list } = await rig();
    const first = (await set({ model: "large", from: "2024-06-01", rates: { input: 1 } })).json as PriceView;
    const second = (await set({ model: "large", from: "2024-06-01T12:00:00Z", rates: { output: 2 } })).json as PriceView;
    expect(second.id).toBe(first.id);
    expect((await list()).map(({ rates }) => rates)).toEqual([{ output: 2 }]);
  });

  test.each([
    ["no rates", { model: "m", rates: {} }, "rates"],
    ["a negative rate", { model: "m", rates: { input: -1 } }, "rates.input"],
    ["a rate that is no amount", { model: "m", rates: { input: "cheap" } }, "rates.input"],
    ["a rate beyond all measure", { model: "m", rates: { input: 10_000.01 } }, "rates.input"],
    ["a rate by the second beyond all measure", { model: "m", rates: { second: "10001" } }, "rates.second"],
    ["an unknown rate", { model: "m", rates: { inputs: 1 } }, "rates.inputs"],
    ["no model", { rates: { input: 1 } }, "model"],
    ["a day that does not exist", { model: "m", from: "2026-13-01", rates: { input: 1 } }, "from"],
    ["an id of its own", { id: "x", model: "m", rates: { input: 1 } }, "id"],
  ])("with %s are refused", async (_, body, param) => {
    const { set, list } = await rig();
    const called = await set(body);
    expect([called.status, (called.json as ErrorBody).error.param]).toEqual([400, param]);
    expect(await list()).toEqual([]);
  });

  test("that are shipped all show, and cannot be removed", async () => {
    const { list, remove } = await rig({ shipped: shippedPrices() });
    const shown = await list();
    expect(shown.length).toBe(shippedPrices().length);
    expect(shown.every(({ id, source }) => id === null && source === "shipped")).toBe(true);
    expect(codeOf(await remove("null"))).toBe("not_found");
  });

  test("keep their meaning when they are written and read again", () => {
    const nanos = fc.record(Object.fromEntries(priceFieldNames.map((word) => [word, fc.integer({ min: 0, max: 1e15 })])), {
      requiredKeys: [],
    });
    fc.assert(
      fc.property(nanos, (given) => {
        const rates = ratesOfFields(given);
        const words = priceFields(rates);
        expect(Object.keys(words).toSorted()).toEqual(Object.keys(given).toSorted());
        for (const [word, dollars] of Object.entries(words))
          expect(word === "long_above_tokens" ? dollars : nanosOf(dollars)).toBe(given[word]!);
      }),
    );
  });
});
