import type { Candidate } from "../channels/channel.ts";
import { latencyMs, type Load } from "../channels/load.ts";

/** A candidate that may be tried now, with the share of its weight that slow start leaves it. */
export interface WeightedCandidate {
  readonly candidate: Candidate;
  readonly share: number;
}

export type LoadOf = (deploymentId: string) => Load | undefined;

/**
 * Orders candidates that come in drawn order by the power of two choices: the cheaper of the first two goes first, the
 * other meets the third, and so on. Whoever was drawn earlier wins a draw, so that equals share by weight alone.
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

/** What a comparison needs to know of a deployment. Of the deployment, not the credential: a pool of ten keys is not ten times as busy. */
interface LoadCost {
  readonly latencyMs: number | null;
  readonly inFlight: number;
  readonly weight: number;
}

function loadCost({ candidate, share }: WeightedCandidate, loadOf: LoadOf, nowMs: number): LoadCost {
  const { deployment } = candidate;
  const load = loadOf(deployment.id);
  return {
    latencyMs: latencyMs(load, nowMs),
    inFlight: load?.inFlight ?? 0,
    weight: deployment.channel.weight * share,
  };
}

/** Less than a factor of two between two costs is noise: latencies of models vary that much with the prompt. */
const tolerance = 2;
/** Calls in flight that everyone is taken to have already; otherwise one call more or less would outweigh any weight. */
const inFlightSlack = 4;

function isMuchCheaper(a: LoadCost, b: LoadCost): boolean {
  // In flight counts against the weight, relative to the pair's: three times the weight may carry three times as much.
  const mean = (a.weight + b.weight) / 2;
  // Who was never heard of is taken to be as quick as the other.
  const costA = (a.latencyMs ?? b.latencyMs ?? 1) * (inFlightSlack + (a.inFlight * mean) / a.weight);
  const costB = (b.latencyMs ?? a.latencyMs ?? 1) * (inFlightSlack + (b.inFlight * mean) / b.weight);
  return costA * tolerance < costB;
}
