import { wholeAmount } from "../../limits/minute-window.ts";
import {
  keyIdOf,
  minute,
  slotWaitMs,
  type CountGrant,
  type SlotLease,
  type DistributedCounts,
  type TakeResult,
  type CountRequest,
} from "../../limits/distributed-counts.ts";
import {
  claimsOf,
  ListedReservationRequest,
  RecordedLimitStatuses,
  ReservationRefused,
  slotClaimOf,
  type Claim,
  type LimitStatus,
  type RateLimitStore,
  type Reservation,
  type ReservationRequest,
  type ReservationResult,
  type SlotClaim,
} from "../../limits/rate-limit-store.ts";
import { timerWithLagGrace } from "../lag-grace.ts";
import { givenBack, inHand, isExact, isRefused, newRateLease, partAlone, wishFor, type RateLease } from "./rate-lease.ts";
import { CountCorrections } from "./count-corrections.ts";
import { SlotLeases } from "./slot-leases.ts";
import type { StoreGuard } from "../store-guard.ts";

export interface LeasedRateLimitsOptions {
  readonly counts: DistributedCounts;
  readonly guard: Pick<StoreGuard, "run" | "open" | "stalledMs" | "lostSinceMs">;
  /** Counts what this process admits, and is the limit's judge while the store is lost. */
  readonly local: LocalRateLimitStore;
  /** How many share the limits. */
  readonly processes: () => number;
  /** Which part of every limit belongs to those that have the store; the others have the rest. */
  readonly share?: () => number;
  /** Which part of a limit this process may use without the store's knowledge, beside what it had when that was lost. */
  readonly unseen?: () => number;
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** `split`: this process' part of every limit; `open`: no limit; `closed`: nothing that is limited. */
  readonly onStoreLoss?: StoreLossRule;
  readonly windowMs?: number;
  readonly leaseMs?: number;
  readonly holdMs?: number;
  readonly accountsMax?: number;
}

export type StoreLossRule = "split" | "open" | "closed";

/** A keeper that answers at once. */
export interface LocalRateLimitStore extends RateLimitStore {
  reserve(request: ReservationRequest): ReservationResult;
  /** What was used of a limit within the window, and how many slots ago. */
  usedBySlot(id: string): readonly { readonly ago: number; readonly amount: number }[];
}

/**
 * Limits that several processes share, at the cost of few questions to the store: a busy process takes a lease, a part of the
 * limit that it spends without asking, and gives back what it did not need half a second later. The closer the limit, the
 * smaller the leases, down to one question for each call. Slots are never guessed at: a call that needs one waits until the
 * store has answered, or is surely lost.
 */
export class LeasedRateLimits implements RateLimitStore {
  private readonly accounts = new Map<string, RateLease>();
  /** Those with a lease, in the order in which the leases end. */
  private readonly leased = new Set<RateLease>();
  /** Calls that wait for the store, by key and in order. */
  private readonly lines = new Map<string, WaitingReservation[]>();
  /** Calls that wait for a slot, by limit: there was none, or the store did not answer. They ask again in a moment. */
  private readonly parked = new Map<string, Parked>();
  /** The limits of which somebody asks for a slot: the others wait for it instead of asking too. */
  private readonly askingSlots = new Set<string>();
  /** Since when there has been no slot, for those that wait for what others may return. */
  private readonly fullSinceMs = new Map<string, number>();
  /** Until then nobody uses more than its part: the store has lost what others used, and they may not have told it yet. */
  private cappedUntilMs = Number.NEGATIVE_INFINITY;
  /** The slots that calls have without the store's knowledge, by limit. */
  private readonly unreportedSlots = new Map<string, number>();
  private readonly corrections: CountCorrections;
  private readonly slotLeases: SlotLeases;
  private readonly nowMs: () => number;
  private readonly windowMs: number;
  private readonly accountsMax: number;
  private readonly leaseMs: number;
  private readonly tickMs: number;
  private cancelTimer: (() => void) | null = null;
  private stopped = false;

  constructor(private readonly options: LeasedRateLimitsOptions) {
    const { counts, guard, nowMs } = options;
    this.nowMs = nowMs;
    this.windowMs = options.windowMs ?? minute.slotMs * minute.slots;
    this.accountsMax = options.accountsMax ?? 50_000;
    this.leaseMs = options.leaseMs ?? 500;
    this.tickMs = this.leaseMs / 5;
    this.corrections = new CountCorrections(counts, guard, nowMs, this.windowMs, (id) => this.usedHere(id));
    this.slotLeases = new SlotLeases(counts, guard, nowMs, options.holdMs ?? 30_000, this.tickMs);
  }

