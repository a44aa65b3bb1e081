import { describe, expect, test } from "bun:test";
import { heapStats } from "bun:jsc";
import fc from "fast-check";
import type { Grant, Limiter, LimitExceeded } from "../../../src/gateway/admission/limiter.ts";
import { errorResponse } from "../../../src/http/errors.ts";
import { ResponseHead } from "../../../src/net/server/http-response.ts";
import { asResponse } from "../../support/http-answer.ts";
import type { Key } from "../../../src/keys/key.ts";
import { unlimited, unlimitedRates, type Demand, type Limits, type ModelLimits } from "../../../src/limits/limits.ts";
import { ListedReservationRequest, type Claim, type ReservationResult } from "../../../src/limits/rate-limit-store.ts";
import type { BudgetLimit, BudgetRefused, ReservedPeriod, ClockReading } from "../../../src/state/budgets/leased-budget.ts";
import { RefusedBudgets } from "../../../src/state/budgets/refused-budgets.ts";
import { makeLimiter } from "../../../src/state/limiter.ts";
import { MemoryRateLimits } from "../../../src/state/memory-rate-limits.ts";
import { prepared, reserve } from "../../support/reserve.ts";
import { asks } from "../../support/limits.ts";

const fits = (rates: MemoryRateLimits, one: Claim): boolean => rates.surelyFits(new ListedReservationRequest([one], [], ""));

function clockAt(startMs = 10_500): { nowMs: number; readonly read: () => number } {
  const clock = { nowMs: startMs, read: () => clock.nowMs };
  return clock;
}

const claim = (id: string, limit: number, amount: number): Claim => ({ id, limit, amount });

function taken(reservation: ReservationResult): ReservationResult & { readonly ok: true } {
  if (!reservation.ok) throw new Error(`short of ${reservation.shortId}`);
  return reservation;
}

