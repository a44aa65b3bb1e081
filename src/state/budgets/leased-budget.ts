import { StorageError, type BudgetHoldResult, type BudgetHoldRequest, type HeldMoney, type HoldRenewal } from "../../gateway/storage.ts";
import type { BudgetPeriod, BudgetSelector, Limits } from "../../limits/limits.ts";
import { periodEndMs, periodStartMs } from "../../limits/period.ts";
import {
  addGranted,
  freeNanos,
  leaseSize,
  markLost,
  newBudgetLease,
  noteDrained,
  reserve,
  returnFree,
  returnIdle,
  settle,
  sharersOf,
  storedMax,
  storedMaxAfterLoss,
  takeReturned,
  type BudgetLease,
} from "../../limits/budget-lease.ts";

/** A budget of a key or a group, as its limits define it. */
export interface BudgetLimit {
  /** Its id: the owner's id, followed by a pattern of models or the name of a budget with a selector. */
  readonly budget: string;
  /** The id of the key or the group. */
  readonly ownerId: string;
  readonly models: string | null;
  /** Patterns of the owner's earlier rules. Models that match them do not count here. */
  readonly exceptModels: readonly string[];
  /** The calls that it is for; null for all of them. */
  readonly selector: BudgetSelector | null;
  /** The same for the store, as JSON; null for what the sums of a key tell. */
  readonly selectorText: string | null;
  /** Whether calls whose price is not known may be made. */
  readonly unpriced: Limits["unpriced"];
  /** Whose budget it is, for messages: `this key`, or `the team web`. */
  readonly of: string;
  readonly limitNanos: number;
  readonly period: BudgetPeriod;
}

/**
 * A budget in the period in which money of it was reserved. All calls of the period share it, because a call that made an object
 * for each of its budgets would make four.
 */
export interface ReservedPeriod {
  readonly ok: true;
  /** Replaces what was reserved for a call by what it cost; null: it cost nothing. Every call that reserved does so exactly once. */
  settle(reservedNanos: number, costNanos: number | null): void;
}

/** `spent`: the budget has no room beyond what running calls may need; `unavailable`: the store cannot be asked. */
export interface BudgetRefused {
  readonly ok: false;
  readonly why: "spent" | "unavailable";
  /** What is spent in the period, as far as it is known; null if nothing is. */
  readonly spentNanos: number | null;
  /** What this process and others hold of it, as of the last refusal of the store; null if that is not known. */
  readonly held: HeldMoney | null;
}

/** What a budget needs of its ledger. */
export interface LeasedBudgetContext {
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly processes: () => number;
  /** The longest wait of a call for a store that fails. */
  readonly deadlineMs: number;
  /** The longest wait of a call for a store that does not answer. */
  readonly silenceMs: number;
  /** How long money may be spent after the store was asked to grant or renew it. */
  readonly spendableMs: number;
  /** Asks the store, as soon as no renewal is running. */
  hold(makeRequest: () => Omit<BudgetHoldRequest, "holder" | "ttlMs">): Promise<BudgetHoldResult>;
  /** Returns money to the store at once. */
  returnSoon(): void;
  /** Whether so little is left of a budget that idle money is returned at the next check. */
  nearEnd(budget: string, isNear: boolean): void;
}

/**
 * One budget in this process. It leases money from the store in chunks. While the lease has enough, calls are answered at once;
 * otherwise they wait, in order, for the one request to the store that is running.
 */
