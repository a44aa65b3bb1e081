import { wholeAmount } from "../../limits/minute-window.ts";
import {
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
  ReservationRefused,
  slotsOf,
  UnlimitedReservationRequest,
  type Claim,
  type LimitStatus,
  type RateLimitStore,
  type Reservation,
  type ReservationRequest,
  type ReservationResult,
  type SlotLimit,
} from "../../limits/rate-limit-store.ts";
import { timerWithLagGrace } from "../lag-grace.ts";
import { noteReturned, leaseLeft, isExact, isNextDue, isRefused, RateLease, partWithoutStore, leaseWish } from "./rate-lease.ts";
import { CountCorrections } from "./count-corrections.ts";
import { hasIdle, SlotLeases, type HeldSlot, type SlotPool } from "./slot-leases.ts";
import type { StoreGuard } from "../store-guard.ts";

export interface LeasedRateLimitsOptions {
  readonly counts: DistributedCounts;
  readonly guard: Pick<StoreGuard, "run" | "open" | "stalledMs" | "lostSinceMs">;
  /** Counts what this process admits, and decides alone while the store is lost. */
  readonly local: LocalRateLimitStore;
  /** Names this process among the others. */
  readonly process?: string;
  /** The number of processes that share the limits. */
  readonly processes: () => number;
  /** The share of every limit that belongs to the processes which reach the store. The others have the rest. */
  readonly share?: () => number;
  /** The share of a limit that this process may use without reporting it, besides what it had when the store was lost. */
  readonly unreportedShare?: () => number;
  readonly nowMs: () => number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** While the store is lost, `split`: this process has its part of every limit; `open`: no limits apply; `closed`: calls with limits are refused. */
  readonly onStoreLoss?: StoreLossRule;
  readonly windowMs?: number;
  readonly leaseMs?: number;
  readonly holdMs?: number;
  readonly leasesMax?: number;
}

export type StoreLossRule = "split" | "open" | "closed";

/** A store in memory, which answers synchronously. */
export interface LocalRateLimitStore extends RateLimitStore {
  reserve(request: ReservationRequest): ReservationResult;
  /** Whether each limit on concurrent calls has a free slot. */
  hasSlots(request: ReservationRequest): boolean;
  /** What was used of a limit in each slot of the window, and how many slots ago that was. */
  usedBySlot(id: string): readonly { readonly ago: number; readonly amount: number }[];
}

/**
 * Limits that several processes share, with few requests to the store: a busy process takes a lease, a part of the limit that it
 * uses without asking, and returns the rest half a second later. The closer the limit, the smaller the leases, down to one request
 * for each call. Concurrency slots are exact: a call that needs one waits until the store has answered, or is certainly lost.
 */
export class LeasedRateLimits implements RateLimitStore {
  private readonly leases = new Map<string, RateLease>();
  /** The leases that have not ended, in the order in which they end. */
  private readonly activeLeases = new Set<RateLease>();
  /** The leases that are being requested for calls which are yet to come. */
  private readonly askedAhead = new Set<Promise<void>>();
  /** Calls that wait for a lease or a slot that is being requested, by limit, in order. */
  private readonly queues = new Map<string, WaitingReservation[]>();
  /** What all of these need of each limit: amounts, or slots. */
  private readonly queued = new Map<string, number>();
  /** Calls that wait for a slot, by limit: none was free, or the store did not answer. They ask again in a moment. */
  private readonly parked = new Map<string, ParkedReservations>();
  /** The limits for which a slot is being requested. Other calls wait for the answer instead of asking too. */
  private readonly requestedSlots = new Set<string>();
  /** Since when no slot was free, by limit. Other processes may still return idle ones. */
  private readonly fullSinceMs = new Map<string, number>();
  /** Until then no slot is requested, by limit: none was free. */
  private readonly fullUntilMs = new Map<string, number>();
  /** Until then each process keeps to its part: the store has lost its counts, and others may not have reported theirs again. */
  private cappedUntilMs = Number.NEGATIVE_INFINITY;
  /** The number of slots in use that the store does not know of, by limit. */
  private readonly unreportedSlots = new Map<string, number>();
  private readonly corrections: CountCorrections;
  private readonly slotLeases: SlotLeases;
  private readonly nowMs: () => number;
  private readonly windowMs: number;
  private readonly leasesMax: number;
  private readonly leaseMs: number;
  private readonly tickMs: number;
  private cancelTimer: (() => void) | null = null;
  private stopped = false;

  constructor(private readonly options: LeasedRateLimitsOptions) {
    const { counts, guard, nowMs } = options;
    this.nowMs = nowMs;
    this.windowMs = options.windowMs ?? minute.slotMs * minute.slots;
    this.leasesMax = options.leasesMax ?? 50_000;
    this.leaseMs = options.leaseMs ?? 500;
    this.tickMs = this.leaseMs / 5;
    this.corrections = new CountCorrections(counts, guard, nowMs, this.windowMs, (id) => this.usedHere(id));
    this.slotLeases = new SlotLeases(counts, guard, nowMs, options.holdMs ?? 30_000, this.tickMs, options.process);
  }

  reserve(request: ReservationRequest): ReservationResult | Promise<ReservationResult> {
    if (request.claims + request.slots === 0) return this.options.local.reserve(request);
    const nowMs = this.nowMs();
    // Nearly every call of a busy process ends here, so nothing is allocated before that.
    const isPlain = this.options.guard.open && nowMs >= this.cappedUntilMs && !this.hasWaiting(request);
    const held = isPlain ? this.reserveFromLeases(request, nowMs) : null;
    return held ?? this.reserveOrWait(request, nowMs, isPlain);
  }

