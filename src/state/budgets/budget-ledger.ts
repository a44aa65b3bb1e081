import type { BudgetHoldResult, BudgetHoldRequest, BudgetStorage, HoldRenewal } from "../../gateway/storage.ts";
import {
  LeasedBudget,
  wholeNanos,
  type LeasedBudgetContext,
  type BudgetLimit,
  type BudgetRefused,
  type ReservedPeriod,
  type ClockReading,
} from "./leased-budget.ts";

export interface LedgerOptions {
  readonly storage: Pick<BudgetStorage, "hold" | "renew" | "wanted">;
  /** Names this process in the store. */
  readonly holder: string;
  /** The monotonic clock, and the wall clock. */
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** How many processes share the store; absent: there are no others. */
  readonly processes?: () => number;
  /** The longest wait of a call for a store that fails. */
  readonly deadlineMs?: number;
  /** The longest wait of a call for a store that does not answer; absent: the same. */
  readonly silenceMs?: number | undefined;
  /** What was settled before this time has reached the store as receipts; absent: a minute is assumed to be enough. */
  readonly drainedMs?: () => number;
  /** The most budgets in memory. */
  readonly budgetsMax?: number;
}

/**
 * The money that this process leases from budgets. The store is the authority: it grants chunks, and is told regularly what is
 * still needed. A budget never fails open: without leased money and without the store, calls are refused.
 */
export class BudgetLedger {
  private readonly budgets = new Map<string, LeasedBudget>();
  private readonly context: LeasedBudgetContext;
  private readonly drainedMs: () => number;
  private readonly budgetsMax: number;
  private readonly clock = { nowMs: 0, wallMs: 0 };
  /** No money is requested during a renewal, because the renewal could undo the grant. */
  private renewing: Promise<void> | null = null;
  private readonly holding = new Set<Promise<unknown>>();
  private renewedMs = Number.NEGATIVE_INFINITY;
  private stopped = false;
  private cancelRenewal: () => void;
  private cancelCheck: () => void = nothing;
  /** Budgets of which so little is left that other processes may need what is idle here. */
  private readonly nearEnd = new Set<string>();

  constructor(private readonly options: LedgerOptions) {
    const { nowMs, wallMs, after, deadlineMs = 2_000 } = options;
    this.drainedMs = options.drainedMs ?? (() => nowMs() - drainedAfterMs);
    this.budgetsMax = options.budgetsMax ?? 50_000;
    this.context = {
      nowMs,
      wallMs,
      after,
      processes: options.processes ?? (() => 1),
      deadlineMs,
      silenceMs: options.silenceMs ?? deadlineMs,
      spendableMs: ttlMs - ttlMarginMs,
      hold: (makeRequest) => this.hold(makeRequest),
      returnSoon: () => void this.renew(),
      nearEnd: (budget, isNear) => void (isNear ? this.nearEnd.add(budget) : this.nearEnd.delete(budget)),
    };
    this.cancelRenewal = after(renewEveryMs, () => this.tick());
    if (options.processes !== undefined) this.checkLater();
  }

  /** Reserves money: at once if the lease has enough, otherwise after a request to the store. */
  reserve(
    limit: BudgetLimit,
    nanos: number,
    now: ClockReading = this.readClock(),
  ): ReservedPeriod | BudgetRefused | Promise<ReservedPeriod | BudgetRefused> {
    if (this.stopped) return unavailable;
    let leased = this.budgets.get(limit.budget);
    if (leased === undefined) {
      if (this.budgets.size >= this.budgetsMax) {
        this.makeRoom();
        return unavailable;
      }
      this.budgets.set(limit.budget, (leased = new LeasedBudget(this.context, limit)));
    }
    return leased.reserve(limit, wholeNanos(nanos, 0), now);
  }

  /** Read once for all budgets of a call, and valid until it is read again. */
  readClock(): ClockReading {
    this.clock.nowMs = this.context.nowMs();
    this.clock.wallMs = this.context.wallMs();
    return this.clock;
  }

  /** Tells the store what is still needed, which returns the rest, and forgets budgets that were not used for long. */
  renew(): Promise<void> {
    return this.renewInTurn(() => this.renewAll());
  }

  /** Admits no more calls and returns all money except for running calls and for receipts that are not drained. */
  async stop(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    this.cancelRenewal();
    this.cancelCheck();
    for (const leased of this.budgets.values()) leased.stop();
    // Money that is being requested would otherwise not be returned.
    await this.withinDeadline(Promise.all([...this.holding, this.renewing]));
    for (const leased of this.budgets.values()) leased.stop();
    await this.withinDeadline(this.renew());
  }