export class LeasedBudget {
  private lease: BudgetLease = newBudgetLease();
  private period: ReservedPeriod = new LeasedPeriod(this, this.lease);
  /** Until when the store certainly holds the leased money for this process. */
  private until: ClockReading = never;
  /** That time has passed, and nothing was granted since. */
  private hasExpired = false;
  private sinceMs = Number.NaN;
  private endMs = Number.NaN;
  private readonly waiting = new Set<BudgetWaiter>();
  private waitingNanos = 0;
  private request: LeaseRequest | null = null;
  /** Cancels the pause before the next request. */
  private endPause: (() => void) | null = null;
  /** Since when an answer of the store is outstanding. */
  private pendingSinceMs: number | null = null;
  /** The store has failed since then, and is not merely slow. */
  private isFailing = false;
  private refusal: RecentRefusal | null = null;
  /** Since when other processes are asked to return what they do not need. */
  private shortSinceMs: number | null = null;
  /** So little is left that other processes may need what is idle here. */
  private isNearEnd = false;
  private held: HeldMoney | null = null;
  private unavailableUntilMs = 0;
  /** Until when the store may still grant a request that it has not answered. */
  private lateGrantUntilMs = Number.NEGATIVE_INFINITY;
  private refillAfterMs = 0;
  private spentNanos: number | null = null;
  private chunkNanos = 0;
  /** Money was used since the last renewal. */
  private usedSinceRenewal = true;
  /** Money was used since the last check for idle money. */
  private usedSinceCheck = true;
  private usedMs: number;
  /** The largest reservation since idle money was last returned, and before that. */
  private largestNanos = 0;
  private largestBefore = 0;
  private idleSinceMs: number;
  private drainSinceMs: number;

  constructor(
    private readonly context: LeasedBudgetContext,
    private limit: BudgetLimit,
  ) {
    this.usedMs = this.idleSinceMs = this.drainSinceMs = context.nowMs();
  }

  reserve(limit: BudgetLimit, nanos: number, now: ClockReading): ReservedPeriod | BudgetRefused | Promise<ReservedPeriod | BudgetRefused> {
    this.update(limit, now);
    if (nanos === 0) return this.reserveNow(0);
    if (freeNanos(this.lease) >= nanos && (this.waiting.size === 0 || this.shortSinceMs !== null || this.isLate())) {
      const period = this.reserveNow(nanos);
      if (freeNanos(this.lease) < this.chunkNanos / refillShare) this.refill();
      return period;
    }
    const { nowMs } = now;
    if (nanos > limit.limitNanos || this.isRefused(nanos, nowMs)) return this.refused("spent");
    if (this.isOverdue() || nowMs < this.unavailableUntilMs || this.waiting.size >= waitingMax) return this.refused("unavailable");
    return this.reserveLater(nanos, nowMs);
  }

  /** Apart from `reserve`, because a function with a closure in it has a scope made for it on the heap, and few calls wait. */
  private reserveLater(nanos: number, nowMs: number): Promise<ReservedPeriod | BudgetRefused> {
    return new Promise((resolve) => {
      const waiter: BudgetWaiter = { nanos, sinceMs: nowMs, resolve, cancel: () => {} };
      this.waiting.add(waiter);
      this.waitingNanos += nanos;
      this.waitOn(waiter, nowMs);
      this.requestLease();
    });
  }

  /** A reservation was settled, so waiting calls may be served. */
  settled(lease: BudgetLease): void {
    if (this.waiting.size === 0) return;
    this.update(this.limit);
    if (lease === this.lease) this.serveWaiting();
  }

  /** What the store is to renew, after idle money was returned. If room for other budgets is needed, all free money is. */
  renewal(drainedMs: number, needRoom: boolean): HoldRenewal {
    const nowMs = this.context.nowMs();
    this.update(this.limit);
    this.noteDrained(drainedMs, nowMs);
    if (this.usedSinceRenewal) this.usedMs = nowMs;
    this.usedSinceRenewal = false;
    const quietMs = nowMs - this.usedMs;
    if (quietMs > forgetAfterMs || (needRoom && quietMs > quietAfterMs)) returnFree(this.lease);
    else if (nowMs - this.idleSinceMs >= idleMs) {
      returnIdle(this.lease, staysFactor * Math.max(this.largestNanos, this.largestBefore));
      this.idleSinceMs = nowMs;
      if (this.largestNanos > 0) this.largestBefore = this.largestNanos;
      this.largestNanos = 0;
    }
    return this.currentHold();
  }

  /** The same, but all free money is returned, because other processes need it. Null: calls wait for it here. */
  toReturn(drainedMs: number): HoldRenewal | null {
    this.update(this.limit);
    if (this.waiting.size > 0 && this.shortSinceMs === null) return null;
    this.noteDrained(drainedMs, this.context.nowMs());
    returnFree(this.lease);
    this.chunkNanos = 0;
    return { ...this.currentHold(), answers: true };
  }

