/** What this process knows of one limit, and the lease it holds: a part of the limit to be spent without asking again. */
export interface Account {
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
  /** What was left for everybody, when we last heard of it. */
  remaining: number;
  /** There was no room for this much, and asking again before this moment is no use. */
  refusedNeed: number;
  refusedUntilMs: number;
  /** When there may be room. */
  roomMs: number;
}

export function newAccount(id: string, limit: number): Account {
  return {
    id,
    left: 0,
    slot: 0,
    endsMs: Number.NEGATIVE_INFINITY,
    asking: false,
    spent: 0,
    askedMs: Number.NEGATIVE_INFINITY,
    remaining: limit,
    refusedNeed: 0,
    refusedUntilMs: Number.NEGATIVE_INFINITY,
    roomMs: Number.NEGATIVE_INFINITY,
  };
}

/** What can be spent without asking. */
export function inHand(account: Account | undefined, nowMs: number): number {
  return account !== undefined && account.endsMs > nowMs ? account.left : 0;
}

export function isRefused(account: Account | undefined, amount: number, nowMs: number): account is Account {
  return account !== undefined && account.refusedUntilMs > nowMs && amount >= account.refusedNeed && amount > inHand(account, nowMs);
}

/** Enough for those who wait, and for as long as a lease lives at the pace of the last while. */
export function wishFor(account: Account, limit: number, needed: number, leaseMs: number, nowMs: number): number {
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
