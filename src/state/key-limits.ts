import { matchesPattern } from "../keys/allow.ts";
import { groupTitle, type Group } from "../keys/group.ts";
import type { Key } from "../keys/key.ts";
import { mayOverlap } from "../keys/rule-models.ts";
import type { Budget, BudgetSelector, Demand, Limits, ModelLimits, RateLimits } from "../limits/limits.ts";
import { budgetId, limitOwner } from "../limits/limit-id.ts";
import { wholeAmount } from "../limits/minute-window.ts";
import {
  ListedReservationRequest,
  type Claim,
  type LimitMemo,
  type LimitRecord,
  type ReservationRequest,
} from "../limits/rate-limit-store.ts";
import type { BudgetLimit } from "./budgets/leased-budget.ts";

/** One limit per minute that applies to a call. Stores remember in it what they have found by its id. */
export class RateLimit implements LimitMemo {
  counts: LimitRecord | null = null;
  held: LimitRecord | null = null;
  /** A claim of the smallest amount: what every call claims where requests are counted. */
  readonly one: Claim;

  constructor(
    readonly what: "requests" | "tokens" | "audio" | "characters",
    /** In the units it is counted in: audio in milliseconds, so that every amount is whole. */
    readonly limit: number,
    /** Names it in the store: the same for every call that shares it. */
    readonly id: string,
    /** As it was configured, for messages. */
    readonly figure: number,
    /** The models it applies to; null for all of them. */
    readonly pattern: string | null,
    /** Whose limit it is, for messages: `this key`, or `the team web`. */
    readonly of: string,
  ) {
    this.one = { id, limit, amount: 1, memo: this };
  }
}

/** How many calls may run at the same time. */
export class ConcurrencyLimit implements LimitMemo {
  counts: LimitRecord | null = null;
  held: LimitRecord | null = null;

  constructor(
    readonly limit: number,
    readonly id: string,
    readonly pattern: string | null,
    readonly of: string,
  ) {}

  get memo(): LimitMemo {
    return this;
  }
}

/** All limits that apply to a call: the key's own first, then those of its groups, the nearest first. */
export interface CallLimits {
  readonly rates: readonly RateLimit[];
  readonly concurrency: readonly ConcurrencyLimit[];
  readonly budgets: readonly BudgetLimit[];
  readonly isEmpty: boolean;
}

/** The limits of a key and its groups, prepared once, because every call needs them. */
export class KeyLimits {
  readonly own: CallLimits;
  /** What every call needs of them, whatever it is. */
  readonly leastRequest: ReservationRequest;
  private readonly levels: readonly LevelLimits[];
  private readonly hasRules: boolean;
  /** By the rules that match the model, one digit for each level. */
  private readonly byRules = new Map<number, CallLimits>();

  constructor(key: Key) {
    this.levels = [new LevelLimits(keyOwner(key), key.limits), ...(key.chain?.groups ?? []).map(groupLimits)];
    this.own = joined(this.levels.map(({ own }) => own));
    const counted = this.own.rates.filter(({ what }) => what === "requests");
    this.leastRequest = new ListedReservationRequest(
      counted.map(({ one }) => one),
      this.own.concurrency,
      "",
    );
    this.hasRules = this.levels.some(({ rules }) => rules > 0);
  }

  /** The limits for a model: of each level its own, and those of its first rule that matches. */
  for(model: string): CallLimits {
    if (!this.hasRules) return this.own;
    let digits = 0;
    for (const level of this.levels) digits = digits * (level.rules + 1) + level.ruleFor(model) + 1;
    return this.byRules.get(digits) ?? this.join(digits, model);
  }

  private join(digits: number, model: string): CallLimits {
    const limits = joined(this.levels.map((level) => level.for(model)));
    // Few of all combinations occur.
    if (this.byRules.size >= combinationsMax) this.byRules.clear();
    this.byRules.set(digits, limits);
    return limits;
  }
}

/** The limits of one level: of a key, or of a group. */
class LevelLimits {
  readonly own: CallLimits;
  private readonly byRule: (CallLimits | undefined)[] = [];

  constructor(
    private readonly owner: LimitOwner,
    private readonly limits: Limits,
  ) {
    this.own = callLimits(owner, limits, limits, null, []);
  }

  get rules(): number {
    return this.limits.models.length;
  }

  /** The index of the first rule that matches; -1 if none does. */
  ruleFor(model: string): number {
    const { models } = this.limits;
    for (let at = 0; at < models.length; at += 1) if (matchesPattern(models[at]!.pattern, model)) return at;
    return -1;
  }

