import type { Grant, Limiter, LimitExceeded, ConcurrencySlot, RateLimitStatus } from "../gateway/admission/limiter.ts";
import type { Key } from "../keys/key.ts";
import type { Demand } from "../limits/limits.ts";
import { ListedReservationRequest } from "../limits/listed-need.ts";
import type { ReservationRequest, RateLimitStore, LimitStatuses, ReservationResult } from "../limits/rate-limit-store.ts";
import type { BudgetLine, Refused, Reservation } from "./budgets/budget-account.ts";
import { amountOn, KeyLimits, type CallLimits, type Room } from "./key-limits.ts";
import {
  budgetExceeded,
  neverFits,
  priceUnknown,
  rateLimitExceeded,
  concurrencyLimitExceeded,
  storeUnavailable,
} from "./limit-exceeded.ts";

export interface LimiterParts {
  readonly rates: RateLimitStore;
  readonly budgets: { reserve(line: BudgetLine, nanos: number): Reservation | Refused | Promise<Reservation | Refused> };
  /** Tells the day, for when a new period begins. */
  readonly wallMs: () => number;
}

/**
 * Holds a call to all limits of its key: rates and places first, because they are cheap and hardly ever need to be asked
 * for elsewhere, then money. Where one refuses, what the others gave is given back. As long as nobody elsewhere has to be
 * asked, the answer comes at once.
 */
export function makeLimiter({ rates, budgets, wallMs }: LimiterParts): Limiter {
  // A key that changes is another object, so what is laid out here never grows old.
  const known = new WeakMap<Key, KeyLimits>();

  function gaugesOf(key: Key): KeyLimits {
    let gauges = known.get(key);
    if (gauges === undefined) known.set(key, (gauges = new KeyLimits(key)));
    return gauges;
  }

  function admit(key: Key, model: string, demand: Demand, call: string): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    const gauges = gaugesOf(key).for(model);
    if (gauges.isEmpty) return unlimitedGrant;
    if (gauges.budgets.length > 0 && demand.nanos === null && key.limits.unpriced === "refuse") return priceUnknown(model, null);
    const admission = new Admission(gauges, demand, call);
    const impossible = admission.impossible();
    if (impossible !== null) return impossible;
    if (!admission.needsRates) return money(admission, 0);
    const taking = rates.take(admission);
    return taking instanceof Promise ? afterLateRates(admission, taking) : afterRates(admission, taking);
  }

  async function afterLateRates(admission: Admission, taking: Promise<ReservationResult>): Promise<Grant | LimitExceeded> {
    let taken: ReservationResult;
    try {
      taken = await taking;
    } catch {
      return storeLost();
    }
    return afterRates(admission, taken);
  }

  function afterRates(admission: Admission, taking: ReservationResult): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    admission.see(taking);
    if (!taking.ok) return admission.limitExceeded(taking);
    admission.took(taking);
    const room = admission.gauges.rooms[1];
    if (room === undefined) return money(admission, 0);
    const second = rates.take(new ListedReservationRequest([], { id: room.id, limit: room.limit, call: admission.call }));
    return second instanceof Promise ? afterLateRoom(admission, second) : afterRoom(admission, second);
  }

  async function afterLateRoom(admission: Admission, taking: Promise<ReservationResult>): Promise<Grant | LimitExceeded> {
    let taken: ReservationResult;
    try {
      taken = await taking;
    } catch {
      return admission.withdrawn(storeLost());
    }
    return afterRoom(admission, taken);
  }

  function afterRoom(admission: Admission, taking: ReservationResult): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    if (!taking.ok) return admission.withdrawn(admission.limitExceeded(taking));
    admission.took(taking);
    return money(admission, 0);
  }

  /** Sets aside what the call may cost in each of its budgets, one after the other. */
  function money(admission: Admission, from: number): Grant | LimitExceeded | Promise<Grant | LimitExceeded> {
    const { budgets: lines } = admission.gauges;
    for (let at = from; at < lines.length; at += 1) {
      const line = lines[at]!;
      const answer = budgets.reserve(line, admission.nanos);
      if (answer instanceof Promise) return lateMoney(admission, line, answer, at);
      const limitExceeded = admission.reserved(line, answer, wallMs);
      if (limitExceeded !== null) return limitExceeded;
    }
    return admission;
  }

  async function lateMoney(
    admission: Admission,
    line: BudgetLine,
    answer: Promise<Reservation | Refused>,
    at: number,
  ): Promise<Grant | LimitExceeded> {
    return admission.reserved(line, await answer, wallMs) ?? money(admission, at + 1);
  }

  function place(key: Key, call: string): ConcurrencySlot | LimitExceeded | Promise<ConcurrencySlot | LimitExceeded> {
    const [room] = gaugesOf(key).own.rooms;
    if (room === undefined) return unlimitedPlace;
    const taking = rates.take(new ListedReservationRequest([], { id: room.id, limit: room.limit, call }));
    return taking instanceof Promise ? taking.then((taken) => placed(room, taken), storeLost) : placed(room, taking);
  }

  function precheck(key: Key): LimitExceeded | null {
    const { own } = gaugesOf(key);
    for (const room of own.rooms) if (rates.placesTaken(room.id) >= room.limit) return concurrencyLimitExceeded(room, null);
    for (const gauge of own.rates) {
      if (gauge.what !== "requests" || rates.surelyFits(gauge.one)) continue;
      const look = rates.look(gauge.one);
      if (look.remaining >= 1) continue;
      // Without a better word: as if what is used were spread evenly.
      const waitMs = look.waitMs ?? look.resetMs / Math.max(1, gauge.limit);
      const { limit, remaining, resetMs } = look;
      const rateLimitStatus = { ...noRateLimitStatus, requestsLimit: limit, requestsRemaining: remaining, requestsResetMs: resetMs };
      return rateLimitExceeded(gauge, gauge.limit < 1 ? Infinity : waitMs, rateLimitStatus);
    }
    return null;
  }

  return { precheck, place, admit };
}

