import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { RateLimitStatus } from "../../../src/gateway/admission/limiter.ts";
import { written } from "../../support/http-answer.ts";
import { putGoDuration, putRateLimitLines } from "../../../src/net/server/rate-limit-headers.ts";
import { amountMax, wholeAmount, adjust, fits, MinuteWindow, resetMs, take, used, waitMs } from "../../../src/limits/minute-window.ts";
import { leaseSize } from "../../../src/limits/budget-lease.ts";

const gap = fc.oneof(fc.integer({ min: 0, max: 900 }), fc.integer({ min: 0, max: 20_000 }), fc.integer({ min: 0, max: 130_000 }));
const steps = fc.array(fc.record({ gap, amount: fc.integer({ min: 0, max: 50 }), truth: fc.integer({ min: 0, max: 60 }) }), {
  minLength: 1,
  maxLength: 120,
});
const startMs = fc.integer({ min: 0, max: 200_000 });

describe("a sliding minute", () => {
  test("never lets more than the limit into any sixty seconds, wherever they begin", () => {
    fc.assert(
      fc.property(startMs, steps, fc.integer({ min: 1, max: 200 }), (start, list, limit) => {
        const window = new MinuteWindow();
        const taken: { readonly atMs: number; readonly amount: number }[] = [];
        let nowMs = start;
        for (const { gap, amount } of list) {
          nowMs += gap;
          if (!fits(window, limit, amount, nowMs)) continue;
          take(window, amount, nowMs);
          taken.push({ atMs: nowMs, amount });
          const within = taken.filter(({ atMs }) => atMs > nowMs - 60_000);
          expect(within.reduce((sum, { amount }) => sum + amount, 0)).toBeLessThanOrEqual(limit);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("frees what was taken after a minute and at most one slot", () => {
    fc.assert(
      fc.property(startMs, fc.integer({ min: 1, max: 100 }), (start, amount) => {
        const window = new MinuteWindow();
        take(window, amount, start);
        expect(used(window, start + 60_000)).toBe(amount);
        expect(used(window, start + 61_000)).toBe(0);
      }),
    );
  });

  test("counts exactly what its slots hold, also after corrections", () => {
    fc.assert(
      fc.property(startMs, steps, (start, list) => {
        const window = new MinuteWindow();
        const slots = new Map<number, number>();
        const pending: { readonly slot: number; readonly delta: number }[] = [];
        let nowMs = start;
        for (const { gap, amount, truth } of list) {
          nowMs += gap;
          const now = Math.floor(nowMs / 1_000);
          const earlier = pending.shift();
          if (earlier !== undefined) {
            adjust(window, earlier.slot, earlier.delta);
            if (earlier.slot > now - 61) slots.set(earlier.slot, Math.max(0, (slots.get(earlier.slot) ?? 0) + earlier.delta));
          }
          const slot = take(window, amount, nowMs);
          expect(slot).toBe(now);
          slots.set(slot, (slots.get(slot) ?? 0) + amount);
          pending.push({ slot, delta: truth - amount });
          if (truth % 3 === 0) pending.push({ slot, delta: -100 });
          const expected = [...slots].filter(([slot]) => slot > now - 61).reduce((sum, [, value]) => sum + value, 0);
          expect(used(window, nowMs)).toBe(expected);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("knows to the millisecond when an amount fits, and when all is free", () => {
    fc.assert(
      fc.property(startMs, steps, fc.integer({ min: 1, max: 200 }), fc.integer({ min: 0, max: 250 }), (start, list, limit, asked) => {
        const window = new MinuteWindow();
        let nowMs = start;
        for (const { gap, amount } of list) take(window, amount, (nowMs += gap));
        const wait = waitMs(window, limit, asked, nowMs);
        const copy = () => ({ ...window, older: window.older?.slice() ?? null });
        if (asked > limit) expect(wait).toBe(Infinity);
        else {
          expect(fits(copy(), limit, asked, nowMs + wait)).toBe(true);
          if (wait > 0) expect(fits(copy(), limit, asked, nowMs + wait - 1)).toBe(false);
        }
        const reset = resetMs(window, nowMs);
        expect(used(copy(), nowMs + reset)).toBe(0);
        if (reset > 0) expect(used(copy(), nowMs + reset - 1)).toBeGreaterThan(0);
      }),
      { numRuns: 300 },
    );
  });

  test("brings nothing back that has left it, and falls below nothing never", () => {
    const window = new MinuteWindow();
    const slot = take(window, 10, 5_000);
    adjust(window, slot, 90);
    expect(used(window, 66_000)).toBe(0);
    // Its place is another second's by now.
    adjust(window, slot, 90);
    expect(used(window, 66_000)).toBe(0);
    const later = take(window, 10, 66_000);
    adjust(window, later, -25);
    expect(used(window, 66_500)).toBe(0);
    take(window, 3, 66_500);
    expect(used(window, 66_500)).toBe(3);
  });

  test("takes a moment before its newest slot for the newest, so a clock that stumbles frees nothing", () => {
    const window = new MinuteWindow();
    take(window, 7, 100_000);
    take(window, 5, 30_000);
    expect(used(window, 30_000)).toBe(12);
    expect(used(window, 160_999)).toBe(12);
    expect(used(window, 161_000)).toBe(0);
  });
});

describe("amounts", () => {
  test("are whole, not negative and bounded, whatever they are made of", () => {
    expect(wholeAmount(1.2, 9)).toBe(2);
    for (const wrong of [Number.NaN, -1, Number.NEGATIVE_INFINITY]) expect(wholeAmount(wrong, 9)).toBe(9);
    for (const huge of [1e12, Infinity, Number.MAX_VALUE]) expect(wholeAmount(huge, 9)).toBe(amountMax);
  });
});

describe("the size of a lease", () => {
  test("is a fourth of an even share, at least the need, at most the bound, and shrinks with what is left", () => {
    expect(leaseSize(1, 4_000, 4)).toBe(250);
    expect(leaseSize(1, 40_000, 4, 500)).toBe(500);
    expect(leaseSize(900, 40_000, 4, 500)).toBe(900);
    expect(leaseSize(1, 3, 4)).toBe(1);
    expect(leaseSize(1, -10, 0)).toBe(1);
  });

  test("lets equal processes empty a limit in few steps, and none of them takes more than the share it finds", () => {
    let remaining = 1_000_000;
    let asks = 0;
    while (remaining > 0) {
      const lease = Math.min(remaining, leaseSize(1, remaining, 4));
      expect(lease).toBeLessThanOrEqual(Math.max(1, remaining / 16));
      remaining -= lease;
      asks += 1;
    }
    expect(asks).toBeLessThan(250);
  });
});

const goDuration = (ms: number): string => written((output) => putGoDuration(output, ms));

describe("durations in headers", () => {
  test.each([
    [0, "0s"],
    [-5, "0s"],
    [Number.NaN, "0s"],
    [0.2, "1ms"],
    [12, "12ms"],
    [999.5, "1s"],
    [1_200, "1.2s"],
    [59_999, "59.999s"],
    [60_000, "1m0s"],
    [360_000, "6m0s"],
    [61_500, "1m1.5s"],
    [3_600_000, "1h0m0s"],
    [90_061_001, "25h1m1.001s"],
  ])("%p ms is %p", (ms, text) => {
    expect(goDuration(ms)).toBe(text);
  });

  test("read back are the duration rounded up to a millisecond", () => {
    const read = (text: string): number => {
      const units: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };
      return [...text.matchAll(/([\d.]+)(ms|h|m|s)/g)].reduce((sum, [, figure, unit]) => sum + Number(figure) * units[unit!]!, 0);
    };
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e10, noNaN: true }), (ms) => expect(Math.round(read(goDuration(ms)))).toBe(Math.ceil(ms))),
    );
  });
});

describe("the headers of a rate limit status", () => {
  test("are three for each limit that the key has, and none without limits", () => {
    const lines = (rateLimitStatus: RateLimitStatus): string[] =>
      written((output) => putRateLimitLines(output, rateLimitStatus))
        .split("\r\n")
        .slice(1)
        .sort();
    const none = { requestsLimit: null, requestsRemaining: 0, requestsResetMs: 0, tokensLimit: null, tokensRemaining: 0, tokensResetMs: 0 };
    expect(lines(none)).toEqual([]);
    const requests = { requestsLimit: 60, requestsRemaining: 59, requestsResetMs: 1_000 };
    const tokens = { tokensLimit: 9_000, tokensRemaining: -0.5, tokensResetMs: 360_000 };
    const ofRequests = ["x-ratelimit-limit-requests: 60", "x-ratelimit-reset-requests: 1s", "x-ratelimit-remaining-requests: 59"];
    const ofTokens = ["x-ratelimit-limit-tokens: 9000", "x-ratelimit-reset-tokens: 6m0s", "x-ratelimit-remaining-tokens: 0"];
    expect(lines({ ...none, ...requests })).toEqual(ofRequests.toSorted());
    expect(lines({ ...none, ...tokens })).toEqual(ofTokens.toSorted());
    expect(lines({ ...requests, ...tokens })).toEqual([...ofRequests, ...ofTokens].sort());
    // Another key, and another moment.
    const later = { requestsLimit: 60, requestsRemaining: 3, requestsResetMs: 999.5 };
    const wider = { requestsLimit: 61, requestsRemaining: 3, requestsResetMs: 1_001 };
    for (const rateLimitStatus of [later, wider, later, requests]) {
      const spelled = [`limit-requests: ${rateLimitStatus.requestsLimit}`, `remaining-requests: ${rateLimitStatus.requestsRemaining}`];
      expect(lines({ ...rateLimitStatus, ...tokens })).toEqual(
        [...spelled, `reset-requests: ${goDuration(rateLimitStatus.requestsResetMs)}`]
          .map((line) => `x-ratelimit-${line}`)
          .concat(ofTokens)
          .sort(),
      );
    }
  });
});