describe("rates in memory", () => {
  test("take all claims and the slot, or none of them", () => {
    const rates = new MemoryRateLimits(clockAt().read);
    const slot = { id: "p", limit: 1, call: "c" };
    taken(reserve(rates, [claim("a", 10, 4), claim("b", 100, 30)], null));
    const short = reserve(rates, [claim("a", 10, 6), claim("b", 100, 71)], slot);
    expect(short).toMatchObject({ ok: false, shortId: "b", waitMs: 60_500 });
    expect([short.remaining(0), short.remaining(1)]).toEqual([6, 70]);
    expect(rates.slotsTaken("p")).toBe(0);
    const all = taken(reserve(rates, [claim("a", 10, 6), claim("b", 100, 70)], slot));
    expect([all.remaining(0), all.remaining(1), all.resetMs(0), all.resetMs(1)]).toEqual([0, 0, 60_500, 60_500]);
    expect(reserve(rates, [claim("c", 1, 1)], slot)).toMatchObject({ ok: false, shortId: "p" });
    expect(rates.status(claim("c", 1, 1)).remaining).toBe(1);
  });

  test("say without looking at the clock that a claim fits, and never where it does not", () => {
    const clock = clockAt();
    const rates = new MemoryRateLimits(clock.read);
    expect([fits(rates, claim("a", 3, 3)), fits(rates, claim("a", 3, 4))]).toEqual([true, false]);
    taken(reserve(rates, [claim("a", 3, 2)], null));
    expect([fits(rates, claim("a", 3, 1)), fits(rates, claim("a", 3, 2))]).toEqual([true, false]);
    clock.nowMs += 120_000;
    // It would fit by now; whoever wants to know that has to look.
    expect(fits(rates, claim("a", 3, 2))).toBe(false);
    expect(rates.status(claim("a", 3, 2)).waitMs).toBe(0);
  });

  test("replace a claim by the actual amount, in the time slot of the claim, and free the concurrency slot once", () => {
    const clock = clockAt();
    const rates = new MemoryRateLimits(clock.read);
    const reservation = taken(reserve(rates, [claim("a", 10, 8)], { id: "p", limit: 3, call: "c" }));
    clock.nowMs += 30_000;
    expect(rates.slotsTaken("p")).toBe(1);
    reservation.settle([3]);
    expect(rates.slotsTaken("p")).toBe(0);
    expect(rates.status(claim("a", 10, 8))).toEqual({ limit: 10, remaining: 7, resetMs: 30_500, waitMs: 30_500 });
    expect(() => reservation.settle([3])).toThrow("twice");
    expect(rates.slotsTaken("p")).toBe(0);
  });

  test("keep the claim if the actual amount is no number, and count at most what can be counted", () => {
    const rates = new MemoryRateLimits(clockAt().read);
    for (const truth of [Number.NaN, -3, Number.NEGATIVE_INFINITY]) {
      taken(reserve(rates, [claim(`a${truth}`, 10, 8)], null)).settle([truth]);
      expect(rates.status(claim(`a${truth}`, 10, 1)).remaining).toBe(2);
    }
    taken(reserve(rates, [claim("huge", 10, 1)], null)).settle([Infinity]);
    expect(rates.status(claim("huge", 10, 1)).remaining).toBe(0);
  });

  test("forget what has been idle, keep what is used, and never hold more than their bound", () => {
    const clock = clockAt();
    const rates = new MemoryRateLimits(clock.read, 100);
    const busy = taken(reserve(rates, [claim("busy", 10, 1)], { id: "busy slots", limit: 5, call: "c" }));
    for (let id = 0; id < 1_000; id += 1) {
      clock.nowMs += 10;
      taken(reserve(rates, [claim(`k${id}`, 10, 1)], null));
      expect(rates.size).toBeLessThanOrEqual(100);
    }
    // The quietest of those looked at go, so the newest are still there.
    expect(rates.status(claim("k999", 10, 1)).remaining).toBe(9);
    expect(rates.slotsTaken("busy slots")).toBe(1);
    busy.settle([1]);
    expect(rates.slotsTaken("busy slots")).toBe(0);
    clock.nowMs += 61_000;
    for (let id = 0; id < 60; id += 1) reserve(rates, [claim(`n${id}`, 10, 1)], null);
    expect(rates.size).toBeLessThanOrEqual(61);
  });

  test("count a limit that was forgotten and has come back once, also for calls that were prepared before", () => {
    const clock = clockAt();
    const rates = new MemoryRateLimits(clock.read, 2);
    const request = prepared([claim("a", 3, 1)], [], "c");
    const unprepared = new ListedReservationRequest([claim("a", 3, 1)], [], "c");
    taken(rates.reserve(request)).settle([1]);
    clock.nowMs += 1;
    for (const other of ["b", "c", "d"]) taken(rates.reserve(prepared([claim(other, 2, 1)], [], "c"))).settle([1]);
    expect(rates.status(claim("a", 3, 1)).remaining).toBe(3);
    for (const again of [unprepared, unprepared, request]) taken(rates.reserve(again));
    expect(rates.reserve(request).ok).toBe(false);
  });

  test("hold no window of a limit that was forgotten, though calls that were prepared for it are still known", () => {
    const windows = (): number => {
      Bun.gc(true);
      return heapStats().objectTypeCounts["Float64Array"] ?? 0;
    };
    const clock = clockAt();
    const rates = new MemoryRateLimits(clock.read, 10);
    const before = windows();
    const requests = Array.from({ length: 1_000 }, (_, at) => prepared([claim(`k${at}`, 3, 1)], [], "c"));
    for (const request of requests) {
      clock.nowMs += 1;
      taken(rates.reserve(request)).settle([1]);
    }
    expect(rates.size).toBe(10);
    expect(windows() - before).toBeLessThanOrEqual(20);
    for (const request of requests) taken(rates.reserve(request));
  });

  test("do not correct a limit that was forgotten and has come back by what was counted before", () => {
    const clock = clockAt();
    const rates = new MemoryRateLimits(clock.read, 2);
    const request = prepared([claim("a", 10, 8)], [], "c");
    const before = taken(rates.reserve(request));
    clock.nowMs += 1;
    for (const other of ["b", "c", "d"]) taken(rates.reserve(prepared([claim(other, 2, 1)], [], "c")));
    expect(rates.status(claim("a", 10, 1)).remaining).toBe(10);
    const after = taken(rates.reserve(request));
    before.settle([3]);
    expect(rates.status(claim("a", 10, 1)).remaining).toBe(2);
    after.settle([3]);
    expect(rates.status(claim("a", 10, 1)).remaining).toBe(7);
  });

  test("are told apart from those of another store for calls that were prepared for both", () => {
    const stores = [new MemoryRateLimits(clockAt().read), new MemoryRateLimits(clockAt().read)];
    const request = prepared([claim("both", 1, 1)], [{ id: "both slots", limit: 1 }], "c");
    for (const rates of stores) taken(rates.reserve(request));
    for (const rates of stores) expect(rates.slotsTaken("both slots")).toBe(1);
  });

  test("cost a new limit as much when there are many as when there are few", () => {
    // A look at each of those that are there, for each newcomer, would take minutes.
    const rates = new MemoryRateLimits(clockAt().read, 50_000);
    for (let id = 0; id < 200_000; id += 1) reserve(rates, [claim(`k${id}`, 10, 1)], null);
    expect(rates.size).toBe(50_000);
  });

  test("free the slot of every call, whatever the order, and never admit more calls than there are slots", () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.nat(20)), { maxLength: 200 }), fc.integer({ min: 1, max: 5 }), (steps, limit) => {
        const rates = new MemoryRateLimits(clockAt().read);
        const open: (ReservationResult & { readonly ok: true })[] = [];
        for (const at of steps) {
          if (at === null) {
            const reservation = reserve(rates, [], { id: "p", limit, call: "c" });
            expect(reservation.ok).toBe(open.length < limit);
            if (reservation.ok) open.push(reservation);
          } else open.splice(at % Math.max(1, open.length), 1)[0]?.settle([]);
          expect(rates.slotsTaken("p")).toBe(open.length);
        }
      }),
    );
  });
});

