import type { Budget, BudgetPeriod, BudgetSelector, Limits, ModelLimits, RateLimits, SelectedBudget } from "../../limits/limits.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { scopesFrom } from "./stored-scopes.ts";

/**
 * Validates limits that were read from a row or are about to be written; null if they are invalid. There are no defaults: a limit
 * that cannot be read must not become "no limit".
 */
export function limitsFrom(value: unknown): Limits | null {
  if (!isJsonObject(value)) return null;
  const rates = ratesFrom(value);
  const budget = budgetFrom(value["budget"]);
  const budgets = budgetsFrom(value["budgets"]);
  const models = modelsFrom(value["models"]);
  const unpriced = value["unpriced"];
  if (rates === null || budget === undefined || budgets === null || models === null || (unpriced !== "refuse" && unpriced !== "allow"))
    return null;
  return { ...rates, budget, budgets, models, unpriced };
}

/** Rows that an earlier version wrote have none. */
function budgetsFrom(value: unknown): readonly SelectedBudget[] | null {
  if (value === undefined) return [];
  if (!Array.isArray(value)) return null;
  const budgets = value.map(selectedBudgetFrom);
  return budgets.every((budget) => budget !== null) ? budgets : null;
}

function selectedBudgetFrom(value: unknown): SelectedBudget | null {
  if (!isJsonObject(value)) return null;
  const { name } = value;
  const budget = budgetFrom(value);
  const selector = selectorFrom(value);
  return typeof name !== "string" || budget == null || selector === null ? null : { name, ...selector, ...budget };
}

/** Null if a part is missing or unknown to this version: it must not be read as "everything". */
export function selectorFrom(value: unknown): BudgetSelector | null {
  return scopesFrom(value);
}

function modelsFrom(value: unknown): readonly ModelLimits[] | null {
  if (!Array.isArray(value)) return null;
  const models = value.map(modelFrom);
  return models.every((model) => model !== null) ? models : null;
}

function modelFrom(value: unknown): ModelLimits | null {
  if (!isJsonObject(value)) return null;
  const { pattern } = value;
  const rates = ratesFrom(value);
  const budget = budgetFrom(value["budget"]);
  return typeof pattern !== "string" || rates === null || budget === undefined ? null : { pattern, ...rates, budget };
}

function ratesFrom(value: JsonObject): RateLimits | null {
  const { requests, tokens, audioSeconds, characters, concurrency } = value;
  if (!isRate(requests) || !isRate(tokens) || !isRate(audioSeconds) || !isRate(characters) || !isRate(concurrency)) return null;
  return { requests, tokens, audioSeconds, characters, concurrency };
}

function isRate(value: unknown): value is number | null {
  return value === null || (typeof value === "number" && Number.isFinite(value) && value >= 0);
}

const periods: { readonly [P in BudgetPeriod]: true } = { hour: true, day: true, week: true, month: true, total: true };

function budgetFrom(value: unknown): Budget | null | undefined {
  if (value === null) return null;
  if (!isJsonObject(value)) return undefined;
  const { nanos, period } = value;
  if (typeof nanos !== "number" || !Number.isSafeInteger(nanos) || nanos < 0) return undefined;
  return typeof period === "string" && isPeriod(period) ? { nanos, period } : undefined;
}

function isPeriod(text: string): text is BudgetPeriod {
  return Object.hasOwn(periods, text);
}