  reserve(request: ReservationRequest): ReservationResult | Promise<ReservationResult> {
    const nowMs = this.nowMs();
    const claims = claimsOf(request);
    const slotClaim = slotClaimOf(request);
    const first = claims[0]?.id ?? slotClaim?.id;
    if (first === undefined) return this.options.local.reserve(request);
    const refusal = this.refusal(claims, slotClaim, nowMs);
    if (refusal !== null) return refusal;
    const key = keyIdOf(first);
    const isParked = slotClaim !== null && this.parked.size > 0 && this.parked.has(slotClaim.id);
    if (!isParked && (this.lines.size === 0 || !this.lines.has(key))) {
      const taking = this.atOnce(claims, slotClaim, nowMs);
      if (taking !== null) return taking;
    }
    if (!this.options.guard.open && this.mayGoAlone({ slotClaim, sinceMs: nowMs }, nowMs)) return this.alone(claims, slotClaim);
    const { promise, resolve } = Promise.withResolvers<ReservationResult>();
    const waiter: WaitingReservation = { key, claims, slotClaim, resolve, sinceMs: nowMs };
    if (isParked) this.park(waiter, slotClaim);
    else this.enter([waiter], key);
    return promise;
  }

  /** What others use is not known here. */
  surelyFits(): boolean {
    return false;
  }

  status({ id, limit, amount }: Claim): LimitStatus {
    const nowMs = this.nowMs();
    if (amount > limit) return { ...this.statusOf(id, limit, nowMs), waitMs: Infinity };
    const account = this.accounts.get(id);
    if (isRefused(account, amount, nowMs)) return { ...this.statusOf(id, limit, nowMs), waitMs: Math.max(1, account.roomMs - nowMs) };
    if (!this.options.guard.open && inHand(account, nowMs) < amount) return this.statusAlone({ id, limit, amount }, nowMs);
    const { remaining, resetMs } = this.statusOf(id, limit, nowMs);
    // Others may have given some back since we heard of it, so nobody is turned away for it.
    return { limit, remaining: Math.max(remaining, Math.min(amount, limit)), resetMs, waitMs: 0 };
  }

  slotsTaken(id: string): number {
    return this.options.local.slotsTaken(id);
  }

  /** How many limits are remembered. */
  get accountsKnown(): number {
    return this.accounts.size;
  }

  /**
   * The store has lost its counts. It is told what was used here. Until everybody has told it, each keeps to what it had and its
   * even part of what was left, as if the store were lost.
   */
  emptied(): void {
    const nowMs = this.nowMs();
    this.cappedUntilMs = nowMs + Math.min(this.windowMs, cappedMs);
    for (const account of this.accounts.values()) {
      const isKnown = account.heardMs > nowMs - this.windowMs;
      account.cap = isKnown ? Math.floor(account.own + account.remaining / this.options.processes()) : null;
      account.left = 0;
      this.leased.delete(account);
      this.corrections.retell(account.id, this.options.local.usedBySlot(account.id));
    }
    this.slotLeases.forgotten();
    this.tick();
  }

  /** Gives back all that is held. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
    for (const { waiters, cancel } of this.parked.values()) {
      cancel();
      for (const { claims, slotClaim, resolve } of waiters) resolve(this.refused(claims, slotClaim?.id ?? "", lostWaitMs, this.nowMs()));
    }
    this.parked.clear();
    for (const account of this.leased) this.giveBack(account);
    this.leased.clear();
    await Promise.all([this.corrections.flushAll(), this.slotLeases.releaseAll()]);
  }

  /** The truth about a call is known. For what it took, see `LeasedReservation`. */
  settled(
    claims: readonly Claim[],
    parts: readonly ClaimSources[],
    shadow: Settled,
    slotLease: SlotLease | null,
    amounts: readonly number[],
  ): void {
    const nowMs = this.nowMs();
    for (const [at, claim] of claims.entries()) {
      const claimed = wholeAmount(claim.amount, 0);
      const truth = wholeAmount(amounts[at] ?? claimed, claimed);
      if (truth < claimed) this.returned(claim.id, parts[at]!, claimed - truth, nowMs);
      else if (truth > claimed) this.overdrawn(claim.id, truth - claimed, nowMs);
    }
    shadow.settle(amounts);
    if (slotLease !== null) {
      this.slotLeases.leave(slotLease);
      const account = this.accounts.get(slotLease.id);
      if (account !== undefined) account.refusedUntilMs = Number.NEGATIVE_INFINITY;
      if (this.parked.has(slotLease.id)) this.unpark(slotLease.id);
    }
    this.tick();
  }

