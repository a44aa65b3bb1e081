import { matchesPattern } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { mayOverlap } from "../keys/rule-models.ts";
import type { Budget, Demand, ModelLimits, RateLimits } from "../limits/limits.ts";
import { wholeAmount } from "../limits/minute-window.ts";
import type { Claim } from "../limits/rate-limit-store.ts";
import type { BudgetLimit } from "./budgets/leased-budget.ts";

/** One limit per minute that applies to a call of a key. */
export interface RateLimit {
  /** Names it in the store: the same for every call that shares it. */
  readonly id: string;
  readonly what: "requests" | "tokens" | "audio" | "characters";
  /** As it was configured, for messages. */
  readonly figure: number;
  /** In the units it is counted in: audio in milliseconds, so that every amount is whole. */
  readonly limit: number;
  /** The models it applies to; null for all of them. */
  readonly pattern: string | null;
  /** A claim of the smallest amount: what every call claims where requests are counted. */
  readonly one: Claim;
}

/** How many calls may run at the same time. */
export interface ConcurrencyLimit {
  readonly id: string;
  readonly limit: number;
  readonly pattern: string | null;
}

/** All limits that apply to a call of a key, the key's own first. */
export interface CallLimits {
  readonly rates: readonly RateLimit[];
  readonly concurrency: readonly ConcurrencyLimit[];
  readonly budgets: readonly BudgetLimit[];
  readonly isEmpty: boolean;
}

/** The limits of a key, prepared once, because every call needs them. */
export class KeyLimits {
  readonly own: CallLimits;
  private readonly byRule: (CallLimits | undefined)[] = [];

  constructor(private readonly key: Key) {
    const { id, limits } = key;
    this.own = callLimits(id, limits, limits.budget, null, []);
  }

  /** The limits for a model: the key's own, and those of the first rule that matches it. */
  for(model: string): CallLimits {
    const { models } = this.key.limits;
    const at = models.findIndex(({ pattern }) => matchesPattern(pattern, model));
    if (at === -1) return this.own;
    return (this.byRule[at] ??= joined(this.own, ruleLimits(this.key.id, models, at)));
  }
}

/** The amount a call counts for on a limit; what is not a number counts as `otherwise`. */
export function amountOn({ what }: RateLimit, demand: Demand, otherwise: number): number {
  switch (what) {
    case "requests":
      return 1;
    case "tokens":
      return wholeAmount(demand.tokens, otherwise);
    case "audio":
      return wholeAmount(demand.audioSeconds * msPerSecond, otherwise);
    case "characters":
      return wholeAmount(demand.characters, otherwise);
  }
}

function ruleLimits(keyId: string, rules: readonly ModelLimits[], at: number): CallLimits {
  const rule = rules[at]!;
  const earlier = rules.slice(0, at).map(({ pattern }) => pattern);
  const exceptModels = earlier.filter((pattern) => mayOverlap(pattern, rule.pattern));
  return callLimits(keyId, rule, rule.budget, rule.pattern, exceptModels);
}

function callLimits(
  keyId: string,
  rates: RateLimits,
  budget: Budget | null,
  pattern: string | null,
  exceptModels: readonly string[],
): CallLimits {
  const suffix = pattern === null ? "" : ` ${pattern}`;
  const rateLimit = (what: RateLimit["what"], figure: number | null, unit = 1): readonly RateLimit[] => {
    if (figure === null) return [];
    const id = `${keyId} ${what}${suffix}`;
    const limit = Math.floor(figure * unit);
    return [{ id, what, figure, limit, pattern, one: { id, limit, amount: 1 } }];
  };
  return limitsOf(
    [
      ...rateLimit("requests", rates.requests),
      ...rateLimit("tokens", rates.tokens),
      ...rateLimit("audio", rates.audioSeconds, msPerSecond),
      ...rateLimit("characters", rates.characters),
    ],
    rates.concurrency === null ? [] : [{ id: `${keyId} concurrency${suffix}`, limit: rates.concurrency, pattern }],
    budget === null
      ? []
      : [
          {
            budget: `${keyId}${suffix}`,
            keyId,
            models: pattern,
            exceptModels,
            limitNanos: Math.floor(budget.nanos),
            period: budget.period,
          },
        ],
  );
}

function joined(own: CallLimits, more: CallLimits): CallLimits {
  return limitsOf([...own.rates, ...more.rates], [...own.concurrency, ...more.concurrency], [...own.budgets, ...more.budgets]);
}

function limitsOf(rates: readonly RateLimit[], concurrency: readonly ConcurrencyLimit[], budgets: readonly BudgetLimit[]): CallLimits {
  return { rates, concurrency, budgets, isEmpty: rates.length + concurrency.length + budgets.length === 0 };
}

const msPerSecond = 1_000;
