import type { Operation } from "../operations/operation.ts";

/** What a key may use, or all keys of a group together. `null`: no limit. */
export interface Limits extends RateLimits {
  readonly budget: Budget | null;
  /** Further budgets, for some of the calls. Every one that selects a call applies to it. */
  readonly budgets: readonly SelectedBudget[];
  /** Further limits for models whose name matches a pattern. The first that matches counts. */
  readonly models: readonly ModelLimits[];
  /** Whether calls whose price is not known may be made where there is a budget. */
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

/** A budget for the calls that its selector names. */
export interface SelectedBudget extends Budget, BudgetSelector {
  /** Tells it from the other budgets of its owner. */
  readonly name: string;
}

/** Which calls a budget is for: those that match every part. `null`: all. */
export interface BudgetSelector {
  /** Patterns with `*`. */
  readonly models: readonly string[] | null;
  readonly operations: readonly Operation[] | null;
  /** Names or tags of channels, patterns with `*`. */
  readonly channels: readonly string[] | null;
}

export const unlimitedRates: RateLimits = { requests: null, tokens: null, audioSeconds: null, characters: null, concurrency: null };
export const unlimited: Limits = { ...unlimitedRates, budget: null, budgets: [], models: [], unpriced: "refuse" };

/** What a call takes of its limits: an estimate before it is made, the measured values after. */
export interface Demand {
  readonly tokens: number;
  readonly audioSeconds: number;
  readonly characters: number;
  /** `null`: the price is not known. */
  readonly nanos: number | null;
}

export function hasBudgets({ budget, budgets, models }: Limits): boolean {
  if (budget !== null || budgets.length > 0) return true;
  for (const rule of models) if (rule.budget !== null) return true;
  return false;
}

/** Whether anything at all is limited. */
export function hasLimits(limits: Limits): boolean {
  const { requests, tokens, audioSeconds, characters, concurrency, models } = limits;
  return hasBudgets(limits) || models.length > 0 || (requests ?? tokens ?? audioSeconds ?? characters ?? concurrency) !== null;
}

/** Whether one of the budgets is of nothing. */
export function hasEmptyBudget({ budget, budgets, models }: Limits): boolean {
  return [budget, ...budgets, ...models.map((rule) => rule.budget)].some((one) => one?.nanos === 0);
}

/**
 * Each limit that is not set is taken from the defaults. Lists are not merged: a list with any entry replaces the default one. Who has
 * no budget of their own gets those of the defaults together with what these say about calls without a price.
 */
export function withDefaults(own: Limits, defaults: Limits): Limits {
  if (defaults === unlimited) return own;
  return {
    requests: own.requests ?? defaults.requests,
    tokens: own.tokens ?? defaults.tokens,
    audioSeconds: own.audioSeconds ?? defaults.audioSeconds,
    characters: own.characters ?? defaults.characters,
    concurrency: own.concurrency ?? defaults.concurrency,
    budget: own.budget ?? defaults.budget,
    budgets: own.budgets.length > 0 ? own.budgets : defaults.budgets,
    models: own.models.length > 0 ? own.models : defaults.models,
    unpriced: own.unpriced === "allow" || hasBudgets(own) ? own.unpriced : defaults.unpriced,
  };
}
