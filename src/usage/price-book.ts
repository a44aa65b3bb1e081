import { matchesPattern } from "../keys/allow.ts";
import type { Price, PriceRates } from "./price.ts";

/** All prices, from every source. It is immutable; a change of prices makes a new one. */
export interface PriceBook {
  /** In ascending order of precedence. */
  readonly layers: readonly (readonly Price[])[];
  readonly indexes: readonly LayerIndex[];
  /** What was looked up before, because every call needs a price. */
  readonly found: FoundPrices;
}

export interface Priced {
  /** As in a channel's `provider`; null where it has none. */
  readonly provider: string | null;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The model that served, as the upstream named it; absent where that is not known. */
  readonly served?: string | undefined;
}

interface LayerIndex {
  readonly exact: ReadonlyMap<string, readonly RankedPrice[]>;
  readonly patterns: readonly RankedPrice[];
}

interface RankedPrice extends Price {
  /** The number of its layer. */
  readonly rank: number;
}

/** An entry of a later layer takes precedence: first the shipped prices, then the store, then the file. */
export function makePriceBook(layers: readonly (readonly Price[])[]): PriceBook {
  return { layers, indexes: layers.map(indexOf).toReversed(), found: new FoundPrices() };
}

/**
 * What a model costs at a time of the wall clock; null if there is no price. Within a layer, a name takes precedence over a
 * pattern, a longer pattern over a shorter one, and a price for the provider over one for all; the latest that has begun counts.
 * A dated name without an entry, such as `large-2026-01-31`, has the price of the name without the date. Nothing else is
 * guessed: `vendor/large` at a router is another model than `large` at its vendor.
 *
 * Where another model served than was asked for, its price counts. But a name may only be another one for the same model: what an
 * operator has set for the name that was asked for comes before what is shipped for the other.
 */
export function priceOf(book: PriceBook, { provider, model, served }: Priced, atMs: number): PriceRates | null {
  const asked = entryOf(book, provider, model, atMs);
  if (served === undefined || served === model || withoutDate(served) === model) return asked?.rates ?? null;
  const other = entryOf(book, provider, served, atMs);
  return (other !== null && (asked === null || other.rank >= asked.rank) ? other : asked)?.rates ?? null;
}

function entryOf(book: PriceBook, provider: string | null, model: string, atMs: number): RankedPrice | null {
  const { own, entries, undated } = book.found.get(provider, model) ?? book.found.keep(provider, model, search(book, provider, model));
  const list = undated !== null && !hasBegun(own, atMs) ? undated : entries;
  for (const price of list) if (price.fromMs <= atMs) return price;
  return null;
}

function hasBegun(prices: readonly Price[], atMs: number): boolean {
  for (const { fromMs } of prices) if (fromMs <= atMs) return true;
  return false;
}

/** All entries that match, in descending order of precedence. */
interface PriceMatches {
  readonly entries: readonly RankedPrice[];
  /** Those with exactly this name. */
  readonly own: readonly RankedPrice[];
  /** The entries with those of the name without its date; null where it has no date. */
  readonly undated: readonly RankedPrice[] | null;
}

/** More than a gateway serves. It is bounded because a channel that takes any model lets clients choose the names. */
const foundMax = 10_000;

class FoundPrices {
  private readonly byProvider = new Map<string | null, Map<string, PriceMatches>>();
  size = 0;

  get(provider: string | null, model: string): PriceMatches | undefined {
    return this.byProvider.get(provider)?.get(model);
  }

  keep(provider: string | null, model: string, found: PriceMatches): PriceMatches {
    if (this.size >= foundMax) {
      this.byProvider.clear();
      this.size = 0;
    }
    const models = this.byProvider.get(provider) ?? new Map<string, PriceMatches>();
    this.byProvider.set(provider, models.set(model, found));
    this.size++;
    return found;
  }
}

function indexOf(layer: readonly Price[], rank: number): LayerIndex {
  const exact = new Map<string, RankedPrice[]>();
  const patterns: RankedPrice[] = [];
  for (const entry of layer) {
    const price = { ...entry, rank };
    const named = exact.get(price.model);
    if (price.model.includes("*")) patterns.push(price);
    else if (named === undefined) exact.set(price.model, [price]);
    else named.push(price);
  }
  return { exact, patterns };
}

function search({ indexes }: PriceBook, provider: string | null, model: string): PriceMatches {
  const base = withoutDate(model);
  const named = (index: LayerIndex, name: string): readonly RankedPrice[] => preferred(index.exact.get(name) ?? [], provider);
  const fitting = (index: LayerIndex): readonly RankedPrice[] =>
    preferred(
      index.patterns.filter((price) => matchesPattern(price.model, model)),
      provider,
    );
  return {
    own: indexes.flatMap((index) => named(index, model)),
    entries: indexes.flatMap((index) => [...named(index, model), ...fitting(index)]),
    undated: base === null ? null : indexes.flatMap((index) => [...named(index, model), ...named(index, base), ...fitting(index)]),
  };
}

/** Leaves out other providers' prices. Among names of equal length the provider's own comes first, then the latest. */
function preferred(prices: readonly RankedPrice[], provider: string | null): readonly RankedPrice[] {
  const usable = prices.filter((price) => price.provider === null || price.provider === provider);
  const others = (price: Price): number => (price.provider === null ? 1 : 0);
  return usable.toSorted((a, b) => b.model.length - a.model.length || others(a) - others(b) || b.fromMs - a.fromMs);
}

const dated = /^(.+)-20\d\d(-?)(?:0[1-9]|1[0-2])\2(?:0[1-9]|[12]\d|3[01])$/;

/** `large` for `large-2026-01-31` or `large-20260131`. */
function withoutDate(model: string): string | null {
  return dated.exec(model)?.[1] ?? null;
}