function keyWith(limits: Partial<Limits>): Key {
  return {
    id: "k1",
    name: "one",
    models: null,
    operations: null,
    channels: null,
    expiresMs: null,
    splits: { audio: false, input: false },
    group: null,
    limits: { ...unlimited, ...limits },
  };
}

const rule = (pattern: string, limits: Partial<ModelLimits>): ModelLimits => ({ ...unlimitedRates, budget: null, pattern, ...limits });
const demand = (more: Partial<Demand> = {}): Demand => ({ tokens: 0, audioSeconds: 0, characters: 0, nanos: 0, ...more });

/** Budgets that answer as they are told and note what becomes of it. */
class Till {
  readonly readClock = (): ClockReading => ({ nowMs: 0, wallMs: 0 });
  readonly reserved: (readonly [string, number])[] = [];
  readonly settled: (number | null)[] = [];
  refusal: BudgetRefused | null = null;
  refuses = (_line: BudgetLimit): boolean => this.refusal !== null;
  later = false;

  reserve(line: BudgetLimit, nanos: number): ReservedPeriod | BudgetRefused | Promise<ReservedPeriod | BudgetRefused> {
    const answer = this.refuses(line) && this.refusal !== null ? this.refusal : this.granted(line, nanos);
    return this.later ? Promise.resolve(answer) : answer;
  }

  private granted(line: BudgetLimit, nanos: number): ReservedPeriod {
    this.reserved.push([line.budget, nanos]);
    return { ok: true, settle: (_, truth) => void this.settled.push(truth) };
  }
}

function world(): { clock: ReturnType<typeof clockAt>; rates: MemoryRateLimits; till: Till; limiter: Limiter } {
  const clock = clockAt();
  const rates = new MemoryRateLimits(clock.read);
  const till = new Till();
  return { clock, rates, till, limiter: makeLimiter({ rates, budgets: till, wallMs: () => Date.parse("2026-02-10T12:00:00Z") }) };
}

function grant(answer: Grant | LimitExceeded | Promise<Grant | LimitExceeded>): Grant {
  if (answer instanceof Promise) throw new Error("an answer at once was promised");
  if (answer.kind === "limit_exceeded") throw new Error(answer.failure.publicMessage);
  return answer;
}

function limitExceeded(answer: Grant | LimitExceeded | Promise<Grant | LimitExceeded> | null): LimitExceeded {
  if (answer === null || answer instanceof Promise || answer.kind === "grant") throw new Error("a refusal at once was promised");
  return answer;
}

async function shown({
  failure,
  retryAfterMs,
}: LimitExceeded): Promise<{ readonly status: number; readonly retry: string | null; readonly error: unknown }> {
  const response = asResponse(errorResponse(failure, new ResponseHead("r"), retryAfterMs));
  const { error } = (await response.json()) as { readonly error: unknown };
  const retry = response.headers.get("retry-after-ms") ?? response.headers.get("x-should-retry");
  return { status: response.status, retry, error };
}

