import type { Route } from "../../channels/channel.ts";
import type { ReceiptOpening } from "../../usage/receipt.ts";
import type { Demand } from "../../limits/limits.ts";
import type { NamedChannel } from "../../keys/budget-selector.ts";
import type { Key } from "../../keys/key.ts";
import type { Failure } from "../../operations/failure.ts";
import type { Operation } from "../../operations/operation.ts";

/** Enforces the limits of keys and their groups. If a limit is shared with other processes, an answer may take a moment, but never without bound. */
export interface Limiter {
  /** Rejects a key that has no room for any call, before the body is read. Reserves nothing. */
  precheck(key: Key): LimitExceeded | null;
  /** The concurrency slots of a call whose request is still being read. They are released in the turn in which the call is admitted. */
  reserveSlot(key: Key, call: string): ConcurrencySlot | LimitExceeded | Promise<ConcurrencySlot | LimitExceeded>;
  /** Reserves what a call is expected to need, all of it or nothing. */
  admit(key: Key, asked: AskedCall, demand: Demand): Grant | LimitExceeded | Promise<Grant | LimitExceeded>;
  /** Everything that would refuse a call now, as far as this process knows, with what is `spent` of each budget. Reserves nothing. */
  preview(key: Key, asked: AskedCall, demand: Demand, spent: SpentNanos): readonly LimitExceeded[];
}

/** What is spent of budgets, by their ids. */
export type SpentNanos = ReadonlyMap<string, number>;

/** What limits look at of a call before it is made. */
export interface AskedCall {
  /** Names the call, so that its slots can be freed if this process dies. */
  readonly id: string;
  readonly model: string;
  readonly operation: Operation;
  /** The channels that may serve it. */
  readonly route: Route;
}

export interface ConcurrencySlot {
  readonly kind: "slot";
  release(): void;
}

/** What was reserved for a call. It is settled exactly once. */
export interface Grant {
  readonly kind: "grant";
  /** For the `x-ratelimit-…` headers; null if the key has no such limits. */
  readonly rateLimitStatus: RateLimitStatus | null;
  /** Replaces the estimate by the real use and frees the slots. `null`: the call did not reach an upstream. `servedBy`: as its receipt says. */
  settle(truth: Demand | null, servedBy?: NamedChannel | null): void;
}

/** A limit that has no room. */
export interface LimitExceeded {
  readonly kind: "limit_exceeded";
  readonly failure: Failure;
  /** When trying again may succeed; null if waiting does not help. */
  readonly retryAfterMs: number | null;
  readonly rateLimitStatus: RateLimitStatus | null;
}

/** The figures of the OpenAI API's rate limit headers. A limit is null if the key does not have it; its other figures then mean nothing. */
export interface RateLimitStatus {
  readonly requestsLimit: number | null;
  readonly requestsRemaining: number;
  /** Until the whole limit is available again. */
  readonly requestsResetMs: number;
  readonly tokensLimit: number | null;
  readonly tokensRemaining: number;
  readonly tokensResetMs: number;
}

/**
 * An admitted call: how its receipt begins, and what was reserved of its key's limits. The limits are asked with it, and keep it until
 * the call ends, so it has nothing of the request itself: a long stream must not hold its body.
 */
export interface Admission extends ReceiptOpening {
  /** Nothing, until the limits have answered. */
  grant: Grant;
  /** The channels that may serve it. */
  readonly route: Route;
  /** Resolves with true when the call is in the journal, which a call of a key with a budget waits for; with false if it cannot be. Null for others. */
  onRecord: Promise<boolean> | null;
  /** The `warning` of its receipt. */
  readonly warning: string | null;
  /** Its receipt is written. */
  closed: boolean;
}
