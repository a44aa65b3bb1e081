/**
 * Counts that several processes share, whoever keeps them (Redis or a database). One step for all counts of a call: either
 * every one of them has room, and all are taken, or none is touched. All amounts are whole numbers. Every method rejects, or
 * takes as long as it may, when the keeper is gone: callers bring their own deadline and fall-back.
 */
export interface DistributedCounts {
  /** All ids of one call belong to one key and begin with its id and a space. */
  take(wants: readonly Want[], hold: Hold | null): Promise<Taken>;
  /** Changes what is counted without asking: gives back what was not used, adds what was used beyond what was taken. */
  correct(id: string, corrections: readonly Correction[]): Promise<void>;
  /** Prolongs places, also ones that the keeper does not know (any more). */
  keep(holds: readonly Hold[]): Promise<void>;
  /** Frees places of one limit, by their names. */
  release(id: string, calls: readonly string[]): Promise<void>;
  /** Says that this process is there, and hears how many are: those that said so within the time. */
  attend(member: string, withinMs: number): Promise<number>;
  leave(member: string): Promise<void>;
  close(): void;
}

/** An amount out of a limit over the last minute. `id` names the limit, such as `key-id rpm`. */
export interface Want {
  readonly id: string;
  readonly limit: number;
  /** At least this much, or nothing. */
  readonly need: number;
  /** As much as this if there is room: a lease to be spent without asking again. */
  readonly wish: number;
  /** Beyond its need nobody gets more than what is left, divided by this: the others want some too. */
  readonly sharers: number;
}

/** A place among the calls at the same time. A dead process' places come back after their life. */
export interface Hold {
  readonly id: string;
  readonly limit: number;
  /** Names the place. */
  readonly call: string;
  readonly lifeMs: number;
  /** Further places to be taken, as far as there is room. */
  readonly more?: readonly string[];
}

/** What is no longer in the window stays gone, and no slot falls below nothing. */
export interface Correction {
  /** Where it was counted; null is now, or so many slots before. */
  readonly slot: number | null;
  readonly ago?: number;
  /** What is added; below zero, what is given back. */
  readonly by: number;
}

export type Taken =
  /** `places`: how many of the places that were asked for, the first ones of them. */
  | { readonly ok: true; readonly granted: readonly Granted[]; readonly places: number }
  /** `short` is the first limit without room (the hold's id, if it was that); `waitMs`: until there may be some. */
  | { readonly ok: false; readonly short: string; readonly waitMs: number; readonly remaining: number };

export interface Granted {
  readonly id: string;
  readonly amount: number;
  /** Where it was counted: to be told when some of it is given back. */
  readonly slot: number;
  /** What is left of the limit for everybody. */
  readonly remaining: number;
}

/**
 * The window reaches over sixty whole slots besides the current one, so that no minute, wherever it begins, holds more than
 * the limit. Processes that share counts must agree on it.
 */
export interface CountSpan {
  readonly slotMs: number;
  readonly slots: number;
}

export const minute: CountSpan = { slotMs: 1_000, slots: 61 };

/** Nobody knows when a call ends; a second is what a client that is told to wait can obey at the least. */
export const placeWaitMs = 1_000;

/** The key that a limit belongs to. */
export function keyOf(id: string): string {
  const end = id.indexOf(" ");
  return end < 0 ? id : id.slice(0, end);
}
