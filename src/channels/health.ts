import type { Failure, FailureKind } from "../operations/failure.ts";
import type { Candidate, Scopes } from "./channel.ts";

/**
 * The health of one scope: a host, a credential, a deployment or a quota group. It is immutable; a scope without an entry is
 * healthy. Requests are kept away from a scope for two reasons, which end differently:
 *
 * - The upstream asked for a wait (429, Retry-After). No request is sent before it is over; after it, the scope is used again,
 *   with little weight at first.
 * - The breaker opened, because too many requests failed or the scope cannot work as configured. After a while, single requests
 *   probe the scope, and two successful ones close the breaker.
 *
 * An outcome counts only if its call began after the breaker last changed: an older one says nothing about the present state.
 */
export interface Health {
  readonly breaker: Breaker;
  /** How often the breaker opened, as of its last change. Each healthy minute since then subtracts one. */
  readonly openings: number;
  /** Until when the upstream asked for a wait, and why. */
  readonly coolUntilMs: number;
  readonly cooledBy: FailureKind;
  /** Rejections (429, 401, …) without a success between them, and the time of the last one. */
  readonly refusals: number;
  readonly refusedMs: number;
  /** Failures since the last success. */
  readonly streak: number;
  readonly failedMs: number;
  readonly recent: Recent;
}

type Breaker =
  | { readonly state: "closed"; readonly sinceMs: number }
  | {
      readonly state: "open";
      readonly sinceMs: number;
      readonly untilMs: number;
      readonly because: FailureKind;
      /** The last failure was slow, or cost the caller its answer. */
      readonly costly: boolean;
      /** Probes that succeeded so far. */
      readonly passed: number;
      /** When the running probe began. */
      readonly probeMs: number | null;
    };

/** Outcomes of the last 30 s: the current bucket, and earlier ones that still count, oldest first. */
interface Recent extends Bucket {
  readonly older: readonly Bucket[];
}

interface Bucket {
  readonly slot: number;
  readonly successes: number;
  readonly failures: number;
}

const never = Number.NEGATIVE_INFINITY;
/** Shared, because there may be very many scopes with little history. */
const none: readonly Bucket[] = [];

export const newHealth: Health = {
  breaker: { state: "closed", sinceMs: never },
  openings: 0,
  coolUntilMs: never,
  cooledBy: "rate_limited",
  refusals: 0,
  refusedMs: never,
  streak: 0,
  failedMs: never,
  recent: { slot: never, successes: 0, failures: 0, older: none },
};

// When the breaker opens.
const streakUsual = 5;
const failedShareUsual = 0.05;
const failedShareMax = 0.5;
/** Fewer requests than this are too few for a share. */
const requestsMin = 10;
const bucketMs = 5_000;
const buckets = 6;
const windowMs = buckets * bucketMs;
/**
 * While nothing fails, a bucket stops counting here, so that a success allocates nothing. From the first failure on, every outcome
 * counts.
 */
const successesMax = 64;

// For how long it stays open.
const openFirstMs = 5_000;
const openMaxMs = 300_000;
const openJitter = 0.2;
/**
 * An upstream that fails fast (refused or reset connections, immediate errors) costs a caller next to nothing. It is tried again after
 * ten seconds at most, jitter included, so that its recovery is noticed.
 */
const quickMs = 1_000;
const openQuickMaxMs = 10_000;
/** How many openings it takes to reach that. */
const quickOpeningsMax = 2;
const forgivenAfterMs = 60_000;
const probesToClose = 2;
/** A probe ends with its attempt. This bound only matters if a bug leaves one behind. */
const probeLeaseMs = 600_000;

// Rejections, and recovery.
const coolDefaultMs = 10_000;
/** A Retry-After of 0 must not cause a busy loop. */
const coolMinMs = 1_000;
const coolMaxMs = 3_600_000;
const offFirstMs = 60_000;
const offMaxMs = 900_000;
const slowStartMs = 30_000;
const slowStartFloor = 0.1;

/** `open`: no requests. `half_open`: one request at a time. */
export type BreakerState = "closed" | "half_open" | "open";

export function breakerState(health: Health | undefined, nowMs: number): BreakerState {
  if (health === undefined) return "closed";
  if (nowMs < health.coolUntilMs) return "open";
  if (health.breaker.state === "closed") return "closed";
  return nowMs < health.breaker.untilMs ? "open" : "half_open";
}

