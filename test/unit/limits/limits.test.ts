import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  countCall,
  newHedgeQuota,
  takeHedge,
  countClientRetry,
  countFirst,
  mayRetry,
  newRetryBudget,
  takeRetry,
} from "../../../src/limits/retry-budget.ts";
import { callsIn, count, marksIn, newSlidingCounter } from "../../../src/limits/sliding-counter.ts";
import {
  countAccept,
  countRequest,
  newThrottle,
  rejectionProbability,
  type Throttle,
  throttleAdmits,
} from "../../../src/limits/throttle.ts";
import { diceOf } from "../../support/plan-world.ts";

const gaps = fc.array(
  fc.record({
    afterMs: fc.oneof(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 15_000 })),
    marked: fc.boolean(),
  }),
  { maxLength: 300 },
);

describe("a counter", () => {
  test("counts exactly what happened in the slots of its span", () => {
    const span = { slotMs: 1_000, slots: 11 };
    fc.assert(
      fc.property(gaps, (events) => {
        const counter = newSlidingCounter();
        let nowMs = 50_000;
        const all: { readonly atMs: number; readonly marked: boolean }[] = [];
        for (const { afterMs, marked } of events) {
          nowMs += afterMs;
          all.push({ atMs: nowMs, marked });
          count(counter, span, nowMs, marked ? 0 : 1, marked ? 1 : 0);
          const within = all.filter(({ atMs }) => Math.floor(atMs / 1_000) > Math.floor(nowMs / 1_000) - 11);
          expect(marksIn(counter, span, nowMs)).toBe(within.filter((event) => event.marked).length);
          expect(callsIn(counter, span, nowMs)).toBe(within.filter((event) => !event.marked).length);
          expect(counter.older.length).toBeLessThanOrEqual(10);
        }
        const laterMs = nowMs + 11_000;
        expect(callsIn(counter, span, laterMs) + marksIn(counter, span, laterMs)).toBe(0);
      }),
      { numRuns: 200 },
    );
  });
});