  /** What is leased of a budget. For tests. */
  figures(budget: string): LeasedBudget["figures"] | null {
    return this.budgets.get(budget)?.figures ?? null;
  }

  get size(): number {
    return this.budgets.size;
  }

  private tick(): void {
    void this.renew();
    this.cancelRenewal = this.options.after(renewEveryMs, () => this.tick());
  }

  private renewInTurn(send: () => Promise<void>): Promise<void> {
    this.renewing ??= send().finally(() => (this.renewing = null));
    return this.renewing;
  }

  private checkLater(): void {
    this.cancelCheck = this.options.after(checkEveryMs, () => void this.returnWanted().finally(() => this.stopped || this.checkLater()));
  }

  /** Returns idle money of budgets that other processes are short of. */
  private async returnWanted(): Promise<void> {
    if (this.budgets.size === 0) return;
    const wanted = new Set(await this.options.storage.wanted(this.options.holder).catch(() => []));
    for (const budget of this.nearEnd) if (this.budgets.get(budget)?.isIdle() === true) wanted.add(budget);
    if (wanted.size === 0 || this.stopped) return;
    while (this.renewing !== null) await this.renewing;
    await this.renewInTurn(() => this.returnMoney(wanted));
  }

  private async returnMoney(wanted: ReadonlySet<string>): Promise<void> {
    const drainedMs = this.drainedMs();
    const renewals: HoldRenewal[] = [];
    for (const budget of wanted) {
      const hold = this.budgets.get(budget)?.toReturn(drainedMs) ?? null;
      if (hold !== null) renewals.push(hold);
    }
    if (renewals.length > 0) await this.sendRenewals(renewals);
  }

  /** Not too often, because many calls at once may find no room. */
  private makeRoom(): void {
    if (this.context.nowMs() - this.renewedMs >= renewAgainAfterMs) void this.renew();
  }

  private hold(makeRequest: () => Omit<BudgetHoldRequest, "holder" | "ttlMs">): Promise<BudgetHoldResult> {
    const answer = this.holdAfterRenewal(makeRequest);
    const over = answer.then(nothing, nothing).finally(() => this.holding.delete(over));
    this.holding.add(over);
    return answer;
  }

  private async holdAfterRenewal(makeRequest: () => Omit<BudgetHoldRequest, "holder" | "ttlMs">): Promise<BudgetHoldResult> {
    while (this.renewing !== null) await this.renewing;
    return this.options.storage.hold({ ...makeRequest(), holder: this.options.holder, ttlMs });
  }

  private async withinDeadline(what: Promise<unknown>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.context.after(this.context.deadlineMs, resolve);
    await Promise.race([what, promise]);
    cancel();
  }

  private async renewAll(): Promise<void> {
    this.renewedMs = this.context.nowMs();
    const needRoom = this.budgets.size >= this.budgetsMax / 2;
    const drainedMs = this.drainedMs();
    const renewals: HoldRenewal[] = [];
    for (const leased of this.budgets.values()) renewals.push(leased.renewal(drainedMs, needRoom));
    if (renewals.length === 0) return;
    const sent = { nowMs: this.context.nowMs(), wallMs: this.context.wallMs() };
    if (!(await this.sendRenewals(renewals))) return;
    for (const { budget, nanos } of renewals) {
      const leased = this.budgets.get(budget);
      if (nanos === 0 && leased?.isForgettable(sent.nowMs) === true) {
        this.budgets.delete(budget);
        this.nearEnd.delete(budget);
      } else leased?.renewed(sent);
    }
  }

  /** Sends the renewals; false if the store failed or did not answer. */
  private sendRenewals(renewals: readonly HoldRenewal[]): Promise<boolean> {
    return new Promise((resolve) => {
      const giveUp = this.context.after(abandonAfterMs, () => resolve(false));
      void this.options.storage
        .renew(this.options.holder, renewals, ttlMs)
        .then(
          () => resolve(true),
          () => resolve(false),
        )
        .finally(giveUp);
    });
  }
}

const unavailable: BudgetRefused = { ok: false, why: "unavailable", spentNanos: null, held: null };
const renewEveryMs = 15_000;
/** How often this process checks whether others are short of money. Their calls wait three times as long. */
const checkEveryMs = 500;
/** A hold outlives its process by this long, so that its receipts can be counted first. */
const ttlMs = 600_000;
/**
 * Money is not spent in the last part of a hold's lifetime: a request to the store may take this long, and the clocks may differ
 * a little.
 */
const ttlMarginMs = 60_000;
const drainedAfterMs = 60_000;
const abandonAfterMs = 30_000;
const renewAgainAfterMs = 1_000;
const nothing = (): void => {};
