import type { Scopes } from "../channels/channel.ts";
import {
  cause,
  hasPassed,
  type Health,
  isCostly,
  isHardCooled,
  isProbing,
  opensAgainMs,
  slowStartFactor,
  breakerState,
} from "../channels/health.ts";
import type { FailureKind } from "../operations/failure.ts";

/** The state of a candidate: the worst among its scopes. */
export type Condition = { readonly kind: "ready"; /** The share of its weight it may take. */ readonly share: number } | NotReady;

/** Why it is not ready: the scope that matters most, and what happened to it. `costly`: a failed attempt takes time. */
export type NotReady = HalfOpen | Cooling;

interface HalfOpen {
  readonly kind: "half_open";
  /** Its probe is running. */
  readonly busy: boolean;
  /** Its last probe succeeded. */
  readonly passed: boolean;
  readonly costly: boolean;
  readonly scope: string;
  readonly cause: FailureKind;
}

interface Cooling {
  readonly kind: "cooling";
  readonly untilMs: number;
  /** The upstream asked for the wait. */
  readonly waitRequested: boolean;
  readonly costly: boolean;
  readonly scope: string;
  readonly cause: FailureKind;
}

export type HealthOf = (scope: string) => Health | undefined;

export function condition(scopes: Scopes, healthOf: HealthOf, nowMs: number): Condition {
  let worst = ready;
  worst = worse(worst, scopes.deployment, healthOf(scopes.deployment), nowMs);
  worst = worse(worst, scopes.credential, healthOf(scopes.credential), nowMs);
  worst = worse(worst, scopes.host, healthOf(scopes.host), nowMs);
  return scopes.quota === null ? worst : worse(worst, scopes.quota, healthOf(scopes.quota), nowMs);
}

/** Whether it accepts an attempt now, if only as a probe. */
export function admits(scopes: Scopes, healthOf: HealthOf, nowMs: number): boolean {
  const found = condition(scopes, healthOf, nowMs);
  return found.kind === "ready" || (found.kind === "half_open" && !found.busy);
}

/** The upstream asked for a wait, so it is not asked even as a last resort. */
export function isWaitRequested(scopes: Scopes, healthOf: HealthOf, nowMs: number): boolean {
  const found = condition(scopes, healthOf, nowMs);
  return found.kind === "cooling" && found.waitRequested;
}

const ready: Condition = { kind: "ready", share: 1 };

function worse(current: Condition, scope: string, health: Health | undefined, nowMs: number): Condition {
  if (health === undefined) return current;
  switch (breakerState(health, nowMs)) {
    case "closed": {
      const share = slowStartFactor(health, nowMs);
      return current.kind === "ready" && share < current.share ? { kind: "ready", share } : current;
    }
    case "half_open": {
      if (current.kind === "cooling") return current;
      const other = current.kind === "half_open" ? current : null;
      const busy = isProbing(health, nowMs) || other?.busy === true;
      const passed = hasPassed(health) && other?.passed !== false;
      const costly = isCostly(health) || other?.costly === true;
      return { kind: "half_open", busy, passed, costly, scope, cause: cause(health, nowMs) };
    }
    case "open": {
      const untilMs = opensAgainMs(health);
      const waitRequested = isHardCooled(health, nowMs);
      const costly = isCostly(health) || (current.kind !== "ready" && current.costly);
      const cooling: Cooling = { kind: "cooling", untilMs, waitRequested, costly, scope, cause: cause(health, nowMs) };
      if (current.kind !== "cooling") return cooling;
      // Two scopes keep it out. The longer wait counts, and either may be one that the upstream requested.
      const longer = untilMs > current.untilMs ? cooling : current;
      return { ...longer, waitRequested: waitRequested || current.waitRequested, costly };
    }
  }
}
