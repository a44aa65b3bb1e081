import type { WindowSpan } from "./sliding-counter.ts";

/**
 * Counts that several processes share, in Redis or in a database. All counts of a call are taken in one step: either every one of
 * them has room, or none is changed. All amounts are whole numbers. When the server is gone, a method may reject or never settle:
 * callers bring their own deadline and fallback.
 */
export interface DistributedCounts {
  /** Whether `take` frees released slots at no cost. */
  readonly releasesInPassing: boolean;
  /**
   * All limits of one call have the same root (`rootOfLimit`). `released` are slots that calls of this process do not need any more,
   * of whichever limits: they are freed first, whether or not there is room for the call.
   */
  take(requests: readonly CountRequest[], slots: readonly SlotLease[], released?: readonly ReleasedSlots[]): Promise<TakeResult>;
  /** Changes counts unconditionally: subtracts what was not used, adds what was used beyond what was taken. */
  correct(id: string, corrections: readonly CountCorrection[]): Promise<void>;
  /** Renews leases of concurrency slots, also those that the server does not know (any more). */
  renew(leases: readonly SlotLease[]): Promise<void>;
  /** Frees concurrency slots of one limit, by the names of their calls. */
  release(id: string, calls: readonly string[]): Promise<void>;
  /** Announces this process, and returns how many processes have announced themselves within the time. */
  heartbeat(member: string, withinMs: number): Promise<number>;
  leave(member: string): Promise<void>;
  /** Frees all concurrency slots of a process that has ended, and what `leave` does. */
  forget(member: string): Promise<void>;
  close(): void;
}

/** An amount of a limit over the last minute. `id` names the limit, such as `key-id rpm`. */
export interface CountRequest {
  readonly id: string;
  readonly limit: number;
  /** At least this much, or nothing. */
  readonly need: number;
  /** As much as this if there is room: a lease that is spent without asking again. */
  readonly wish: number;
  /** Beyond its need a process gets at most the remaining amount divided by this, so that the others get some too. */
  readonly sharers: number;
}

/** A lease of one concurrency slot. The slots of a process that died become free when their leases end. */
export interface SlotLease {
  readonly id: string;
  readonly limit: number;
  /** Names the slot. */
  readonly call: string;
  readonly ttlMs: number;
  /** Further slots to take, as far as there is room. */
  readonly more?: readonly string[];
}

/** Concurrency slots of one limit, by their names. */
export interface ReleasedSlots {
  readonly id: string;
  readonly calls: readonly string[];
}

/** The name of a concurrency slot. It begins with the name of its process, by which `forget` finds it. */
export function slotName(member: string, serial: number): string {
  return `${slotsOf(member)}${serial}`;
}

/** What the names of all slots of a process begin with. */
export function slotsOf(member: string): string {
  return `${member}-`;
}

/** A slot of time that has left the window is ignored, and none becomes negative. */
export interface CountCorrection {
  /** The slot of time it was counted in; null is the current one, or the one `ago` slots before. */
  readonly slot: number | null;
  readonly ago?: number;
  /** The amount to add; negative to subtract. */
  readonly by: number;
}

export type TakeResult =
  /** `slots`: how many concurrency slots were taken of each limit, in the order of the request. */
  | { readonly ok: true; readonly granted: readonly CountGrant[]; readonly slots: readonly number[] }
  /** `short` is the first limit without room (the id of a slot lease, if it was that one); `waitMs`: the time until there may be room. */
  | { readonly ok: false; readonly short: string; readonly waitMs: number; readonly remaining: number };

export interface CountGrant {
  readonly id: string;
  readonly amount: number;
  /** The slot of time it was counted in, which a correction has to name. */
  readonly slot: number;
  /** What is left of the limit for all processes. */
  readonly remaining: number;
}

/**
 * The window covers sixty whole slots of time besides the current one, so that no minute, wherever it begins, holds more than the
 * limit. Processes that share counts must use the same window.
 */
export const minute: WindowSpan = { slotMs: 1_000, slots: 61 };

/** It is not known when a call ends. One second is the shortest wait that `Retry-After` can express. */
export const slotWaitMs = 1_000;

/** Processes that cannot reach the shared counts announce this to each other through the store. */
export interface DistributedAbsences {
  /** Announces that this process cannot reach the counts. The note expires unless it is repeated. */
  note(member: string, forMs: number): Promise<void>;
  /** Announces that it reaches them again. */
  end(member: string): Promise<void>;
  /** The processes that cannot reach the counts now. */
  read(): Promise<readonly string[]>;
}
