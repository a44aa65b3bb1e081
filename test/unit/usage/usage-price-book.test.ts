import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { makePriceBook, priceOf, type PriceBook } from "../../../src/usage/price-book.ts";
import type { Price } from "../../../src/usage/price.ts";

/** A price that is told apart by its input rate. */
function price(model: string, input: number, more: Partial<Price> = {}): Price {
  return { provider: null, model, fromMs: 0, rates: { input }, ...more };
}

function input(book: PriceBook, model: string, provider: string | null = "acme", atMs = 1000): number | undefined {
  return priceOf(book, { provider, model }, atMs)?.input;
}

describe("among prices", () => {
  test("a name without one is unknown", () => {
    const book = makePriceBook([[price("large", 1)]]);
    expect(priceOf(book, { provider: "acme", model: "small" }, 0)).toBeNull();
    expect(priceOf(makePriceBook([]), { provider: null, model: "small" }, 0)).toBeNull();
  });

  test("a later layer wins, even with a pattern", () => {
    const shipped = [price("large", 1), price("small", 2)];
    expect(input(makePriceBook([shipped, [price("large", 9)]]), "large")).toBe(9);
    expect(input(makePriceBook([shipped, [price("l*", 9)]]), "large")).toBe(9);
    expect(input(makePriceBook([shipped, [price("l*", 9)]]), "small")).toBe(2);
  });

  test("that of the model that served counts, unless an operator set one for the name that was asked for", () => {
    const shipped = [price("large", 1), price("small", 2)];
    const served = (book: PriceBook, model: string): number | undefined =>
      priceOf(book, { provider: "acme", model: "large", served: model }, 1000)?.input;
    expect(served(makePriceBook([shipped]), "small")).toBe(2);
    expect(served(makePriceBook([shipped]), "unheard-of")).toBe(1);
    expect(served(makePriceBook([[price("small", 2)]]), "small")).toBe(2);
    expect(served(makePriceBook([shipped, [price("large", 9)]]), "small")).toBe(9);
    expect(served(makePriceBook([shipped, [price("large", 9), price("small", 8)]]), "small")).toBe(8);
    // A dated name is another name for the same model.
    expect(served(makePriceBook([[...shipped, price("large-2026-01-31", 5)], [price("large", 9)]]), "large-2026-01-31")).toBe(9);
  });

  test("a name goes before a pattern, and a longer pattern before a shorter one", () => {
    const book = makePriceBook([[price("*", 1), price("lar*", 3), price("l*", 2), price("large", 4)]]);
    expect([input(book, "large"), input(book, "larch"), input(book, "lily"), input(book, "small")]).toEqual([4, 3, 2, 1]);
  });

  test("the provider's own goes before everybody's, and another provider's does not count", () => {
    const book = makePriceBook([[price("large", 1), price("large", 2, { provider: "acme" }), price("small", 3, { provider: "other" })]]);
    expect(input(book, "large")).toBe(2);
    expect(input(book, "large", "other")).toBe(1);
    expect(input(book, "large", null)).toBe(1);
    expect(input(book, "small")).toBeUndefined();
    expect(input(book, "small", null)).toBeUndefined();
  });

  test("everybody's name goes before the provider's own pattern", () => {
    const book = makePriceBook([[price("large", 1), price("lar*", 2, { provider: "acme" })]]);
    expect(input(book, "large")).toBe(1);
  });

  test("the latest that has begun counts", () => {
    const book = makePriceBook([
      [price("large", 3, { fromMs: 300 }), price("large", 1, { fromMs: 100 }), price("large", 2, { fromMs: 200 })],
    ]);
    const at = (atMs: number): number | undefined => input(book, "large", null, atMs);
    expect([at(99), at(100), at(199), at(200), at(300), at(1e15)]).toEqual([undefined, 1, 1, 2, 3, 3]);
  });

  test("one that has not begun is skipped for the next", () => {
    const book = makePriceBook([
      [price("large", 1)],
      [price("large", 2, { provider: "acme", fromMs: 500 }), price("lar*", 3, { fromMs: 200 })],
    ]);
    expect([100, 200, 500].map((atMs) => input(book, "large", "acme", atMs))).toEqual([1, 3, 2]);
  });
});

