import type {
  AskedCall,
  ConcurrencySlot,
  Grant,
  LimitExceeded,
  Limiter,
  RateLimitStatus,
  SpentNanos,
} from "../gateway/admission/limiter.ts";
import type { Key } from "../keys/key.ts";
import { isNamedBy, namesAny, selectsCall, type NamedChannel } from "../keys/budget-selector.ts";
import type { Demand } from "../limits/limits.ts";
import {
  ListedReservationRequest,
  type LimitMemo,
  type LimitStatuses,
  type RateLimitStore,
  type Reservation,
  type ReservationRefused,
  type ReservationRequest,
  type ReservationResult,
} from "../limits/rate-limit-store.ts";
import type { BudgetLimit, BudgetRefused, ReservedPeriod, ClockReading } from "./budgets/leased-budget.ts";
import { amountOn, KeyLimits, type CallLimits, type ConcurrencyLimit, type RateLimit } from "./key-limits.ts";
import {
  budgetExceeded,
  concurrencyLimitExceeded,
  neverFits,
  priceUnknown,
  rateLimitExceeded,
  storeUnavailable,
} from "./limit-exceeded.ts";

export interface LimiterParts {
  readonly rates: RateLimitStore;
  readonly budgets: {
    readClock(): ClockReading;
    reserve(
      budget: BudgetLimit,
      nanos: number,
      now: ClockReading,
    ): ReservedPeriod | BudgetRefused | Promise<ReservedPeriod | BudgetRefused>;
  };
  /** The wall clock, which tells when a new budget period begins. */
  readonly wallMs: () => number;
  readonly refusals?: {
    /** A call was refused for which all of a budget would have been enough, and what is left of it is not, whatever running calls return. */
    note(budget: BudgetLimit): void;
    /** Money of a budget was reserved for a call. */
    forget(budget: BudgetLimit): void;
  };
}

/**
 * Enforces all limits of a call, those of its key and of the key's groups: rates and concurrency first, because they are cheap and
 * rarely need a request to the shared store, then budgets. Where one refuses, what the others granted is given back. Each step
 * continues synchronously when its answer is not a promise, so that a call whose limits are known in this process costs no turn of
 * the event loop.
 */
