import type { Candidate, Deployment } from "../channels/channel.ts";
import type { Candidates, Choice, RoutingPolicy } from "./plan.ts";

export interface RescueInput {
  readonly policy: RoutingPolicy;
  readonly plan: Candidates;
  /** Every candidate asked so far. */
  readonly asked: readonly Candidate[];
  /** The deployment whose stream broke off. */
  readonly broken: Deployment;
}

/**
 * Whether a candidate may continue a stream that broke off. It must be healthy and not asked before, and have the same model unless
 * the operator allows any: otherwise the style would change in the middle of a sentence.
 */
export function canContinue({ candidate: { deployment }, probe }: Choice, { policy, plan, asked, broken }: RescueInput): boolean {
  if (policy.rescue === "error" || asked.length >= policy.attemptsMax || plan.mode === "last_resort" || probe) return false;
  if (policy.rescue === "auto" && !isSameModel(deployment.model, broken.model)) return false;
  return asked.every((other) => other.deployment !== deployment);
}

/** Resellers put the vendor before the name of a model: `maker/model-1` is `model-1`. */
function isSameModel(one: string, other: string): boolean {
  return one === other || bareName(one) === bareName(other);
}

function bareName(model: string): string {
  return model.slice(model.lastIndexOf("/") + 1).toLowerCase();
}
