import { ListedNeed } from "../../src/limits/listed-need.ts";
import type { Claim, Need, Place } from "../../src/limits/rate-limit-store.ts";

/** Takes of a keeper what is listed. */
export function take<Answer>(rates: { take(need: Need): Answer }, claims: readonly Claim[], place: Place | null): Answer {
  return rates.take(new ListedNeed(claims, place));
}