describe("the retry budget", () => {
  /** Every call fails and wants two retries at once. Returns the times of all upstream calls. */
  function storm(requestsPerSecond: number, seconds: number): { readonly first: number[]; readonly retries: number[] } {
    const budget = newRetryBudget();
    const first: number[] = [];
    const retries: number[] = [];
    for (let call = 0; call < requestsPerSecond * seconds; call += 1) {
      const nowMs = 7_777 + (call * 1_000) / requestsPerSecond;
      countFirst(budget, nowMs);
      first.push(nowMs);
      for (let time = 0; time < 2; time += 1) {
        if (takeRetry(budget, nowMs)) retries.push(nowMs);
      }
    }
    return { first, retries };
  }

  test("with everything failing at 200 requests a second, no ten seconds see more than 1.25 calls a request", () => {
    const { first, retries } = storm(200, 60);
    for (let startMs = 7_777; startMs + 10_000 <= 67_777; startMs += 37) {
      const within = (atMs: number): boolean => atMs >= startMs && atMs < startMs + 10_000;
      const requests = first.filter(within).length;
      expect(requests + retries.filter(within).length).toBeLessThanOrEqual(1.25 * requests);
    }
    expect(retries.length / first.length).toBeGreaterThan(0.15);
  });

  test("over any history, the retries of ten seconds stay within a fifth of the first attempts and three a second", () => {
    fc.assert(
      fc.property(gaps, (events) => {
        const budget = newRetryBudget();
        let nowMs = 1_234;
        const first: number[] = [];
        const retries: number[] = [];
        for (const { afterMs, marked } of events) {
          nowMs += afterMs;
          if (!marked) {
            first.push(nowMs);
            countFirst(budget, nowMs);
            continue;
          }
          const may = mayRetry(budget, nowMs);
          expect(takeRetry(budget, nowMs)).toBe(may);
          if (!may) continue;
          retries.push(nowMs);
          const spent = retries.filter((atMs) => atMs > nowMs - 10_000).length;
          // Time is cut into seconds, so that up to eleven of them may vouch for the retries of ten.
          expect(spent).toBeLessThanOrEqual(0.2 * first.filter((atMs) => atMs > nowMs - 11_000).length + 30);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("a quiet gateway may retry: three a second, saved up over ten", () => {
    const budget = newRetryBudget();
    countFirst(budget, 1_000);
    let allowed = 0;
    for (let time = 0; time < 100; time += 1) {
      if (takeRetry(budget, 1_000)) allowed += 1;
    }
    expect(allowed).toBe(30);
    expect(mayRetry(budget, 9_000)).toBe(false);
    expect(mayRetry(budget, 12_000)).toBe(true);
  });

  test("a client's own retries use up the same budget", () => {
    const budget = newRetryBudget();
    for (let call = 0; call < 100; call += 1) countClientRetry(budget, 1_000);
    expect(mayRetry(budget, 1_000)).toBe(false);
  });
});

describe("the throttle of a single deployment", () => {
  const after = (requests: number, accepts: number, nowMs: number): Throttle => {
    const throttle = newThrottle();
    for (let request = 0; request < requests; request += 1) countRequest(throttle, nowMs, true);
    for (let accept = 0; accept < accepts; accept += 1) countAccept(throttle, nowMs);
    return throttle;
  };

  test("turns nobody away while at least half is accepted", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 300 }), (requests, accepts) => {
        const probability = rejectionProbability(after(requests, accepts, 1_000), 1_000);
        expect(probability).toBeCloseTo(Math.max(0, (requests - 2 * accepts) / (requests + 1)));
        expect(probability).toBeLessThan(1);
        if (accepts * 2 >= requests) expect(probability).toBe(0);
      }),
    );
  });

  test("forgets after two minutes", () => {
    const failing = after(1_000, 0, 1_000);
    expect(rejectionProbability(failing, 60_000)).toBeGreaterThan(0.99);
    expect(rejectionProbability(failing, 125_000)).toBe(0);
  });

  test("in a long outage at 200 requests a second it lets about one a second through, so that its end is seen at once", () => {
    const dice = diceOf(3);
    const throttle = newThrottle();
    const admitted: number[] = [];
    for (let nowMs = 0; nowMs < 300_000; nowMs += 5) {
      const admits = throttleAdmits(throttle, nowMs, dice);
      countRequest(throttle, nowMs, admits);
      if (admits) admitted.push(nowMs);
    }
    const late = admitted.filter((atMs) => atMs > 120_000);
    expect(late.length).toBeLessThan(250);
    late.slice(1).forEach((atMs, at) => expect(atMs - late[at]!).toBeLessThanOrEqual(1_000));
  });
});

describe("the hedge quota of a route", () => {
  test("is ten at once, and then a twentieth of its calls and one every ten seconds", () => {
    fc.assert(
      fc.property(gaps, (events) => {
        const quota = newHedgeQuota();
        let nowMs = 5_000;
        let calls = 0;
        let hedges = 0;
        let lastMs = -Infinity;
        for (const { afterMs, marked } of events) {
          nowMs += afterMs;
          countCall(quota);
          calls += 1;
          if (!marked) continue;
          const due = hedges < 10 || nowMs - lastMs >= 10_000;
          const taken = takeHedge(quota, nowMs);
          expect(taken || !due).toBe(true);
          if (!taken) continue;
          hedges += 1;
          lastMs = nowMs;
          expect(hedges).toBeLessThanOrEqual(10 + 0.05 * calls + (nowMs - 5_000) / 10_000);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("at 200 slow calls a second every twentieth is hedged, no more", () => {
    const quota = newHedgeQuota();
    let hedges = 0;
    for (let call = 0; call < 10_000; call += 1) {
      countCall(quota);
      if (takeHedge(quota, call * 5)) hedges += 1;
    }
    expect(hedges).toBeLessThanOrEqual(10 + 500 + 5);
    expect(hedges).toBeGreaterThan(500);
  });

  test("is back after twenty calls, or after ten seconds", () => {
    const quota = newHedgeQuota();
    const empty = (): void => {
      while (takeHedge(quota, 0));
    };
    empty();
    for (let call = 0; call < 20; call += 1) {
      expect(takeHedge(quota, 0)).toBe(false);
      countCall(quota);
    }
    expect(takeHedge(quota, 0)).toBe(true);
    expect(takeHedge(quota, 9_999)).toBe(false);
    expect(takeHedge(quota, 10_000)).toBe(true);
  });
});
