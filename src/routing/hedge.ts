import type { Candidate } from "../channels/channel.ts";
import { type Load, p95Ms } from "../channels/load.ts";
import type { Candidates, Choice, RoutingPolicy } from "./plan.ts";

/**
 * How long a call waits before it is hedged; null: it is not hedged. A call that has waited longer than is usual for its deployment gets a
 * second attempt elsewhere while the first goes on ("The Tail at Scale", Dean and Barroso, CACM 56(2), 2013). Until enough calls are known,
 * the operator's figure or a generous default is used, and a model that was asked to reason (`reasons`) is not hedged.
 */
export function hedgeDelayMs(
  { hedgeAfterMs }: RoutingPolicy,
  load: Readonly<Load> | undefined,
  streamed: boolean,
  reasons: boolean,
): number | null {
  if (hedgeAfterMs === null) return null;
  const p95 = p95Ms(load, streamed);
  if (hedgeAfterMs !== "auto") return Math.max(hedgeAfterMs, usualTimes * (p95 ?? 0));
  if (p95 === null) return reasons ? null : unknownMs;
  return Math.max(autoMinMs, usualTimes * p95);
}

const usualTimes = 2;
const autoMinMs = 5_000;
const unknownMs = 15_000;
/** When to check again after a hedge was not possible. */
export const hedgeAgainMs = 1_000;

export interface HedgeInput {
  readonly plan: Candidates;
  /** Every candidate asked so far, including the one that is waited for. */
  readonly asked: readonly Candidate[];
  readonly attemptsMax: number;
  readonly bodyBytes: number;
  readonly choices: number;
  readonly hostedTools: boolean;
  /** The retry budget has room. In an outage it has none, and hedging stops. */
  readonly canRetry: boolean;
  readonly admits: (candidate: Candidate) => boolean;
}

const bodyBytesMax = 1024 * 1024;

/** The candidate of the hedge, once the delay has passed. `later`: none now; `never`: none at all. */
export function hedgeWith(input: HedgeInput): Candidate | "later" | "never" {
  if (input.plan.mode === "last_resort" || input.asked.length >= input.attemptsMax || !isRepeatable(input)) return "never";
  const fresh = input.plan.candidates.filter((choice) => isFresh(choice, input));
  if (fresh.length === 0) return "never";
  if (!input.canRetry) return "later";
  return fresh.find(({ candidate }) => input.admits(candidate))?.candidate ?? "later";
}

/** Only a plain request is sent twice: tools that act must not act twice, and large requests cost too much. */
function isRepeatable({ hostedTools, choices, bodyBytes }: HedgeInput): boolean {
  return !hostedTools && choices === 1 && bodyBytes <= bodyBytesMax;
}

/** A healthy candidate on a channel that was not asked yet. A probe is no help for a slow call. */
function isFresh({ candidate, probe }: Choice, { asked }: HedgeInput): boolean {
  const { channel } = candidate.deployment;
  return !probe && asked.every((other) => other.deployment.channel !== channel);
}
