import type { LimitRecord } from "../../limits/rate-limit-store.ts";

/** What this process knows of one limit, and its lease: a part of the limit that it uses without asking again. */
export class RateLease implements LimitRecord {
  isForgotten = false;
  /** How large the lease was, what is left of it, the slot of time it was counted in, and when it ends. */
  size = 0;
  left = 0;
  slot = 0;
  endsMs = Number.NEGATIVE_INFINITY;
  /** A lease is being requested. Other calls wait for it instead of asking too. */
  requesting = false;
  /** The next one was requested before this one ended, whatever the answer was. */
  askedAhead = false;
  /** What was used since the last request, and when that was. */
  spent = 0;
  askedMs = Number.NEGATIVE_INFINITY;
  /** What was left for all processes and what this one had used or held, as of the last answer; and when that was. */
  remaining: number;
  ownUse = 0;
  knownMs = Number.NEGATIVE_INFINITY;
  /** There was no room for this amount, and it is not requested again before this time. */
  refusedNeed = 0;
  refusedUntilMs = Number.NEGATIVE_INFINITY;
  /** When there may be room. */
  roomMs = Number.NEGATIVE_INFINITY;
  /** What this process may use after the store has lost its counts; null: nothing was known of the limit then. */
  cap: number | null = null;

  constructor(
    readonly store: object,
    readonly id: string,
    limit: number,
  ) {
    this.remaining = limit;
  }
}

/** What can be used without asking. */
export function leaseLeft(lease: RateLease | undefined, nowMs: number): number {
  return lease !== undefined && lease.endsMs > nowMs ? lease.left : 0;
}

export function isRefused(lease: RateLease | undefined, amount: number, nowMs: number): lease is RateLease {
  return lease !== undefined && lease.refusedUntilMs > nowMs && amount >= lease.refusedNeed && amount > leaseLeft(lease, nowMs);
}

/** Notes that an amount was returned to the store; a negative one was taken. */
export function noteReturned(lease: RateLease, amount: number): void {
  lease.ownUse -= amount;
  lease.remaining = Math.max(0, lease.remaining + amount);
}

/**
 * What this process may use of a limit within the window while the store is lost: what it had at the last answer, and an even part
 * of what was left then. All processes together so come to the limit, however unevenly they use it. If the last answer is older
 * than the window, it is an even part of the limit. A call that is larger than its part passes if nothing else was used.
 */
export function partWithoutStore(
  lease: RateLease | undefined,
  { limit, amount }: LimitedAmount,
  processes: number,
  oldestMs: number,
): number {
  const known = lease !== undefined && lease.knownMs > oldestMs ? lease : null;
  const part = known === null ? limit / processes : known.ownUse + known.remaining / processes;
  const atLeast = known === null || amount <= known.remaining ? amount : 0;
  return Math.min(limit, Math.max(Math.floor(part), atLeast));
}

export interface LimitedAmount {
  readonly limit: number;
  readonly amount: number;
}

/** The size of the next lease: enough for the waiting calls, and for the lifetime of a lease at the recent pace. */
export function leaseWish(lease: RateLease, limit: number, needed: number, leaseMs: number, nowMs: number): number {
  const pace = lease.spent / Math.max(leaseMs * paceShareMin, nowMs - lease.askedMs);
  return Math.min(Math.max(500, Math.ceil(limit / 20)), needed + Math.ceil(pace * leaseMs));
}

/**
 * Whether it is time to request the next lease, so that no call has to wait for it: the store may be busy with other processes. A small lease
 * is that of a limit which is little used, or nearly used up: it is requested when a call needs it.
 */
export function isNextDue(lease: RateLease, leaseMs: number, nowMs: number): boolean {
  if (lease.askedAhead || lease.requesting || lease.size < aheadFrom) return false;
  return lease.endsMs - nowMs < leaseMs * aheadShare || lease.left < lease.size * aheadShare;
}

/** Small limits are not leased: each call asks the store. */
export function isExact(limit: number): boolean {
  return limit < exactBelow;
}

const exactBelow = 50;
const aheadFrom = 20;
/** Of the time and of the amount of a lease: what is left when the next one is requested. */
const aheadShare = 0.4;
/** A few calls at the same moment are not a high rate. */
const paceShareMin = 0.1;