  /** Whether money was idle since the last check. */
  isIdle(): boolean {
    const quiet = !this.usedSinceCheck;
    this.usedSinceCheck = false;
    return quiet && freeNanos(this.lease) > 0;
  }

  /** The store has renewed the hold, as it was asked to at that time. */
  renewed(sent: ClockReading): void {
    if (!this.hasExpired && this.until !== never) this.until = this.spendableFrom(sent);
  }

  /** Nothing is leased, and the store was told so when no late grant was possible any more. */
  isForgettable(reportedMs: number): boolean {
    const { balance, reserved } = this.lease;
    if (reportedMs < this.lateGrantUntilMs) return false;
    return balance === 0 && reserved === 0 && storedMax(this.lease) === 0 && this.waiting.size === 0 && this.request === null;
  }

  /** Admits no more calls, and returns all free money. */
  stop(): void {
    this.endPause?.();
    this.endPause = null;
    for (const waiter of this.waiting) this.leave(waiter, this.refused("unavailable"));
    returnFree(this.lease);
  }

  /** What is leased, what of it is free, and whether a request is running. For tests. */
  get figures(): { readonly heldNanos: number; readonly freeNanos: number; readonly asking: boolean } {
    return { heldNanos: this.lease.balance, freeNanos: freeNanos(this.lease), asking: this.request !== null };
  }

  /** Handles a new period, and changes of the limit. */
  private update(limit: BudgetLimit, { nowMs, wallMs }: ClockReading = this.readClock()): void {
    const before = this.limit;
    // The store measures the lifetime of a hold on one of these clocks, and either may stop or jump.
    if (wallMs >= this.until.wallMs || nowMs >= this.until.nowMs) this.markExpired();
    if (limit === before && wallMs >= this.sinceMs && wallMs < this.endMs) return;
    this.limit = limit;
    // A clock that is set back a little at the start of a period does not bring the old one back.
    const inPeriod = wallMs >= this.sinceMs - setBackMs && wallMs < this.endMs;
    if (!inPeriod || limit.period !== before.period) this.beginPeriod(wallMs);
    const hasOtherModels = limit.selectorText !== before.selectorText || !sameTexts(limit.exceptModels, before.exceptModels);
    if (limit.limitNanos === before.limitNanos && !hasOtherModels) return;
    this.refusal = null;
    // What these calls have spent is not known yet.
    if (hasOtherModels) this.spentNanos = null;
    if (hasOtherModels || limit.limitNanos < before.limitNanos) {
      returnFree(this.lease);
      this.context.returnSoon();
    }
  }

  private readClock(): ClockReading {
    return { nowMs: this.context.nowMs(), wallMs: this.context.wallMs() };
  }

  /** The hold has expired in the store, which may have granted the money to others. */
  private markExpired(): void {
    markLost(this.lease);
    this.until = never;
    this.hasExpired = true;
  }

  private spendableFrom({ nowMs, wallMs }: ClockReading): ClockReading {
    const { spendableMs } = this.context;
    return { nowMs: nowMs + spendableMs, wallMs: wallMs + spendableMs };
  }

  /** Starts a new lease. The cost of calls of the period before does not count in the new one. */
  private beginPeriod(wallMs: number): void {
    const sinceMs = periodStartMs(this.limit.period, wallMs);
    this.endMs = periodEndMs(this.limit.period, wallMs);
    if (sinceMs === this.sinceMs) return;
    this.sinceMs = sinceMs;
    this.lease = newBudgetLease();
    this.period = new LeasedPeriod(this, this.lease);
    this.until = never;
    this.hasExpired = false;
    this.spentNanos = null;
    this.refusal = null;
    this.held = null;
    this.noteNearEnd(false);
  }

  private noteNearEnd(isNear: boolean): void {
    if (isNear === this.isNearEnd) return;
    this.isNearEnd = isNear;
    this.context.nearEnd(this.limit.budget, isNear);
  }

  private reserveNow(nanos: number): ReservedPeriod {
    reserve(this.lease, nanos);
    if (nanos > 0) this.usedSinceRenewal = this.usedSinceCheck = true;
    if (nanos > this.largestNanos) this.largestNanos = nanos;
    return this.period;
  }

