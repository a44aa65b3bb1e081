import type { Candidate } from "../channels/channel.ts";

/**
 * Random orders in which a candidate's chance to come next is its share of the weight that is left. A small tier is
 * ordered whole; of a large one, candidates are drawn one at a time, so that ten thousand cost no more than twenty.
 */
export function inDrawnOrder<T extends { readonly weight: number }>(items: readonly T[], dice: () => number): T[] {
  // Weighted sampling without replacement: exponential waiting times with the weights as rates (Efraimidis, Spirakis).
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

/** What is worth knowing of a large tier beforehand. */
export interface TierIndex {
  /** Sums of the weights up to and including each candidate. */
  readonly sums: Float64Array;
  /** The candidates of each host: a dead host must not be all a plan knows. */
  readonly byHost: ReadonlyMap<string, readonly Candidate[]>;
  readonly hosts: readonly string[];
}

/** Built at the first use of a tier and kept as long as the tier: it is a function of the tier alone. */
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

/** The place of one candidate, drawn by weight. */
export function drawOne({ sums }: TierIndex, dice: () => number): number {
  const last = sums.length - 1;
  const mark = dice() * sums[last]!;
  let low = 0;
  let high = last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sums[middle]! > mark) high = middle;
    else low = middle + 1;
  }
  return low;
}