  private refusal(claims: readonly Claim[], slotClaim: SlotClaim | null, nowMs: number): ReservationResult | null {
    for (const { id, limit, amount } of claims) {
      const account = this.accounts.get(id);
      if (amount > limit) return this.refused(claims, id, Infinity, nowMs);
      if (isRefused(account, amount, nowMs)) return this.refused(claims, id, Math.max(1, account.roomMs - nowMs), nowMs);
      // A store that restarts empty has forgotten what we used; we have not.
      const { waitMs = 0 } = this.options.guard.open ? this.options.local.status(this.capped({ id, limit, amount }, nowMs)) : {};
      if (waitMs > 0) {
        if (account !== undefined) noRoom(account, amount, waitMs, nowMs);
        return this.refused(claims, id, waitMs, nowMs);
      }
    }
    if (slotClaim === null) return null;
    const isFull = isRefused(this.accounts.get(slotClaim.id), 1, nowMs) && !this.hasIdle(slotClaim);
    if (isFull || this.slotsTaken(slotClaim.id) >= slotClaim.limit) return this.refused(claims, slotClaim.id, slotWaitMs, nowMs);
    return null;
  }

  private capped(claim: Claim, nowMs: number): Claim {
    if (nowMs >= this.cappedUntilMs) return claim;
    const { id, limit, amount } = claim;
    const cap = this.accounts.get(id)?.cap ?? Math.floor(limit / this.options.processes());
    return { id, amount, limit: Math.min(limit, Math.max(amount, cap)) };
  }

  private hasIdle({ id, limit }: SlotClaim): boolean {
    return this.slotLeases.hasIdle(id, this.sharedLimit(limit, 1));
  }

  private refused(claims: readonly Claim[], shortId: string, waitMs: number, nowMs: number): ReservationResult {
    return new ReservationRefused(
      shortId,
      waitMs,
      claims.map(({ id, limit }) => this.statusOf(id, limit, nowMs)),
    );
  }

  /** From what this process has: leases, and a slot that a call has left. */
  private atOnce(claims: readonly Claim[], slotClaim: SlotClaim | null, nowMs: number): ReservationResult | null {
    for (const { id, amount } of claims) if (wholeAmount(amount, 0) > inHand(this.accounts.get(id), nowMs)) return null;
    const slotLease = slotClaim === null ? null : this.slotLeases.takeIdle(slotClaim.id, this.sharedLimit(slotClaim.limit, 1));
    if (slotClaim !== null && slotLease === null) return null;
    const parts = claims.map(({ id, amount }): ClaimSources => {
      const account = this.accounts.get(id);
      if (account === undefined) return nothing;
      const whole = wholeAmount(amount, 0);
      account.left -= whole;
      return { leased: whole, leasedSlot: account.slot, asked: 0, askedSlot: 0, owed: 0 };
    });
    return this.admitted(claims, parts, slotLease, nowMs);
  }

  private enter(waiters: WaitingReservation[], key: string): void {
    const line = this.lines.get(key);
    if (line !== undefined) {
      line.push(...waiters);
      return;
    }
    this.lines.set(key, waiters);
    this.advance(key, waiters);
    if (waiters.length > 0) this.watch(key, waiters);
  }

  /** It waits for a moment and asks again, out of the way of calls that need no slot of this limit. */
  private park(waiter: WaitingReservation, { id }: SlotClaim): void {
    const parked = this.parked.get(id);
    if (parked !== undefined) parked.waiters.push(waiter);
    else this.parked.set(id, { waiters: [waiter], cancel: this.options.after(this.tickMs * parkedTicks, () => this.unpark(id)) });
  }

  private unpark(id: string): void {
    const parked = this.parked.get(id);
    if (parked === undefined) return;
    parked.cancel();
    this.parked.delete(id);
    this.enter(parked.waiters, parked.waiters[0]!.key);
  }

  /** Whether a call may be admitted without the store: never for a slot, until it is sure that the store is lost. */
  private mayGoAlone({ slotClaim, sinceMs }: Pick<WaitingReservation, "slotClaim" | "sinceMs">, nowMs: number): boolean {
    if (slotClaim === null || this.options.processes() <= 1 || this.hasIdle(slotClaim)) return true;
    return this.isSurelyLost(nowMs) || nowMs - sinceMs >= patienceMs;
  }

