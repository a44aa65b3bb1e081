import { ListedReservationRequest, type Claim, type ReservationRequest, type SlotClaim } from "../../src/limits/rate-limit-store.ts";

/** Reserves the listed claims. */
export function reserve<Result>(
  rates: { reserve(request: ReservationRequest): Result },
  claims: readonly Claim[],
  slot: SlotClaim | null,
): Result {
  return rates.reserve(new ListedReservationRequest(claims, slot));
}
