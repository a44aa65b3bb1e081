import type { BudgetHoldResult, BudgetHoldRequest, HeldMoney, HoldRenewal } from "../../gateway/storage.ts";
import type { BudgetPeriod } from "../../limits/limits.ts";
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

/** A budget as calls come with it. */
export interface BudgetLimit {
  /** What it belongs to: a key's id, or a key's id and a pattern of models. */
  readonly budget: string;
  readonly keyId: string;
  readonly models: string | null;
  /** Patterns of the key's earlier rules: models that fit them do not count here. */
  readonly exceptModels: readonly string[];
  readonly limitNanos: number;
  readonly period: BudgetPeriod;
}

/** Money set aside for a call. Whoever holds it settles it exactly once. */
export interface BudgetReservation {
  readonly ok: true;
  /** Puts what it cost in the place of what was reserved; null: it cost nothing. */
  settle(truthNanos: number | null): void;
}

/** `spent`: the budget leaves no room, or only what calls under way may still need; `unavailable`: the store cannot be asked. */
export interface BudgetRefused {
  readonly ok: false;
  readonly why: "spent" | "unavailable";
  /** What is known to be spent in the period; null where nothing is known. */
  readonly spentNanos: number | null;
  /** What is held of it by this process and by others, when the store last said no; null where that is not known. */
  readonly held: HeldMoney | null;
}

/** What an account needs of the ledger it belongs to. */
export interface BudgetAccountContext {
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  readonly processes: () => number;
  readonly deadlineMs: number;
  /** How long what the store granted or prolonged may be spent, from the moment it was asked to. */
  readonly spendableMs: number;
  /** Asks the store as soon as it may be asked. */
  hold(ask: () => Omit<BudgetHoldRequest, "holder" | "ttlMs">): Promise<BudgetHoldResult>;
  /** Some money is to be given back at once. */
  giveBackSoon(): void;
  /** So little is left of a budget that what is not needed here goes back at the next look; or that is over. */
  nearEnd(budget: string, isNear: boolean): void;
}

/**
 * One budget in this process. Money comes from the store in chunks; while there is enough of it here, calls are answered
 * at once. Otherwise they wait, in order, for the one request that is under way.
 */
export class BudgetAccount {
  private lease: BudgetLease = newBudgetLease();
  /** Until when the store surely holds what is held here. */
  private until: ClockReading = never;
  /** That moment has passed, and nothing was granted since. */
  private isLost = false;
  private sinceMs = Number.NaN;
  private endMs = Number.NaN;
  private readonly waiting = new Set<BudgetWaiter>();
  private waitingNanos = 0;
  private request: LeaseRequest | null = null;
  /** Takes back the pause before the next request after one that failed. */
  private endPause: (() => void) | null = null;
  /** Since when the store has owed an answer. */
  private owedSinceMs: number | null = null;
  private refusal: RecentRefusal | null = null;
  /** Since when others have been asked to return what they do not need. */
  private shortSinceMs: number | null = null;
  /** So little is left that what is held beyond the need of a call would be missed elsewhere. */
  private isNearEnd = false;
  private held: HeldMoney | null = null;
  private brokenUntilMs = 0;
  /** Until when the store may still grant what was asked of it without an answer. */
  private doubtUntilMs = Number.NEGATIVE_INFINITY;
  private refillAfterMs = 0;
  private spentNanos: number | null = null;
  private chunkNanos = 0;
  /** Since the last look at what is kept, whose time is then taken for that of the use. */
  private used = true;
  /** The same since the last look at what is near its end. */
  private usedOfLate = true;
  private usedMs: number;
  /** The largest reservation since the last look at what lies idle, and before it. */
  private largestNanos = 0;
  private largestBefore = 0;
  private idleSinceMs: number;
  private drainSinceMs: number;

  constructor(
    private readonly context: BudgetAccountContext,
    private line: BudgetLimit,
  ) {
    this.usedMs = this.idleSinceMs = this.drainSinceMs = context.nowMs();
  }