  private reserveOrWait(request: ReservationRequest, nowMs: number, isPlain: boolean): ReservationResult | Promise<ReservationResult> {
    const claims = claimsOf(request);
    const slots = slotsOf(request);
    const refusal = this.refusal(claims, slots, nowMs);
    if (refusal !== null) return refusal;
    const parkedFor = this.parked.size === 0 ? undefined : slots.find(({ id }) => this.parked.has(id));
    const queuedFor = this.queues.size === 0 ? undefined : [...claims, ...slots].find(({ id }) => this.queues.has(id));
    if (!isPlain && parkedFor === undefined && queuedFor === undefined) {
      const reservation = this.reserveFromLeases(request, nowMs);
      if (reservation !== null) return reservation;
    }
    if (!this.options.guard.open && this.mayDoWithoutStore({ slots, sinceMs: nowMs }, nowMs))
      return this.reserveWithoutStore(request, claims, slots);
    const { promise, resolve } = Promise.withResolvers<ReservationResult>();
    const waiter: WaitingReservation = { request, claims, slots, resolve, sinceMs: nowMs };
    if (parkedFor !== undefined) this.park(waiter, parkedFor.id);
    else if (queuedFor !== undefined) this.enqueue(waiter, queuedFor.id);
    else this.proceed(waiter);
    return promise;
  }

  /** The use of other processes is not known here, but what is leased is this one's. */
  surelyFits(request: ReservationRequest): boolean {
    const nowMs = this.nowMs();
    for (let at = 0; at < request.claims; at += 1) {
      const amount = request.amount(at);
      if (amount > request.limit(at) || wholeAmount(amount, 0) > leaseLeft(this.leaseOf(request, at), nowMs)) return false;
    }
    return this.options.local.hasSlots(request);
  }

  status({ id, limit, amount }: Claim): LimitStatus {
    const nowMs = this.nowMs();
    if (amount > limit) return { ...this.statusOf(id, limit, nowMs), waitMs: Infinity };
    const lease = this.leases.get(id);
    if (isRefused(lease, amount, nowMs)) return { ...this.statusOf(id, limit, nowMs), waitMs: Math.max(1, lease.roomMs - nowMs) };
    if (!this.options.guard.open && leaseLeft(lease, nowMs) < amount) return this.statusWithoutStore({ id, limit, amount }, nowMs);
    const { remaining, resetMs } = this.statusOf(id, limit, nowMs);
    // Other processes may have returned some since, so no call is rejected for this.
    return { limit, remaining: Math.max(remaining, Math.min(amount, limit)), resetMs, waitMs: 0 };
  }

  slotsTaken(id: string): number {
    return this.options.local.slotsTaken(id);
  }

  /** What is left of a limit of a call that was admitted a moment ago. */
  remaining(request: ReservationRequest, at: number, nowMs: number): number {
    return leftForAll(this.leaseOf(request, at), request.limit(at), nowMs);
  }

  /** The number of limits that are remembered. */
  get leasesKnown(): number {
    return this.leases.size;
  }

  /**
   * The store has lost its counts, so what was used here is reported again. Until all processes have done so, each keeps to what it
   * had and its even part of the rest, as if the store were lost.
   */
  emptied(): void {
    const nowMs = this.nowMs();
    this.cappedUntilMs = nowMs + Math.min(this.windowMs, cappedMs);
    for (const lease of this.leases.values()) {
      const isKnown = lease.knownMs > nowMs - this.windowMs;
      lease.cap = isKnown ? Math.floor(lease.ownUse + lease.remaining / this.options.processes()) : null;
      lease.left = 0;
      this.activeLeases.delete(lease);
      this.corrections.resend(lease.id, this.options.local.usedBySlot(lease.id));
    }
    this.slotLeases.renewSoon();
    this.tick();
  }

  /** Returns all leases and slots. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
    for (const [id, { waiters, cancel }] of this.parked) {
      cancel();
      for (const { claims, resolve } of waiters) resolve(this.refused(claims, id, lostWaitMs, this.nowMs()));
    }
    this.parked.clear();
    await Promise.all(this.askedAhead);
    for (const lease of this.activeLeases) this.returnLease(lease);
    this.activeLeases.clear();
    await Promise.all([this.corrections.flushAll(), this.slotLeases.releaseAll()]);
  }

  /** Corrects the counts when the real use of a call is known. See `LeasedReservation`. */
  settled({ request, leaseSlots, sources, slots }: LeasedReservation, amounts: readonly number[]): void {
    const nowMs = this.nowMs();
    for (let at = 0; at < request.claims; at += 1) {
      const claimed = wholeAmount(request.amount(at), 0);
      const actual = wholeAmount(amounts[at] ?? claimed, claimed);
      if (actual === claimed) continue;
      const lease = this.leaseOf(request, at);
      if (actual > claimed) this.countExcess(request.id(at), actual - claimed, nowMs, lease);
      else if (sources === null) this.putBack(request.id(at), claimed - actual, leaseSlots[at]!, nowMs, lease);
      else this.returnUnused(request.id(at), sources[at]!, claimed - actual, nowMs, lease);
      if (actual < claimed && lease !== undefined) lease.refusedUntilMs = Number.NEGATIVE_INFINITY;
    }
    for (const slot of slots) {
      const { id } = slot.lease;
      this.slotLeases.callEnded(slot, nowMs);
      if (this.fullUntilMs.size > 0) this.fullUntilMs.delete(id);
      if (this.parked.size > 0 && this.parked.has(id)) this.unpark(id);
    }
    this.tick();
  }

