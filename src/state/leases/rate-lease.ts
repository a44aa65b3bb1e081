/** What this process knows of one limit, and the lease it holds: a part of the limit to be spent without asking again. */
export interface RateLease {
  readonly id: string;
  /** Of the lease. */
  left: number;
  slot: number;
  endsMs: number;
  /** Somebody asks for a lease: the others wait for it instead of asking too. */
  asking: boolean;
  /** What was spent since somebody last asked, and when that was. */
  spent: number;
  askedMs: number;
  /** What was left for everybody, and what this process had used or held, when we last heard of it; and when that was. */
  remaining: number;
  own: number;
  heardMs: number;
  /** There was no room for this much, and asking again before this moment is no use. */
  refusedNeed: number;
  refusedUntilMs: number;
  /** When there may be room. */
  roomMs: number;
  /** What this process may have used of it, after the store lost its counts; null: nothing was known of it then. */
  cap: number | null;
}

export function newRateLease(id: string, limit: number): RateLease {
  return {
    id,
    left: 0,
    slot: 0,
    endsMs: Number.NEGATIVE_INFINITY,
    asking: false,
    spent: 0,
    askedMs: Number.NEGATIVE_INFINITY,
    remaining: limit,
    own: 0,
    heardMs: Number.NEGATIVE_INFINITY,
    refusedNeed: 0,
    refusedUntilMs: Number.NEGATIVE_INFINITY,
    roomMs: Number.NEGATIVE_INFINITY,
    cap: null,
  };
}

/** What can be spent without asking. */
export function inHand(account: RateLease | undefined, nowMs: number): number {
  return account !== undefined && account.endsMs > nowMs ? account.left : 0;
}

export function isRefused(account: RateLease | undefined, amount: number, nowMs: number): account is RateLease {
  return account !== undefined && account.refusedUntilMs > nowMs && amount >= account.refusedNeed && amount > inHand(account, nowMs);
}

/** Some of what this process had is there for everybody again; below zero, it took more. */
export function givenBack(account: RateLease, amount: number): void {
  account.own -= amount;
  account.remaining = Math.max(0, account.remaining + amount);
}

/**
 * What this process may have used of a limit within the window while nobody can be asked: what it had when it last heard, and its
 * even part of what was left then. So all together come to the limit, however unevenly they use it. Who has not heard of it for
 * as long as the window goes by an even part of the limit. A call that is larger than that passes where nothing else did.
 */
export function partAlone(account: RateLease | undefined, { limit, amount }: LimitedAmount, processes: number, oldestMs: number): number {
  const known = account !== undefined && account.heardMs > oldestMs ? account : null;
  const part = known === null ? limit / processes : known.own + known.remaining / processes;
  const atLeast = known === null || amount <= known.remaining ? amount : 0;
  return Math.min(limit, Math.max(Math.floor(part), atLeast));
}

export interface LimitedAmount {
  readonly limit: number;
  readonly amount: number;
}

/** Enough for those who wait, and for as long as a lease lives at the pace of the last while. */
export function wishFor(account: RateLease, limit: number, needed: number, leaseMs: number, nowMs: number): number {
  const pace = account.spent / Math.max(leaseMs * paceShareMin, nowMs - account.askedMs);
  return Math.min(Math.max(500, Math.ceil(limit / 20)), needed + Math.ceil(pace * leaseMs));
}

/** Small limits are not leased: each call asks. */
export function isExact(limit: number): boolean {
  return limit < exactBelow;
}

const exactBelow = 50;
/** Two calls at the same moment are not yet a storm. */
const paceShareMin = 0.1;