  private refused(why: BudgetRefused["why"]): BudgetRefused {
    return { ok: false, why, spentNanos: this.spentNanos, held: why === "spent" ? this.held : null };
  }

  private currentHold(): HoldRenewal {
    const most = this.hasExpired ? storedMaxAfterLoss(this.lease) : storedMax(this.lease);
    return { budget: this.limit.budget, nanos: most + (this.request?.wish ?? 0), back: takeReturned(this.lease) };
  }

  private noteDrained(drainedMs: number, nowMs: number): void {
    if (drainedMs < this.drainSinceMs + drainMarginMs) return;
    noteDrained(this.lease);
    this.drainSinceMs = nowMs;
  }

  /** The store has not answered for longer than a store that is well takes. */
  private isLate(): boolean {
    return this.pendingSinceMs !== null && this.context.nowMs() - this.pendingSinceMs > this.context.deadlineMs;
  }

  /** The store has not answered for longer than calls wait for it. */
  private isOverdue(): boolean {
    return this.pendingSinceMs !== null && this.context.nowMs() - this.pendingSinceMs > this.longestWaitMs;
  }

  private get longestWaitMs(): number {
    const { deadlineMs, silenceMs } = this.context;
    return this.isFailing ? deadlineMs : silenceMs;
  }

  /** The store said a moment ago that less than this is left. */
  private isRefused(nanos: number, nowMs: number): boolean {
    return this.refusal !== null && nowMs < this.refusal.untilMs && nanos - freeNanos(this.lease) >= this.refusal.missing;
  }

  /** Asks before the lease is used up, so that calls need not wait; but not if nothing can be left. */
  private refill(): void {
    if (this.request !== null || this.endPause !== null || this.isNearEnd) return;
    const nowMs = this.context.nowMs();
    if (nowMs < this.refillAfterMs || (this.refusal !== null && nowMs < this.refusal.untilMs) || this.remaining() <= 0) return;
    this.requestLease();
  }

  /** What is left of the budget, as far as this process knows. Others may hold some of it. */
  private remaining(): number {
    return this.limit.limitNanos - (this.spentNanos ?? 0) - Math.max(0, this.lease.balance);
  }

  private requestLease(): void {
    if (this.request !== null || this.endPause !== null) return;
    const request: LeaseRequest = { lease: this.lease, need: 0, wish: 0, sharers: 1, forCalls: false, sent: never };
    this.request = request;
    if (this.pendingSinceMs === null) {
      this.pendingSinceMs = this.context.nowMs();
      this.isFailing = false;
    }
    let cancel = (): void => {};
    void this.context
      .hold(() => {
        // The timer starts when the request is sent: one that was abandoned before that would still be sent.
        cancel = this.context.after(abandonAfterMs, () => this.afterFailure(request));
        return this.leaseRequest(request);
      })
      .then(
        (answer) => this.afterAnswer(request, answer),
        (error: unknown) => this.afterFailure(request, error),
      )
      .finally(() => cancel());
  }

  /** Made when the request is sent, because by then more calls may wait, or a new period may have begun. */
  private leaseRequest(request: LeaseRequest): Omit<BudgetHoldRequest, "holder" | "ttlMs"> {
    this.update(this.limit);
    const { budget, ownerId, models, exceptModels, selectorText: selector, limitNanos } = this.limit;
    const [first] = this.waiting;
    // Two processes that are short must not each keep a part that would be enough for one.
    if (this.shortSinceMs !== null) returnFree(this.lease);
    const back = this.shortSinceMs !== null ? takeReturned(this.lease) : 0;
    const has = freeNanos(this.lease);
    const need = Math.max(1, first === undefined ? 1 : first.nanos - has);
    const processes = this.context.processes();
    // Before the first answer it is not known what is left, so the first chunk is small.
    const chunk = leaseSize(need, this.remaining(), processes, this.spentNanos === null ? need * firstCalls : undefined);
    request.lease = this.lease;
    request.need = need;
    request.sent = this.readClock();
    const waiting = Math.min(Math.max(0, this.waitingNanos - has), limitNanos);
    request.wish = Math.min(Math.max(chunk, waiting), Math.max(need, limitNanos));
    request.sharers = processes > 1 ? sharersOf(processes) : 1;
    request.forCalls = first !== undefined;
    // Other processes are asked to return money once for each call.
    const recall = request.forCalls && this.shortSinceMs === null;
    const { wish, sharers } = request;
    const what = { budget, ownerId, models, exceptModels, selector, limitNanos };
    return { ...what, sinceMs: this.sinceMs, need, wish, waiting, sharers, recall, back };
  }