describe("a key's limits", () => {
  test("let a key without any through, at no cost", () => {
    const { limiter, rates } = world();
    const passed = grant(limiter.admit(keyWith({}), asks("m", "c"), demand({ tokens: 1e9, nanos: null })));
    expect(passed.rateLimitStatus).toBeNull();
    passed.settle(demand());
    expect(rates.size).toBe(0);
  });

  test("refuse the request that is one too many, and name the limit and the wait", async () => {
    const { limiter, clock } = world();
    const key = keyWith({ requests: 2 });
    grant(limiter.admit(key, asks("m", "c"), demand())).settle(demand());
    clock.nowMs += 5_000;
    expect(limiter.precheck(key)).toBeNull();
    const rateLimitStatus = { requestsLimit: 2, requestsRemaining: 0, requestsResetMs: 60_500, tokensLimit: null };
    expect(grant(limiter.admit(key, asks("m", "c"), demand())).rateLimitStatus).toMatchObject(rateLimitStatus);
    const refused = limitExceeded(limiter.admit(key, asks("m", "c"), demand()));
    expect(refused.rateLimitStatus).toMatchObject(rateLimitStatus);
    expect(limiter.precheck(key)?.rateLimitStatus).toEqual({ ...rateLimitStatus, tokensRemaining: 0, tokensResetMs: 0 });
    expect(await shown(refused)).toMatchObject({
      status: 429,
      retry: "55500",
      error: {
        type: "rate_limit_error",
        code: "rate_limit_exceeded",
        message: "This key is limited to 2 requests per minute, which leaves no room for this request now. Try again in 56 seconds.",
      },
    });
    expect(await shown(limitExceeded(limiter.precheck(key)))).toEqual(await shown(refused));
    clock.nowMs += 55_500;
    expect(limiter.precheck(key)).toBeNull();
    grant(limiter.admit(key, asks("m", "c"), demand()));
  });

  test("count tokens, seconds of audio and characters by the estimate, then by the actual use", () => {
    const { limiter } = world();
    const key = keyWith({ tokens: 100, audioSeconds: 2, characters: 50 });
    const first = grant(limiter.admit(key, asks("m", "c"), demand({ tokens: 60, audioSeconds: 1.5, characters: 10 })));
    expect(first.rateLimitStatus).toMatchObject({ requestsLimit: null, tokensLimit: 100, tokensRemaining: 40, tokensResetMs: 60_500 });
    expect(limitExceeded(limiter.admit(key, asks("m", "c"), demand({ tokens: 41 }))).failure.publicMessage).toContain(
      "100 tokens per minute",
    );
    expect(limitExceeded(limiter.admit(key, asks("m", "c"), demand({ audioSeconds: 0.501 }))).failure.publicMessage).toContain(
      "2 seconds of audio per minute",
    );
    expect(limitExceeded(limiter.admit(key, asks("m", "c"), demand({ characters: 41 }))).failure.publicMessage).toContain(
      "50 characters per minute",
    );
    first.settle(demand({ tokens: 10, audioSeconds: Number.NaN, characters: 50 }));
    expect(grant(limiter.admit(key, asks("m", "c"), demand({ tokens: 90 }))).rateLimitStatus?.tokensRemaining).toBe(0);
    expect(limitExceeded(limiter.admit(key, asks("m", "c"), demand({ audioSeconds: 0.501 }))).retryAfterMs).toBe(60_000);
    expect(limitExceeded(limiter.admit(key, asks("m", "c"), demand({ characters: 1 }))).retryAfterMs).toBe(60_000);
  });

  test("refuse for good what is more than the whole limit", async () => {
    const { limiter } = world();
    const refused = limitExceeded(limiter.admit(keyWith({ tokens: 100 }), asks("m", "c"), demand({ tokens: 101 })));
    expect(refused.retryAfterMs).toBeNull();
    const { status, retry, error } = await shown(refused);
    expect([status, retry]).toEqual([429, "false"]);
    expect(error).toMatchObject({
      code: "rate_limit_exceeded",
      message: expect.stringMatching(/100 tokens per minute.*never pass/) as string,
    });
    expect(limitExceeded(limiter.precheck(keyWith({ requests: 0 }))).retryAfterMs).toBeNull();
  });

  test("never use words, where a wait helps, that make a client framework give up", () => {
    const { limiter } = world();
    const key = keyWith({ requests: 1, concurrency: 1, tokens: 10, audioSeconds: 1, characters: 1 });
    const held = grant(limiter.admit(key, asks("m", "c"), demand({ tokens: 10, audioSeconds: 1, characters: 1 })));
    const said = [limitExceeded(limiter.precheck(key)), limitExceeded(limiter.admit(key, asks("m", "c"), demand()))];
    held.settle(demand({ tokens: 10, audioSeconds: 1, characters: 1 }));
    said.push(
      limitExceeded(limiter.precheck(key)),
      limitExceeded(limiter.admit(key, asks("m", "c"), demand())),
      limitExceeded(limiter.admit(key, asks("m", "c"), demand({ tokens: 11 }))),
    );
    for (const { failure } of said) expect(failure.publicMessage).not.toMatch(/billing|quota|credit/i);
  });

  test("admit so many calls at the same time, and the next one as soon as one has ended", async () => {
    const { limiter } = world();
    const key = keyWith({ concurrency: 1 });
    const held = grant(limiter.admit(key, asks("m", "c"), demand()));
    expect(await shown(limitExceeded(limiter.admit(key, asks("m", "d"), demand())))).toMatchObject({
      status: 429,
      retry: "1000",
      error: { type: "rate_limit_error", code: "concurrency_limit", message: expect.stringContaining("1 call at the same time") as string },
    });
    expect(limitExceeded(limiter.precheck(key)).failure.code).toBe("concurrency_limit");
    held.settle(null);
    expect(limiter.precheck(key)).toBeNull();
    grant(limiter.admit(key, asks("m", "e"), demand()));
  });

  test("for models hold on top of the key's own, by the first rule that fits, each with its own count", () => {
    const { limiter } = world();
    const key = keyWith({
      requests: 10,
      concurrency: 9,
      models: [rule("big-*", { requests: 2, concurrency: 1 }), rule("*", { requests: 5 })],
    });
    const big = grant(limiter.admit(key, asks("big-1", "a"), demand()));
    expect(big.rateLimitStatus).toMatchObject({ requestsLimit: 2, requestsRemaining: 1 });
    const refused = limitExceeded(limiter.admit(key, asks("big-2", "b"), demand()));
    expect(refused.failure.code).toBe("concurrency_limit");
    expect(refused.failure.publicMessage).toContain('for the models "big-*"');
    // The refusal took nothing of the key's own: nine are left, of which the other rule allows five.
    expect(grant(limiter.admit(key, asks("small", "c"), demand())).rateLimitStatus).toMatchObject({
      requestsLimit: 5,
      requestsRemaining: 4,
    });
    big.settle(demand());
    grant(limiter.admit(key, asks("big-2", "d"), demand())).settle(demand());
    expect(limitExceeded(limiter.admit(key, asks("big-2", "e"), demand())).failure.publicMessage).toContain(
      '2 requests per minute for the models "big-*"',
    );
    for (let call = 0; call < 4; call += 1) grant(limiter.admit(key, asks("small", "f"), demand())).settle(demand());
    expect(limitExceeded(limiter.admit(key, asks("small", "g"), demand())).failure.publicMessage).toContain(
      '5 requests per minute for the models "*"',
    );
  });

  test("count nothing for a call that never reached an upstream", () => {
    const { limiter, till } = world();
    const key = keyWith({ requests: 1, tokens: 10, budget: { nanos: 100, period: "day" } });
    for (let call = 0; call < 3; call += 1) grant(limiter.admit(key, asks("m", "c"), demand({ tokens: 10, nanos: 7 }))).settle(null);
    expect(till.settled).toEqual([null, null, null]);
  });
});