export function makeLimiter({ rates, budgets, wallMs, refusals }: LimiterParts): Limiter {
  // A key that changes is a new object, and so is one whose groups change, so an entry here never becomes stale.
  const known = new WeakMap<Key, KeyLimits>();

  function limitsOf(key: Key): KeyLimits {
    let limits = known.get(key);
    if (limits === undefined) known.set(key, (limits = new KeyLimits(key)));
    return limits;
  }

  function admit(key: Key, asked: AskedCall, demand: Demand): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    const limits = limitsOf(key).for(asked.model);
    if (limits.isEmpty) return unlimitedGrant;
    if (demand.nanos === null) {
      for (const budget of limits.budgets) {
        if (budget.unpriced === "refuse" && appliesTo(budget, asked)) return priceUnknown(asked.model, budget, null);
      }
    }
    const claims = new CallClaims(limits, demand, asked);
    const impossible = claims.impossible();
    if (impossible !== null) return impossible;
    const grant = new CallGrant(claims);
    if (!claims.needsRates) return reserveBudgets(grant, 0);
    const result = rates.reserve(claims);
    return result instanceof Promise ? afterLateRates(grant, result) : afterRates(grant, result);
  }

  function afterLateRates(grant: CallGrant, result: Promise<ReservationResult>): Promise<Grant | LimitExceeded> {
    return result.then((late) => afterRates(grant, late), storeLost);
  }

  function afterRates(grant: CallGrant, result: ReservationResult): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    grant.noteStatuses(result);
    if (!result.ok) return grant.exceeded(result);
    grant.add(result);
    return reserveBudgets(grant, 0);
  }

  /** Reserves what the call may cost in each of its budgets, one after the other. */
  function reserveBudgets(grant: CallGrant, from: number): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    const { budgets: all } = grant.limits;
    if (from >= all.length) return grant;
    const now = budgets.readClock();
    for (let at = from; at < all.length; at += 1) {
      if (!appliesTo(all[at]!, grant.asked)) {
        grant.addPeriod(at, nothingReserved);
        continue;
      }
      const result = budgets.reserve(all[at]!, grant.nanos, now);
      if (result instanceof Promise) return afterLateBudget(grant, at, result);
      const exceeded = addBudget(grant, at, result);
      if (exceeded !== null) return exceeded;
    }
    return grant;
  }

  /** A function of its own, because a closure in the loop above would give each of its turns a scope on the heap. */
  function afterLateBudget(grant: CallGrant, at: number, result: Promise<ReservedPeriod | BudgetRefused>): Promise<Grant | LimitExceeded> {
    return result.then((late) => addBudget(grant, at, late) ?? reserveBudgets(grant, at + 1));
  }

  function addBudget(grant: CallGrant, at: number, result: ReservedPeriod | BudgetRefused): LimitExceeded | null {
    const budget = grant.limits.budgets[at]!;
    if (result.ok) {
      if (grant.nanos > 0) refusals?.forget(budget);
    } else if (leavesTooLittle(budget, grant.nanos, result)) refusals?.note(budget);
    return grant.addBudget(at, result, wallMs);
  }

  function reserveSlot(key: Key, call: string): ConcurrencySlot | LimitExceeded | Promise<ConcurrencySlot | LimitExceeded> {
    const { concurrency } = limitsOf(key).own;
    if (concurrency.length === 0) return unlimitedSlot;
    const result = rates.reserve(new ListedReservationRequest([], concurrency, call));
    return result instanceof Promise ? result.then((late) => slotOf(concurrency, late), storeLost) : slotOf(concurrency, result);
  }

  function precheck(key: Key): LimitExceeded | null {
    const { own, leastRequest } = limitsOf(key);
    if (rates.surelyFits(leastRequest)) return null;
    for (const limit of own.concurrency) if (rates.slotsTaken(limit.id) >= limit.limit) return concurrencyLimitExceeded(limit, null);
    for (const rateLimit of own.rates) {
      const exceeded = rateLimit.what === "requests" ? withoutRoom(rateLimit, 1) : null;
      if (exceeded !== null) return exceeded;
    }
    return null;
  }

  /** Null where the amount fits, as far as this process knows. */
  function withoutRoom(rateLimit: RateLimit, amount: number): LimitExceeded | null {
    const claim = amount === 1 ? rateLimit.one : { ...rateLimit.one, amount };
    if (rates.surelyFits(new ListedReservationRequest([claim], [], ""))) return null;
    const status = rates.status(claim);
    if (status.remaining >= amount) return null;
    // Where the wait is not known, what is used is assumed to be spread evenly.
    const waitMs = status.waitMs ?? status.resetMs / Math.max(1, rateLimit.limit);
    const { limit, remaining, resetMs } = status;
    const rateLimitStatus =
      rateLimit.what === "requests"
        ? { ...noRateLimitStatus, requestsLimit: limit, requestsRemaining: remaining, requestsResetMs: resetMs }
        : null;
    return rateLimitExceeded(rateLimit, rateLimit.limit < amount ? Infinity : waitMs, rateLimitStatus);
  }

  function preview(key: Key, asked: AskedCall, demand: Demand, spent: SpentNanos): readonly LimitExceeded[] {
    const limits = limitsOf(key).for(asked.model);
    const applying = limits.budgets.filter((budget) => appliesTo(budget, asked));
    const unpriced = demand.nanos === null ? applying.find((budget) => budget.unpriced === "refuse") : undefined;
    const nanos = demand.nanos ?? 0;
    const full = limits.concurrency.filter(({ id, limit }) => rates.slotsTaken(id) >= limit);
    const overspent = applying.filter(({ budget, limitNanos }) => nanos > 0 && (spent.get(budget) ?? 0) + nanos > limitNanos);
    return [
      ...(unpriced === undefined ? [] : [priceUnknown(asked.model, unpriced, null)]),
      ...full.map((limit) => concurrencyLimitExceeded(limit, null)),
      ...limits.rates.map((one) => withoutRoom(one, amountOn(one, demand, 0))).filter((one) => one !== null),
      ...overspent.map((one) => budgetExceeded(one, nanos, { spentNanos: spent.get(one.budget) ?? 0, held: null }, wallMs(), null)),
    ];
  }

  return { precheck, reserveSlot, admit, preview };
}

