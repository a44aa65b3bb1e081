import type { Opening } from "../../usage/receipt.ts";
import type { Demand } from "../../limits/limits.ts";
import type { Key } from "../../keys/key.ts";
import type { Failure } from "../../operations/failure.ts";

/** Holds keys to their limits. Where a limit is shared with other processes, an answer may take a moment; it never hangs. */
export interface Limiter {
  /** Refuses at once what has no chance, before a body is read; takes nothing. */
  precheck(key: Key): LimitExceeded | null;
  /** A place among the calls of a key for one whose request is still being read; to be left in the moment in which it is admitted. */
  place(key: Key, call: string): ConcurrencySlot | LimitExceeded | Promise<ConcurrencySlot | LimitExceeded>;
  /** Takes what a call is expected to need, all of it or nothing. `call` names it, so that its place can be given back if we die. */
  admit(key: Key, model: string, demand: Demand, call: string): Grant | LimitExceeded | Promise<Grant | LimitExceeded>;
}

export interface ConcurrencySlot {
  readonly kind: "place";
  leave(): void;
}

/** What was taken for a call. Whoever holds it settles it exactly once. */
export interface Grant {
  readonly kind: "grant";
  /** How the key stands, for the `x-ratelimit-…` headers; null where it has no such limits. */
  readonly rateLimitStatus: RateLimitStatus | null;
  /** Puts the truth in the place of the estimate, and frees the call's place. `null`: it never reached an upstream. */
  settle(truth: Demand | null): void;
}

/** A limit that leaves no room. */
export interface LimitExceeded {
  readonly kind: "limit_exceeded";
  readonly failure: Failure;
  /** When asking again has a chance; null where waiting does not help. */
  readonly retryAfterMs: number | null;
  readonly rateLimitStatus: RateLimitStatus | null;
}

/** The figures of the convention's headers; null is the limit that the key does not have, and then its other figures say nothing. */
export interface RateLimitStatus {
  readonly requestsLimit: number | null;
  readonly requestsRemaining: number;
  /** Until all of the limit is free again. */
  readonly requestsResetMs: number;
  readonly tokensLimit: number | null;
  readonly tokensRemaining: number;
  readonly tokensResetMs: number;
}

/** An admitted call: how its receipt begins, and what was reserved of its key's limits. */
export interface Admission extends Opening {
  readonly grant: Grant;
  /** Resolves when the call is in the journal, which a call of a key with a budget waits for; null for others. It rejects when the journal is closed. */
  readonly onRecord: Promise<void> | null;
  /** The `warning` of its receipt. */
  readonly warning: string | null;
  /** Its receipt is written. */
  closed: boolean;
}