function placed(room: Room, taking: ReservationResult): ConcurrencySlot | LimitExceeded {
  return taking.ok ? { kind: "place", leave: () => taking.settle([]) } : concurrencyLimitExceeded(room, null);
}

const unlimitedPlace: ConcurrencySlot = { kind: "place", leave: () => {} };

type Taken = ReservationResult & { readonly ok: true };

/**
 * A call on its way through its limits; once through, it is the grant. It is what it needs of them, and how its key stands: every call
 * has all three, so that nothing is made for them.
 */
class Admission implements Grant, ReservationRequest, RateLimitStatus {
  readonly kind = "grant";
  /** Of the rates and the first place, and of the second place. */
  private first: Taken | null = null;
  private second: Taken | null = null;
  requestsLimit: number | null = null;
  requestsRemaining = 0;
  requestsResetMs = 0;
  tokensLimit: number | null = null;
  tokensRemaining = 0;
  tokensResetMs = 0;
  /** Of the first budget, and of the others where there are more. */
  private reservation: Reservation | null = null;
  private reservations: Reservation[] | null = null;

  constructor(
    readonly gauges: CallLimits,
    private readonly demand: Demand,
    readonly call: string,
  ) {}

  get claims(): number {
    return this.gauges.rates.length;
  }

  id(at: number): string {
    return this.gauges.rates[at]!.id;
  }

  limit(at: number): number {
    return this.gauges.rates[at]!.limit;
  }

  amount(at: number): number {
    return amountOn(this.gauges.rates[at]!, this.demand, 0);
  }

  /** The key's own; another one for the model is taken after it. */
  get room(): Room | null {
    return this.gauges.rooms[0] ?? null;
  }

  get nanos(): number {
    return this.demand.nanos ?? 0;
  }

