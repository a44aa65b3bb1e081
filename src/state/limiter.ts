import type { ConcurrencySlot, Grant, LimitExceeded, Limiter, RateLimitStatus } from "../gateway/admission/limiter.ts";
import type { Key } from "../keys/key.ts";
import type { Demand } from "../limits/limits.ts";
import {
  ListedReservationRequest,
  type LimitStatuses,
  type RateLimitStore,
  type Reservation,
  type ReservationRefused,
  type ReservationRequest,
  type ReservationResult,
} from "../limits/rate-limit-store.ts";
import type { BudgetLimit, BudgetRefused, BudgetReservation } from "./budgets/leased-budget.ts";
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
    reserve(budget: BudgetLimit, nanos: number): BudgetReservation | BudgetRefused | Promise<BudgetReservation | BudgetRefused>;
  };
  /** The wall clock, which tells when a new budget period begins. */
  readonly wallMs: () => number;
}

/**
 * Enforces all limits of a call's key: rates and concurrency first, because they are cheap and rarely need a request to the
 * shared store, then budgets. Where one refuses, what the others granted is given back. Each step continues synchronously when
 * its answer is not a promise, so that a call whose limits are known in this process costs no turn of the event loop.
 */
export function makeLimiter({ rates, budgets, wallMs }: LimiterParts): Limiter {
  // A key that changes is a new object, so an entry here never becomes stale.
  const known = new WeakMap<Key, KeyLimits>();

  function limitsOf(key: Key): KeyLimits {
    let limits = known.get(key);
    if (limits === undefined) known.set(key, (limits = new KeyLimits(key)));
    return limits;
  }

  function admit(key: Key, model: string, demand: Demand, call: string): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    const limits = limitsOf(key).for(model);
    if (limits.isEmpty) return unlimitedGrant;
    if (limits.budgets.length > 0 && demand.nanos === null && key.limits.unpriced === "refuse") return priceUnknown(model, null);
    const claims = new CallClaims(limits, demand, call);
    const impossible = claims.impossible();
    if (impossible !== null) return impossible;
    const grant = new CallGrant(claims);
    if (!claims.needsRates) return reserveBudgets(grant, 0);
    const result = rates.reserve(claims);
    return result instanceof Promise ? result.then((late) => afterRates(grant, late), storeLost) : afterRates(grant, result);
  }

  /** A request has one concurrency slot: the key's own. Where the model has a limit as well, its slot is a second request. */
  function afterRates(grant: CallGrant, result: ReservationResult): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    grant.noteStatuses(result);
    if (!result.ok) return grant.exceeded(result);
    grant.add(result);
    const limit = grant.limits.concurrency[1];
    if (limit === undefined) return reserveBudgets(grant, 0);
    const second = rates.reserve(new ListedReservationRequest([], { id: limit.id, limit: limit.limit, call: grant.call }));
    if (!(second instanceof Promise)) return afterModelSlot(grant, second);
    return second.then(
      (late) => afterModelSlot(grant, late),
      () => grant.withdraw(storeLost()),
    );
  }

  function afterModelSlot(grant: CallGrant, result: ReservationResult): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    if (!result.ok) return grant.withdraw(grant.exceeded(result));
    grant.add(result);
    return reserveBudgets(grant, 0);
  }

  /** Reserves what the call may cost in each of its budgets, one after the other. */
  function reserveBudgets(grant: CallGrant, from: number): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    const { budgets: all } = grant.limits;
    for (let at = from; at < all.length; at += 1) {
      const budget = all[at]!;
      const result = budgets.reserve(budget, grant.nanos);
      if (result instanceof Promise) {
        return result.then((late) => grant.addBudget(budget, late, wallMs) ?? reserveBudgets(grant, at + 1));
      }
      const exceeded = grant.addBudget(budget, result, wallMs);
      if (exceeded !== null) return exceeded;
    }
    return grant;
  }

  function reserveSlot(key: Key, call: string): ConcurrencySlot | LimitExceeded | Promise<ConcurrencySlot | LimitExceeded> {
    const [limit] = limitsOf(key).own.concurrency;
    if (limit === undefined) return unlimitedSlot;
    const result = rates.reserve(new ListedReservationRequest([], { id: limit.id, limit: limit.limit, call }));
    return result instanceof Promise ? result.then((late) => slotOf(limit, late), storeLost) : slotOf(limit, result);
  }

  function precheck(key: Key): LimitExceeded | null {
    const { own } = limitsOf(key);
    for (const limit of own.concurrency) if (rates.slotsTaken(limit.id) >= limit.limit) return concurrencyLimitExceeded(limit, null);
    for (const rateLimit of own.rates) {
      if (rateLimit.what !== "requests" || rates.surelyFits(rateLimit.one)) continue;
      const status = rates.status(rateLimit.one);
      if (status.remaining >= 1) continue;
      // Where the wait is not known, what is used is assumed to be spread evenly.
      const waitMs = status.waitMs ?? status.resetMs / Math.max(1, rateLimit.limit);
      const { limit, remaining, resetMs } = status;
      const rateLimitStatus = { ...noRateLimitStatus, requestsLimit: limit, requestsRemaining: remaining, requestsResetMs: resetMs };
      return rateLimitExceeded(rateLimit, rateLimit.limit < 1 ? Infinity : waitMs, rateLimitStatus);
    }
    return null;
  }

  return { precheck, reserveSlot, admit };
}