  private isSurelyLost(nowMs: number): boolean {
    const { lostSinceMs } = this.options.guard;
    return lostSinceMs !== null && nowMs - lostSinceMs >= this.leaseMs * leasesToBeLost;
  }

  /** Lets those at the head of a line go on, until one must wait for a lease that somebody asked for. */
  private advance(key: string, line: WaitingReservation[]): void {
    for (let waiter = line[0]; waiter !== undefined; waiter = line[0]) {
      const nowMs = this.nowMs();
      const { claims, slotClaim } = waiter;
      const { open } = this.options.guard;
      const answer =
        this.refusal(claims, slotClaim, nowMs) ??
        this.atOnce(claims, slotClaim, nowMs) ??
        (open || !this.mayGoAlone(waiter, nowMs) ? null : this.alone(claims, slotClaim));
      const mustPark = answer === null && slotClaim !== null && (!open || this.parked.has(slotClaim.id));
      if (answer === null && !mustPark) {
        const isAsked = slotClaim !== null && this.askingSlots.has(slotClaim.id) && !this.hasIdle(slotClaim);
        if (isAsked || claims.some(({ id, amount }) => this.isAsking(id, amount, nowMs))) return;
      }
      line.shift();
      if (answer !== null) waiter.resolve(answer);
      else if (mustPark) this.park(waiter, slotClaim);
      else void this.ask(waiter, key, line, nowMs);
    }
    this.lines.delete(key);
  }

  /** Nobody stands in a line for longer than a store that is well takes to answer. */
  private watch(key: string, line: WaitingReservation[]): void {
    const { guard, after } = this.options;
    const { nowMs } = this;
    const leftMs = guard.stalledMs - (nowMs() - line[0]!.sinceMs);
    timerWithLagGrace({ nowMs, after }, Math.max(1, leftMs), () => {
      if (this.lines.get(key) !== line) return;
      this.leave(key, line, ({ sinceMs }) => nowMs() - sinceMs >= guard.stalledMs);
      if (this.lines.get(key) === line) this.watch(key, line);
    });
  }

  /** Those at the head of a line go on without the store. */
  private leave(key: string, line: WaitingReservation[], goes: (waiter: WaitingReservation) => boolean): void {
    for (let waiter = line[0]; waiter !== undefined && goes(waiter); waiter = line[0]) {
      const { claims, slotClaim } = waiter;
      const nowMs = this.nowMs();
      line.shift();
      const answer = this.refusal(claims, slotClaim, nowMs) ?? this.atOnce(claims, slotClaim, nowMs);
      if (answer !== null) waiter.resolve(answer);
      else if (slotClaim !== null && !this.mayGoAlone(waiter, nowMs)) this.park(waiter, slotClaim);
      else waiter.resolve(this.alone(claims, slotClaim));
    }
    if (line.length === 0) this.lines.delete(key);
  }

  private isAsking(id: string, amount: number, nowMs: number): boolean {
    const account = this.accounts.get(id);
    return account !== undefined && account.asking && amount > inHand(account, nowMs);
  }

  private async ask(waiter: WaitingReservation, key: string, line: readonly WaitingReservation[], askedMs: number): Promise<void> {
    const { claims, slotClaim } = waiter;
    const drawn = claims.map((claim) => this.drawn(claim, line, askedMs));
    const wants = drawn.flatMap(({ want }) => want ?? []);
    const leasing = drawn.flatMap(({ account, want }, at) => (want === null || isExact(claims[at]!.limit) ? [] : [account]));
    for (const account of leasing) account.asking = true;
    const sharedLimit = slotClaim === null ? 0 : this.sharedLimit(slotClaim.limit, 1);
    const own = slotClaim === null ? null : this.slotLeases.takeIdle(slotClaim.id, sharedLimit);
    const slotLease =
      slotClaim === null || own !== null ? null : this.slotLeases.wanted(slotClaim.id, sharedLimit, behind(line, slotClaim.id));
    if (slotLease !== null) this.askingSlots.add(slotLease.id);
    let taken: TakeResult | null = null;
    try {
      taken = await this.options.guard.run(
        () => this.options.counts.take(wants, slotLease),
        (late) => this.undo(late, slotLease),
      );
    } catch {
      // The guard knows what to make of it.
    }
    for (const account of leasing) account.asking = false;
    if (slotLease !== null) this.askingSlots.delete(slotLease.id);
    const answer = this.answered(waiter, drawn, taken, slotLease, own, askedMs);
    if (answer !== null) waiter.resolve(answer);
    else if (slotClaim !== null) this.park(waiter, slotClaim);
    const others = this.lines.get(key);
    if (others === undefined) return;
    // They have waited for the same answer: to ask once more would cost them another deadline.
    if (taken === null) this.leave(key, others, () => true);
    else this.advance(key, others);
  }

