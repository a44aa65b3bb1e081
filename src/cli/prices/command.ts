import type { PriceSources } from "../../manage/prices.ts";
import { matchesPattern } from "../../keys/allow.ts";
import { dollarsOf } from "../../usage/dollars.ts";
import { makePriceBook, priceOf } from "../../usage/price-book.ts";
import type { Price } from "../../usage/price.ts";
import { priceFields } from "../../usage/price-fields.ts";
import { isoMoment, isoOrNull } from "../../usage/time-text.ts";
import type { PricesRequest } from "./arguments.ts";
import { json, shown } from "../shown-text.ts";
import type { CommandSurroundings } from "../command-context.ts";
import type { PriceManagement } from "../management/price-management.ts";
import { table, type Column } from "../table.ts";
import { CommandError, exitCodes } from "../command-error.ts";

type PricesRequestOf<Act extends PricesRequest["act"]> = Extract<PricesRequest, { readonly act: Act }>;

export async function runPrices(request: PricesRequest, management: PriceManagement, context: CommandSurroundings): Promise<void> {
  switch (request.act) {
    case "list":
      return list(request, management, context);
    case "set":
      return set(request, management, context);
    case "remove":
      return remove(request, management, context);
  }
}

interface Listed {
  readonly price: Price;
  readonly source: "shipped" | "store" | "file";
  readonly id: string | null;
  readonly note: string | null;
  readonly createdMs: number | null;
  /** `hidden`: another price overrides it. */
  readonly state: "now" | "later" | "over" | "hidden";
}

async function list(
  { model, all, json: asJson }: PricesRequestOf<"list">,
  management: PriceManagement,
  context: CommandSurroundings,
): Promise<void> {
  const listed = priceStates(await management.prices(), context.wallMs()).filter(
    ({ price, state }) => (all || state === "now" || state === "later") && (model === null || concerns(price.model, model)),
  );
  if (asJson) return context.terminal.print(json(listed.map(priceJson)));
  if (listed.length > 0) return context.terminal.print(priceTable(listed));
  context.terminal.say(
    model === null
      ? "There are no prices."
      : "No price is known for this model: its calls are counted as unpriced. See sluice prices set --help",
  );
}

/** Every price of every source, with its state. */
function priceStates({ shipped, store, file }: PriceSources, nowMs: number): readonly Listed[] {
  const book = makePriceBook([shipped, store, file]);
  const state = ({ provider, model, fromMs, rates }: Price): Listed["state"] => {
    if (fromMs > nowMs) return "later";
    const held = priceOf(book, { provider, model }, nowMs);
    if (held === rates) return "now";
    const own = book.layers.find((layer) => layer.some((price) => price.rates === rates)) ?? [];
    return own.some((other) => other.provider === provider && other.model === model && other.fromMs > fromMs && other.fromMs <= nowMs)
      ? "over"
      : "hidden";
  };
  const plain = { id: null, note: null, createdMs: null };
  return [
    ...file.map((price) => ({ price, source: "file", state: state(price), ...plain }) as const),
    ...store.map(
      (price) => ({ price, source: "store", state: state(price), id: price.id, note: price.note, createdMs: price.createdMs }) as const,
    ),
    ...shipped.map((price) => ({ price, source: "shipped", state: state(price), ...plain }) as const),
  ];
}

/** Either may be a pattern. */
function concerns(priced: string, asked: string): boolean {
  return priced === asked || matchesPattern(priced, asked) || matchesPattern(asked, priced);
}

function priceJson({ price, source, id, note, createdMs, state }: Listed): Readonly<Record<string, unknown>> {
  const { provider, model, fromMs, rates } = price;
  return {
    id,
    source,
    provider,
    model,
    from_at: fromMs === 0 ? null : isoMoment(fromMs),
    rates: priceFields(rates),
    stated: rates.stated === true,
    in_force: state === "now",
    state,
    note,
    created_at: isoOrNull(createdMs),
  };
}