/**
 * Another process reports a failing scope. A wait that the upstream asked for is respected here, too. A breaker that opened there
 * opens here, and this process probes it itself. If the scope is not healthy here already, nothing changes.
 */
export function afterHint(health: Health = newHealth, kind: FailureKind, nowMs: number, forMs: number): Health {
  if (breakerState(health, nowMs) !== "closed") return health;
  const untilMs = nowMs + Math.min(Math.max(0, forMs), openMaxMs);
  if (kind === "rate_limited") return { ...health, coolUntilMs: untilMs, cooledBy: kind };
  const costly = kind === "timed_out" || kind === "connect_timeout";
  return { ...health, breaker: { state: "open", sinceMs: nowMs, untilMs, because: kind, costly, passed: 0, probeMs: null } };
}

/** From when on requests are let through again, at least as probes. In the past if they are let through now. */
export function opensAgainMs(health: Health | undefined): number {
  if (health === undefined) return never;
  return health.breaker.state === "open" ? Math.max(health.coolUntilMs, health.breaker.untilMs) : health.coolUntilMs;
}

/** Whether a failed attempt is slow; meaningful only while the breaker is not closed. */
export function isCostly(health: Health): boolean {
  return health.breaker.state === "open" && health.breaker.costly;
}

/** A probe succeeded, and the next one may follow at once. */
export function hasPassed(health: Health): boolean {
  return health.breaker.state === "open" && health.breaker.passed > 0;
}

/** The upstream asked for a wait that is not over. Not even a last resort asks it. */
export function isHardCooled(health: Health | undefined, nowMs: number): boolean {
  return health !== undefined && nowMs < health.coolUntilMs;
}

/** What opened the breaker or caused the cool-down; meaningful only while the state is not `closed`. */
export function cause(health: Health, nowMs: number): FailureKind {
  if (nowMs < health.coolUntilMs || health.breaker.state === "closed") return health.cooledBy;
  return health.breaker.because;
}

export function isProbing(health: Health | undefined, nowMs: number): boolean {
  if (health === undefined || health.breaker.state === "closed") return false;
  return health.breaker.probeMs !== null && nowMs - health.breaker.probeMs < probeLeaseMs;
}

/** The share of its weight that a recovered scope gets: from a tenth to all of it over half a minute (slow start). */
export function slowStartFactor(health: Health | undefined, nowMs: number): number {
  if (health === undefined) return 1;
  if (health.breaker.state === "open") return slowStartFloor;
  const backForMs = nowMs - Math.max(health.breaker.sinceMs, health.coolUntilMs);
  if (backForMs >= slowStartMs) return 1;
  return slowStartFloor + (1 - slowStartFloor) * (Math.max(0, backForMs) / slowStartMs);
}

/** From when on the scope is closed and has all of its weight, as long as nothing else happens; infinite while its breaker is open. */
export function wellFromMs(health: Health | undefined): number {
  if (health === undefined) return never;
  return health.breaker.state === "open" ? Infinity : Math.max(health.breaker.sinceMs, health.coolUntilMs) + slowStartMs;
}

/** The entry says no more than a missing one, so it may be dropped. */
export function isForgettable(health: Health, nowMs: number): boolean {
  return (
    health.breaker.state === "closed" &&
    openingsLeft(health, nowMs) === 0 &&
    slowStartFactor(health, nowMs) === 1 &&
    health.streak === 0 &&
    health.refusals === 0 &&
    nowMs - (health.recent.slot + 1) * bucketMs >= windowMs
  );
}

/** Returns the same value if nothing changed, which is the usual case for a busy, healthy scope. */
export function afterSuccess(health: Health | undefined, nowMs: number, beganMs: number): Health {
  const before = probeEnded(health ?? newHealth, beganMs);
  const { breaker } = before;
  if (breaker.state === "closed") return afterSuccessClosed(before, nowMs, beganMs);
  if (beganMs <= breaker.sinceMs) return before;

  const passed = breaker.passed + 1;
  if (passed >= probesToClose) {
    return {
      ...before,
      breaker: { state: "closed", sinceMs: nowMs },
      refusals: 0,
      streak: 0,
      recent: newHealth.recent,
    };
  }
  // A last resort may succeed while the breaker is still open. Then there is no reason to wait longer.
  const untilMs = Math.min(breaker.untilMs, nowMs);
  return { ...before, breaker: { ...breaker, untilMs, passed } };
}

/**
 * Whether the first content of a probe is enough to prove recovery, so that others need not wait for its end. Not if the breaker
 * opened because streams broke off: then only a complete answer proves anything.
 */
