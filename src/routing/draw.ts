import type { Candidate } from "../channels/channel.ts";

/**
 * A random order in which the chance of an item to come next is its share of the remaining weight. Used for small tiers; from large
 * ones, candidates are drawn one at a time (`drawOne`), so that ten thousand cost no more than twenty.
 */
export function inDrawnOrder<T extends { readonly weight: number }>(items: readonly T[], dice: () => number): T[] {
  // Weighted sampling without replacement, by exponential waiting times whose rates are the weights (Efraimidis and Spirakis, 2006).
  const order: T[] = [];
  const waits: number[] = [];
  for (const item of items) {
    const wait = item.weight > 0 ? -Math.log(1 - dice()) / item.weight : Number.POSITIVE_INFINITY;
    // Sorted by insertion: there are few of them, and this is done on every call.
    let at = order.length;
    for (; at > 0 && waits[at - 1]! > wait; at -= 1) {
      order[at] = order[at - 1]!;
      waits[at] = waits[at - 1]!;
    }
    order[at] = item;
    waits[at] = wait;
  }
  return order;
}

/** What is computed once for a large tier. */
export interface TierIndex {
  /** Sums of the weights up to and including each candidate. */
  readonly sums: Float64Array;
  /** The candidates of each host, so that a plan can have candidates on more than one. */
  readonly byHost: ReadonlyMap<string, readonly Candidate[]>;
  readonly hosts: readonly string[];
}

/** Built when a tier is first used, and kept as long as the tier. */
const indexes = new WeakMap<readonly Candidate[], TierIndex>();

export function indexOf(tier: readonly Candidate[]): TierIndex {
  const known = indexes.get(tier);
  if (known !== undefined) return known;

  const sums = new Float64Array(tier.length);
  const byHost = new Map<string, Candidate[]>();
  let sum = 0;
  tier.forEach((candidate, at) => {
    sum += Math.max(0, candidate.weight);
    sums[at] = sum;
    const neighbours = byHost.get(candidate.scopes.host);
    if (neighbours === undefined) byHost.set(candidate.scopes.host, [candidate]);
    else neighbours.push(candidate);
  });
  const index = { sums, byHost, hosts: [...byHost.keys()] };
  indexes.set(tier, index);
  return index;
}

/** The index of one candidate, drawn by weight. */
export function drawOne({ sums }: TierIndex, dice: () => number): number {
  const last = sums.length - 1;
  const target = dice() * sums[last]!;
  let low = 0;
  let high = last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sums[middle]! > target) high = middle;
    else low = middle + 1;
  }
  return low;
}
