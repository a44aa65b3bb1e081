import { callsIn, count, marksIn, newTally, type Span, type Tally } from "./sliding-counter.ts";

/**
 * For a route with a single deployment, which no breaker may shut off: the worse it accepts, the fewer requests are let
 * through (client-side throttling, https://sre.google/sre-book/handling-overload/#eq2101). The formula alone would let
 * next to nothing through in a long outage and so notice its end late; hence one request a second always passes.
 */
export interface Throttle {
  readonly tally: Tally;
  readonly admittedMs: number;
}

export function newThrottle(): Throttle {
  return { tally: newTally(), admittedMs: Number.NEGATIVE_INFINITY };
}

/** Requests may outnumber accepted ones by this factor before any are turned away. */
const ratio = 2;
const span: Span = { slotMs: 5_000, slots: 24 };
const alwaysAfterMs = 1_000;

export function rejectionProbability({ tally }: Throttle, nowMs: number): number {
  const requests = callsIn(tally, span, nowMs);
  return Math.max(0, (requests - ratio * marksIn(tally, span, nowMs)) / (requests + 1));
}

export function throttleAdmits(throttle: Throttle, nowMs: number, dice: () => number): boolean {
  return nowMs - throttle.admittedMs >= alwaysAfterMs || dice() >= rejectionProbability(throttle, nowMs);
}

/** Counts every request for the route, sent or turned away. */
export function countRequest(throttle: Throttle, nowMs: number, admitted: boolean): void {
  count(throttle.tally, span, nowMs, 1, 0);
  if (admitted) (throttle as { admittedMs: number }).admittedMs = nowMs;
}

/** The upstream took the request and answered it. */
export function countAccept({ tally }: Throttle, nowMs: number): void {
  count(tally, span, nowMs, 0, 1);
}
