import { callsIn, counted, marksIn, newTally, rolled, type Span, type Tally } from "./tally.ts";

/**
 * For a route with a single deployment, which no breaker may shut off: the worse it accepts, the fewer requests are let
 * through (client-side throttling, https://sre.google/sre-book/handling-overload/#eq2101). The formula alone would let
 * next to nothing through in a long outage and so notice its end late; hence one request a second always passes.
 */
export interface Throttle {
  readonly tally: Tally;
  readonly admittedMs: number;
}

export const newThrottle: Throttle = { tally: newTally, admittedMs: Number.NEGATIVE_INFINITY };

/** Requests may outnumber accepted ones by this factor before any are turned away. */
const ratio = 2;
const span: Span = { slotMs: 5_000, slots: 24 };
const alwaysAfterMs = 1_000;

const requested = { calls: 1, marks: 0 };
const accepted = { calls: 0, marks: 1 };

export function rejectionProbability(throttle: Throttle, nowMs: number): number {
  const now = rolled(throttle.tally, span, nowMs);
  const requests = callsIn(now);
  return Math.max(0, (requests - ratio * marksIn(now)) / (requests + 1));
}

export function throttleAdmits(throttle: Throttle, nowMs: number, dice: () => number): boolean {
  return nowMs - throttle.admittedMs >= alwaysAfterMs || dice() >= rejectionProbability(throttle, nowMs);
}

/** Counts every request for the route, sent or turned away. */
export function afterRequest(throttle: Throttle, nowMs: number, admitted: boolean): Throttle {
  const tally = counted(throttle.tally, span, nowMs, requested);
  return { tally, admittedMs: admitted ? nowMs : throttle.admittedMs };
}

/** The upstream took the request and answered it. */
export function afterAccept(throttle: Throttle, nowMs: number): Throttle {
  return { tally: counted(throttle.tally, span, nowMs, accepted), admittedMs: throttle.admittedMs };
}
