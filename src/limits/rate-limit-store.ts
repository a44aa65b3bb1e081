/** Keeps what was used in the last minute, and how many calls are under way, in this process or over several. */
export interface RateLimitStore {
  /** All that a call needs, or nothing of it. */
  take(need: ReservationRequest): ReservationResult | Promise<ReservationResult>;
  /** Whether a claim fits for sure, told at next to no cost; where it may not, `look` knows more. */
  surelyFits(claim: Claim): boolean;
  /** What is left, as far as this process knows it without asking; for a refusal before anything is read. */
  look(claim: Claim): LimitStatus;
  /** How many calls hold a place, as far as this process knows. */
  placesTaken(id: string): number;
}

/** What a call needs of its limits. Every call asks for it, and answers for it itself: nothing is made for the question. */
export interface ReservationRequest {
  /** Of so many limits per minute. */
  readonly claims: number;
  /** Names the limit: the same for every call that shares it. */
  id(at: number): string;
  limit(at: number): number;
  amount(at: number): number;
  /** A place beside as many calls; null where as many as like may be. */
  readonly room: { readonly id: string; readonly limit: number } | null;
  /** Names the call, so that its place can be given back if we die. */
  readonly call: string;
}

/** One limit, and what is wanted of it. */
export interface Claim {
  readonly id: string;
  readonly limit: number;
  readonly amount: number;
}

export interface SlotClaim {
  readonly id: string;
  readonly limit: number;
  readonly call: string;
}

export type ReservationResult =
  | (LimitStatuses & {
      readonly ok: true;
      /** Puts the true amounts, in the order of the limits, in the place of the claimed ones, and frees the place. Once. */
      settle(amounts: readonly number[]): void;
    })
  | (LimitStatuses & { readonly ok: false; readonly shortId: string; readonly waitMs: number });

/** How the limits stood after a taking, each by its place in the need. Every call asks, so that nothing is made for the answer. */
export interface LimitStatuses {
  remaining(at: number): number;
  /** Until all of the limit is free again. */
  resetMs(at: number): number;
}

export interface LimitStatus {
  readonly limit: number;
  readonly remaining: number;
  /** Until all of the limit is free again. */
  readonly resetMs: number;
  /** Until the claimed amount fits, where that is known; zero when it does now. */
  readonly waitMs?: number;
}
