import type { Grant, Limiter, Overrun, Place, Standing } from "../gateway/admission/limiter.ts";
import type { Key } from "../keys/key.ts";
import type { Demand } from "../limits/limits.ts";
import { ListedNeed } from "../limits/listed-need.ts";
import type { Need, RateKeeper, Standings, Taking } from "../limits/rate-limit-store.ts";
import type { BudgetLine, Refused, Reservation } from "./budgets/budget-account.ts";
import { amountOn, KeyGauges, type Gauges, type Room } from "./key-limits.ts";
import { budgetOverrun, neverFits, priceOverrun, rateOverrun, roomOverrun, storeOverrun } from "./admission-denied.ts";

export interface LimiterParts {
  readonly rates: RateKeeper;
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
  const known = new WeakMap<Key, KeyGauges>();

  function gaugesOf(key: Key): KeyGauges {
    let gauges = known.get(key);
    if (gauges === undefined) known.set(key, (gauges = new KeyGauges(key)));
    return gauges;
  }

  function admit(key: Key, model: string, demand: Demand, call: string): Grant | Overrun | Promise<Grant | Overrun> {
    const gauges = gaugesOf(key).for(model);
    if (gauges.isEmpty) return unlimitedGrant;
    if (gauges.budgets.length > 0 && demand.nanos === null && key.limits.unpriced === "refuse") return priceOverrun(model, null);
    const admission = new Admission(gauges, demand, call);
    const impossible = admission.impossible();
    if (impossible !== null) return impossible;
    if (!admission.needsRates) return money(admission, 0);
    const taking = rates.take(admission);
    return taking instanceof Promise ? afterLateRates(admission, taking) : afterRates(admission, taking);
  }

  async function afterLateRates(admission: Admission, taking: Promise<Taking>): Promise<Grant | Overrun> {
    let taken: Taking;
    try {
      taken = await taking;
    } catch {
      return storeLost();
    }
    return afterRates(admission, taken);
  }

  function afterRates(admission: Admission, taking: Taking): Grant | Overrun | Promise<Grant | Overrun> {
    admission.see(taking);
    if (!taking.ok) return admission.overrun(taking);
    admission.took(taking);
    const room = admission.gauges.rooms[1];
    if (room === undefined) return money(admission, 0);
    const second = rates.take(new ListedNeed([], { id: room.id, limit: room.limit, call: admission.call }));
    return second instanceof Promise ? afterLateRoom(admission, second) : afterRoom(admission, second);
  }

  async function afterLateRoom(admission: Admission, taking: Promise<Taking>): Promise<Grant | Overrun> {
    let taken: Taking;
    try {
      taken = await taking;
    } catch {
      return admission.withdrawn(storeLost());
    }
    return afterRoom(admission, taken);
  }

  function afterRoom(admission: Admission, taking: Taking): Grant | Overrun | Promise<Grant | Overrun> {
    if (!taking.ok) return admission.withdrawn(admission.overrun(taking));
    admission.took(taking);
    return money(admission, 0);
  }

  /** Sets aside what the call may cost in each of its budgets, one after the other. */
  function money(admission: Admission, from: number): Grant | Overrun | Promise<Grant | Overrun> {
    const { budgets: lines } = admission.gauges;
    for (let at = from; at < lines.length; at += 1) {
      const line = lines[at]!;
      const answer = budgets.reserve(line, admission.nanos);
      if (answer instanceof Promise) return lateMoney(admission, line, answer, at);
      const overrun = admission.reserved(line, answer, wallMs);
      if (overrun !== null) return overrun;
    }
    return admission;
  }

  async function lateMoney(
    admission: Admission,
    line: BudgetLine,
    answer: Promise<Reservation | Refused>,
    at: number,
  ): Promise<Grant | Overrun> {
    return admission.reserved(line, await answer, wallMs) ?? money(admission, at + 1);
  }

  function place(key: Key, call: string): Place | Overrun | Promise<Place | Overrun> {
    const [room] = gaugesOf(key).own.rooms;
    if (room === undefined) return unlimitedPlace;
    const taking = rates.take(new ListedNeed([], { id: room.id, limit: room.limit, call }));
    return taking instanceof Promise ? taking.then((taken) => placed(room, taken), storeLost) : placed(room, taking);
  }

  function bars(key: Key): Overrun | null {
    const { own } = gaugesOf(key);
    for (const room of own.rooms) if (rates.placesTaken(room.id) >= room.limit) return roomOverrun(room, null);
    for (const gauge of own.rates) {
      if (gauge.what !== "requests" || rates.surelyFits(gauge.one)) continue;
      const look = rates.look(gauge.one);
      if (look.remaining >= 1) continue;
      // Without a better word: as if what is used were spread evenly.
      const waitMs = look.waitMs ?? look.resetMs / Math.max(1, gauge.limit);
      const { limit, remaining, resetMs } = look;
      const standing = { ...noStanding, requestsLimit: limit, requestsRemaining: remaining, requestsResetMs: resetMs };
      return rateOverrun(gauge, gauge.limit < 1 ? Infinity : waitMs, standing);
    }
    return null;
  }

  return { bars, place, admit };
}

function placed(room: Room, taking: Taking): Place | Overrun {
  return taking.ok ? { kind: "place", leave: () => taking.settle([]) } : roomOverrun(room, null);
}

const unlimitedPlace: Place = { kind: "place", leave: () => {} };

type Taken = Taking & { readonly ok: true };

/**
 * A call on its way through its limits; once through, it is the grant. It is what it needs of them, and how its key stands: every call
 * has all three, so that nothing is made for them.
 */
class Admission implements Grant, Need, Standing {
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
    readonly gauges: Gauges,
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

  get standing(): Standing | null {
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
  impossible(): Overrun | null {
    for (let at = 0; at < this.claims; at += 1) {
      if (this.amount(at) > this.limit(at)) return neverFits(this.gauges.rates[at]!, null);
    }
    return null;
  }

  /** Of the key's own limit and the one for the model, the tighter. */
  see(standings: Standings): void {
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

  overrun({ shortId, waitMs }: Taking & { readonly ok: false }): Overrun {
    const { rates, rooms } = this.gauges;
    const room = rooms.find(({ id }) => id === shortId);
    if (room !== undefined) return roomOverrun(room, this.standing);
    const gauge = rates.find(({ id }) => id === shortId);
    return gauge === undefined ? storeOverrun(`no limit is called ${shortId}`, this.standing) : rateOverrun(gauge, waitMs, this.standing);
  }

  reserved(line: BudgetLine, answer: Reservation | Refused, wallMs: () => number): Overrun | null {
    if (answer.ok) {
      if (this.reservation === null) this.reservation = answer;
      else (this.reservations ??= []).push(answer);
      return null;
    }
    if (answer.why === "unavailable") return this.withdrawn(storeOverrun("no money is held, and the store does not answer", this.standing));
    return this.withdrawn(budgetOverrun(line, this.nanos, answer, wallMs(), this.standing));
  }

  /** Gives everything back. */
  withdrawn(overrun: Overrun): Overrun {
    this.settle(null);
    return overrun;
  }
}

/** One list for all calls: settling never waits. */
const amounts: number[] = [];

const noStanding: Standing = {
  requestsLimit: null,
  requestsRemaining: 0,
  requestsResetMs: 0,
  tokensLimit: null,
  tokensRemaining: 0,
  tokensResetMs: 0,
};

/** Nothing was taken, so there is nothing to settle. */
const unlimitedGrant: Grant = { kind: "grant", standing: null, settle: () => {} };

function storeLost(): Overrun {
  return storeOverrun("the counts that processes share cannot be reached", null);
}