  reserve(line: BudgetLimit, nanos: number): BudgetReservation | BudgetRefused | Promise<BudgetReservation | BudgetRefused> {
    this.turnTo(line);
    // What costs nothing needs nothing.
    if (nanos === 0) return this.reservation(0);
    if (freeNanos(this.lease) >= nanos && (this.waiting.size === 0 || this.shortSinceMs !== null || this.isOwed())) {
      const reservation = this.reservation(nanos);
      if (freeNanos(this.lease) < this.chunkNanos / refillShare) this.refill();
      return reservation;
    }
    const nowMs = this.context.nowMs();
    if (nanos > line.limitNanos || this.isRefused(nanos, nowMs)) return this.refused("spent");
    if (this.isOwed() || nowMs < this.brokenUntilMs || this.waiting.size >= waitingMax) return this.refused("unavailable");
    return new Promise((resolve) => {
      const waiter: BudgetWaiter = { nanos, resolve, cancel: () => {} };
      this.waiting.add(waiter);
      this.waitingNanos += nanos;
      waiter.cancel = this.context.after(this.context.deadlineMs, () => this.waitedLongEnough(waiter));
      this.ask();
    });
  }

  /** Some money came free. */
  settled(lease: BudgetLease): void {
    if (this.waiting.size === 0) return;
    this.turnTo(this.line);
    if (lease === this.lease) this.serveWaiting();
  }

  /** What the store is to keep, after idle money was put aside; everything is idle when there is need for room. */
  toKeep(drainedMs: number, needRoom: boolean): HoldRenewal {
    const nowMs = this.context.nowMs();
    this.turnTo(this.line);
    this.noteDrained(drainedMs, nowMs);
    if (this.used) this.usedMs = nowMs;
    this.used = false;
    const quietMs = nowMs - this.usedMs;
    if (quietMs > forgetAfterMs || (needRoom && quietMs > pressedAfterMs)) returnFree(this.lease);
    else if (nowMs - this.idleSinceMs >= idleMs) {
      returnIdle(this.lease, staysFactor * Math.max(this.largestNanos, this.largestBefore));
      this.idleSinceMs = nowMs;
      if (this.largestNanos > 0) this.largestBefore = this.largestNanos;
      this.largestNanos = 0;
    }
    return this.kept();
  }

  /** The same, after all was put aside that no call here needs: others are short of it, or soon will be. Null: calls wait for it here. */
  toReturn(drainedMs: number): HoldRenewal | null {
    this.turnTo(this.line);
    if (this.waiting.size > 0 && this.shortSinceMs === null) return null;
    this.noteDrained(drainedMs, this.context.nowMs());
    returnFree(this.lease);
    this.chunkNanos = 0;
    return { ...this.kept(), answers: true };
  }

  /** Whether money lies here that nobody has needed since the last such look. */
  liesIdle(): boolean {
    const quiet = !this.usedOfLate;
    this.usedOfLate = false;
    return quiet && freeNanos(this.lease) > 0;
  }

  /** The store has prolonged what it holds, which was asked of it at that moment. */
  prolonged(sent: ClockReading): void {
    if (!this.isLost && this.until !== never) this.until = this.spendableFrom(sent);
  }

  /** Nothing here would be missed, and the store was told so at a moment when nothing more could come from it. */
  isForgettable(toldMs: number): boolean {
    const { balance, reserved } = this.lease;
    if (toldMs < this.doubtUntilMs) return false;
    return balance === 0 && reserved === 0 && storedMax(this.lease) === 0 && this.waiting.size === 0 && this.request === null;
  }

  /** No call is let in any more, and all that is free goes back. */
  stop(): void {
    this.endPause?.();
    this.endPause = null;
    for (const waiter of this.waiting) this.leave(waiter, this.refused("unavailable"));
    returnFree(this.lease);
  }

  /** What the process holds here, what of it is free, and what the store still owes. For tests and for people. */
  get figures(): { readonly heldNanos: number; readonly freeNanos: number; readonly asking: boolean } {
    return { heldNanos: this.lease.balance, freeNanos: freeNanos(this.lease), asking: this.request !== null };
  }