  get rateLimitStatus(): RateLimitStatus | null {
    return this.requestsLimit === null && this.tokensLimit === null ? null : this;
  }

  get needsRates(): boolean {
    return this.claims > 0 || this.gauges.rooms.length > 0;
  }

  took(taken: Taken): void {
    if (this.first === null) this.first = taken;
    else this.second = taken;
  }

  settle(truth: Demand | null): void {
    const { rates } = this.gauges;
    amounts.length = 0;
    for (let at = 0; at < rates.length; at += 1) amounts.push(truth === null ? 0 : amountOn(rates[at]!, truth, this.amount(at)));
    this.first?.settle(amounts);
    this.second?.settle([]);
    const nanos = truth === null ? null : truth.nanos;
    this.reservation?.settle(nanos);
    if (this.reservations !== null) for (const reservation of this.reservations) reservation.settle(nanos);
  }

  /** What no wait could make room for. */
  impossible(): LimitExceeded | null {
    for (let at = 0; at < this.claims; at += 1) {
      if (this.amount(at) > this.limit(at)) return neverFits(this.gauges.rates[at]!, null);
    }
    return null;
  }

  /** Of the key's own limit and the one for the model, the tighter. */
  see(standings: LimitStatuses): void {
    const { rates } = this.gauges;
    for (let at = 0; at < rates.length; at += 1) {
      const { what, limit } = rates[at]!;
      if (what !== "requests" && what !== "tokens") continue;
      const remaining = standings.remaining(at);
      if (what === "requests") {
        if (this.requestsLimit !== null && this.requestsRemaining <= remaining) continue;
        this.requestsLimit = limit;
        this.requestsRemaining = remaining;
        this.requestsResetMs = standings.resetMs(at);
      } else {
        if (this.tokensLimit !== null && this.tokensRemaining <= remaining) continue;
        this.tokensLimit = limit;
        this.tokensRemaining = remaining;
        this.tokensResetMs = standings.resetMs(at);
      }
    }
  }

  limitExceeded({ shortId, waitMs }: ReservationResult & { readonly ok: false }): LimitExceeded {
    const { rates, rooms } = this.gauges;
    const room = rooms.find(({ id }) => id === shortId);
    if (room !== undefined) return concurrencyLimitExceeded(room, this.rateLimitStatus);
    const gauge = rates.find(({ id }) => id === shortId);
    return gauge === undefined
      ? storeUnavailable(`no limit is called ${shortId}`, this.rateLimitStatus)
      : rateLimitExceeded(gauge, waitMs, this.rateLimitStatus);
  }

  reserved(line: BudgetLine, answer: Reservation | Refused, wallMs: () => number): LimitExceeded | null {
    if (answer.ok) {
      if (this.reservation === null) this.reservation = answer;
      else (this.reservations ??= []).push(answer);
      return null;
    }
    if (answer.why === "unavailable")
      return this.withdrawn(storeUnavailable("no money is held, and the store does not answer", this.rateLimitStatus));
    return this.withdrawn(budgetExceeded(line, this.nanos, answer, wallMs(), this.rateLimitStatus));
  }

  /** Gives everything back. */
  withdrawn(limitExceeded: LimitExceeded): LimitExceeded {
    this.settle(null);
    return limitExceeded;
  }
}

/** One list for all calls: settling never waits. */
const amounts: number[] = [];

const noRateLimitStatus: RateLimitStatus = {
  requestsLimit: null,
  requestsRemaining: 0,
  requestsResetMs: 0,
  tokensLimit: null,
  tokensRemaining: 0,
  tokensResetMs: 0,
};

/** Nothing was taken, so there is nothing to settle. */
const unlimitedGrant: Grant = { kind: "grant", rateLimitStatus: null, settle: () => {} };

function storeLost(): LimitExceeded {
  return storeUnavailable("the counts that processes share cannot be reached", null);
}
