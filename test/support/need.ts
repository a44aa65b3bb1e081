import { ListedReservationRequest } from "../../src/limits/listed-need.ts";
import type { Claim, ReservationRequest, SlotClaim } from "../../src/limits/rate-limit-store.ts";

/** Takes of a keeper what is listed. */
export function take<Answer>(rates: { take(need: ReservationRequest): Answer }, claims: readonly Claim[], place: SlotClaim | null): Answer {
  return rates.take(new ListedReservationRequest(claims, place));
}
