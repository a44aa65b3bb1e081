import type { BudgetHoldResult, BudgetHoldRequest, BudgetStorage, HoldRenewal } from "../../gateway/storage.ts";
import {
  BudgetAccount,
  wholeNanos,
  type BudgetAccountContext,
  type BudgetLimit,
  type BudgetRefused,
  type BudgetReservation,
} from "./budget-account.ts";

export interface LedgerOptions {
  readonly storage: Pick<BudgetStorage, "hold" | "renew" | "wanted">;
  /** Names this process in the store. */
  readonly holder: string;
  /** Milliseconds on a clock that never jumps, and on one that tells the day. */
  readonly nowMs: () => number;
  readonly wallMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** How many processes share the store. Without it, there are no others. */
  readonly processes?: () => number;
  /** How long a call waits for the store at most. */
  readonly deadlineMs?: number;
  /** What was settled before this moment has reached the store as receipts. Without it, a minute is taken to be enough. */
  readonly drainedMs?: () => number;
  /** How many budgets are kept in memory. */
  readonly accountsMax?: number;
}

/**
 * The money that this process holds of its keys' budgets. The store is the authority: it is asked for chunks, told what is
 * still needed, and given back what is not. A budget never fails open: without money held and without the store, calls
 * are refused.
 */
export class BudgetLedger {
  private readonly accounts = new Map<string, BudgetAccount>();
  private readonly context: BudgetAccountContext;
  private readonly drainedMs: () => number;
  private readonly accountsMax: number;
  /** While the store is told what is kept, nothing new is held, or the one could undo the other. */
  private keeping: Promise<void> | null = null;
  private readonly holding = new Set<Promise<unknown>>();
  private keptMs = Number.NEGATIVE_INFINITY;
  private stopped = false;
  private cancelKeep: () => void;
  private cancelLook: () => void = nothing;
  /** Budgets of which so little is left that others will miss what lies idle here. */
  private readonly nearEnd = new Set<string>();

  constructor(private readonly options: LedgerOptions) {
    const { nowMs, wallMs, after } = options;
    this.drainedMs = options.drainedMs ?? (() => nowMs() - drainedAfterMs);
    this.accountsMax = options.accountsMax ?? 50_000;
    this.context = {
      nowMs,
      wallMs,
      after,
      processes: options.processes ?? (() => 1),
      deadlineMs: options.deadlineMs ?? 2_000,
      spendableMs: ttlMs - lifeMarginMs,
      hold: (ask) => this.hold(ask),
      giveBackSoon: () => void this.keep(),
      nearEnd: (budget, isNear) => void (isNear ? this.nearEnd.add(budget) : this.nearEnd.delete(budget)),
    };
    this.cancelKeep = after(keepEveryMs, () => this.tick());
    if (options.processes !== undefined) this.lookLater();
  }

  /** Sets money aside: at once where enough is held, otherwise after a word with the store. */
  reserve(line: BudgetLimit, nanos: number): BudgetReservation | BudgetRefused | Promise<BudgetReservation | BudgetRefused> {
    if (this.stopped) return unavailable;
    let account = this.accounts.get(line.budget);
    if (account === undefined) {
      if (this.accounts.size >= this.accountsMax) {
        this.pressForRoom();
        return unavailable;
      }
      this.accounts.set(line.budget, (account = new BudgetAccount(this.context, line)));
    }
    return account.reserve(line, wholeNanos(nanos, 0));
  }

  /** Tells the store what is still needed, which gives back the rest, and forgets what nobody used for long. */
  keep(): Promise<void> {
    return this.tellInTurn(() => this.keepOnce());
  }

  /** Lets no call in any more and gives everything back, except for what calls under way and undrained receipts account for. */
  async stop(): Promise<void> {
    if (this.stopped) return;
    this.stopped = true;
    this.cancelKeep();
    this.cancelLook();
    for (const account of this.accounts.values()) account.stop();
    // What the store is just being asked for would otherwise be held by nobody.
    await this.inTime(Promise.all([...this.holding, this.keeping]));
    for (const account of this.accounts.values()) account.stop();
    await this.inTime(this.keep());
  }

  /** What is held of a budget; for tests and for people. */
  figures(budget: string): BudgetAccount["figures"] | null {
    return this.accounts.get(budget)?.figures ?? null;
  }

  get size(): number {
    return this.accounts.size;
  }