  private refusal(claims: readonly Claim[], slots: readonly SlotLimit[], nowMs: number): ReservationResult | null {
    for (const { id, limit, amount } of claims) {
      const lease = this.leases.get(id);
      if (amount > limit) return this.refused(claims, id, Infinity, nowMs);
      if (isRefused(lease, amount, nowMs)) return this.refused(claims, id, Math.max(1, lease.roomMs - nowMs), nowMs);
      // A store that was restarted empty does not know what was used here; this process does.
      const { waitMs = 0 } = this.options.guard.open ? this.options.local.status(this.capped({ id, limit, amount }, nowMs)) : {};
      if (waitMs > 0) {
        if (lease !== undefined) noteNoRoom(lease, amount, waitMs, nowMs);
        return this.refused(claims, id, waitMs, nowMs);
      }
    }
    for (const slot of slots) {
      const isFull = this.fullUntilMs.size > 0 && nowMs < (this.fullUntilMs.get(slot.id) ?? nowMs) && !this.hasIdle(slot);
      if (isFull || this.slotsTaken(slot.id) >= slot.limit) return this.refused(claims, slot.id, slotWaitMs, nowMs);
    }
    return null;
  }

  private capped(claim: Claim, nowMs: number): Claim {
    if (nowMs >= this.cappedUntilMs) return claim;
    const { id, limit, amount } = claim;
    const cap = this.leases.get(id)?.cap ?? Math.floor(limit / this.options.processes());
    return { id, amount, limit: Math.min(limit, Math.max(amount, cap)) };
  }

  private hasIdle({ id, limit }: SlotLimit): boolean {
    return hasIdle(this.slotLeases.pool(id), this.sharedLimit(limit, 1));
  }

  private refused(claims: readonly Claim[], shortId: string, waitMs: number, nowMs: number): ReservationResult {
    return new ReservationRefused(
      shortId,
      waitMs,
      claims.map(({ id, limit }) => this.statusOf(id, limit, nowMs)),
    );
  }

  /** Reserves from what this process holds: leases, and idle slots. Null where that is not enough. */
  private reserveFromLeases(request: ReservationRequest, nowMs: number): ReservationResult | null {
    const { claims, slots } = request;
    for (let at = 0; at < claims; at += 1) {
      if (wholeAmount(request.amount(at), 0) > leaseLeft(this.leaseOf(request, at), nowMs)) return null;
    }
    for (let at = 0; at < slots; at += 1) {
      if (!hasIdle(this.poolOf(request, at), this.sharedLimit(request.slotLimit(at), 1))) return null;
    }
    // A store that was restarted empty does not know what was used here; this process does.
    const { guard, local } = this.options;
    const localReservation = local.reserve(guard.open ? request : new UnlimitedReservationRequest(request));
    if (!localReservation.ok) return null;
    // It has its size from the beginning: a list that grows is allocated several times.
    const leaseSlots = claims === 0 ? noLeaseSlots : new Float64Array(claims);
    for (let at = 0; at < claims; at += 1) leaseSlots[at] = this.takeFromLease(request, at, nowMs);
    const held: HeldSlot[] = [];
    for (let at = 0; at < slots; at += 1) {
      const idle = this.slotLeases.takeIdle(this.poolOf(request, at), this.sharedLimit(request.slotLimit(at), 1));
      if (idle !== null) held.push(idle);
    }
    if (slots > 0) this.tick();
    return new LeasedReservation(this, request, localReservation, nowMs, leaseSlots, null, held, null);
  }

  /** Returns the slot of time that the amount is counted in. */
  private takeFromLease(request: ReservationRequest, at: number, nowMs: number): number {
    const lease = this.leaseOf(request, at);
    // Without a lease there is only room for a claim of nothing.
    if (lease === undefined) return 0;
    const wanted = wholeAmount(request.amount(at), 0);
    lease.left -= wanted;
    const { slot } = lease;
    if (isNextDue(lease, this.leaseMs, nowMs)) this.askAhead(lease, request.limit(at), nowMs);
    lease.spent += wanted;
    return slot;
  }

  /** Between its reservation and its settlement, a limit may have been forgotten, and have another lease. */
  private leaseOf(request: ReservationRequest, at: number): RateLease | undefined {
    const memo = request.memo(at);
    const known = memo?.held;
    if (known instanceof RateLease && known.store === this && !known.isForgotten) return known;
    const lease = this.leases.get(request.id(at));
    if (memo !== null && lease !== undefined) memo.held = lease;
    return lease;
  }

  private poolOf(request: ReservationRequest, at: number): SlotPool | undefined {
    return this.slotLeases.pool(request.slotId(at), request.slotMemo(at));
  }

  private takeIdle({ id, limit }: SlotLimit): HeldSlot | null {
    return this.slotLeases.takeIdle(this.slotLeases.pool(id), this.sharedLimit(limit, 1));
  }

  /** Whether other calls wait for one of these limits, which come first. */
  private hasWaiting(request: ReservationRequest): boolean {
    if (this.parked.size === 0 && this.queues.size === 0) return false;
    for (let at = 0; at < request.claims; at += 1) if (this.queues.has(request.id(at))) return true;
    for (let at = 0; at < request.slots; at += 1) {
      const id = request.slotId(at);
      if (this.queues.has(id) || this.parked.has(id)) return true;
    }
    return false;
  }

