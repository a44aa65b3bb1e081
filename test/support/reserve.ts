import { ListedReservationRequest, type Claim, type ReservationRequest, type SlotLimit } from "../../src/limits/rate-limit-store.ts";

/** A limit on concurrent calls, and the call that needs a slot of it. */
export interface SlotClaim extends SlotLimit {
  readonly call: string;
}

/** Reserves the listed claims. */
export function reserve<Result>(
  rates: { reserve(request: ReservationRequest): Result },
  claims: readonly Claim[],
  slot: SlotClaim | null,
): Result {
  return rates.reserve(new ListedReservationRequest(claims, slot === null ? [] : [slot], slot?.call ?? ""));
}