  private afterAnswer(request: LeaseRequest, answer: BudgetHoldResult): void {
    // The request was abandoned. If the store granted it, the next renewal returns the money.
    if (request !== this.request) return;
    this.request = null;
    this.pendingSinceMs = null;
    this.isFailing = false;
    this.update(this.limit);
    if (request.lease === this.lease) {
      this.spentNanos = answer.spentNanos;
      this.refusal = null;
      if (answer.ok) {
        addGranted(this.lease, answer.nanos);
        this.until = this.spendableFrom(request.sent);
        this.hasExpired = false;
        this.chunkNanos = answer.nanos;
        this.shortSinceMs = null;
        const largest = Math.max(this.largestNanos, this.largestBefore, request.need);
        this.noteNearEnd(request.sharers > 1 && answer.leftNanos < largest * request.sharers);
      } else if (this.afterRefusal(request, answer)) return;
    }
    this.serveWaiting();
  }

  /** Whether calls wait for what other processes may still return. */
  private afterRefusal({ forCalls, need, sharers }: LeaseRequest, answer: BudgetHoldResult & { readonly ok: false }): boolean {
    const nowMs = this.context.nowMs();
    const { heldNanos, ownNanos, others, awaited } = answer;
    this.held = { heldNanos, ownNanos, others };
    this.noteNearEnd(sharers > 1);
    // For a request in advance, other processes are not asked to return anything.
    if (!forCalls) {
      this.refillAfterMs = nowMs + refillPauseMs;
      return false;
    }
    this.shortSinceMs ??= nowMs;
    if (awaited > 0 && nowMs - this.shortSinceMs < returnMs) {
      for (const waiter of this.waiting) this.serveFromFree(waiter);
      if (this.waiting.size > 0) this.requestAfter(returnLookMs);
      else this.shortSinceMs = null;
      return true;
    }
    this.shortSinceMs = null;
    this.refusal = { untilMs: nowMs + refusalMs, missing: need };
    return false;
  }

  /** The request failed. It is repeated as long as calls wait; those for which the lease is enough are served. */
  private afterFailure(request: LeaseRequest, error?: unknown): void {
    if (request !== this.request) return;
    this.request = null;
    this.isFailing = !(error instanceof StorageError && error.isBusy);
    this.update(this.limit);
    const nowMs = this.context.nowMs();
    this.lateGrantUntilMs = nowMs + lateGrantMs;
    this.refillAfterMs = nowMs + refillPauseMs;
    this.shortSinceMs = null;
    // Those who have waited for longer than a failing store is worth are refused.
    for (const waiter of this.waiting) if (!this.serveFromFree(waiter) && nowMs >= this.untilOf(waiter)) this.afterDeadline(waiter);
    if (this.waiting.size === 0) {
      this.pendingSinceMs = null;
      return;
    }
    this.requestAfter(retryMs);
  }

  private requestAfter(ms: number): void {
    this.endPause = this.context.after(ms, () => {
      this.endPause = null;
      if (this.waiting.size > 0) this.requestLease();
      else this.shortSinceMs = null;
    });
  }

  private serveFromFree(waiter: BudgetWaiter): boolean {
    if (freeNanos(this.lease) < waiter.nanos) return false;
    this.leave(waiter, this.reserveNow(waiter.nanos));
    return true;
  }

  private serveWaiting(): void {
    for (const waiter of this.waiting) {
      if (this.serveFromFree(waiter)) continue;
      if (this.isRefused(waiter.nanos, this.context.nowMs())) this.leave(waiter, this.refused("spent"));
      else {
        this.requestLease();
        return;
      }
    }
  }

  private waitOn(waiter: BudgetWaiter, nowMs: number): void {
    // At the shorter deadline money that is free is looked at, and whether the store fails.
    const dueMs = Math.min(this.untilOf(waiter), Math.max(waiter.sinceMs, nowMs) + this.context.deadlineMs);
    waiter.cancel = this.context.after(Math.max(0, dueMs - nowMs), () => this.afterDeadline(waiter));
  }