describe("a key's budgets", () => {
  const budget = { nanos: 10_000_000_000, period: "month" } as const;

  test("are reserved before a call, the key's own first, and settled with what it cost", () => {
    const { limiter, till } = world();
    const key = keyWith({ budget, models: [rule("big-*", { budget: { nanos: 50, period: "day" } })] });
    const held = grant(limiter.admit(key, asks("big-1", "c"), demand({ nanos: 9 })));
    expect(till.reserved).toEqual([
      ["k1", 9],
      ["k1 big-*", 9],
    ]);
    held.settle(demand({ nanos: 5 }));
    expect(till.settled).toEqual([5, 5]);
  });

  test("are settled once: a second time is a mistake that shows and changes nothing", () => {
    const { limiter, till } = world();
    const held = grant(limiter.admit(keyWith({ budget }), asks("m", "c"), demand({ nanos: 9 })));
    held.settle(demand({ nanos: 5 }));
    for (const again of [demand({ nanos: 5 }), null]) expect(() => held.settle(again)).toThrow("twice");
    expect(till.settled).toEqual([5]);
  });

  test("that leave too little for a call which all of it would be enough for are told, and others are not", () => {
    const told: string[] = [];
    const till = new Till();
    const rates = new MemoryRateLimits(clockAt().read);
    const limiter = makeLimiter({
      rates,
      budgets: till,
      wallMs: Date.now,
      refusals: { note: ({ budget }) => told.push(budget), forget: () => {} },
    });
    const key = keyWith({ budget: { nanos: 100, period: "month" } });
    const refusedWith = (refusal: BudgetRefused, nanos: number) => {
      till.refusal = refusal;
      limitExceeded(limiter.admit(key, asks("m", "c"), demand({ nanos })));
      return told.splice(0);
    };
    const spent = (spentNanos: number | null): BudgetRefused => ({ ok: false, why: "spent", spentNanos, held: null });
    expect(refusedWith(spent(95), 6)).toEqual(["k1"]);
    // What running calls hold may come back.
    expect(refusedWith(spent(95), 5)).toEqual([]);
    expect(refusedWith(spent(null), 6)).toEqual([]);
    expect(refusedWith(spent(95), 101)).toEqual([]);
    expect(refusedWith({ ...spent(95), why: "unavailable" }, 6)).toEqual([]);
  });

  test("are not told of any more once they admit a call that costs something", () => {
    const refused = new RefusedBudgets(() => 7);
    const till = new Till();
    const rates = new MemoryRateLimits(clockAt().read);
    const limiter = makeLimiter({ rates, budgets: till, wallMs: Date.now, refusals: refused });
    const key = keyWith({ budget: { nanos: 100, period: "month" } });
    const admit = (nanos: number) => limiter.admit(key, asks("m", "c"), demand({ nanos }));
    till.refusal = { ok: false, why: "spent", spentNanos: 82, held: null };
    limitExceeded(admit(20));
    expect(refused.list()).toEqual([{ budget: "k1", limitNanos: 100, atMs: 7 }]);
    till.refusal = null;
    expect(admit(0)).toMatchObject({ kind: "grant" });
    expect(refused.list()).toHaveLength(1);
    expect(admit(5)).toMatchObject({ kind: "grant" });
    expect(refused.list()).toEqual([]);
  });

  test("that are spent refuse for good, name the budget and tell when the next period begins", async () => {
    const { limiter, till } = world();
    till.refusal = { ok: false, why: "spent", spentNanos: 10_000_000_000, held: null };
    const refused = limitExceeded(limiter.admit(keyWith({ requests: 5, budget }), asks("m", "c"), demand({ nanos: 9 })));
    expect(refused.rateLimitStatus?.requestsLimit).toBe(5);
    expect(await shown(refused)).toMatchObject({
      status: 429,
      retry: "false",
      error: {
        type: "insufficient_quota",
        code: "insufficient_quota",
        message: "The budget of this key, $10 a month, is spent. The next month begins at 2026-03-01T00:00:00Z.",
      },
    });
    till.refusal = { ok: false, why: "spent", spentNanos: 9_000_000_000, held: null };
    const tight = limitExceeded(limiter.admit(keyWith({ budget }), asks("m", "c"), demand({ nanos: 1_200_000_000 })));
    expect(tight.failure.publicMessage).toContain("leaves too little for this request, which may cost $1.2,");
    till.refusal = {
      ok: false,
      why: "spent",
      spentNanos: 6_000_000_000,
      held: { heldNanos: 3_500_000_000, ownNanos: 500_000_000, others: 7 },
    };
    const held = limitExceeded(limiter.admit(keyWith({ budget }), asks("m", "c"), demand({ nanos: 1_200_000_000 })));
    expect(held.failure.publicMessage).toContain(
      "which may cost $1.2: $6 is spent, and $3.5 is held for calls under way or not counted yet ($0.5 by this process, $3 by 7 others).",
    );
    const never = limitExceeded(
      limiter.admit(keyWith({ budget: { ...budget, period: "total" } }), asks("m", "c"), demand({ nanos: 11_000_000_000 })),
    );
    expect(never.failure.publicMessage).toContain("$10 in all, is less than the $11 that this request may cost.");
  });

  test("that refuse return everything that was reserved before", () => {
    const { limiter, till, rates } = world();
    const key = keyWith({ requests: 5, concurrency: 1, budget, models: [rule("*", { budget, concurrency: 1 })] });
    till.refusal = { ok: false, why: "spent", spentNanos: 0, held: null };
    till.refuses = ({ models }) => models !== null;
    limitExceeded(limiter.admit(key, asks("m", "c"), demand({ nanos: 9 })));
    expect(till.settled).toEqual([null]);
    expect(rates.status(claim("k1 requests", 5, 1)).remaining).toBe(5);
    expect([rates.slotsTaken("k1 concurrency"), rates.slotsTaken("k1 concurrency *")]).toEqual([0, 0]);
  });

  test("that must be requested from the store are waited for, and a lost store refuses with 503", async () => {
    const { limiter, till, rates } = world();
    till.later = true;
    const key = keyWith({ requests: 5, budget, models: [rule("*", { budget })] });
    const held = await limiter.admit(key, asks("m", "c"), demand({ nanos: 9 }));
    expect(held.kind).toBe("grant");
    expect(till.reserved).toHaveLength(2);
    till.refusal = { ok: false, why: "unavailable", spentNanos: null, held: null };
    expect(await shown(limitExceeded(await limiter.admit(key, asks("m", "c"), demand({ nanos: 9 }))))).toMatchObject({
      status: 503,
      retry: "1000",
      error: { type: "service_unavailable_error", code: "store_unavailable" },
    });
    expect(rates.status(claim("k1 requests", 5, 1)).remaining).toBe(4);
  });

  test("refuse a model without a price and say how to fix it, unless the key allows it", async () => {
    const { limiter, till } = world();
    const refused = limitExceeded(limiter.admit(keyWith({ budget }), asks("mystery", "c"), demand({ nanos: null })));
    expect(await shown(refused)).toMatchObject({
      status: 403,
      retry: "false",
      error: { type: "permission_error", code: "price_unknown", param: "model" },
    });
    expect(refused.failure.publicMessage).toMatch(/"mystery".*sluice prices set/);
    const allowed = grant(limiter.admit(keyWith({ budget, unpriced: "allow" }), asks("mystery", "c"), demand({ nanos: null })));
    expect(till.reserved).toEqual([["k1", 0]]);
    allowed.settle(demand({ nanos: null }));
    expect(till.settled).toEqual([null]);
  });
});