  private tick(): void {
    void this.keep();
    this.cancelKeep = this.options.after(keepEveryMs, () => this.tick());
  }

  private tellInTurn(tell: () => Promise<void>): Promise<void> {
    this.keeping ??= tell().finally(() => (this.keeping = null));
    return this.keeping;
  }

  private lookLater(): void {
    this.cancelLook = this.options.after(lookEveryMs, () => void this.look().finally(() => this.stopped || this.lookLater()));
  }

  /** Returns what nobody here needs of budgets that others are short of. */
  private async look(): Promise<void> {
    if (this.accounts.size === 0) return;
    const wanted = new Set(await this.options.storage.wanted(this.options.holder).catch(() => []));
    for (const budget of this.nearEnd) if (this.accounts.get(budget)?.liesIdle() === true) wanted.add(budget);
    if (wanted.size === 0 || this.stopped) return;
    while (this.keeping !== null) await this.keeping;
    await this.tellInTurn(() => this.giveBack(wanted));
  }

  private async giveBack(wanted: ReadonlySet<string>): Promise<void> {
    const drainedMs = this.drainedMs();
    const kept: HoldRenewal[] = [];
    for (const budget of wanted) {
      const hold = this.accounts.get(budget)?.toReturn(drainedMs) ?? null;
      if (hold !== null) kept.push(hold);
    }
    if (kept.length > 0) await this.told(kept);
  }

  /** Not more often than every so often, or a flood of calls would have the store told the same thing all the time. */
  private pressForRoom(): void {
    if (this.context.nowMs() - this.keptMs >= keepAgainAfterMs) void this.keep();
  }

  private hold(ask: () => Omit<BudgetHoldRequest, "holder" | "ttlMs">): Promise<BudgetHoldResult> {
    const answer = this.holdInTurn(ask);
    const over = answer.then(nothing, nothing).finally(() => this.holding.delete(over));
    this.holding.add(over);
    return answer;
  }

  private async holdInTurn(ask: () => Omit<BudgetHoldRequest, "holder" | "ttlMs">): Promise<BudgetHoldResult> {
    while (this.keeping !== null) await this.keeping;
    return this.options.storage.hold({ ...ask(), holder: this.options.holder, ttlMs });
  }

  private async inTime(what: Promise<unknown>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.context.after(this.context.deadlineMs, resolve);
    await Promise.race([what, promise]);
    cancel();
  }

  private async keepOnce(): Promise<void> {
    this.keptMs = this.context.nowMs();
    const needRoom = this.accounts.size >= this.accountsMax / 2;
    const drainedMs = this.drainedMs();
    const kept: HoldRenewal[] = [];
    for (const account of this.accounts.values()) kept.push(account.toKeep(drainedMs, needRoom));
    if (kept.length === 0) return;
    const sent = { nowMs: this.context.nowMs(), wallMs: this.context.wallMs() };
    if (!(await this.told(kept))) return;
    for (const { budget, nanos } of kept) {
      const account = this.accounts.get(budget);
      if (nanos === 0 && account?.isForgettable(sent.nowMs) === true) {
        this.accounts.delete(budget);
        this.nearEnd.delete(budget);
      } else account?.prolonged(sent);
    }
  }

  /** Whether the store took note. Should it never answer, it is not waited for. */
  private told(kept: readonly HoldRenewal[]): Promise<boolean> {
    return new Promise((resolve) => {
      const giveUp = this.context.after(abandonAfterMs, () => resolve(false));
      void this.options.storage
        .renew(this.options.holder, kept, ttlMs)
        .then(
          () => resolve(true),
          () => resolve(false),
        )
        .finally(giveUp);
    });
  }
}

const unavailable: BudgetRefused = { ok: false, why: "unavailable", spentNanos: null, held: null };
const keepEveryMs = 15_000;
/** How often this process looks whether others are short of what it holds. A call of theirs waits three times as long for it. */
const lookEveryMs = 500;
/** A hold outlives its process by this, so that its receipts can be counted first. */
const ttlMs = 600_000;
/**
 * A hold is not spent any more so long before its life is over: more than a request to the store may take (or what is prolonged
 * could have ended on the way), and two clocks differ by in that time.
 */
const lifeMarginMs = 60_000;
const drainedAfterMs = 60_000;
const abandonAfterMs = 30_000;
const keepAgainAfterMs = 1_000;
const nothing = (): void => {};