function slotOf(limits: readonly ConcurrencyLimit[], result: ReservationResult): ConcurrencySlot | LimitExceeded {
  if (result.ok) return { kind: "slot", release: () => result.settle([]) };
  const limit = limits.find(({ id }) => id === result.shortId);
  return limit === undefined ? storeLost() : concurrencyLimitExceeded(limit, null);
}

/** Whether a call counts on a budget, as far as that is known before it is made: it may be served by several channels. */
function appliesTo({ selector }: BudgetLimit, { model, operation, route }: AskedCall): boolean {
  if (selector === null) return true;
  return selectsCall(selector, model, operation) && (selector.channels === null || namesAny(selector.channels, route));
}

const unlimitedSlot: ConcurrencySlot = { kind: "slot", release: () => {} };

/**
 * What a call claims of its limits. It has no list of them: every call makes such an object, and its limits are in a list already. A call
 * through four levels may have sixteen.
 */
class CallClaims implements ReservationRequest {
  constructor(
    readonly limits: CallLimits,
    readonly demand: Demand,
    readonly asked: AskedCall,
  ) {}

  get call(): string {
    return this.asked.id;
  }

  get claims(): number {
    return this.limits.rates.length;
  }

  id(at: number): string {
    return this.limits.rates[at]!.id;
  }

  limit(at: number): number {
    return this.limits.rates[at]!.limit;
  }

  amount(at: number): number {
    return amountOn(this.limits.rates[at]!, this.demand, 0);
  }

  memo(at: number): LimitMemo {
    return this.limits.rates[at]!;
  }

  get slots(): number {
    return this.limits.concurrency.length;
  }

  slotId(at: number): string {
    return this.limits.concurrency[at]!.id;
  }

  slotLimit(at: number): number {
    return this.limits.concurrency[at]!.limit;
  }

  slotMemo(at: number): LimitMemo {
    return this.limits.concurrency[at]!;
  }

  get needsRates(): boolean {
    return this.claims > 0 || this.slots > 0;
  }

  /** A claim larger than its limit, which would not fit after any wait. */
  impossible(): LimitExceeded | null {
    for (let at = 0; at < this.claims; at += 1) {
      if (this.amount(at) > this.limit(at)) return neverFits(this.limits.rates[at]!, null);
    }
    return null;
  }
}

/** What was reserved for a call so far; the grant of the call when everything is. */
class CallGrant implements Grant {
  readonly kind = "grant";
  rateLimitStatus: RateLimitStatus | null = null;
  private open = true;
  private rates: Reservation | null = null;
  /** Where money was reserved of the first budget, and of those after it, in their order. Most calls have one at most, and no list. */
  private ofFirstBudget: ReservedPeriod | null = null;
  private ofOtherBudgets: ReservedPeriod[] | null = null;

  constructor(private readonly claims: CallClaims) {}

  get limits(): CallLimits {
    return this.claims.limits;
  }

  get asked(): AskedCall {
    return this.claims.asked;
  }

  get nanos(): number {
    return this.claims.demand.nanos ?? 0;
  }

  add(reservation: Reservation): void {
    this.rates = reservation;
  }

  settle(actual: Demand | null, servedBy: NamedChannel | null = null): void {
    if (!this.open) throw new Error("what was reserved for a call was settled twice");
    this.open = false;
    const { rates, budgets } = this.limits;
    amounts.length = 0;
    for (const rate of rates) amounts.push(actual === null ? 0 : amountOn(rate, actual, asClaimed));
    this.rates?.settle(amounts);
    const nanos = actual === null ? null : actual.nanos;
    if (this.ofFirstBudget !== null) this.ofFirstBudget.settle(this.nanos, costTo(budgets[0]!, nanos, servedBy));
    const others = this.ofOtherBudgets;
    if (others === null) return;
    for (let at = 0; at < others.length; at += 1) others[at]!.settle(this.nanos, costTo(budgets[at + 1]!, nanos, servedBy));
  }

