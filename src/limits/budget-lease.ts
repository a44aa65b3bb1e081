/**
 * The money one process holds for one budget in one period, in billionths of a dollar. The store counts the same money:
 * its row for this process is what is held here plus what was spent and has not reached it yet as receipts.
 */
export interface BudgetLease {
  /** Got from the store, less what was spent since. Below zero when a call has cost more than was reserved for it. */
  held: number;
  /** Of that, for calls under way. */
  reserved: number;
  /** The least that was free since the last look at what lies idle. */
  least: number;
  /** Spent before the last look at what has been drained, but not known to be, and since that look. */
  undrained: number;
  fresh: number;
  /** Given up here; the store has still to be told. */
  back: number;
}

export function newBudgetLease(): BudgetLease {
  return { held: 0, reserved: 0, least: 0, undrained: 0, fresh: 0, back: 0 };
}

export function free(purse: BudgetLease): number {
  return purse.held - purse.reserved;
}

export function received(purse: BudgetLease, nanos: number): void {
  purse.held += nanos;
}

export function reserve(purse: BudgetLease, nanos: number): void {
  purse.reserved += nanos;
  purse.least = Math.min(purse.least, free(purse));
}

/** The truth takes the place of what was reserved. */
export function settle(purse: BudgetLease, reservedNanos: number, costNanos: number): void {
  purse.reserved -= reservedNanos;
  purse.held -= costNanos;
  purse.fresh += costNanos;
  purse.least = Math.min(purse.least, free(purse));
}

/**
 * All that was spent before the last such look has reached the store; what was spent since may have or not. A debt that is
 * there counts as spent, so it is not to be covered a second time: only what has not reached the store can still be one.
 */
export function drained(purse: BudgetLease): void {
  purse.undrained = purse.fresh;
  purse.fresh = 0;
  purse.held = Math.max(purse.held, 0 - purse.undrained);
}

/** A look at what lies idle: what nobody needed since the last one, less what stays here, is no longer held. */
export function trimmed(purse: BudgetLease, stays: number): void {
  giveUp(purse, Math.max(0, purse.least - stays));
  purse.least = Math.max(0, free(purse));
}

/** Nothing stays but what calls under way may cost. */
export function emptied(purse: BudgetLease): void {
  giveUp(purse, Math.max(0, free(purse)));
  purse.least = Math.min(purse.least, free(purse));
}

/**
 * The store no longer holds anything for this process. What was spent and has not reached it as receipts is a debt now, as
 * what calls under way will cost is: what is held next covers it first, and so it is counted there again.
 */
export function lost(purse: BudgetLease): void {
  purse.back = 0;
  purse.held = 0 - purse.undrained - purse.fresh;
  purse.least = Math.min(purse.least, free(purse));
}

/** What the store is to be told of what was given up, once. */
export function takeBack(purse: BudgetLease): number {
  const { back } = purse;
  purse.back = 0;
  return back;
}

function giveUp(purse: BudgetLease, nanos: number): void {
  purse.held -= nanos;
  purse.back += nanos;
}

/** The most that the store's row must still have. */
export function rowMax(purse: BudgetLease): number {
  return Math.max(0, purse.held + purse.undrained + purse.fresh);
}

/** The same after a loss: the row may still be there, and then it covers what is under way. */
export function rowMaxLost(purse: BudgetLease): number {
  return purse.reserved + purse.undrained + purse.fresh;
}