  /** Lets a call wait until a request for this limit is answered. */
  private enqueue(waiter: WaitingReservation, id: string): void {
    this.countQueued(waiter, 1);
    const queue = this.queues.get(id);
    if (queue !== undefined) {
      queue.push(waiter);
      return;
    }
    const started = [waiter];
    this.queues.set(id, started);
    this.watchQueue(id, started);
  }

  private countQueued({ claims, slots }: WaitingReservation, by: 1 | -1): void {
    for (const { id, amount } of claims) this.addQueued(id, by * wholeAmount(amount, 0));
    for (const { id } of slots) this.addQueued(id, by);
  }

  private addQueued(id: string, by: number): void {
    const sum = (this.queued.get(id) ?? 0) + by;
    if (sum > 0) this.queued.set(id, sum);
    else this.queued.delete(id);
  }

  /** Makes a call wait for a slot without blocking calls that need no slot of this limit. It asks again in a moment. */
  private park(waiter: WaitingReservation, id: string): void {
    const parked = this.parked.get(id);
    if (parked !== undefined) parked.waiters.push(waiter);
    else this.parked.set(id, { waiters: [waiter], cancel: this.options.after(this.tickMs * parkedTicks, () => this.unpark(id)) });
  }

  private unpark(id: string): void {
    const parked = this.parked.get(id);
    if (parked === undefined) return;
    parked.cancel();
    this.parked.delete(id);
    for (const waiter of parked.waiters) this.proceed(waiter);
  }

  /** Whether a call may be admitted without the store. One that needs a slot may not, until the store is certainly lost. */
  private mayDoWithoutStore({ slots, sinceMs }: Pick<WaitingReservation, "slots" | "sinceMs">, nowMs: number): boolean {
    if (this.options.processes() <= 1 || slots.every((slot) => this.hasIdle(slot))) return true;
    return this.isSurelyLost(nowMs) || nowMs - sinceMs >= slotWaitMaxMs;
  }

  private isSurelyLost(nowMs: number): boolean {
    const { lostSinceMs } = this.options.guard;
    return lostSinceMs !== null && nowMs - lostSinceMs >= this.leaseMs * lostAfterLeases;
  }

  /** Answers a call, or asks the store for what it needs; unless that is being requested already, then the call waits for the answer. */
  private proceed(waiter: WaitingReservation): void {
    const nowMs = this.nowMs();
    const { request, claims, slots } = waiter;
    const { open } = this.options.guard;
    const answer =
      this.refusal(claims, slots, nowMs) ??
      this.reserveFromLeases(request, nowMs) ??
      (open || !this.mayDoWithoutStore(waiter, nowMs) ? null : this.reserveWithoutStore(request, claims, slots));
    if (answer !== null) {
      waiter.resolve(answer);
      return;
    }
    const parkedFor = open ? slots.find(({ id }) => this.parked.has(id)) : slots.find((slot) => !this.hasIdle(slot));
    if (parkedFor !== undefined) {
      this.park(waiter, parkedFor.id);
      return;
    }
    const requested = slots.find((slot) => this.requestedSlots.has(slot.id) && !this.hasIdle(slot));
    const awaited = requested ?? claims.find(({ id, amount }) => this.isBeingLeased(id, amount, nowMs));
    if (awaited !== undefined) this.enqueue(waiter, awaited.id);
    else void this.askStore(waiter, nowMs);
  }

  /** The requests for these limits are answered: the calls that waited go on, in order. */
  private advance(ids: readonly string[], without: "store" | null): void {
    for (const id of ids) {
      const queue = this.queues.get(id);
      if (queue === undefined) continue;
      this.queues.delete(id);
      for (const waiter of queue) {
        this.countQueued(waiter, -1);
        if (without === null) this.proceed(waiter);
        else this.stopWaiting(waiter);
      }
    }
  }

  /** No call waits in a queue for longer than a healthy store takes to answer. */
  private watchQueue(id: string, queue: WaitingReservation[]): void {
    const { guard, after } = this.options;
    const { nowMs } = this;
    const leftMs = guard.stalledMs - (nowMs() - queue[0]!.sinceMs);
    timerWithLagGrace({ nowMs, after }, Math.max(1, leftMs), () => {
      if (this.queues.get(id) !== queue) return;
      for (let waiter = queue[0]; waiter !== undefined && nowMs() - waiter.sinceMs >= guard.stalledMs; waiter = queue[0]) {
        queue.shift();
        this.countQueued(waiter, -1);
        this.stopWaiting(waiter);
      }
      if (queue.length === 0) this.queues.delete(id);
      else this.watchQueue(id, queue);
    });
  }

  /** Lets a call that has waited go on without the store. */
  private stopWaiting(waiter: WaitingReservation): void {
    const { request, claims, slots } = waiter;
    const nowMs = this.nowMs();
    const answer = this.refusal(claims, slots, nowMs) ?? this.reserveFromLeases(request, nowMs);
    const missing = slots.find((slot) => !this.hasIdle(slot));
    if (answer !== null) waiter.resolve(answer);
    else if (missing !== undefined && !this.mayDoWithoutStore(waiter, nowMs)) this.park(waiter, missing.id);
    else waiter.resolve(this.reserveWithoutStore(request, claims, slots));
  }

  private isBeingLeased(id: string, amount: number, nowMs: number): boolean {
    const lease = this.leases.get(id);
    return lease !== undefined && lease.requesting && amount > leaseLeft(lease, nowMs);
  }

