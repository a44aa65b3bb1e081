import {
  ListedReservationRequest,
  type Claim,
  type LimitMemo,
  type ReservationRequest,
  type SlotLimit,
} from "../../src/limits/rate-limit-store.ts";

/** A limit on concurrent calls, and the call that needs a slot of it. */
export interface SlotClaim extends SlotLimit {
  readonly call: string;
}

/** Reserves the listed claims. Every other call is one of a key whose limits were prepared, as calls of a gateway are. */
export function reserve<Result>(
  rates: { reserve(request: ReservationRequest): Result },
  claims: readonly Claim[],
  slot: SlotClaim | null,
): Result {
  const slots = slot === null ? [] : [slot];
  calls += 1;
  return rates.reserve(
    calls % 2 === 0 ? new ListedReservationRequest(claims, slots, slot?.call ?? "") : prepared(claims, slots, slot?.call ?? ""),
  );
}

/** The request of a call whose limits were prepared: stores keep what they have found with the limit, from one call to the next. */
export function prepared(claims: readonly Claim[], slots: readonly SlotLimit[], call: string): ReservationRequest {
  return new PreparedReservationRequest(claims, slots, call);
}

class PreparedReservationRequest extends ListedReservationRequest {
  constructor(
    private readonly claimed: readonly Claim[],
    private readonly needed: readonly SlotLimit[],
    call: string,
  ) {
    super(claimed, needed, call);
  }

  override memo(at: number): LimitMemo {
    return memoOf(this.claimed[at]!.id);
  }

  override slotMemo(at: number): LimitMemo {
    return memoOf(this.needed[at]!.id);
  }
}

export function newLimitMemo(): LimitMemo {
  return { counts: null, held: null };
}

function memoOf(id: string): LimitMemo {
  let memo = memos.get(id);
  if (memo === undefined) memos.set(id, (memo = newLimitMemo()));
  return memo;
}

const memos = new Map<string, LimitMemo>();
let calls = 0;