function slotOf(limit: ConcurrencyLimit, result: ReservationResult): ConcurrencySlot | LimitExceeded {
  return result.ok ? { kind: "slot", release: () => result.settle([]) } : concurrencyLimitExceeded(limit, null);
}

const unlimitedSlot: ConcurrencySlot = { kind: "slot", release: () => {} };

/** What a call claims of its key's limits per minute, and the key's own concurrency slot. The slot of the model is reserved after it. */
class CallClaims implements ReservationRequest {
  constructor(
    readonly limits: CallLimits,
    readonly demand: Demand,
    readonly call: string,
  ) {}

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

  get concurrency(): ConcurrencyLimit | null {
    return this.limits.concurrency[0] ?? null;
  }

  get needsRates(): boolean {
    return this.claims > 0 || this.limits.concurrency.length > 0;
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
  /** The rates and the key's own slot, and the slot of the model's limit. */
  private first: Reservation | null = null;
  private second: Reservation | null = null;
  /** The first budget, and the others where there are more. */
  private budget: BudgetReservation | null = null;
  private otherBudgets: BudgetReservation[] | null = null;

  constructor(private readonly claims: CallClaims) {}

  get limits(): CallLimits {
    return this.claims.limits;
  }

  get call(): string {
    return this.claims.call;
  }

  get nanos(): number {
    return this.claims.demand.nanos ?? 0;
  }

  add(reservation: Reservation): void {
    if (this.first === null) this.first = reservation;
    else this.second = reservation;
  }

  settle(actual: Demand | null): void {
    const { claims } = this;
    const { rates } = claims.limits;
    amounts.length = 0;
    for (let at = 0; at < rates.length; at += 1) amounts.push(actual === null ? 0 : amountOn(rates[at]!, actual, claims.amount(at)));
    this.first?.settle(amounts);
    this.second?.settle([]);
    const nanos = actual === null ? null : actual.nanos;
    this.budget?.settle(nanos);
    if (this.otherBudgets !== null) for (const budget of this.otherBudgets) budget.settle(nanos);
  }

  /** Of the key's own limit and the one for the model, the tighter is reported. */
  noteStatuses(statuses: LimitStatuses): void {
    const { rates } = this.limits;
    const requests = tightest("requests", rates, statuses);
    const tokens = tightest("tokens", rates, statuses);
    if (requests === null && tokens === null) return;
    this.rateLimitStatus = {
      requestsLimit: requests === null ? null : rates[requests]!.limit,
      requestsRemaining: requests === null ? 0 : statuses.remaining(requests),
      requestsResetMs: requests === null ? 0 : statuses.resetMs(requests),
      tokensLimit: tokens === null ? null : rates[tokens]!.limit,
      tokensRemaining: tokens === null ? 0 : statuses.remaining(tokens),
      tokensResetMs: tokens === null ? 0 : statuses.resetMs(tokens),
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

  addBudget(budget: BudgetLimit, result: BudgetReservation | BudgetRefused, wallMs: () => number): LimitExceeded | null {
    if (result.ok) {
      if (this.budget === null) this.budget = result;
      else (this.otherBudgets ??= []).push(result);
      return null;
    }
    if (result.why === "unavailable") {
      return this.withdraw(storeUnavailable("no money is held, and the store does not answer", this.rateLimitStatus));
    }
    return this.withdraw(budgetExceeded(budget, this.nanos, result, wallMs(), this.rateLimitStatus));
  }

  /** Gives everything back. */
  withdraw(exceeded: LimitExceeded): LimitExceeded {
    this.settle(null);
    return exceeded;
  }
}

/** The index of the limit of this kind that has the least left; null if there is none. */
function tightest(what: RateLimit["what"], rates: readonly RateLimit[], statuses: LimitStatuses): number | null {
  let found: number | null = null;
  for (let at = 0; at < rates.length; at += 1) {
    if (rates[at]!.what !== what) continue;
    if (found === null || statuses.remaining(at) < statuses.remaining(found)) found = at;
  }
  return found;
}

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
