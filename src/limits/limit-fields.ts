import type { Operation } from "../operations/operation.ts";
import type { Budget, BudgetPeriod, Limits, RateLimits, SelectedBudget } from "./limits.ts";

/** Limits as they are written in the configuration file, on the command line and in the admin API; money in billionths of a dollar. */
export interface RateLimitFields {
  readonly rpm?: number | undefined;
  readonly tpm?: number | undefined;
  readonly audio_seconds?: number | undefined;
  readonly characters?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly budget_usd?: number | undefined;
  readonly budget_period?: BudgetPeriod | undefined;
}

/** A budget for some of the calls. What is not given does not matter. */
export interface SelectedBudgetFields {
  readonly name: string;
  readonly models?: readonly string[] | undefined;
  readonly operations?: readonly Operation[] | undefined;
  readonly channels?: readonly string[] | undefined;
  readonly budget_usd: number;
  readonly budget_period?: BudgetPeriod | undefined;
}

export interface LimitFields extends RateLimitFields {
  readonly budgets?: readonly SelectedBudgetFields[] | undefined;
  readonly unpriced?: "refuse" | "allow" | undefined;
  readonly per_model?: readonly (RateLimitFields & { readonly model: string })[] | undefined;
}

/** The largest value of each limit, wherever it is given. */
export const rateLimitMax = { rpm: 1e9, tpm: 1e12, audio_seconds: 1e9, characters: 1e12, concurrency: 1e6 } as const;

/** Nine million dollars: up to there, billionths of a dollar are exact. */
export const budgetNanosMax = 9e15;

export const budgetPeriods = ["hour", "day", "week", "month", "total"] as const satisfies readonly BudgetPeriod[];

export function limitsOf(fields: LimitFields): Limits {
  return {
    ...ratesOf(fields),
    budget: budgetOf(fields),
    budgets: (fields.budgets ?? []).map(({ name, models, operations, channels, budget_usd, budget_period }) => ({
      name,
      models: models ?? null,
      operations: operations ?? null,
      channels: channels ?? null,
      nanos: budget_usd,
      period: budget_period ?? "total",
    })),
    unpriced: fields.unpriced ?? "refuse",
    models: (fields.per_model ?? []).map((rule) => ({ ...ratesOf(rule), pattern: rule.model, budget: budgetOf(rule) })),
  };
}

export function limitFields(limits: Limits): LimitFields {
  return {
    ...rateLimitFields(limits, limits.budget),
    ...(limits.unpriced === "refuse" ? undefined : { unpriced: limits.unpriced }),
    ...(limits.budgets.length === 0 ? undefined : { budgets: limits.budgets.map(selectedBudgetFields) }),
    ...(limits.models.length === 0
      ? undefined
      : { per_model: limits.models.map((rule) => ({ model: rule.pattern, ...rateLimitFields(rule, rule.budget) })) }),
  };
}

function selectedBudgetFields({ name, models, operations, channels, nanos, period }: SelectedBudget): SelectedBudgetFields {
  return {
    name,
    ...(models === null ? undefined : { models }),
    ...(operations === null ? undefined : { operations }),
    ...(channels === null ? undefined : { channels }),
    budget_usd: nanos,
    budget_period: period,
  };
}

function ratesOf(fields: RateLimitFields): RateLimits {
  return {
    requests: fields.rpm ?? null,
    tokens: fields.tpm ?? null,
    audioSeconds: fields.audio_seconds ?? null,
    characters: fields.characters ?? null,
    concurrency: fields.concurrency ?? null,
  };
}

function budgetOf({ budget_usd, budget_period }: RateLimitFields): Budget | null {
  return budget_usd === undefined ? null : { nanos: budget_usd, period: budget_period ?? "total" };
}

function rateLimitFields(rates: RateLimits, budget: Budget | null): RateLimitFields {
  return {
    ...(rates.requests === null ? undefined : { rpm: rates.requests }),
    ...(rates.tokens === null ? undefined : { tpm: rates.tokens }),
    ...(rates.audioSeconds === null ? undefined : { audio_seconds: rates.audioSeconds }),
    ...(rates.characters === null ? undefined : { characters: rates.characters }),
    ...(rates.concurrency === null ? undefined : { concurrency: rates.concurrency }),
    ...(budget === null ? undefined : { budget_usd: budget.nanos, budget_period: budget.period }),
  };
}