function priceTable(listed: readonly Listed[]): string {
  const columns = rateColumns.filter(({ of }) => listed.some(({ price }) => price.rates[of] !== undefined));
  const anyId = listed.some(({ id }) => id !== null);
  return table<Listed>(
    [
      { title: "MODEL", cell: ({ price }) => price.model },
      { title: "PROVIDER", cell: ({ price }) => price.provider ?? "any" },
      { title: "FROM", cell: ({ price }) => (price.fromMs === 0 ? "always" : isoMoment(price.fromMs).slice(0, 10)) },
      ...columns.map(({ title, of }): Column<Listed> => ({
        title,
        right: true,
        cell: ({ price }) => {
          const nanos = price.rates[of];
          return nanos === undefined ? "-" : dollarsOf(nanos);
        },
      })),
      ...(listed.some(isLong) ? [longColumn] : []),
      ...(listed.some(isStated) ? [statedColumn] : []),
      { title: "STATE", cell: ({ state }) => state },
      { title: "SOURCE", cell: ({ source }) => source },
      ...(anyId ? [{ title: "ID", cell: ({ id }: Listed) => id ?? "-" }] : []),
    ],
    listed,
  );
}

function isLong({ price }: Listed): boolean {
  return price.rates.longAboveTokens !== undefined;
}

/** Shows that a price has other rates for long prompts. The rates themselves are in the JSON output. */
const longColumn: Column<Listed> = { title: "LONG", cell: (one) => (isLong(one) ? `>${one.price.rates.longAboveTokens}` : "-") };

function isStated({ price }: Listed): boolean {
  return price.rates.stated === true;
}

/** Shows that the provider states what a call costs. */
const statedColumn: Column<Listed> = { title: "STATED", cell: (one) => (isStated(one) ? "yes" : "-") };

const rateColumns = [
  { title: "INPUT", of: "input" },
  { title: "CACHED", of: "cachedInput" },
  { title: "OUTPUT", of: "output" },
  { title: "REASONING", of: "reasoning" },
  { title: "AUDIO IN", of: "audioInput" },
  { title: "AUDIO OUT", of: "audioOutput" },
  { title: "CHARACTERS", of: "characters" },
  { title: "SECOND", of: "seconds" },
  { title: "CALL", of: "call" },
  { title: "WEB SEARCH", of: "webSearch" },
  { title: "SEARCHED CALL", of: "searchedCall" },
  { title: "FILE SEARCH", of: "fileSearch" },
] as const;

async function set(
  { model, provider, fromMs, rates, note, json: asJson }: PricesRequestOf<"set">,
  management: PriceManagement,
  context: CommandSurroundings,
): Promise<void> {
  const kept = await management.setPrice({ model, provider, fromMs, rates, note });
  const state = priceStates(await management.prices(), context.wallMs()).find(({ id }) => id === kept.id)?.state ?? "now";
  const listed: Listed = { price: kept, source: "store", id: kept.id, note, createdMs: kept.createdMs, state };
  context.terminal.print(asJson ? json(priceJson(listed)) : priceTable([listed]));
  if (state === "hidden" || state === "over") {
    context.terminal.say("note: another price takes precedence now. See sluice prices list --all");
  }
}

async function remove(
  { price, provider, json: asJson }: PricesRequestOf<"remove">,
  management: PriceManagement,
  context: CommandSurroundings,
): Promise<void> {
  const sources = await management.prices();
  const stored = sources.store;
  const named = stored.filter((one) => one.model === price && (provider === null || one.provider === provider));
  const [found, ...others] = stored.some(({ id }) => id === price) ? stored.filter(({ id }) => id === price) : named;
  if (found === undefined) throw notSet(price, sources, management);
  if (others.length > 0) {
    const ids = named.map((one) => `  ${one.id}  ${one.provider ?? "any provider"}, from ${isoMoment(one.fromMs).slice(0, 10)}`);
    throw new CommandError(`There are several prices for this model: give the id of one.\n${ids.join("\n")}`, exitCodes.usage);
  }
  await management.removePrice(found.id);
  context.terminal.print(asJson ? json({ removed: found.id }) : `Removed the price of ${shown(found.model)} (${found.id}).`);
}

function notSet(model: string, { file, shipped }: PriceSources, management: PriceManagement): CommandError {
  const inFile = file.find((price) => price.model === model);
  if (inFile !== undefined) return new CommandError(`This price is defined in ${management.priceOrigin(inFile)}: change it there.`);
  if (shipped.some((price) => price.model === model)) {
    return new CommandError("This price is shipped with Sluice and cannot be removed: override it with sluice prices set.");
  }
  return new CommandError("No such price is set. See sluice prices list.");
}