  private untilOf({ sinceMs }: BudgetWaiter): number {
    return sinceMs + this.longestWaitMs;
  }

  private afterDeadline(waiter: BudgetWaiter): void {
    this.update(this.limit);
    if (this.serveFromFree(waiter)) return;
    // The store answers, but too little is left, and other processes have not returned enough.
    if (this.shortSinceMs !== null && !this.isLate()) {
      this.leave(waiter, this.refused("spent"));
      return;
    }
    const nowMs = this.context.nowMs();
    if (nowMs < this.untilOf(waiter)) return this.waitOn(waiter, nowMs);
    this.unavailableUntilMs = nowMs + unavailableMs;
    this.leave(waiter, this.refused("unavailable"));
    if (this.waiting.size > 0 || this.endPause === null) return;
    this.endPause();
    this.endPause = null;
    this.pendingSinceMs = null;
  }

  private leave(waiter: BudgetWaiter, answer: ReservedPeriod | BudgetRefused): void {
    this.waiting.delete(waiter);
    this.waitingNanos -= waiter.nanos;
    waiter.cancel();
    waiter.resolve(answer);
  }
}

class LeasedPeriod implements ReservedPeriod {
  readonly ok = true;

  constructor(
    private readonly budget: LeasedBudget,
    private readonly lease: BudgetLease,
  ) {}

  settle(reservedNanos: number, costNanos: number | null): void {
    const reserved = wholeNanos(reservedNanos, 0);
    settle(this.lease, reserved, costNanos === null ? 0 : wholeNanos(costNanos, reserved));
    this.budget.settled(this.lease);
  }
}

/** Makes a whole amount of a figure that may be wrong. What is not a number becomes `otherwise`. */
export function wholeNanos(figure: number, otherwise: number): number {
  if (!(figure >= 0)) return otherwise;
  return Math.min(Math.ceil(figure), nanosMax);
}

interface BudgetWaiter {
  readonly nanos: number;
  readonly sinceMs: number;
  readonly resolve: (answer: ReservedPeriod | BudgetRefused) => void;
  cancel: () => void;
}

interface LeaseRequest {
  lease: BudgetLease;
  need: number;
  wish: number;
  sharers: number;
  /** Calls wait for it. */
  forCalls: boolean;
  sent: ClockReading;
}

/** A time on the monotonic clock and on the wall clock. */
export interface ClockReading {
  readonly nowMs: number;
  readonly wallMs: number;
}

const never: ClockReading = { nowMs: Infinity, wallMs: Infinity };

function sameTexts(some: readonly string[], others: readonly string[]): boolean {
  return some === others || (some.length === others.length && some.every((text, at) => text === others[at]));
}

interface RecentRefusal {
  readonly untilMs: number;
  readonly missing: number;
}

/** A sum of tens of these is still an exact number. */
const nanosMax = 1e14;
const waitingMax = 10_000;
/** The first chunk is enough for about this many calls like the first one. */
const firstCalls = 16;
/** When less than a fourth of a chunk is left, the next one is requested. */
const refillShare = 4;
/** After a refusal, calls that need as much are refused without asking, so that a spent budget is no load on the store. */
const refusalMs = 1_000;
const refillPauseMs = 1_000;
const retryMs = 100;
/** How long a call waits for money of other processes, and how often it asks. They check every half a second. */
const returnMs = 1_500;
const returnLookMs = 150;
/** After calls have waited in vain, further ones are refused at once for a while. */
const unavailableMs = 1_000;
/** Longer than any deadline of the store. */
const abandonAfterMs = 30_000;
/**
 * A server that was frozen may still grant a request for this long. The budget is not forgotten before that, because otherwise
 * the money would not be returned until the hold expires.
 */
const lateGrantMs = 60_000;
const setBackMs = 60_000;
const idleMs = 60_000;
const forgetAfterMs = 600_000;
const quietAfterMs = 1_000;
/** What stays of idle money is enough for this many calls like the largest one lately. */
const staysFactor = 2;
/** A receipt is written a moment after its cost is settled here. */
const drainMarginMs = 5_000;