  /** Notices a new period, and what somebody changed about the budget. */
  private turnTo(line: BudgetLimit): void {
    const before = this.line;
    const wallMs = this.context.wallMs();
    // The store counts the life of a hold on one of these clocks, and either may stand still or jump.
    if (wallMs >= this.until.wallMs || this.context.nowMs() >= this.until.nowMs) this.lose();
    if (line === before && wallMs >= this.sinceMs && wallMs < this.endMs) return;
    this.line = line;
    // A clock that is set back a little at the turn of a period does not bring the old one back.
    const inPeriod = wallMs >= this.sinceMs - setBackMs && wallMs < this.endMs;
    if (!inPeriod || line.period !== before.period) this.beginPeriod(wallMs);
    const isForOthers = !sameTexts(line.exceptModels, before.exceptModels);
    if (line.limitNanos === before.limitNanos && !isForOthers) return;
    this.refusal = null;
    // What is spent by other models than before is not known yet.
    if (isForOthers) this.spentNanos = null;
    if (isForOthers || line.limitNanos < before.limitNanos) {
      returnFree(this.lease);
      this.context.giveBackSoon();
    }
  }

  /** The store may have given to others what was held here, because it has not heard of this process for so long. */
  private lose(): void {
    markLost(this.lease);
    this.until = never;
    this.isLost = true;
  }

  private spendableFrom({ nowMs, wallMs }: ClockReading): ClockReading {
    const { spendableMs } = this.context;
    return { nowMs: nowMs + spendableMs, wallMs: wallMs + spendableMs };
  }

  /** What was held for the period before is no longer of use. What its calls cost is not taken from the new one. */
  private beginPeriod(wallMs: number): void {
    const sinceMs = periodStartMs(this.line.period, wallMs);
    this.endMs = periodEndMs(this.line.period, wallMs);
    if (sinceMs === this.sinceMs) return;
    this.sinceMs = sinceMs;
    this.lease = newBudgetLease();
    this.until = never;
    this.isLost = false;
    this.spentNanos = null;
    this.refusal = null;
    this.held = null;
    this.setNearEnd(false);
  }

  private setNearEnd(isNear: boolean): void {
    if (isNear === this.isNearEnd) return;
    this.isNearEnd = isNear;
    this.context.nearEnd(this.line.budget, isNear);
  }

  private reservation(nanos: number): BudgetReservation {
    reserve(this.lease, nanos);
    if (nanos > 0) this.used = this.usedOfLate = true;
    if (nanos > this.largestNanos) this.largestNanos = nanos;
    return new OpenBudgetReservation(this, this.lease, nanos);
  }

  private refused(why: BudgetRefused["why"]): BudgetRefused {
    return { ok: false, why, spentNanos: this.spentNanos, held: why === "spent" ? this.held : null };
  }

  private kept(): HoldRenewal {
    const most = this.isLost ? storedMaxAfterLoss(this.lease) : storedMax(this.lease);
    return { budget: this.line.budget, nanos: most + (this.request?.wish ?? 0), back: takeReturned(this.lease) };
  }

  private noteDrained(drainedMs: number, nowMs: number): void {
    if (drainedMs < this.drainSinceMs + drainMarginMs) return;
    noteDrained(this.lease);
    this.drainSinceMs = nowMs;
  }

  /** The store has not answered for longer than anybody waits. */
  private isOwed(): boolean {
    return this.owedSinceMs !== null && this.context.nowMs() - this.owedSinceMs > this.context.deadlineMs;
  }

  /** The store said a moment ago that it has not even that much. */
  private isRefused(nanos: number, nowMs: number): boolean {
    return this.refusal !== null && nowMs < this.refusal.untilMs && nanos - freeNanos(this.lease) >= this.refusal.missing;
  }

  /** Asks early, so that calls need not wait; not where there cannot be any more. */
  private refill(): void {
    if (this.request !== null || this.endPause !== null || this.isNearEnd) return;
    const nowMs = this.context.nowMs();
    if (nowMs < this.refillAfterMs || (this.refusal !== null && nowMs < this.refusal.untilMs) || this.remaining() <= 0) return;
    this.ask();
  }

  /** What the budget leaves, as far as this process knows: others may hold some of it. */
  private remaining(): number {
    return this.line.limitNanos - (this.spentNanos ?? 0) - Math.max(0, this.lease.balance);
  }

  private ask(): void {
    if (this.request !== null || this.endPause !== null) return;
    const request: LeaseRequest = { lease: this.lease, need: 0, wish: 0, sharers: 1, forCalls: false, sent: never };
    this.request = request;
    this.owedSinceMs ??= this.context.nowMs();
    let cancel = (): void => {};
    void this.context
      .hold(() => {
        // From now on, not from before the wait for a turn: a request that was given up in that wait would still be sent.
        cancel = this.context.after(abandonAfterMs, () => this.troubled(request));
        return this.asked(request);
      })
      .then(
        (answer) => this.answered(request, answer),
        () => this.troubled(request),
      )
      .finally(() => cancel());
  }