describe("a dated name", () => {
  const book = makePriceBook([[price("large", 1), price("large-2024-05-13", 5), price("mini", 2, { provider: "acme" })]]);

  test("without an entry has the price of the name without the date", () => {
    expect(input(book, "large-2026-01-31")).toBe(1);
    expect(input(book, "large-20260131")).toBe(1);
    expect(input(book, "mini-2026-01-31")).toBe(2);
    expect(input(book, "mini-2026-01-31", "other")).toBeUndefined();
  });

  test("with an entry of its own has that, whatever layer it is in", () => {
    expect(input(book, "large-2024-05-13")).toBe(5);
    expect(input(makePriceBook([[price("large-2024-05-13", 5)], [price("large", 9)]]), "large-2024-05-13")).toBe(5);
    expect(input(makePriceBook([[price("large", 5)], [price("large", 9)]]), "large-2024-05-13")).toBe(9);
  });

  test("goes before a pattern of the same layer, and not of a later one", () => {
    expect(input(makePriceBook([[price("large", 1), price("*", 2)]]), "large-2026-01-31")).toBe(1);
    expect(input(makePriceBook([[price("large", 1)], [price("*", 2)]]), "large-2026-01-31")).toBe(2);
  });

  test("whose own entry has not begun has the price of the name without the date until then", () => {
    const later = makePriceBook([[price("large", 1), price("large-2026-01-31", 2, { fromMs: 500 })]]);
    expect([499, 500].map((atMs) => input(later, "large-2026-01-31", null, atMs))).toEqual([1, 2]);
  });

  test("is one that ends in a date, and in nothing else", () => {
    for (const other of [
      "large-2",
      "large-mini",
      "large-2026",
      "large-2026-13-01",
      "large-2026-01-32",
      "large-2026-0131",
      "large-0613",
      "large2026-01-31",
      "large-2026-01-31-mini",
    ]) {
      expect(input(book, other)).toBeUndefined();
    }
  });
});

describe("a router", () => {
  test("does not lend its models the prices of those who made them", () => {
    const book = makePriceBook([[price("large", 1, { provider: "acme" }), price("large", 2)]]);
    expect(input(book, "acme/large", "router")).toBeUndefined();
    const own = makePriceBook([[price("large", 1, { provider: "acme" })], [price("acme/large", 3, { provider: "router" })]]);
    expect(input(own, "acme/large", "router")).toBe(3);
    expect(input(own, "acme/large", "acme")).toBeUndefined();
  });
});

test("looking up finds the same, however many names are asked for meanwhile, and does not keep them all", () => {
  const book = makePriceBook([[price("large", 1, { provider: "acme" }), price("*-x", 2)]]);
  for (let at = 0; at < 25_000; at++) expect(input(book, `name-${at}-x`, at % 2 === 0 ? "acme" : null)).toBe(2);
  expect(book.found.size).toBeLessThanOrEqual(10_000);
  expect([input(book, "large"), input(book, "large", null), input(book, "large")]).toEqual([1, undefined, 1]);
});

test("what is found is what a plain reading of the rules finds", () => {
  const name = fc.constantFrom("a", "ab", "abc", "a-2026-01-31", "b");
  const pattern = fc.constantFrom("*", "a*", "ab*", "*c", "a-*");
  const provider = fc.constantFrom(null, "acme", "other");
  const entry = fc
    .record({ provider, model: fc.oneof(name, pattern), fromMs: fc.constantFrom(0, 100, 200) })
    .map(({ provider, model, fromMs }) => ({ provider, model, fromMs }));
  const layers = fc.array(fc.uniqueArray(entry, { selector: (one) => JSON.stringify(one), maxLength: 8 }), { maxLength: 3 });
  fc.assert(
    fc.property(layers, provider, name, fc.constantFrom(50, 150, 250), (entries, provider, model, atMs) => {
      let next = 0;
      const prices = entries.map((layer) => layer.map((one): Price => ({ ...one, rates: { input: next++ } })));
      const found = priceOf(makePriceBook(prices), { provider, model }, atMs);
      expect(found?.input).toBe(plainly(prices, provider, model, atMs));
    }),
    { numRuns: 500 },
  );
});

/** The rules once more, one comparison after the other. */
function plainly(layers: readonly (readonly Price[])[], provider: string | null, model: string, atMs: number): number | undefined {
  const fits = (one: Price): boolean => one.fromMs <= atMs && (one.provider === null || one.provider === provider);
  const base = layers.flat().some((one) => fits(one) && one.model === model) ? null : model.replace(/-2026-01-31$/, "");
  const isFitting = (pattern: string): boolean => new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(model);
  for (const layer of layers.toReversed()) {
    const here = layer.filter(
      (one) => fits(one) && (one.model === model || one.model === base || (one.model.includes("*") && isFitting(one.model))),
    );
    const rank = (one: Price): readonly number[] => [
      one.model === model ? 0 : one.model === base ? 1 : 2,
      -one.model.length,
      one.provider === null ? 1 : 0,
      -one.fromMs,
    ];
    const best = here.toSorted((a, b) => rank(a).reduce((sign, value, at) => sign || value - rank(b)[at]!, 0))[0];
    if (best !== undefined) return best.rates.input;
  }
  return undefined;
}