  /** Takes what is in hand, and finds out what more there is to be asked for. */
  private drawn({ id, limit, amount }: Claim, line: readonly WaitingReservation[], nowMs: number): Drawn {
    const account = this.account(id, limit);
    const whole = wholeAmount(amount, 0);
    const leased = Math.min(whole, inHand(account, nowMs));
    account.left -= leased;
    const need = whole - leased;
    if (need === 0) return { account, leased, leasedSlot: account.slot, want: null };
    const wish = isExact(limit) ? need : wishFor(account, limit, need + queued(line, id), this.leaseMs, nowMs);
    account.askedMs = nowMs;
    account.spent = 0;
    // What was admitted without the store takes its room at once, also before the store has heard of it.
    const room = Math.max(0, this.sharedLimit(limit, need) - this.corrections.owedOf(id));
    const want: CountRequest = { id, limit: room, need, wish, sharers: 4 * this.options.processes() };
    return { account, leased, leasedSlot: account.slot, want };
  }

  /** Null where the call has to wait for a slot; `own` is one that this process had. */
  private answered(
    waiter: WaitingReservation,
    drawn: readonly Drawn[],
    taken: TakeResult | null,
    slotLease: SlotLease | null,
    own: SlotLease | null,
    askedMs: number,
  ): ReservationResult | null {
    const nowMs = this.nowMs();
    const { claims, slotClaim } = waiter;
    if (taken !== null && taken.ok) {
      let next = 0;
      const parts = drawn.map(({ account, leased, leasedSlot, want }): ClaimSources => {
        if (want === null) return { leased, leasedSlot, asked: 0, askedSlot: 0, owed: 0 };
        const granted = taken.granted[next]!;
        next += 1;
        account.own = this.usedHere(account.id) + leased + account.left + granted.amount;
        account.heardMs = nowMs;
        this.leaseArrives(account, granted, want.need, askedMs);
        return { leased, leasedSlot, asked: want.need, askedSlot: granted.slot, owed: 0 };
      });
      if (slotLease !== null) this.fullSinceMs.delete(slotLease.id);
      return this.admitted(claims, parts, slotLease === null ? own : this.slotLeases.arrived(slotLease, taken.slots), nowMs);
    }
    for (const { account, leased, leasedSlot } of drawn) this.putBack(account.id, leased, leasedSlot, nowMs);
    if (own !== null) this.slotLeases.leave(own);
    if (taken === null) return this.mayGoAlone(waiter, nowMs) ? this.alone(claims, slotClaim) : null;
    if (slotLease !== null && taken.short === slotLease.id && !this.isFull(slotLease, nowMs)) return null;
    const short = drawn.find(({ want }) => want?.id === taken.short);
    if (short !== undefined) {
      const { account } = short;
      account.remaining = taken.remaining;
      account.own = this.usedHere(account.id) + account.left;
      account.heardMs = nowMs;
      noRoom(account, short.leased + (short.want?.need ?? 0), taken.waitMs, nowMs);
    }
    return this.refused(claims, taken.short, taken.waitMs, nowMs);
  }

  /** Whether a limit without a slot is full indeed: others may have slots that nobody uses, which they return before long. */
  private isFull({ id, limit }: SlotLease, nowMs: number): boolean {
    if (this.options.processes() <= 1) return true;
    const sinceMs = this.fullSinceMs.get(id) ?? nowMs;
    if (nowMs - sinceMs < this.tickMs * fullTicks) {
      this.fullSinceMs.set(id, sinceMs);
      return false;
    }
    this.fullSinceMs.delete(id);
    // Those who wait for the same, and who come in the next moment, would hear nothing else.
    noRoom(this.account(id, limit), 1, slotWaitMs, nowMs);
    if (this.parked.has(id)) this.unpark(id);
    return true;
  }

  private leaseArrives(account: RateLease, { amount, slot, remaining }: CountGrant, need: number, askedMs: number): void {
    account.remaining = remaining;
    account.refusedUntilMs = Number.NEGATIVE_INFINITY;
    if (amount <= need) return;
    this.giveBack(account);
    account.left = amount - need;
    account.slot = slot;
    account.endsMs = askedMs + this.leaseMs;
    this.leased.delete(account);
    this.leased.add(account);
    // Among the accounts, those that lease are the last to be forgotten.
    this.accounts.delete(account.id);
    this.accounts.set(account.id, account);
    this.tick();
  }