  /** Of all limits of a kind, the tightest is reported. */
  noteStatuses(statuses: LimitStatuses): void {
    const { rates } = this.limits;
    let requests = -1;
    let tokens = -1;
    let requestsLeft = 0;
    let tokensLeft = 0;
    for (let at = 0; at < rates.length; at += 1) {
      const { what } = rates[at]!;
      if (what !== "requests" && what !== "tokens") continue;
      const left = statuses.remaining(at);
      if (what === "tokens") {
        if (tokens >= 0 && left >= tokensLeft) continue;
        tokens = at;
        tokensLeft = left;
      } else if (requests < 0 || left < requestsLeft) {
        requests = at;
        requestsLeft = left;
      }
    }
    if (requests < 0 && tokens < 0) return;
    this.rateLimitStatus = {
      requestsLimit: requests < 0 ? null : rates[requests]!.limit,
      requestsRemaining: requestsLeft,
      requestsResetMs: requests < 0 ? 0 : statuses.resetMs(requests),
      tokensLimit: tokens < 0 ? null : rates[tokens]!.limit,
      tokensRemaining: tokensLeft,
      tokensResetMs: tokens < 0 ? 0 : statuses.resetMs(tokens),
    };
  }

  exceeded({ shortId, waitMs }: ReservationRefused): LimitExceeded {
    const { rates, concurrency } = this.limits;
    const slotLimit = concurrency.find(({ id }) => id === shortId);
    if (slotLimit !== undefined) return concurrencyLimitExceeded(slotLimit, this.rateLimitStatus);
    const rateLimit = rates.find(({ id }) => id === shortId);
    return rateLimit === undefined
      ? storeUnavailable(`no limit is called ${shortId}`, this.rateLimitStatus)
      : rateLimitExceeded(rateLimit, waitMs, this.rateLimitStatus);
  }

  addBudget(at: number, result: ReservedPeriod | BudgetRefused, wallMs: () => number): LimitExceeded | null {
    const { budgets } = this.limits;
    if (result.ok) {
      this.addPeriod(at, result);
      return null;
    }
    if (result.why === "unavailable") {
      return this.withdraw(storeUnavailable("no money is held, and the store does not answer", this.rateLimitStatus));
    }
    return this.withdraw(budgetExceeded(budgets[at]!, this.nanos, result, wallMs(), this.rateLimitStatus));
  }

  /** Called once for each budget, in their order: `settle` finds the budget of a period by its place. */
  addPeriod(at: number, period: ReservedPeriod): void {
    if (at === 0) this.ofFirstBudget = period;
    else if (this.ofOtherBudgets === null) this.ofOtherBudgets = [period];
    else this.ofOtherBudgets.push(period);
  }

  /** Gives everything back. */
  withdraw(exceeded: LimitExceeded): LimitExceeded {
    this.settle(null);
    return exceeded;
  }
}

/** Whether it is not for running calls, or for the size of this one alone, that a budget refuses it. */
function leavesTooLittle({ limitNanos }: BudgetLimit, nanos: number, { why, spentNanos }: BudgetRefused): boolean {
  return why === "spent" && nanos <= limitNanos && spentNanos !== null && spentNanos + nanos > limitNanos;
}

/** What a call costs a budget: nothing, where the budget is for other channels than the one that served the call. */
function costTo({ selector }: BudgetLimit, nanos: number | null, servedBy: NamedChannel | null): number | null {
  if (selector === null || selector.channels === null) return nanos;
  return servedBy !== null && isNamedBy(servedBy, selector.channels) ? nanos : null;
}

/** Stands for a budget that does not apply to the call. */
const nothingReserved: ReservedPeriod = { ok: true, settle: () => {} };

/** No number: the store keeps what was claimed. */
const asClaimed = Number.NaN;
/** One list for all calls: settling is synchronous. */
const amounts: number[] = [];

const noRateLimitStatus: RateLimitStatus = {
  requestsLimit: null,
  requestsRemaining: 0,
  requestsResetMs: 0,
  tokensLimit: null,
  tokensRemaining: 0,
  tokensResetMs: 0,
};

/** Nothing was reserved, so there is nothing to settle. */
const unlimitedGrant: Grant = { kind: "grant", rateLimitStatus: null, settle: () => {} };

function storeLost(): LimitExceeded {
  return storeUnavailable("the counts that processes share cannot be reached", null);
}
