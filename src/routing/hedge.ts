import type { Candidate } from "../channels/channel.ts";
import { type Load, p95Ms } from "../channels/load.ts";
import type { Ahead, Choice } from "./plan.ts";
import type { RoutingPolicy } from "./policy.ts";

/**
 * Slow is a failure too: a call that has waited longer than is usual for its deployment gets a second attempt elsewhere,
 * while the first lives on. `null`: not for this policy. What is usual needs enough calls to know; until then the
 * operator's own figure stands alone.
 */
export function hedgeDelayMs(policy: RoutingPolicy, load: Load | undefined, nowMs: number): number | null {
  if (policy.hedgeAfterMs === null) return null;
  return Math.max(policy.hedgeAfterMs, 2 * (p95Ms(load, nowMs) ?? 0));
}

export interface HedgeInput {
  readonly plan: Ahead;
  /** Everyone asked so far, with the attempt that is being waited for. */
  readonly asked: readonly Candidate[];
  readonly bodyBytes: number;
  readonly choices: number;
  readonly hostedTools: boolean;
  /** The quota of hedged calls and the retry budget both have one left: in an outage hedging stops by itself. */
  readonly mayHedge: boolean;
  readonly canRetry: boolean;
  readonly admits: (candidate: Candidate) => boolean;
}

const bodyBytesMax = 1024 * 1024;

/** With whom to hedge, asked when the delay has passed; `null`: with nobody. */
export function hedgeWith(input: HedgeInput): Candidate | null {
  if (input.plan.mode === "last_resort" || !isRepeatable(input)) return null;
  if (!input.mayHedge || !input.canRetry) return null;
  return input.plan.candidates.find((choice) => isFresh(choice, input))?.candidate ?? null;
}

/** Twice the cost is bearable only for a plain request: tools that act must not act twice, large ones cost too much. */
function isRepeatable({ hostedTools, choices, bodyBytes }: HedgeInput): boolean {
  return !hostedTools && choices === 1 && bodyBytes <= bodyBytesMax;
}

/** On a channel nobody asked yet, and known to be well: a probe is no rescue. */
function isFresh({ candidate, probe }: Choice, { asked, admits }: HedgeInput): boolean {
  const { channel } = candidate.deployment;
  return !probe && asked.every((other) => other.deployment.channel !== channel) && admits(candidate);
}