  private async askStore(waiter: WaitingReservation, askedMs: number): Promise<void> {
    const { claims, slots } = waiter;
    const draws = claims.map((claim) => this.drawFromLease(claim, askedMs));
    const requests = draws.flatMap(({ request }) => request ?? []);
    const requested = draws.flatMap(({ lease, request }, at) => (request === null || isExact(claims[at]!.limit) ? [] : [lease]));
    for (const lease of requested) lease.requesting = true;
    const idleSlots: HeldSlot[] = [];
    const slotLeases: SlotLease[] = [];
    for (const slot of slots) {
      const idle = this.takeIdle(slot);
      if (idle !== null) idleSlots.push(idle);
      else slotLeases.push(this.slotLeases.request(slot.id, this.sharedLimit(slot.limit, 1), this.slotsQueued(slot.id)));
    }
    for (const { id } of slotLeases) this.requestedSlots.add(id);
    const released = this.options.counts.releasesInPassing ? this.slotLeases.dueSlots() : [];
    let taken: TakeResult | null = null;
    try {
      taken = await this.options.guard.run(
        () => this.options.counts.take(requests, slotLeases, released),
        (late) => this.undo(late, slotLeases),
      );
    } catch {
      // The guard counts the failure. The store may have granted slots all the same, and only its answer was lost.
      this.slotLeases.notReleased(released);
      for (const slotLease of slotLeases) this.slotLeases.late(slotLease);
    }
    for (const lease of requested) lease.requesting = false;
    for (const { id } of slotLeases) this.requestedSlots.delete(id);
    const answer = this.afterAnswer(waiter, draws, taken, slotLeases, idleSlots, askedMs);
    if (answer === null) this.park(waiter, missingSlot(taken, slotLeases));
    else waiter.resolve(answer);
    // These calls have waited for the same answer. Where there is none, asking again would cost them another deadline.
    this.advance(
      [...requests, ...slotLeases].map(({ id }) => id),
      taken === null ? "store" : null,
    );
  }

  /** Requests the next lease for calls that are yet to come. */
  private askAhead(lease: RateLease, limit: number, askedMs: number): void {
    const { counts, guard } = this.options;
    if (!guard.open || this.stopped) return;
    const request = this.leaseRequest(lease, limit, 0, askedMs);
    lease.askedAhead = true;
    lease.requesting = true;
    const answered = (taken: TakeResult | null): void => {
      this.askedAhead.delete(asked);
      lease.requesting = false;
      if (taken !== null && taken.ok) this.noteGranted(lease, taken.granted[0]!, 0, 0, askedMs);
      this.advance([lease.id], taken === null ? "store" : null);
    };
    const asked = guard
      .run(
        () => counts.take([request], []),
        (late) => this.undo(late, []),
      )
      // The guard counts the failure.
      .then(answered, () => answered(null));
    this.askedAhead.add(asked);
  }

  /** How many slots of a limit the waiting calls need. */
  private slotsQueued(id: string): number {
    return Math.min(countedMax, this.queued.get(id) ?? 0);
  }

  /** Takes what the lease has, and returns what must be requested besides. */
  private drawFromLease({ id, limit, amount }: Claim, nowMs: number): LeaseDraw {
    const lease = this.lease(id, limit);
    const wanted = wholeAmount(amount, 0);
    const fromLease = Math.min(wanted, leaseLeft(lease, nowMs));
    lease.left -= fromLease;
    const need = wanted - fromLease;
    if (need === 0) return { lease, fromLease, leaseSlot: lease.slot, request: null };
    return { lease, fromLease, leaseSlot: lease.slot, request: this.leaseRequest(lease, limit, need, nowMs) };
  }

  private leaseRequest(lease: RateLease, limit: number, need: number, nowMs: number): CountRequest {
    const { id } = lease;
    const wish = isExact(limit) ? need : leaseWish(lease, limit, need + (this.queued.get(id) ?? 0), this.leaseMs, nowMs);
    lease.askedMs = nowMs;
    lease.spent = 0;
    // What was admitted without the store counts at once, although it is not reported yet.
    const room = Math.max(0, this.sharedLimit(limit, need) - this.corrections.unreportedOf(id));
    return { id, limit: room, need, wish, sharers: 4 * this.options.processes() };
  }

