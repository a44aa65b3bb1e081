import type { Candidate } from "../channels/channel.ts";
import { latencyMs, type Load } from "../channels/load.ts";

/** A candidate that may be asked now, with the share of its weight that slow start allows. */
export interface WeightedCandidate {
  readonly candidate: Candidate;
  readonly share: number;
}

export type LoadOf = (candidate: Candidate) => Readonly<Load> | undefined;

/**
 * Orders candidates, which come in drawn order, by the power of two choices: the cheaper of the first two goes first, the other is
 * compared with the third, and so on. In a tie the one drawn earlier wins, so that equals share traffic by weight alone.
 */
export function balanced<T extends WeightedCandidate>(drawn: readonly T[], loadOf: LoadOf, nowMs: number): readonly T[] {
  if (drawn.length < 2) return drawn;
  const order: T[] = [];
  let held = drawn[0]!;
  let heldCost = loadCost(held, loadOf, nowMs);
  for (let at = 1; at < drawn.length; at += 1) {
    const next = drawn[at]!;
    const nextCost = loadCost(next, loadOf, nowMs);
    if (isMuchCheaper(nextCost, heldCost)) {
      order.push(next);
    } else {
      order.push(held);
      held = next;
      heldCost = nextCost;
    }
  }
  order.push(held);
  return order;
}

/** The load of a deployment, not of a credential: a pool of ten keys is not ten times as busy. */
interface LoadCost {
  readonly latencyMs: number | null;
  readonly inFlight: number;
  readonly weight: number;
}

function loadCost({ candidate, share }: WeightedCandidate, loadOf: LoadOf, nowMs: number): LoadCost {
  const { deployment } = candidate;
  const load = loadOf(candidate);
  return {
    latencyMs: latencyMs(load, nowMs),
    inFlight: load?.inFlight ?? 0,
    weight: deployment.channel.weight * share,
  };
}

/** A factor of less than two between two costs is noise: the latency of a model varies that much with the prompt. */
const tolerance = 2;
/** Added to the calls in flight, so that one call more or less does not outweigh every weight. */
const inFlightSlack = 4;

function isMuchCheaper(a: LoadCost, b: LoadCost): boolean {
  // Calls in flight are relative to the weight: three times the weight may carry three times as many.
  const mean = (a.weight + b.weight) / 2;
  // A deployment without measurements is assumed to be as fast as the other.
  const costA = (a.latencyMs ?? b.latencyMs ?? 1) * (inFlightSlack + (a.inFlight * mean) / a.weight);
  const costB = (b.latencyMs ?? a.latencyMs ?? 1) * (inFlightSlack + (b.inFlight * mean) / b.weight);
  return costA * tolerance < costB;
}