  /** Fixed at the moment of asking, not before: by then more may wait, or the period may be another. */
  private asked(request: LeaseRequest): Omit<BudgetHoldRequest, "holder" | "ttlMs"> {
    this.turnTo(this.line);
    const { budget, keyId, models, exceptModels, limitNanos } = this.line;
    const [first] = this.waiting;
    // Two that are short must not each keep a part of what would do for one.
    if (this.shortSinceMs !== null) returnFree(this.lease);
    const back = this.shortSinceMs !== null ? takeReturned(this.lease) : 0;
    const has = freeNanos(this.lease);
    const need = Math.max(1, first === undefined ? 1 : first.nanos - has);
    const processes = this.context.processes();
    // Before the first answer nobody knows what is left, so the first chunk is a small one.
    const chunk = leaseSize(need, this.remaining(), processes, this.spentNanos === null ? need * firstCalls : undefined);
    request.lease = this.lease;
    request.need = need;
    request.sent = { nowMs: this.context.nowMs(), wallMs: this.context.wallMs() };
    const waiting = Math.min(Math.max(0, this.waitingNanos - has), limitNanos);
    request.wish = Math.min(Math.max(chunk, waiting), Math.max(need, limitNanos));
    request.sharers = processes > 1 ? sharersOf(processes) : 1;
    request.forCalls = first !== undefined;
    // Those who have answered already are not asked a second time for the same call.
    const recall = request.forCalls && this.shortSinceMs === null;
    const { wish, sharers } = request;
    return { budget, keyId, models, exceptModels, limitNanos, sinceMs: this.sinceMs, need, wish, waiting, sharers, recall, back };
  }

  private answered(request: LeaseRequest, answer: BudgetHoldResult): void {
    // It was given up. Should the store have granted it, the next look at what is kept gives it back.
    if (request !== this.request) return;
    this.request = null;
    this.owedSinceMs = null;
    this.turnTo(this.line);
    if (request.lease === this.lease) {
      this.spentNanos = answer.spentNanos;
      this.refusal = null;
      if (answer.ok) {
        addGranted(this.lease, answer.nanos);
        this.until = this.spendableFrom(request.sent);
        this.isLost = false;
        this.chunkNanos = answer.nanos;
        this.shortSinceMs = null;
        const largest = Math.max(this.largestNanos, this.largestBefore, request.need);
        this.setNearEnd(request.sharers > 1 && answer.leftNanos < largest * request.sharers);
      } else if (this.saidNo(request, answer)) return;
    }
    this.serveWaiting();
  }

  /** Whether others may still return something, which is waited for. */
  private saidNo({ forCalls, need, sharers }: LeaseRequest, answer: BudgetHoldResult & { readonly ok: false }): boolean {
    const nowMs = this.context.nowMs();
    const { heldNanos, ownNanos, others, awaited } = answer;
    this.held = { heldNanos, ownNanos, others };
    this.setNearEnd(sharers > 1);
    // Nobody was asked to return anything for what was to be there early.
    if (!forCalls) {
      this.refillAfterMs = nowMs + refillPauseMs;
      return false;
    }
    this.shortSinceMs ??= nowMs;
    if (awaited > 0 && nowMs - this.shortSinceMs < returnMs) {
      for (const waiter of this.waiting) this.serveFromFree(waiter);
      if (this.waiting.size > 0) this.askAfter(returnLookMs);
      else this.shortSinceMs = null;
      return true;
    }
    this.shortSinceMs = null;
    this.refusal = { untilMs: nowMs + refusalMs, missing: need };
    return false;
  }

  /** Asks again for as long as somebody waits for it. Money that is here serves those it is enough for. */
  private troubled(request: LeaseRequest): void {
    if (request !== this.request) return;
    this.request = null;
    this.turnTo(this.line);
    const nowMs = this.context.nowMs();
    this.doubtUntilMs = nowMs + doubtMs;
    this.refillAfterMs = nowMs + refillPauseMs;
    this.shortSinceMs = null;
    for (const waiter of this.waiting) this.serveFromFree(waiter);
    if (this.waiting.size === 0) {
      this.owedSinceMs = null;
      return;
    }
    this.askAfter(retryMs);
  }