  private admitted(claims: readonly Claim[], parts: readonly ClaimSources[], slotLease: SlotLease | null, nowMs: number): ReservationResult {
    for (const { id, amount } of claims) {
      const account = this.accounts.get(id);
      if (account !== undefined) account.spent += wholeAmount(amount, 0);
    }
    const unlimited = claims.map(({ id, amount }) => ({ id, amount, limit: Infinity }));
    const shadow = this.options.local.reserve(
      new ListedReservationRequest(unlimited, slotLease === null ? null : { id: slotLease.id, call: slotLease.call, limit: Infinity }),
    );
    if (!shadow.ok) throw new Error("a call without limits was refused");
    if (slotLease !== null) this.tick();
    const statuses = claims.map(({ id, limit }) => this.statusOf(id, limit, nowMs));
    return new LeasedReservation(this, claims, parts, shadow, slotLease, statuses);
  }

  /** Without the store. It is told later what was admitted. */
  private alone(claims: readonly Claim[], slotClaim: SlotClaim | null): ReservationResult {
    const rule = this.options.onStoreLoss ?? "split";
    const nowMs = this.nowMs();
    if (rule === "closed") return this.refused(claims, claims[0]?.id ?? slotClaim?.id ?? "", lostWaitMs, nowMs);
    const own = slotClaim === null ? null : this.slotLeases.takeIdle(slotClaim.id, this.sharedLimit(slotClaim.limit, 1));
    const unseen = own === null ? slotClaim : null;
    const tooMuch = claims.find((claim) => this.isUnseenTooMuch(claim, rule, nowMs))?.id ?? this.fullUnseen(unseen, rule, nowMs);
    const taking =
      tooMuch !== undefined ? this.refused(claims, tooMuch, lostWaitMs, nowMs) : this.takeAlone(claims, slotClaim, own, rule, nowMs);
    if (!taking.ok && own !== null) this.slotLeases.leave(own);
    return taking;
  }

  private takeAlone(
    claims: readonly Claim[],
    slotClaim: SlotClaim | null,
    own: SlotLease | null,
    rule: StoreLossRule,
    nowMs: number,
  ): ReservationResult {
    const ownPlace =
      slotClaim === null
        ? null
        : own !== null
          ? { ...slotClaim, limit: Infinity }
          : { ...slotClaim, limit: this.ownPart({ ...slotClaim, amount: 1 }, rule, nowMs).limit };
    const ownClaims = claims.map((claim) => this.ownPart(claim, rule, nowMs));
    const taking = this.options.local.reserve(new ListedReservationRequest(ownClaims, ownPlace));
    if (!taking.ok) return taking;
    const statuses = claims.map(({ limit }, at) => ({ limit, remaining: taking.remaining(at), resetMs: taking.resetMs(at) }));
    const parts = claims.map(({ id, amount }): ClaimSources => {
      const owed = wholeAmount(amount, 0);
      this.corrections.owe(id, owed);
      return { ...nothing, owed };
    });
    const slotLease = slotClaim === null ? null : (own ?? this.slotLeases.unseenOf(slotClaim.id, slotClaim.limit));
    this.tick();
    if (slotLease === null || own !== null) return new LeasedReservation(this, claims, parts, taking, slotLease, statuses);
    this.unreportedSlots.set(slotLease.id, (this.unreportedSlots.get(slotLease.id) ?? 0) + 1);
    return new LeasedReservation(this, claims, parts, this.withUnreportedSlot(slotLease.id, taking), slotLease, statuses);
  }

  private ownPart({ id, limit, amount }: Claim, rule: StoreLossRule, nowMs: number): Claim {
    if (rule === "open") return { id, amount, limit: Infinity };
    const whole = wholeAmount(amount, 0);
    const part = partAlone(this.accounts.get(id), { limit, amount: whole }, this.options.processes(), nowMs - this.windowMs);
    return { id, amount, limit: part };
  }

  /** Others may count on what the store does not know that it is used here. A single call is never too much. */
  private isUnseenTooMuch({ id, limit, amount }: Claim, rule: StoreLossRule, nowMs: number): boolean {
    if (rule === "open") return false;
    const owed = this.corrections.owedOf(id);
    return owed > 0 && owed + wholeAmount(amount, 0) > limit * this.unseenPart(nowMs);
  }

