/** What a key may use. `null`: no limit. */
export interface Limits extends RateLimits {
  readonly budget: Budget | null;
  /** Further limits for models whose name matches a pattern. The first that matches counts. */
  readonly models: readonly ModelLimits[];
  /** Whether a key with a budget may make calls whose price is not known. */
  readonly unpriced: "refuse" | "allow";
}

/** Per minute, except for `concurrency`. */
export interface RateLimits {
  readonly requests: number | null;
  readonly tokens: number | null;
  readonly audioSeconds: number | null;
  readonly characters: number | null;
  /** Calls at the same time. */
  readonly concurrency: number | null;
}

export interface ModelLimits extends RateLimits {
  readonly pattern: string;
  readonly budget: Budget | null;
}

/** Money, in billionths of a dollar: an integer that is exact up to nine million dollars. */
export interface Budget {
  readonly nanos: number;
  readonly period: BudgetPeriod;
}

export type BudgetPeriod = "hour" | "day" | "week" | "month" | "total";

export const unlimitedRates: RateLimits = { requests: null, tokens: null, audioSeconds: null, characters: null, concurrency: null };
export const unlimited: Limits = { ...unlimitedRates, budget: null, models: [], unpriced: "refuse" };

/** What a call takes of its key's limits: an estimate before it is made, the measured values after. */
export interface Demand {
  readonly tokens: number;
  readonly audioSeconds: number;
  readonly characters: number;
  /** `null`: the price is not known. */
  readonly nanos: number | null;
}
