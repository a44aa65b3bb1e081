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
import type { BudgetLimit, BudgetRefused, BudgetReservation } from "./budgets/budget-account.ts";
import { amountOn, KeyLimits, type CallLimits, type ConcurrencyLimit } from "./key-limits.ts";
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
    const reservation = new CallReservation(limits, demand, call);
    const impossible = reservation.impossible();
    if (impossible !== null) return impossible;
    if (!reservation.needsRates) return reserveBudgets(reservation, 0);
    const result = rates.reserve(reservation);
    return result instanceof Promise ? result.then((late) => afterRates(reservation, late), storeLost) : afterRates(reservation, result);
  }

  /** A request has one concurrency slot: the key's own. Where the model has a limit as well, its slot is a second request. */
  function afterRates(reservation: CallReservation, result: ReservationResult): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    reservation.noteStatuses(result);
    if (!result.ok) return reservation.exceeded(result);
    reservation.add(result);
    const limit = reservation.limits.concurrency[1];
    if (limit === undefined) return reserveBudgets(reservation, 0);
    const second = rates.reserve(new ListedReservationRequest([], { id: limit.id, limit: limit.limit, call: reservation.call }));
    if (!(second instanceof Promise)) return afterModelSlot(reservation, second);
    return second.then(
      (late) => afterModelSlot(reservation, late),
      () => reservation.withdraw(storeLost()),
    );
  }

  function afterModelSlot(reservation: CallReservation, result: ReservationResult): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    if (!result.ok) return reservation.withdraw(reservation.exceeded(result));
    reservation.add(result);
    return reserveBudgets(reservation, 0);
  }

  /** Reserves what the call may cost in each of its budgets, one after the other. */
  function reserveBudgets(reservation: CallReservation, from: number): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    const { budgets: all } = reservation.limits;
    for (let at = from; at < all.length; at += 1) {
      const budget = all[at]!;
      const result = budgets.reserve(budget, reservation.nanos);
      if (result instanceof Promise) {
        return result.then((late) => reservation.addBudget(budget, late, wallMs) ?? reserveBudgets(reservation, at + 1));
      }
      const exceeded = reservation.addBudget(budget, result, wallMs);
      if (exceeded !== null) return exceeded;
    }
    return reservation;
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

/**
 * A call whose limits are being reserved; when all are, it is the grant. It is the request to the rate limits and the status of the
 * key as well, because every call needs all three, and one object is allocated instead of three.
 */
class CallReservation implements Grant, ReservationRequest, RateLimitStatus {
  readonly kind = "grant";
  /** The rates and the key's own slot, and the slot of the model's limit. */
  private first: Reservation | null = null;
  private second: Reservation | null = null;
  requestsLimit: number | null = null;
  requestsRemaining = 0;
  requestsResetMs = 0;
  tokensLimit: number | null = null;
  tokensRemaining = 0;
  tokensResetMs = 0;
  /** The first budget, and the others where there are more. */
  private budget: BudgetReservation | null = null;
  private otherBudgets: BudgetReservation[] | null = null;

  constructor(
    readonly limits: CallLimits,
    private readonly demand: Demand,
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

  /** The key's own; the one of the model is reserved after it. */
  get concurrency(): ConcurrencyLimit | null {
    return this.limits.concurrency[0] ?? null;
  }

  get nanos(): number {
    return this.demand.nanos ?? 0;
  }

  get rateLimitStatus(): RateLimitStatus | null {
    return this.requestsLimit === null && this.tokensLimit === null ? null : this;
  }

  get needsRates(): boolean {
    return this.claims > 0 || this.limits.concurrency.length > 0;
  }

  add(reservation: Reservation): void {
    if (this.first === null) this.first = reservation;
    else this.second = reservation;
  }

  settle(actual: Demand | null): void {
    const { rates } = this.limits;
    amounts.length = 0;
    for (let at = 0; at < rates.length; at += 1) amounts.push(actual === null ? 0 : amountOn(rates[at]!, actual, this.amount(at)));
    this.first?.settle(amounts);
    this.second?.settle([]);
    const nanos = actual === null ? null : actual.nanos;
    this.budget?.settle(nanos);
    if (this.otherBudgets !== null) for (const budget of this.otherBudgets) budget.settle(nanos);
  }

  /** A claim larger than its limit, which would not fit after any wait. */
  impossible(): LimitExceeded | null {
    for (let at = 0; at < this.claims; at += 1) {
      if (this.amount(at) > this.limit(at)) return neverFits(this.limits.rates[at]!, null);
    }
    return null;
  }

  /** Of the key's own limit and the one for the model, the tighter is reported. */
  noteStatuses(statuses: LimitStatuses): void {
    const { rates } = this.limits;
    for (let at = 0; at < rates.length; at += 1) {
      const { what, limit } = rates[at]!;
      if (what !== "requests" && what !== "tokens") continue;
      const remaining = statuses.remaining(at);
      if (what === "requests") {
        if (this.requestsLimit !== null && this.requestsRemaining <= remaining) continue;
        this.requestsLimit = limit;
        this.requestsRemaining = remaining;
        this.requestsResetMs = statuses.resetMs(at);
      } else {
        if (this.tokensLimit !== null && this.tokensRemaining <= remaining) continue;
        this.tokensLimit = limit;
        this.tokensRemaining = remaining;
        this.tokensResetMs = statuses.resetMs(at);
      }
    }
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