  private askAfter(ms: number): void {
    this.endPause = this.context.after(ms, () => {
      this.endPause = null;
      if (this.waiting.size > 0) this.ask();
      else this.shortSinceMs = null;
    });
  }

  private serveFromFree(waiter: BudgetWaiter): boolean {
    if (freeNanos(this.lease) < waiter.nanos) return false;
    this.leave(waiter, this.reservation(waiter.nanos));
    return true;
  }

  private serveWaiting(): void {
    for (const waiter of this.waiting) {
      if (this.serveFromFree(waiter)) continue;
      if (this.isRefused(waiter.nanos, this.context.nowMs())) this.leave(waiter, this.refused("spent"));
      else {
        this.ask();
        return;
      }
    }
  }

  private waitedLongEnough(waiter: BudgetWaiter): void {
    this.turnTo(this.line);
    if (this.serveFromFree(waiter)) return;
    // The store does answer: there is too little, and what others do not need has not come.
    if (this.shortSinceMs !== null && !this.isOwed()) {
      this.leave(waiter, this.refused("spent"));
      return;
    }
    this.brokenUntilMs = this.context.nowMs() + brokenMs;
    this.leave(waiter, this.refused("unavailable"));
    if (this.waiting.size > 0 || this.endPause === null) return;
    this.endPause();
    this.endPause = null;
    this.owedSinceMs = null;
  }

  private leave(waiter: BudgetWaiter, answer: BudgetReservation | BudgetRefused): void {
    this.waiting.delete(waiter);
    this.waitingNanos -= waiter.nanos;
    waiter.cancel();
    waiter.resolve(answer);
  }
}

class OpenBudgetReservation implements BudgetReservation {
  readonly ok = true;
  private open = true;

  constructor(
    private readonly account: BudgetAccount,
    private readonly lease: BudgetLease,
    private readonly nanos: number,
  ) {}

  settle(truthNanos: number | null): void {
    if (!this.open) throw new Error("a reservation was settled twice");
    this.open = false;
    settle(this.lease, this.nanos, truthNanos === null ? 0 : wholeNanos(truthNanos, this.nanos));
    this.account.settled(this.lease);
  }
}

/** Money that can be counted, made of a figure that may be wrong: what is no amount becomes `otherwise`. */
export function wholeNanos(figure: number, otherwise: number): number {
  if (!(figure >= 0)) return otherwise;
  return Math.min(Math.ceil(figure), nanosMax);
}

interface BudgetWaiter {
  readonly nanos: number;
  readonly resolve: (answer: BudgetReservation | BudgetRefused) => void;
  cancel: () => void;
}

interface LeaseRequest {
  lease: BudgetLease;
  need: number;
  wish: number;
  sharers: number;
  /** Somebody waits for it. */
  forCalls: boolean;
  sent: ClockReading;
}

/** On both clocks. */
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

/** Tens of these are still exact. */
const nanosMax = 1e14;
const waitingMax = 10_000;
/** The first chunk is good for about this many calls like the first one. */
const firstCalls = 16;
/** With less than this part of a chunk left, the next one is asked for. */
const refillShare = 4;
/** After a refusal, calls that need as much are refused without asking: a spent budget must not become a load on the store. */
const refusalMs = 1_000;
const refillPauseMs = 1_000;
const retryMs = 100;
/** How long a call waits for what others are to return, and how often it looks. They look every half a second. */
const returnMs = 1_500;
const returnLookMs = 150;
/** After callers have waited in vain, others are told so at once for a while. */
const brokenMs = 1_000;
/** Longer than any deadline of the store's own. */
const abandonAfterMs = 30_000;
/**
 * A request without an answer may still be granted for so long, by a server that was frozen. The budget is not forgotten
 * before that, or nobody would give the money back until its hold expires.
 */
const doubtMs = 60_000;
const setBackMs = 60_000;
const idleMs = 60_000;
const forgetAfterMs = 600_000;
const pressedAfterMs = 1_000;
/** What stays of idle money is enough for this many calls like the largest of late. */
const staysFactor = 2;
/** A call's receipt is written a moment after its cost is settled here. */
const drainMarginMs = 5_000;