  /** Null: the call has to wait for a slot. `idleSlots` are those that this process held. */
  private afterAnswer(
    waiter: WaitingReservation,
    draws: readonly LeaseDraw[],
    taken: TakeResult | null,
    slotLeases: readonly SlotLease[],
    idleSlots: readonly HeldSlot[],
    askedMs: number,
  ): ReservationResult | null {
    const nowMs = this.nowMs();
    const { request, claims } = waiter;
    if (taken !== null && taken.ok) {
      let next = 0;
      const sources = draws.map(({ lease, fromLease, leaseSlot, request: asked }): ClaimSources => {
        if (asked === null) return { fromLease, leaseSlot, fromStore: 0, storeSlot: 0, unreported: 0 };
        const granted = taken.granted[next]!;
        next += 1;
        this.noteGranted(lease, granted, asked.need, fromLease, askedMs);
        return { fromLease, leaseSlot, fromStore: asked.need, storeSlot: granted.slot, unreported: 0 };
      });
      for (const { id } of slotLeases) this.fullSinceMs.delete(id);
      const granted = slotLeases.map((slotLease, at) => this.slotLeases.granted(slotLease, taken.slots[at] ?? 1));
      const localReservation = this.options.local.reserve(new UnlimitedReservationRequest(request));
      if (!localReservation.ok) throw new Error("a call without limits was refused");
      for (const [at, { lease }] of draws.entries()) lease.spent += wholeAmount(request.amount(at), 0);
      const slots = [...idleSlots, ...granted];
      if (slots.length > 0) this.tick();
      return new LeasedReservation(this, request, localReservation, nowMs, noLeaseSlots, sources, slots, null);
    }
    for (const [at, { lease, fromLease, leaseSlot }] of draws.entries()) {
      this.putBack(lease.id, fromLease, leaseSlot, nowMs, this.leaseOf(request, at));
    }
    for (const idleSlot of idleSlots) this.slotLeases.callEnded(idleSlot);
    if (taken === null) return this.mayDoWithoutStore(waiter, nowMs) ? this.reserveWithoutStore(request, claims, waiter.slots) : null;
    const fullSlot = slotLeases.find(({ id }) => id === taken.short);
    if (fullSlot !== undefined && !this.isFull(fullSlot, nowMs)) return null;
    const short = draws.find((draw) => draw.request?.id === taken.short);
    if (short !== undefined) {
      const { lease } = short;
      lease.remaining = taken.remaining;
      lease.ownUse = this.usedHere(lease.id) + lease.left;
      lease.knownMs = nowMs;
      noteNoRoom(lease, short.fromLease + (short.request?.need ?? 0), taken.waitMs, nowMs);
    }
    return this.refused(claims, taken.short, taken.waitMs, nowMs);
  }

  /** Whether no slot will become free soon. Before that is assumed, other processes get the time to return idle ones. */
  private isFull({ id }: SlotLease, nowMs: number): boolean {
    if (this.options.processes() <= 1) return true;
    const sinceMs = this.fullSinceMs.get(id) ?? nowMs;
    if (nowMs - sinceMs < this.tickMs * fullTicks) {
      this.fullSinceMs.set(id, sinceMs);
      return false;
    }
    this.fullSinceMs.delete(id);
    // Calls that wait for the same limit, or arrive in the next moment, would get the same answer.
    this.fullUntilMs.set(id, nowMs + Math.min(slotWaitMs, refusalMs));
    this.tick();
    if (this.parked.has(id)) this.unpark(id);
    return true;
  }

  /** The store granted an amount, of which a call needs some, besides what it has drawn from the lease before. The rest is the new lease. */
  private noteGranted(lease: RateLease, { amount, slot, remaining }: CountGrant, need: number, drawn: number, askedMs: number): void {
    lease.ownUse = this.usedHere(lease.id) + drawn + lease.left + amount;
    lease.knownMs = this.nowMs();
    lease.remaining = remaining;
    lease.refusedUntilMs = Number.NEGATIVE_INFINITY;
    if (amount <= need) return;
    this.returnLease(lease);
    lease.askedAhead = false;
    lease.size = amount - need;
    lease.left = lease.size;
    lease.slot = slot;
    lease.endsMs = askedMs + this.leaseMs;
    this.activeLeases.delete(lease);
    this.activeLeases.add(lease);
    // While the store was asked, the limit may have been forgotten, and become known again with another lease.
    const other = this.leases.get(lease.id);
    if (other !== undefined && other !== lease) this.forget(other);
    lease.isForgotten = false;
    // Active leases are evicted last.
    this.leases.delete(lease.id);
    this.leases.set(lease.id, lease);
    this.tick();
  }

  /** Reserves without the store. What was admitted is reported later. */
  private reserveWithoutStore(request: ReservationRequest, claims: readonly Claim[], slots: readonly SlotLimit[]): ReservationResult {
    const rule = this.options.onStoreLoss ?? "split";
    const nowMs = this.nowMs();
    if (rule === "closed") return this.refused(claims, claims[0]?.id ?? slots[0]?.id ?? "", lostWaitMs, nowMs);
    const tooMuch =
      claims.find((claim) => this.exceedsUnreported(claim, rule, nowMs)) ??
      slots.find((slot) => !this.hasIdle(slot) && this.isFullOfUnreported(slot, rule, nowMs));
    if (tooMuch !== undefined) return this.refused(claims, tooMuch.id, lostWaitMs, nowMs);
    const localClaims = claims.map((claim) => this.localClaim(claim, rule, nowMs));
    const localSlots = slots.map((slot) => ({
      id: slot.id,
      limit: this.hasIdle(slot) ? Infinity : this.localClaim({ ...slot, amount: 1 }, rule, nowMs).limit,
    }));
    const reservation = this.options.local.reserve(new ListedReservationRequest(localClaims, localSlots, ""));
    if (!reservation.ok) return reservation;
    const sources = claims.map(({ id, amount }): ClaimSources => {
      const unreported = wholeAmount(amount, 0);
      this.corrections.addUnreported(id, unreported);
      return { ...nothing, unreported };
    });
    const unreportedSlots: string[] = [];
    const held = slots.map((slot) => {
      const idle = this.takeIdle(slot);
      if (idle !== null) return idle;
      unreportedSlots.push(slot.id);
      this.unreportedSlots.set(slot.id, (this.unreportedSlots.get(slot.id) ?? 0) + 1);
      return this.slotLeases.unreportedSlot(slot.id, slot.limit);
    });
    this.tick();
    return new LeasedReservation(this, request, reservation, nowMs, noLeaseSlots, sources, held, unreportedSlots);
  }

