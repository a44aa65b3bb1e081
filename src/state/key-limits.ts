import { matchesPattern } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { mayOverlap } from "../keys/rule-models.ts";
import { wholeAmount } from "../limits/amount.ts";
import type { Budget, Demand, ModelLimits, Rates } from "../limits/limits.ts";
import type { Claim } from "../limits/rate-limit-store.ts";
import type { BudgetLine } from "./budgets/budget-account.ts";

/** One limit per minute that a call of a key is held to. */
export interface RateLimit {
  /** Names it in the keeper: the same for every call that shares it. */
  readonly id: string;
  readonly what: "requests" | "tokens" | "audio" | "characters";
  /** For people. */
  readonly figure: number;
  /** In the units it is counted in: audio in milliseconds, so that every amount is whole. */
  readonly limit: number;
  /** The models it is for; null for all of them. */
  readonly pattern: string | null;
  /** A claim of the least there is: every call's, where calls are what is counted. */
  readonly one: Claim;
}

/** How many calls at the same time. */
export interface Room {
  readonly id: string;
  readonly limit: number;
  readonly pattern: string | null;
}

/** Everything that a call of a key is held to, the key's own first. */
export interface CallLimits {
  readonly rates: readonly RateLimit[];
  readonly rooms: readonly Room[];
  readonly budgets: readonly BudgetLine[];
  readonly isEmpty: boolean;
}

/** The limits of a key, laid out once, because every call asks for them. */
export class KeyLimits {
  readonly own: CallLimits;
  private readonly byRule: (CallLimits | undefined)[] = [];

  constructor(private readonly key: Key) {
    const { id, limits } = key;
    this.own = gaugesOf(id, limits, limits.budget, null, []);
  }

  /** The first rule that fits counts, on top of the key's own limits. */
  for(model: string): CallLimits {
    const { models } = this.key.limits;
    const at = models.findIndex(({ pattern }) => matchesPattern(pattern, model));
    if (at === -1) return this.own;
    return (this.byRule[at] ??= joined(this.own, ruleGauges(this.key.id, models, at)));
  }
}

/** What a call counts for on a gauge; a figure that is none counts as `otherwise`. */
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

function ruleGauges(keyId: string, rules: readonly ModelLimits[], at: number): CallLimits {
  const rule = rules[at]!;
  const earlier = rules.slice(0, at).map(({ pattern }) => pattern);
  const exceptModels = earlier.filter((pattern) => mayOverlap(pattern, rule.pattern));
  return gaugesOf(keyId, rule, rule.budget, rule.pattern, exceptModels);
}

function gaugesOf(keyId: string, rates: Rates, budget: Budget | null, pattern: string | null, exceptModels: readonly string[]): CallLimits {
  const suffix = pattern === null ? "" : ` ${pattern}`;
  const gauge = (what: RateLimit["what"], figure: number | null, unit = 1): readonly RateLimit[] => {
    if (figure === null) return [];
    const id = `${keyId} ${what}${suffix}`;
    const limit = Math.floor(figure * unit);
    return [{ id, what, figure, limit, pattern, one: { id, limit, amount: 1 } }];
  };
  return laidOut(
    [
      ...gauge("requests", rates.requests),
      ...gauge("tokens", rates.tokens),
      ...gauge("audio", rates.audioSeconds, msPerSecond),
      ...gauge("characters", rates.characters),
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
  return laidOut([...own.rates, ...more.rates], [...own.rooms, ...more.rooms], [...own.budgets, ...more.budgets]);
}

function laidOut(rates: readonly RateLimit[], rooms: readonly Room[], budgets: readonly BudgetLine[]): CallLimits {
  return { rates, rooms, budgets, isEmpty: rates.length + rooms.length + budgets.length === 0 };
}

const msPerSecond = 1_000;
