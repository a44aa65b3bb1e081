import { expect, test } from "bun:test";
import { listPrices, removePrice, setPrice } from "../../src/manage/prices.ts";
import { codeAndField, manageWorld, operator, storageErrorKind } from "../support/manage-world.ts";

const input = { provider: null, model: "large", fromMs: null, rates: { input: 2_500_000_000 }, note: null };

test("a price applies from today on, unless another day is given", async () => {
  await using world = await manageWorld();
  expect(await setPrice(world.context, input, operator)).toMatchObject({ model: "large", fromMs: Date.UTC(2027, 0, 31) });
  const fromMs = Date.UTC(2027, 5, 1);
  expect(await setPrice(world.context, { ...input, fromMs }, operator)).toMatchObject({ fromMs });
  expect(await world.audited()).toEqual(["price.set", "price.set"]);
});

test("a price for the same provider, model and day is replaced", async () => {
  await using world = await manageWorld();
  await setPrice(world.context, input, operator);
  await setPrice(world.context, { ...input, rates: { input: 1 } }, operator);
  const { store } = await listPrices(world.context);
  expect(store).toMatchObject([{ model: "large", rates: { input: 1 } }]);
});

test("a price without any rate is refused, with the names of the rates", async () => {
  await using world = await manageWorld();
  const refused = await setPrice(world.context, { ...input, rates: {} }, operator);
  expect(codeAndField(refused)).toEqual(["invalid_value", "rates"]);
  expect(refused).toMatchObject({ message: expect.stringContaining("input, cached_input") });
  expect((await listPrices(world.context)).store).toEqual([]);
});

test("a price is removed by its id, which only prices of the store have", async () => {
  await using world = await manageWorld();
  const price = await setPrice(world.context, input, operator);
  await removePrice(world.context, (price as { id: string }).id, operator);
  expect((await listPrices(world.context)).store).toEqual([]);
  expect(await storageErrorKind(removePrice(world.context, "nothing", operator))).toBe("missing");
});

test("prices are listed by source", async () => {
  await using world = await manageWorld();
  const own = { provider: null, model: "small", fromMs: 0, rates: { input: 1 } };
  await setPrice(world.context, input, operator);
  const listed = await listPrices({ ...world.context, prices: () => ({ shipped: [own], file: [{ ...own, model: "tiny" }] }) });
  expect(listed).toMatchObject({ shipped: [{ model: "small" }], store: [{ model: "large" }], file: [{ model: "tiny" }] });
});