export function isProvedByContent(health: Health | undefined): boolean {
  return health?.breaker.state === "open" && health.breaker.because !== "interrupted";
}

function afterSuccessClosed(before: Health, nowMs: number, beganMs: number): Health {
  const { recent } = before;
  const full = recent.successes >= successesMax && nowMs < (recent.slot + 1) * bucketMs;
  const spotless = before.refusals === 0 && before.streak === 0 && nowMs - before.failedMs >= windowMs;
  if (full && spotless) return before;
  return {
    ...before,
    // A success that began after the rejection shows that the upstream accepts requests again.
    refusals: beganMs > before.refusedMs ? 0 : before.refusals,
    streak: 0,
    recent: counted(recent, nowMs, 1, 0),
  };
}

/** Only for the scope that the failure is charged to (`chargedScope`). The dice spread the return of many replicas. */
export function afterFailure(health: Health | undefined, failure: Failure, nowMs: number, dice: () => number, beganMs: number): Health {
  const before = probeEnded(health ?? newHealth, beganMs);
  if (failure.scope === "request") return before;
  switch (failure.kind) {
    case "rate_limited":
      return cooled(before, failure, nowMs, beganMs);
    case "unauthorized":
    case "quota_exhausted":
    case "model_missing":
      return switchedOff(before, failure, offFirstMs * 2 ** before.refusals, nowMs, beganMs);
    case "redirected":
    case "misconfigured":
      return switchedOff(before, failure, offFirstMs, nowMs, beganMs);
    default: {
      const after = failedOnce(before, failure, nowMs, dice, beganMs);
      return failure.retryAfterMs === null ? after : cooled(after, failure, nowMs, beganMs);
    }
  }
}

/** The upstream asked for a wait. Its own figure is used; without one, ours doubles with each rejection. */
function cooled(before: Health, failure: Failure, nowMs: number, beganMs: number): Health {
  // A call that began before the wait was over was bound to be rejected and says nothing about a longer wait.
  const again = beganMs > before.refusedMs && beganMs >= before.coolUntilMs;
  const refusals = again ? before.refusals + 1 : Math.max(1, before.refusals);
  const waitMs = failure.retryAfterMs ?? coolDefaultMs * 2 ** (refusals - 1);
  return {
    ...before,
    coolUntilMs: Math.max(before.coolUntilMs, nowMs + Math.min(coolMaxMs, Math.max(coolMinMs, waitMs))),
    cooledBy: failure.kind,
    refusals,
    refusedMs: again ? nowMs : before.refusedMs,
  };
}

/** It cannot work until somebody fixes it: one such answer is enough. */
function switchedOff(before: Health, failure: Failure, ms: number, nowMs: number, beganMs: number): Health {
  const { breaker } = before;
  if (beganMs <= breaker.sinceMs) return before;
  const waiting = breaker.state === "open" && nowMs < breaker.untilMs;
  if (waiting) return { ...before, breaker: { ...breaker, sinceMs: nowMs } };
  const offMs = Math.max(Math.min(offMaxMs, ms), Math.min(coolMaxMs, failure.retryAfterMs ?? 0));
  return {
    ...opened(before, failure, nowMs, offMs, nowMs - beganMs >= quickMs),
    openings: openingsLeft(before, nowMs),
    refusals: before.refusals + 1,
    refusedMs: nowMs,
  };
}

function failedOnce(before: Health, failure: Failure, nowMs: number, dice: () => number, beganMs: number): Health {
  const { breaker } = before;
  if (beganMs <= breaker.sinceMs) return before;
  const after = { ...before, streak: before.streak + 1, failedMs: nowMs, recent: counted(before.recent, nowMs, 0, 1) };
  if (breaker.state === "closed" && !isTooMuch(after, nowMs)) return after;

  // A last resort or a late attempt failed while the breaker was open. The wait stays as it was.
  const costly = isCostlyFailure(failure, nowMs - beganMs);
  if (breaker.state === "open" && nowMs < breaker.untilMs) return { ...after, breaker: { ...breaker, sinceMs: nowMs, costly } };
  const left = openingsLeft(before, nowMs);
  // A long outage of a channel that fails fast must not make the next slow failure block it for minutes.
  const openings = costly ? left + 1 : Math.max(left, Math.min(left + 1, quickOpeningsMax));
  const maxMs = costly ? openMaxMs : openQuickMaxMs / (1 + openJitter);
  const openMs = Math.min(maxMs, openFirstMs * 2 ** (openings - 1)) * (1 - openJitter + 2 * openJitter * dice());
  return { ...opened(after, failure, nowMs, openMs, costly), openings };
}