  private fullUnseen(slotClaim: SlotClaim | null, rule: StoreLossRule, nowMs: number): string | undefined {
    if (slotClaim === null || rule === "open") return undefined;
    const taken = this.unreportedSlots.get(slotClaim.id) ?? 0;
    return taken > 0 && taken + 1 > slotClaim.limit * this.unseenPart(nowMs) ? slotClaim.id : undefined;
  }

  /** A store that does not answer for a moment is most likely back in the next one, and so should not cost exactness. */
  private unseenPart(nowMs: number): number {
    const unseen = this.options.unseen?.() ?? Infinity;
    const others = this.options.processes() - 1;
    if (others <= 0 || this.isSurelyLost(nowMs)) return unseen;
    return Math.min(unseen, unseenAtFirst / others);
  }

  private withUnreportedSlot(id: string, taking: Settled): Settled {
    const settle = (amounts: readonly number[]): void => {
      taking.settle(amounts);
      const left = (this.unreportedSlots.get(id) ?? 1) - 1;
      if (left > 0) this.unreportedSlots.set(id, left);
      else this.unreportedSlots.delete(id);
    };
    return { settle };
  }

  /** What all those together may use that have the store; never too little for this one call. */
  private sharedLimit(limit: number, need: number): number {
    const share = this.options.share?.() ?? 1;
    return share === 1 ? limit : Math.max(Math.floor(limit * share), Math.min(limit, need));
  }

  private statusAlone(claim: Claim, nowMs: number): LimitStatus {
    const rule = this.options.onStoreLoss ?? "split";
    const { limit } = claim;
    const { remaining, resetMs } = this.statusOf(claim.id, limit, nowMs);
    if (rule === "open") return { limit, remaining: Math.max(remaining, claim.amount), resetMs, waitMs: 0 };
    if (rule === "closed" || this.isUnseenTooMuch(claim, rule, nowMs)) return { limit, remaining: 0, resetMs, waitMs: lostWaitMs };
    return { ...this.options.local.status(this.ownPart(claim, rule, nowMs)), limit };
  }

  /** What the store took for a call after we had gone on without it. */
  private undo(late: TakeResult, slotLease: SlotLease | null): void {
    if (!late.ok) return;
    for (const { id, amount, slot } of late.granted) this.corrections.add(id, slot, -amount);
    if (slotLease !== null) this.slotLeases.late(slotLease);
    this.tick();
  }

  private returned(id: string, { leased, leasedSlot, asked, askedSlot, owed }: ClaimSources, amount: number, nowMs: number): void {
    const ofAsked = Math.min(asked, amount);
    const ofLeased = Math.min(leased, amount - ofAsked);
    const ofOwed = Math.min(owed, amount - ofAsked - ofLeased);
    this.putBack(id, ofAsked, askedSlot, nowMs);
    this.putBack(id, ofLeased, leasedSlot, nowMs);
    // Where the store was told of it meanwhile, it is not known in which slot: it stays counted there until it leaves the window.
    if (ofOwed > 0) this.corrections.forgive(id, ofOwed);
    const account = this.accounts.get(id);
    if (account !== undefined) account.refusedUntilMs = Number.NEGATIVE_INFINITY;
  }

  /** Into the lease it came from, as long as there is one; what was counted long ago must not be spent as if it were new. */
  private putBack(id: string, amount: number, slot: number, nowMs: number): void {
    if (amount === 0) return;
    const account = this.accounts.get(id);
    if (account !== undefined && account.slot === slot && account.endsMs > nowMs) {
      account.left += amount;
    } else {
      if (account !== undefined) givenBack(account, amount);
      this.corrections.add(id, slot, -amount);
    }
    this.tick();
  }

  private overdrawn(id: string, amount: number, nowMs: number): void {
    const account = this.accounts.get(id);
    const leased = Math.min(amount, inHand(account, nowMs));
    if (account !== undefined) {
      account.left -= leased;
      givenBack(account, leased - amount);
    }
    this.corrections.add(id, null, amount - leased);
  }

  private giveBack(account: RateLease): void {
    if (account.left === 0) return;
    this.corrections.add(account.id, account.slot, -account.left);
    givenBack(account, account.left);
    account.left = 0;
  }

  private account(id: string, limit: number): RateLease {
    let account = this.accounts.get(id);
    if (account === undefined) {
      if (this.accounts.size >= this.accountsMax) this.forget(this.accounts.values().next().value!);
      this.accounts.set(id, (account = newRateLease(id, limit)));
    }
    return account;
  }

  private forget(account: RateLease): void {
    this.giveBack(account);
    this.leased.delete(account);
    this.accounts.delete(account.id);
  }