  private localClaim({ id, limit, amount }: Claim, rule: StoreLossRule, nowMs: number): Claim {
    if (rule === "open") return { id, amount, limit: Infinity };
    const wanted = wholeAmount(amount, 0);
    const part = partWithoutStore(this.leases.get(id), { limit, amount: wanted }, this.options.processes(), nowMs - this.windowMs);
    return { id, amount, limit: part };
  }

  /** Whether too much would be used that the store does not know of: other processes may use the same amount. One call always passes. */
  private exceedsUnreported({ id, limit, amount }: Claim, rule: StoreLossRule, nowMs: number): boolean {
    if (rule === "open") return false;
    const unreported = this.corrections.unreportedOf(id);
    return unreported > 0 && unreported + wholeAmount(amount, 0) > limit * this.unreportedPart(nowMs);
  }

  private isFullOfUnreported({ id, limit }: SlotLimit, rule: StoreLossRule, nowMs: number): boolean {
    if (rule === "open") return false;
    const taken = this.unreportedSlots.get(id) ?? 0;
    return taken > 0 && taken + 1 > limit * this.unreportedPart(nowMs);
  }

  /** A short loss of the store should cost little accuracy, so the share is small until the store is certainly lost. */
  private unreportedPart(nowMs: number): number {
    const unreportedShare = this.options.unreportedShare?.() ?? Infinity;
    const others = this.options.processes() - 1;
    if (others <= 0 || this.isSurelyLost(nowMs)) return unreportedShare;
    return Math.min(unreportedShare, unreportedShareAtFirst / others);
  }

  /** Calls that took a slot without the store have ended. */
  unreportedSlotsFreed(ids: readonly string[]): void {
    for (const id of ids) {
      const left = (this.unreportedSlots.get(id) ?? 1) - 1;
      if (left > 0) this.unreportedSlots.set(id, left);
      else this.unreportedSlots.delete(id);
    }
  }

  /** What the processes that reach the store may use together; at least enough for this one call. */
  private sharedLimit(limit: number, need: number): number {
    const share = this.options.share?.() ?? 1;
    return share === 1 ? limit : Math.max(Math.floor(limit * share), Math.min(limit, need));
  }

  private statusWithoutStore(claim: Claim, nowMs: number): LimitStatus {
    const rule = this.options.onStoreLoss ?? "split";
    const { limit } = claim;
    const { remaining, resetMs } = this.statusOf(claim.id, limit, nowMs);
    if (rule === "open") return { limit, remaining: Math.max(remaining, claim.amount), resetMs, waitMs: 0 };
    if (rule === "closed" || this.exceedsUnreported(claim, rule, nowMs)) return { limit, remaining: 0, resetMs, waitMs: lostWaitMs };
    return { ...this.options.local.status(this.localClaim(claim, rule, nowMs)), limit };
  }

  /** Undoes what the store granted after the call had gone on without it. */
  private undo(late: TakeResult, slotLeases: readonly SlotLease[]): void {
    if (!late.ok) return;
    for (const { id, amount, slot } of late.granted) this.corrections.add(id, slot, -amount);
    for (const slotLease of slotLeases) this.slotLeases.late(slotLease);
    this.tick();
  }

  private returnUnused(
    id: string,
    { fromLease, leaseSlot, fromStore, storeSlot, unreported }: ClaimSources,
    amount: number,
    nowMs: number,
    lease: RateLease | undefined,
  ): void {
    const ofStore = Math.min(fromStore, amount);
    const ofLease = Math.min(fromLease, amount - ofStore);
    const ofUnreported = Math.min(unreported, amount - ofStore - ofLease);
    this.putBack(id, ofStore, storeSlot, nowMs, lease);
    this.putBack(id, ofLease, leaseSlot, nowMs, lease);
    // If it was reported meanwhile, its slot is not known: it stays counted until it leaves the window.
    if (ofUnreported > 0) this.corrections.reduceUnreported(id, ofUnreported);
  }

  /** Returns an amount to the lease that it came from, or else to the store. An old count must not be used as if it were new. */
  private putBack(id: string, amount: number, slot: number, nowMs: number, lease: RateLease | undefined): void {
    if (amount === 0) return;
    if (lease !== undefined && lease.slot === slot && lease.endsMs > nowMs) {
      lease.left += amount;
    } else {
      if (lease !== undefined) noteReturned(lease, amount);
      this.corrections.add(id, slot, -amount);
    }
    this.tick();
  }

  private countExcess(id: string, amount: number, nowMs: number, lease: RateLease | undefined): void {
    const fromLease = Math.min(amount, leaseLeft(lease, nowMs));
    if (lease !== undefined) {
      lease.left -= fromLease;
      noteReturned(lease, fromLease - amount);
    }
    this.corrections.add(id, null, amount - fromLease);
  }

  private returnLease(lease: RateLease): void {
    if (lease.left === 0) return;
    this.corrections.add(lease.id, lease.slot, -lease.left);
    noteReturned(lease, lease.left);
    lease.left = 0;
  }

  private lease(id: string, limit: number): RateLease {
    let lease = this.leases.get(id);
    if (lease === undefined) {
      if (this.leases.size >= this.leasesMax) this.forget(this.leases.values().next().value!);
      this.leases.set(id, (lease = new RateLease(this, id, limit)));
    }
    return lease;
  }

  private forget(lease: RateLease): void {
    this.returnLease(lease);
    this.activeLeases.delete(lease);
    this.leases.delete(lease.id);
    lease.isForgotten = true;
  }

