import type { Candidate } from "../channels/channel.ts";
import { type Load, p95Ms } from "../channels/load.ts";
import type { Candidates, Choice, RoutingPolicy } from "./plan.ts";

/**
 * Slow is a failure too: a call that has waited longer than is usual for its deployment gets a second attempt elsewhere,
 * while the first lives on. `null`: not for this call. What is usual needs enough calls to know; until then the operator's
 * own figure stands alone, or a generous one, and a model that was asked to reason (`reasons`) is given its time.
 */
export function hedgeDelayMs({ hedgeAfterMs }: RoutingPolicy, load: Load | undefined, streamed: boolean, reasons: boolean): number | null {
  if (hedgeAfterMs === null) return null;
  const p95 = p95Ms(load, streamed);
  if (hedgeAfterMs !== "auto") return Math.max(hedgeAfterMs, usualTimes * (p95 ?? 0));
  if (p95 === null) return reasons ? null : unknownMs;
  return Math.max(autoMinMs, usualTimes * p95);
}

const usualTimes = 2;
const autoMinMs = 5_000;
const unknownMs = 15_000;
/** How long a call that may not be hedged waits before it asks again: others may have made room, or time has. */
export const hedgeAgainMs = 1_000;

export interface HedgeInput {
  readonly plan: Candidates;
  /** Everyone asked so far, with the attempt that is being waited for. */
  readonly asked: readonly Candidate[];
  readonly attemptsMax: number;
  readonly bodyBytes: number;
  readonly choices: number;
  readonly hostedTools: boolean;
  /** The retry budget has one left: in an outage hedging stops by itself. */
  readonly canRetry: boolean;
  readonly admits: (candidate: Candidate) => boolean;
}

const bodyBytesMax = 1024 * 1024;

/** With whom to hedge, asked when the delay has passed; `later`: with nobody now, `never`: with nobody at all. */
export function hedgeWith(input: HedgeInput): Candidate | "later" | "never" {
  if (input.plan.mode === "last_resort" || input.asked.length >= input.attemptsMax || !isRepeatable(input)) return "never";
  const fresh = input.plan.candidates.filter((choice) => isFresh(choice, input));
  if (fresh.length === 0) return "never";
  if (!input.canRetry) return "later";
  return fresh.find(({ candidate }) => input.admits(candidate))?.candidate ?? "later";
}

/** Twice the cost is bearable only for a plain request: tools that act must not act twice, large ones cost too much. */
function isRepeatable({ hostedTools, choices, bodyBytes }: HedgeInput): boolean {
  return !hostedTools && choices === 1 && bodyBytes <= bodyBytesMax;
}

/** On a channel nobody asked yet, and known to be well: a probe is no rescue. */
function isFresh({ candidate, probe }: Choice, { asked }: HedgeInput): boolean {
  const { channel } = candidate.deployment;
  return !probe && asked.every((other) => other.deployment.channel !== channel);
}
