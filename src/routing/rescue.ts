import type { Candidate, Deployment } from "../channels/channel.ts";
import type { Candidates, Choice, RoutingPolicy } from "./plan.ts";

export interface RescueInput {
  readonly policy: RoutingPolicy;
  readonly plan: Candidates;
  /** Everyone asked so far. */
  readonly asked: readonly Candidate[];
  /** Whose stream is to be continued. */
  readonly broken: Deployment;
}

/**
 * Who may go on with a stream that broke off: known to be well, not asked before, and, unless the operator allows any, with the
 * same model, or the voice would change in the middle of a sentence.
 */
export function canContinue({ candidate: { deployment }, probe }: Choice, { policy, plan, asked, broken }: RescueInput): boolean {
  if (policy.rescue === "error" || asked.length >= policy.attemptsMax || plan.mode === "last_resort" || probe) return false;
  if (policy.rescue === "auto" && !isSameModel(deployment.model, broken.model)) return false;
  return asked.every((other) => other.deployment !== deployment);
}

/** Resellers put the maker before the name of a model: `maker/model-1` is `model-1`. */
function isSameModel(one: string, other: string): boolean {
  return one === other || bareName(one) === bareName(other);
}

function bareName(model: string): string {
  return model.slice(model.lastIndexOf("/") + 1).toLowerCase();
}
