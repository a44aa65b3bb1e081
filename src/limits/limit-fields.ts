import type { Budget, BudgetPeriod, Limits, Rates } from "./limits.ts";

/** Limits as people write them, in the configuration file, on the command line and in the admin API; money in billionths. */
export interface RateWords {
  readonly rpm?: number | undefined;
  readonly tpm?: number | undefined;
  readonly audio_seconds?: number | undefined;
  readonly characters?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly budget_usd?: number | undefined;
  readonly budget_period?: BudgetPeriod | undefined;
}

export interface LimitWords extends RateWords {
  readonly unpriced?: "refuse" | "allow" | undefined;
  readonly per_model?: readonly (RateWords & { readonly model: string })[] | undefined;
}

export function limitsOf(words: LimitWords): Limits {
  return {
    ...ratesOf(words),
    budget: budgetOf(words),
    unpriced: words.unpriced ?? "refuse",
    models: (words.per_model ?? []).map((rule) => ({ ...ratesOf(rule), pattern: rule.model, budget: budgetOf(rule) })),
  };
}

export function limitWords(limits: Limits): LimitWords {
  return {
    ...rateWords(limits, limits.budget),
    ...(limits.unpriced === "refuse" ? undefined : { unpriced: limits.unpriced }),
    ...(limits.models.length === 0
      ? undefined
      : { per_model: limits.models.map((rule) => ({ model: rule.pattern, ...rateWords(rule, rule.budget) })) }),
  };
}

function ratesOf(words: RateWords): Rates {
  return {
    requests: words.rpm ?? null,
    tokens: words.tpm ?? null,
    audioSeconds: words.audio_seconds ?? null,
    characters: words.characters ?? null,
    concurrency: words.concurrency ?? null,
  };
}

function budgetOf({ budget_usd, budget_period }: RateWords): Budget | null {
  return budget_usd === undefined ? null : { nanos: budget_usd, period: budget_period ?? "total" };
}

function rateWords(rates: Rates, budget: Budget | null): RateWords {
  return {
    ...(rates.requests === null ? undefined : { rpm: rates.requests }),
    ...(rates.tokens === null ? undefined : { tpm: rates.tokens }),
    ...(rates.audioSeconds === null ? undefined : { audio_seconds: rates.audioSeconds }),
    ...(rates.characters === null ? undefined : { characters: rates.characters }),
    ...(rates.concurrency === null ? undefined : { concurrency: rates.concurrency }),
    ...(budget === null ? undefined : { budget_usd: budget.nanos, budget_period: budget.period }),
  };
}
