/** Keeps what was used in the last minute, and how many calls are under way, in this process or over several. */
export interface RateKeeper {
  /** All claims and the place, or none of them. */
  take(claims: readonly Claim[], place: Place | null): Taking | Promise<Taking>;
  /** Whether a claim fits for sure, told at next to no cost; where it may not, `look` knows more. */
  surelyFits(claim: Claim): boolean;
  /** What is left, as far as this process knows it without asking; for a refusal before anything is read. */
  look(claim: Claim): Look;
  /** How many calls hold a place, as far as this process knows. */
  placesTaken(id: string): number;
}

export interface Claim {
  /** Names the limit: the same for every call that shares it. */
  readonly id: string;
  readonly limit: number;
  readonly amount: number;
}

export interface Place {
  readonly id: string;
  readonly limit: number;
  readonly call: string;
}

export type Taking =
  | {
      readonly ok: true;
      /** As they stand now, in the order of the claims. */
      readonly looks: readonly Look[];
      /** Puts the true amounts, in the order of the claims, in the place of the claimed ones, and frees the place. Once. */
      settle(amounts: readonly number[]): void;
    }
  | { readonly ok: false; readonly shortId: string; readonly waitMs: number; readonly looks: readonly Look[] };

export interface Look {
  readonly limit: number;
  readonly remaining: number;
  /** Until all of the limit is free again. */
  readonly resetMs: number;
  /** Until the claimed amount fits, where that is known; zero when it does now. */
  readonly waitMs?: number;
}