  for(model: string): CallLimits {
    const at = this.ruleFor(model);
    return at === -1 ? this.own : (this.byRule[at] ??= joined([this.own, this.ruleLimits(at)]));
  }

  private ruleLimits(at: number): CallLimits {
    const { models } = this.limits;
    const rule = models[at]!;
    const earlier = models.slice(0, at).map(({ pattern }) => pattern);
    const exceptModels = earlier.filter((pattern) => mayOverlap(pattern, rule.pattern));
    return callLimits(this.owner, this.limits, rule, rule.pattern, exceptModels);
  }
}

/** Shared by all keys of a group: there may be many. A group that stays the same can get another root, which its limits are named by. */
const ofGroups = new WeakMap<Group, { readonly rootId: string; readonly limits: LevelLimits }>();

function groupLimits(group: Group, _: number, groups: readonly Group[]): LevelLimits {
  const root = groups.at(-1) ?? group;
  const known = ofGroups.get(group);
  if (known?.rootId === root.id) return known.limits;
  const limits = new LevelLimits(groupOwner(group, root), group.limits);
  ofGroups.set(group, { rootId: root.id, limits });
  return limits;
}

/** Whose limits they are. */
interface LimitOwner {
  /** How the ids of its limits begin. */
  readonly prefix: string;
  readonly id: string;
  readonly isGroup: boolean;
  readonly of: string;
}

function keyOwner({ id, chain }: Key): LimitOwner {
  return { prefix: limitOwner(id, chain?.rootId ?? null), id, isGroup: false, of: "this key" };
}

function groupOwner(group: Group, root: Group): LimitOwner {
  return { prefix: limitOwner(group.id, root.id), id: group.id, isGroup: true, of: `the ${groupTitle(group)}` };
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

/** The limits of a level, or those of one of its rules for models. */
function callLimits(
  owner: LimitOwner,
  { unpriced, budgets: selected }: Limits,
  rule: RateLimits & Pick<ModelLimits, "budget">,
  pattern: string | null,
  exceptModels: readonly string[],
): CallLimits {
  const { prefix, of } = owner;
  const suffix = pattern === null ? "" : ` ${pattern}`;
  const rateLimit = (what: RateLimit["what"], figure: number | null, unit = 1): readonly RateLimit[] => {
    if (figure === null) return [];
    const id = `${prefix} ${what}${suffix}`;
    return [new RateLimit(what, Math.floor(figure * unit), id, figure, pattern, of)];
  };
  const budgetLimit = (name: string | null, { nanos, period }: Budget, selector: BudgetSelector | null): BudgetLimit => ({
    budget: budgetId(owner.id, pattern, name),
    ownerId: owner.id,
    models: pattern,
    exceptModels,
    selector,
    selectorText: selector === null && !owner.isGroup ? null : JSON.stringify(selector ?? everything),
    limitNanos: Math.floor(nanos),
    period,
    unpriced,
    of: name === null ? of : `${of} for ${name}`,
  });
  return limitsOf(
    [
      ...rateLimit("requests", rule.requests),
      ...rateLimit("tokens", rule.tokens),
      ...rateLimit("audio", rule.audioSeconds, msPerSecond),
      ...rateLimit("characters", rule.characters),
    ],
    rule.concurrency === null ? [] : [new ConcurrencyLimit(rule.concurrency, `${prefix} concurrency${suffix}`, pattern, of)],
    [
      ...(rule.budget === null ? [] : [budgetLimit(null, rule.budget, null)]),
      ...(pattern === null ? selected.map((budget) => budgetLimit(budget.name, budget, selectorOf(budget))) : []),
    ],
  );
}

function selectorOf({ models, operations, channels }: BudgetSelector): BudgetSelector {
  return { models, operations, channels };
}

function joined(all: readonly CallLimits[]): CallLimits {
  const [first, ...others] = all.filter(({ isEmpty }) => !isEmpty);
  if (first === undefined) return nothing;
  if (others.length === 0) return first;
  const some = [first, ...others];
  return limitsOf(
    some.flatMap(({ rates }) => rates),
    some.flatMap(({ concurrency }) => concurrency),
    some.flatMap(({ budgets }) => budgets),
  );
}

function limitsOf(rates: readonly RateLimit[], concurrency: readonly ConcurrencyLimit[], budgets: readonly BudgetLimit[]): CallLimits {
  return { rates, concurrency, budgets, isEmpty: rates.length + concurrency.length + budgets.length === 0 };
}

const nothing = limitsOf([], [], []);
const everything: BudgetSelector = { models: null, operations: null, channels: null };
const msPerSecond = 1_000;
const combinationsMax = 1_000;
