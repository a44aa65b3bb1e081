import { callsIn, count, marksIn, newSlidingCounter, type SlidingCounter, type WindowSpan } from "./sliding-counter.ts";

/**
 * For a route with a single deployment, which no circuit breaker may shut off: the fewer requests it accepts, the fewer are let
 * through (client-side throttling, equation 21-1 of https://sre.google/sre-book/handling-overload/). The formula alone would let next to
 * nothing through in a long outage and so notice its end late; hence one request a second always passes.
 */
export interface Throttle {
  readonly counter: SlidingCounter;
  admittedMs: number;
}

export function newThrottle(): Throttle {
  return { counter: newSlidingCounter(), admittedMs: Number.NEGATIVE_INFINITY };
}

/** Requests may outnumber accepted ones by this factor before any are rejected. */
const ratio = 2;
const span: WindowSpan = { slotMs: 5_000, slots: 24 };
const alwaysAfterMs = 1_000;

export function rejectionProbability({ counter }: Throttle, nowMs: number): number {
  const requests = callsIn(counter, span, nowMs);
  return Math.max(0, (requests - ratio * marksIn(counter, span, nowMs)) / (requests + 1));
}

export function throttleAdmits(throttle: Throttle, nowMs: number, dice: () => number): boolean {
  return nowMs - throttle.admittedMs >= alwaysAfterMs || dice() >= rejectionProbability(throttle, nowMs);
}

/** Counts every request for the route, whether it was sent or rejected. */
export function countRequest(throttle: Throttle, nowMs: number, admitted: boolean): void {
  count(throttle.counter, span, nowMs, 1, 0);
  if (admitted) throttle.admittedMs = nowMs;
}

/** The upstream accepted the request and answered it. */
export function countAccept({ counter }: Throttle, nowMs: number): void {
  count(counter, span, nowMs, 0, 1);
}