  private statusOf(id: string, limit: number, nowMs: number): LimitStatus {
    const { resetMs } = this.options.local.status({ id, limit, amount: 0 });
    return { limit, remaining: leftForAll(this.leases.get(id), limit, nowMs), resetMs };
  }

  private usedHere(id: string): number {
    const limit = Number.MAX_SAFE_INTEGER;
    return limit - this.options.local.status({ id, limit, amount: 0 }).remaining;
  }

  /** Schedules the next report to the store. */
  private tick(): void {
    if (!this.stopped && this.cancelTimer === null) this.schedule();
  }

  /** Apart from `tick`, which most calls go through: a function with a closure in it has a scope made for it on the heap. */
  private schedule(): void {
    this.cancelTimer = this.options.after(this.tickMs, () => void this.ticked());
  }

  private async ticked(): Promise<void> {
    const nowMs = this.nowMs();
    for (const lease of this.activeLeases) {
      if (lease.endsMs > nowMs) break;
      this.returnLease(lease);
      this.activeLeases.delete(lease);
    }
    for (const [id, untilMs] of this.fullUntilMs) if (untilMs <= nowMs) this.fullUntilMs.delete(id);
    await Promise.all([this.corrections.flush(), this.slotLeases.maintain()]);
    this.cancelTimer = null;
    if (this.activeLeases.size > 0 || this.corrections.size > 0 || this.fullUntilMs.size > 0 || this.slotLeases.busy) this.tick();
  }
}

interface WaitingReservation {
  readonly request: ReservationRequest;
  /** What the request claims and which slots it needs, as lists. */
  readonly claims: readonly Claim[];
  readonly slots: readonly SlotLimit[];
  readonly resolve: (reservation: ReservationResult) => void;
  readonly sinceMs: number;
}

interface ParkedReservations {
  readonly waiters: WaitingReservation[];
  readonly cancel: () => void;
}

interface LeaseDraw {
  readonly lease: RateLease;
  readonly fromLease: number;
  readonly leaseSlot: number;
  readonly request: CountRequest | null;
}

/** Where the amount of a claim came from: a lease, a request to the store, or neither, because the store was lost. */
interface ClaimSources {
  readonly fromLease: number;
  readonly leaseSlot: number;
  readonly fromStore: number;
  readonly storeSlot: number;
  readonly unreported: number;
}

/** What a call holds. */
class LeasedReservation implements Reservation {
  readonly ok = true;
  private open = true;

  constructor(
    private readonly rates: LeasedRateLimits,
    readonly request: ReservationRequest,
    /** The one in the local store, which is settled together with this. */
    private readonly local: Reservation,
    private readonly nowMs: number,
    /** The slots of time that its amounts were counted in, by claim; of a call that took all from its leases. */
    readonly leaseSlots: Float64Array,
    /** Where its amounts came from, by claim; null: all of them from the leases. */
    readonly sources: readonly ClaimSources[] | null,
    readonly slots: readonly HeldSlot[],
    /** Where the store was lost: the limits of which it took a slot that the store does not know of. Null: the store knows of all. */
    private readonly unreportedSlots: readonly string[] | null,
  ) {}

  remaining(at: number): number {
    return this.unreportedSlots === null ? this.rates.remaining(this.request, at, this.nowMs) : this.local.remaining(at);
  }

  resetMs(at: number): number {
    return this.local.resetMs(at);
  }

  settle(amounts: readonly number[]): void {
    if (!this.open) throw new Error("what a call took of its limits was settled twice");
    this.open = false;
    this.local.settle(amounts);
    if (this.unreportedSlots !== null) this.rates.unreportedSlotsFreed(this.unreportedSlots);
    this.rates.settled(this, amounts);
  }
}

/** What is left of a limit for all processes, as of the last answer. */
function leftForAll(lease: RateLease | undefined, limit: number, nowMs: number): number {
  return lease === undefined ? limit : Math.min(limit, lease.remaining + leaseLeft(lease, nowMs));
}

/** Remembers for a moment that a limit has no room. */
function noteNoRoom(lease: RateLease, need: number, waitMs: number, nowMs: number): void {
  lease.refusedNeed = need;
  lease.refusedUntilMs = nowMs + Math.min(waitMs, refusalMs);
  lease.roomMs = nowMs + waitMs;
}

/** The slot that the store had no room for; the first, if the store did not answer. */
function missingSlot(taken: TakeResult | null, slotLeases: readonly SlotLease[]): string {
  return taken !== null && !taken.ok ? taken.short : (slotLeases[0]?.id ?? "");
}

const noLeaseSlots = new Float64Array(0);
const nothing: ClaimSources = { fromLease: 0, leaseSlot: 0, fromStore: 0, storeSlot: 0, unreported: 0 };
/** The most slots that are requested at once for waiting calls. */
const countedMax = 100;
/** A refusal is remembered for this long, so that clients which retry at once do not load the store. */
const refusalMs = 50;
const lostWaitMs = 1_000;
/** After how many ticks a call asks for a slot again, and after how many a limit counts as full. Idle slots are returned within two. */
const parkedTicks = 0.6;
const fullTicks = 3.5;
/** The longest wait for a slot if the store answers some requests and not others. */
const slotWaitMaxMs = 2_000;
/** A little longer than a process leaves a lost store alone. By then it has reported its use again. */
const cappedMs = 15_000;
/** The share of a limit that all others together may use without reporting it, until the store is certainly lost. */
const unreportedShareAtFirst = 0.05;
/** The store is certainly lost if it has not answered for the lifetime of two leases. */
const lostAfterLeases = 2;
