import type { Candidate, Route } from "../channels/channel.ts";
import { allowsModel, allowsOperation } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { type CallRequest, contextTokensOf } from "../operations/call-request.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { operationSpecs } from "../operations/operation.ts";
import { boundTo, eligible } from "../routing/eligible.ts";
import type { Plan } from "../routing/plan.ts";
import type { UpstreamState } from "./upstream-state/upstream-state.ts";
import type { Snapshot } from "./snapshot.ts";

/** What would happen to a call now: everything that prevents it, and the candidates it would be tried with. */
export interface DryRun {
  readonly barriers: readonly Barrier[];
  readonly plan: Plan | null;
  /** Candidates of the route that the key is not bound to. */
  readonly outOfBounds: readonly Candidate[];
  /** What the call could be served with if nothing prevented it. */
  readonly route: Route | null;
}

export type Barrier =
  | { readonly kind: "operation_not_allowed" }
  | { readonly kind: "model_not_allowed" }
  | { readonly kind: "unknown_model" }
  | { readonly kind: "failure"; readonly failure: Failure };

/** Follows the path of a call without reserving or changing anything. */
export function dryRun(ask: CallRequest, key: Key | null, snapshot: Snapshot, upstreams: UpstreamState): DryRun {
  const barriers: Barrier[] = [];
  if (key !== null && !allowsOperation(key, ask.operation)) barriers.push({ kind: "operation_not_allowed" });
  if (key !== null && !allowsModel(key, ask.model)) barriers.push({ kind: "model_not_allowed" });
  const known = snapshot.routes.get(ask.model) ?? snapshot.wildcard?.(ask.model) ?? null;
  if (known === null) return { barriers: [...barriers, { kind: "unknown_model" }], plan: null, outOfBounds: [], route: null };
  const bound = boundTo(known, key?.channels ?? null);
  const inBounds = new Set(bound?.tiers.flat());
  const outOfBounds = known.tiers.flat().filter((candidate) => !inBounds.has(candidate));
  if (bound === null) return { barriers: [...barriers, { kind: "model_not_allowed" }], plan: null, outOfBounds, route: null };
  const able = eligible(bound, ask, key?.splits ?? noSplits, snapshot.service);
  if (isFailure(able)) return { barriers: [...barriers, { kind: "failure", failure: able }], plan: null, outOfBounds, route: null };
  const { streamDeadlineMs, wholeDeadlineMs } = snapshot.routing;
  const streams = "stream" in ask && ask.stream && operationSpecs[ask.operation].startsEarly;
  const plan = upstreams.previewPlan(able.route, contextTokensOf(ask), streams ? streamDeadlineMs : wholeDeadlineMs);
  return { barriers, plan, outOfBounds, route: able.route };
}

const noSplits = { audio: false, input: false };
