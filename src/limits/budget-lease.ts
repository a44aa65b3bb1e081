/**
 * The money one process leases from one budget for one period, in billionths of a dollar. The store counts the same money:
 * its row for this process is the balance here plus what was spent and has not reached the store as receipts yet.
 */
export interface BudgetLease {
  /** Granted by the store, less what was spent since. It is negative when a call has cost more than was reserved for it. */
  balance: number;
  /** The part of the balance that is reserved for running calls. */
  reserved: number;
  /** The lowest free amount since idle money was last returned. */
  minFree: number;
  /** Spent before the last check of what has been drained, and not known to be drained. */
  undrained: number;
  /** Spent since that check. */
  spentSince: number;
  /** Given up here; the store has not been told yet. */
  toReturn: number;
}

export function newBudgetLease(): BudgetLease {
  return { balance: 0, reserved: 0, minFree: 0, undrained: 0, spentSince: 0, toReturn: 0 };
}

export function freeNanos(lease: BudgetLease): number {
  return lease.balance - lease.reserved;
}

export function addGranted(lease: BudgetLease, nanos: number): void {
  lease.balance += nanos;
}

export function reserve(lease: BudgetLease, nanos: number): void {
  lease.reserved += nanos;
  lease.minFree = Math.min(lease.minFree, freeNanos(lease));
}

/** Replaces what was reserved by the actual cost. */
export function settle(lease: BudgetLease, reservedNanos: number, costNanos: number): void {
  lease.reserved -= reservedNanos;
  lease.balance -= costNanos;
  lease.spentSince += costNanos;
  lease.minFree = Math.min(lease.minFree, freeNanos(lease));
}

/**
 * Notes that all that was spent before the last such check has reached the store; what was spent since may or may not have. The
 * store counts a debt that has reached it as spent, so a grant must not cover it a second time: only what has not reached the
 * store can still be a debt.
 */
export function noteDrained(lease: BudgetLease): void {
  lease.undrained = lease.spentSince;
  lease.spentSince = 0;
  lease.balance = Math.max(lease.balance, 0 - lease.undrained);
}

/** Gives up the money that nobody has needed since the last call of this function, except for `stays`. */
export function returnIdle(lease: BudgetLease, stays: number): void {
  giveUp(lease, Math.max(0, lease.minFree - stays));
  lease.minFree = Math.max(0, freeNanos(lease));
}

/** Gives up everything that is not reserved for running calls. */
export function returnFree(lease: BudgetLease): void {
  giveUp(lease, Math.max(0, freeNanos(lease)));
  lease.minFree = Math.min(lease.minFree, freeNanos(lease));
}

/**
 * Notes that the lease has expired in the store. What was spent and has not reached the store as receipts is now a debt, and so is
 * what running calls will cost: the next grant covers the debt first, so that it is counted in the store again.
 */
export function markLost(lease: BudgetLease): void {
  lease.toReturn = 0;
  lease.balance = 0 - lease.undrained - lease.spentSince;
  lease.minFree = Math.min(lease.minFree, freeNanos(lease));
}

/** The amount given up that the store has to be told of. It is reported once. */
export function takeReturned(lease: BudgetLease): number {
  const { toReturn } = lease;
  lease.toReturn = 0;
  return toReturn;
}

function giveUp(lease: BudgetLease, nanos: number): void {
  lease.balance -= nanos;
  lease.toReturn += nanos;
}

/** The most that the store's row has to hold. */
export function storedMax(lease: BudgetLease): number {
  return Math.max(0, lease.balance + lease.undrained + lease.spentSince);
}

/** The same after a loss: the row may still exist, and then it covers the running calls. */
export function storedMaxAfterLoss(lease: BudgetLease): number {
  return lease.reserved + lease.undrained + lease.spentSince;
}

/**
 * How much a process leases at once of what several share: a quarter of an even share. It is large while there is plenty, so that
 * the store is asked rarely, and small towards the end, so that no process keeps what another needs. It is at least what is
 * needed now, and at most `max` unless the need is larger.
 */
export function leaseSize(need: number, remaining: number, processes: number, max: number = Number.MAX_SAFE_INTEGER): number {
  const share = Math.floor(remaining / sharersOf(processes));
  return Math.max(need, Math.min(max, share));
}

/** The number of parts that the remaining amount is divided into. */
export function sharersOf(processes: number): number {
  return leasesPerProcess * Math.max(1, processes);
}

const leasesPerProcess = 4;