  private statusOf(id: string, limit: number, nowMs: number): LimitStatus {
    const account = this.accounts.get(id);
    const { resetMs } = this.options.local.status({ id, limit, amount: 0 });
    if (account === undefined) return { limit, remaining: limit, resetMs };
    return { limit, remaining: Math.min(limit, account.remaining + inHand(account, nowMs)), resetMs };
  }

  private usedHere(id: string): number {
    const limit = Number.MAX_SAFE_INTEGER;
    return limit - this.options.local.status({ id, limit, amount: 0 }).remaining;
  }

  /** Sees to it that what must be told is told soon. */
  private tick(): void {
    if (this.stopped || this.cancelTimer !== null) return;
    this.cancelTimer = this.options.after(this.tickMs, () => void this.ticked());
  }

  private async ticked(): Promise<void> {
    const nowMs = this.nowMs();
    for (const account of this.leased) {
      if (account.endsMs > nowMs) break;
      this.giveBack(account);
      this.leased.delete(account);
    }
    await Promise.all([this.corrections.flush(), this.slotLeases.tend()]);
    this.cancelTimer = null;
    if (this.leased.size > 0 || this.corrections.size > 0 || this.slotLeases.busy) this.tick();
  }
}

interface WaitingReservation {
  readonly key: string;
  readonly claims: readonly Claim[];
  readonly slotClaim: SlotClaim | null;
  readonly resolve: (taking: ReservationResult) => void;
  readonly sinceMs: number;
}

interface Parked {
  readonly waiters: WaitingReservation[];
  readonly cancel: () => void;
}

interface Drawn {
  readonly account: RateLease;
  readonly leased: number;
  readonly leasedSlot: number;
  readonly want: CountRequest | null;
}

/** Where the amount of a claim came from: a lease, a question to the store, or neither, as that was lost. */
interface ClaimSources {
  readonly leased: number;
  readonly leasedSlot: number;
  readonly asked: number;
  readonly askedSlot: number;
  readonly owed: number;
}

/** What was taken here, to be put right with the rest. */
type Settled = Pick<Reservation, "settle">;

class LeasedReservation extends RecordedLimitStatuses {
  readonly ok = true;
  private open = true;

  constructor(
    private readonly rates: LeasedRateLimits,
    private readonly claims: readonly Claim[],
    private readonly parts: readonly ClaimSources[],
    private readonly shadow: Settled,
    private readonly slotLease: SlotLease | null,
    statuses: readonly LimitStatus[],
  ) {
    super(statuses);
  }

  settle(amounts: readonly number[]): void {
    if (!this.open) throw new Error("what a call took of its limits was settled twice");
    this.open = false;
    this.rates.settled(this.claims, this.parts, this.shadow, this.slotLease, amounts);
  }
}

/** To be believed for a moment. */
function noRoom(account: RateLease, need: number, waitMs: number, nowMs: number): void {
  account.refusedNeed = need;
  account.refusedUntilMs = nowMs + Math.min(waitMs, refusalMs);
  account.roomMs = nowMs + waitMs;
}

/** What those who wait behind it will want of the same limit; a look at the first of them is enough. */
function queued(line: readonly WaitingReservation[], id: string): number {
  let sum = 0;
  for (const { claims } of line.slice(0, queuedMax)) for (const claim of claims) if (claim.id === id) sum += wholeAmount(claim.amount, 0);
  return sum;
}

/** How many of those who wait behind want a slot of the same limit. */
function behind(line: readonly WaitingReservation[], id: string): number {
  let count = 0;
  for (const { slotClaim } of line.slice(0, queuedMax)) if (slotClaim?.id === id) count += 1;
  return count;
}

const nothing: ClaimSources = { leased: 0, leasedSlot: 0, asked: 0, askedSlot: 0, owed: 0 };
const queuedMax = 100;
/** For so long a refusal is believed without asking again: it spares the store the calls of those who do not wait. */
const refusalMs = 50;
const lostWaitMs = 1_000;
/** Who waits for a slot asks again after so many ticks; and takes the limit for full after so many: a slot that nobody uses goes back in two. */
const parkedTicks = 0.6;
const fullTicks = 3.5;
/** Nobody waits longer for a store that answers some and not others. */
const patienceMs = 2_000;
/** As long as a process leaves a lost store alone, and a little: by then it has told what it used. */
const cappedMs = 15_000;
/** What all others together may use unseen of a limit while it is not clear yet that the store is lost. */
const unseenAtFirst = 0.05;
/** That is clear when nobody was answered for as long as two leases live. */
const leasesToBeLost = 2;