/** A stream that breaks off costs the caller its answer, however early. */
function isCostlyFailure(failure: Failure, tookMs: number): boolean {
  return tookMs >= quickMs || failure.kind === "interrupted";
}

function opened(before: Health, failure: Failure, nowMs: number, openMs: number, costly: boolean): Health {
  const untilMs = nowMs + openMs;
  return {
    ...before,
    breaker: { state: "open", sinceMs: nowMs, untilMs, because: failure.kind, costly, passed: 0, probeMs: null },
  };
}

function openingsLeft(health: Health, nowMs: number): number {
  if (health.openings === 0 || health.breaker.state === "open") return health.openings;
  return Math.max(0, health.openings - Math.floor((nowMs - health.breaker.sinceMs) / forgivenAfterMs));
}

/** Marks a running probe. Whoever sends it must report its outcome or call `probeEnded`. */
export function withProbe(health: Health, nowMs: number): Health {
  return health.breaker.state === "open" ? { ...health, breaker: { ...health.breaker, probeMs: nowMs } } : health;
}

/**
 * The attempt that began at `beganMs` is over, and with it the probe if it was one. A call that began before the probe is not the
 * probe.
 */
export function probeEnded(health: Health, beganMs: number): Health {
  const { breaker } = health;
  if (breaker.state === "closed" || breaker.probeMs === null || beganMs < breaker.probeMs) return health;
  return { ...health, breaker: { ...breaker, probeMs: null } };
}

function counted(recent: Recent, nowMs: number, successes: number, failures: number): Recent {
  const slot = Math.floor(nowMs / bucketMs);
  if (recent.slot === slot) {
    return {
      slot,
      successes: recent.successes + successes,
      failures: recent.failures + failures,
      older: recent.older,
    };
  }
  const last: Bucket = { slot: recent.slot, successes: recent.successes, failures: recent.failures };
  const older = [...recent.older, last].filter((bucket) => bucket.slot > slot - buckets);
  return { slot, successes, failures, older: older.length === 0 ? none : older };
}

/**
 * Half of the recent requests failed, or so many in a row that it is no coincidence. A share needs a few seconds to be meaningful: ten
 * requests may be over in an instant, and of those a channel with a failure rate of 30 % often fails five.
 */
function isTooMuch({ recent, streak }: Health, nowMs: number): boolean {
  const slot = Math.floor(nowMs / bucketMs);
  let requests = recent.successes + recent.failures;
  let failures = recent.failures;
  let watched = false;
  for (const bucket of recent.older) {
    if (bucket.slot <= slot - buckets) continue;
    requests += bucket.successes + bucket.failures;
    failures += bucket.failures;
    watched ||= bucket.slot < slot - 1;
  }
  if (watched && requests >= requestsMin && failures >= failedShareMax * requests) return true;
  return streak >= streakMax(requests - streak, failures - streak);
}

/**
 * Where failures are rare, five in a row are a sign. A channel with a failure rate of 30 % has such a row every few minutes and is
 * still useful, so there it takes as many as are equally unlikely.
 */
function streakMax(otherRequests: number, otherFailures: number): number {
  if (otherRequests < requestsMin || otherFailures <= 0) return streakUsual;
  return Math.max(streakUsual, (streakUsual * Math.log(failedShareUsual)) / Math.log(otherFailures / otherRequests));
}

/** The ids of all scopes of a candidate. */
export function scopeIds(scopes: Scopes): readonly string[] {
  const { host, credential, deployment, quota } = scopes;
  return quota === null ? [host, credential, deployment] : [host, credential, deployment, quota];
}

/**
 * The scope that a failure of this candidate is charged to; `null`: none. Rate limits belong to the account: the quota group if the
 * channel has one; otherwise, in a pool, the credential, so that one exhausted key does not affect the others.
 */
export function chargedScope(candidate: Candidate, failure: Failure): string | null {
  const { scopes, deployment } = candidate;
  if (failure.scope === "request") return null;
  if (failure.kind === "quota_exhausted") return scopes.quota ?? scopes.credential;
  if (failure.kind === "rate_limited" && scopes.quota !== null) return scopes.quota;
  if (failure.kind === "rate_limited" && deployment.channel.pooled) return scopes.credential;
  return failure.scope === "quota" ? (scopes.quota ?? scopes.credential) : scopes[failure.scope];
}
