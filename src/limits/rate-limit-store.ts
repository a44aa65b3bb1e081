/** Counts what was used in the last minute and how many calls are running, in this process or over several. */
export interface RateLimitStore {
  /** Reserves everything a call needs, or nothing. */
  reserve(request: ReservationRequest): ReservationResult | Promise<ReservationResult>;
  /**
   * A cheap test that is true only where the request would certainly be granted. Where it is false, `status` and `slotsTaken` give
   * the precise answer.
   */
  surelyFits(request: ReservationRequest): boolean;
  /** What is left, as far as this process knows without asking the shared store. Used to reject a request before its body is read. */
  status(claim: Claim): LimitStatus;
  /** How many calls hold a concurrency slot, as far as this process knows. */
  slotsTaken(id: string): number;
}

/**
 * What a call needs of its limits. Every call makes such a request, so its limits are read by index from an object that exists
 * anyway, and no list is allocated for it.
 */
export interface ReservationRequest {
  /** The number of limits per minute. */
  readonly claims: number;
  /** Names the limit: the same for every call that shares it. */
  id(at: number): string;
  limit(at: number): number;
  amount(at: number): number;
  /** Where stores keep what they have found by the id; null where it would not be asked for again. */
  memo(at: number): LimitMemo | null;
  /** The number of limits on concurrent calls. The call needs a slot of each. */
  readonly slots: number;
  slotId(at: number): string;
  slotLimit(at: number): number;
  slotMemo(at: number): LimitMemo | null;
  /** Names the call, so that its slots can be freed if this process dies. */
  readonly call: string;
}

/**
 * What stores have found by the id of a limit that was prepared for many calls. A call through four levels has a dozen limits, and each
 * store would look each of them up again.
 */
export interface LimitMemo {
  /** What was used of it in this process. */
  counts: LimitRecord | null;
  /** What this process holds of it. */
  held: LimitRecord | null;
}

/** What a store knows of one limit. */
export interface LimitRecord {
  readonly store: object;
  /** The store has forgotten it, and may have made another one for the same limit. */
  readonly isForgotten: boolean;
}

/** One limit, and the amount that is requested of it. */
export interface Claim {
  readonly id: string;
  readonly limit: number;
  readonly amount: number;
  readonly memo?: LimitMemo;
}

/** A limit on concurrent calls. */
export interface SlotLimit {
  readonly id: string;
  readonly limit: number;
  readonly memo?: LimitMemo;
}

export type ReservationResult = Reservation | ReservationRefused;

/** What was reserved for a call. It is settled exactly once. */
export interface Reservation extends LimitStatuses {
  readonly ok: true;
  /** Replaces the claimed amounts by the actual ones, in the order of the limits, and frees the concurrency slots. What is no number stays as it was claimed. */
  settle(amounts: readonly number[]): void;
}

/** The status of each limit after a reservation, by its index in the request. They are read by index so that no call allocates a list. */
export interface LimitStatuses {
  remaining(at: number): number;
  /** The time until all of the limit is free again. */
  resetMs(at: number): number;
}

export interface LimitStatus {
  readonly limit: number;
  readonly remaining: number;
  /** The time until all of the limit is free again. */
  readonly resetMs: number;
  /** The time until the claimed amount fits, where that is known; zero when it fits now. */
  readonly waitMs?: number;
}

/** Statuses that were recorded when the reservation was made. */
export class RecordedLimitStatuses implements LimitStatuses {
  constructor(private readonly statuses: readonly LimitStatus[]) {}

  remaining(at: number): number {
    return this.statuses[at]!.remaining;
  }

  resetMs(at: number): number {
    return this.statuses[at]!.resetMs;
  }
}

/** A limit has no room, and nothing was reserved of any. */
export class ReservationRefused extends RecordedLimitStatuses {
  readonly ok = false;

  constructor(
    readonly shortId: string,
    readonly waitMs: number,
    statuses: readonly LimitStatus[],
  ) {
    super(statuses);
  }
}

/** A request made of lists. */
export class ListedReservationRequest implements ReservationRequest {
  constructor(
    private readonly list: readonly Claim[],
    private readonly slotList: readonly SlotLimit[],
    readonly call: string,
  ) {}

  get claims(): number {
    return this.list.length;
  }

  get slots(): number {
    return this.slotList.length;
  }

  id(at: number): string {
    return this.list[at]!.id;
  }

  limit(at: number): number {
    return this.list[at]!.limit;
  }

  amount(at: number): number {
    return this.list[at]!.amount;
  }

  memo(at: number): LimitMemo | null {
    return this.list[at]!.memo ?? null;
  }

  slotId(at: number): string {
    return this.slotList[at]!.id;
  }

  slotLimit(at: number): number {
    return this.slotList[at]!.limit;
  }

  slotMemo(at: number): LimitMemo | null {
    return this.slotList[at]!.memo ?? null;
  }
}

/** The same request, for which every limit has room: it is only counted. */
export class UnlimitedReservationRequest implements ReservationRequest {
  constructor(private readonly request: ReservationRequest) {}

  get claims(): number {
    return this.request.claims;
  }

  get slots(): number {
    return this.request.slots;
  }

  get call(): string {
    return this.request.call;
  }

  id(at: number): string {
    return this.request.id(at);
  }

  limit(): number {
    return Infinity;
  }

  amount(at: number): number {
    return this.request.amount(at);
  }

  memo(at: number): LimitMemo | null {
    return this.request.memo(at);
  }

  slotId(at: number): string {
    return this.request.slotId(at);
  }

  slotLimit(): number {
    return Infinity;
  }

  slotMemo(at: number): LimitMemo | null {
    return this.request.slotMemo(at);
  }
}

export function claimsOf(request: ReservationRequest): readonly Claim[] {
  return Array.from({ length: request.claims }, (_, at) => ({ id: request.id(at), limit: request.limit(at), amount: request.amount(at) }));
}

export function slotsOf(request: ReservationRequest): readonly SlotLimit[] {
  if (request.slots === 0) return noSlots;
  return Array.from({ length: request.slots }, (_, at) => ({ id: request.slotId(at), limit: request.slotLimit(at) }));
}

const noSlots: readonly SlotLimit[] = [];