describe("rates in a shared store", () => {
  test("may answer later, and are not counted twice when a second slot is refused", async () => {
    const memory = new MemoryRateLimits(clockAt().read);
    const later = { reserve: (...asked: Parameters<MemoryRateLimits["reserve"]>) => Promise.resolve(memory.reserve(...asked)) };
    const rates = { ...later, surelyFits: () => false, status: memory.status.bind(memory), slotsTaken: memory.slotsTaken.bind(memory) };
    const limiter = makeLimiter({ rates, budgets: new Till(), wallMs: Date.now });
    const key = keyWith({ requests: 2, concurrency: 5, models: [rule("*", { concurrency: 1 })] });
    const first = await limiter.admit(key, asks("m", "a"), demand());
    expect(first.kind).toBe("grant");
    expect(limitExceeded(await limiter.admit(key, asks("m", "b"), demand())).failure.code).toBe("concurrency_limit");
    expect(memory.status(claim("k1 requests", 2, 1)).remaining).toBe(1);
    expect(memory.slotsTaken("k1 concurrency")).toBe(1);
  });

  test("that fail refuse with 503 and take nothing", async () => {
    const rates = {
      reserve: () => Promise.reject(new Error("gone")),
      surelyFits: () => false,
      status: () => ({ limit: 2, remaining: 1, resetMs: 0 }),
      slotsTaken: () => 0,
    };
    const till = new Till();
    const limiter = makeLimiter({ rates, budgets: till, wallMs: Date.now });
    const refused = limitExceeded(
      await limiter.admit(keyWith({ requests: 2, budget: { nanos: 5, period: "day" } }), asks("m", "a"), demand()),
    );
    expect(refused.failure.kind).toBe("store_unavailable");
    expect(till.reserved).toEqual([]);
  });
});
