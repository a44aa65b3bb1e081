import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { candidatesOf, type Candidate } from "../../../src/channels/channel.ts";
import {
  afterFailure,
  afterSuccess,
  cause,
  chargedScope,
  type Health,
  isForgettable,
  isCostly,
  isHardCooled,
  isProbing,
  isProvedByContent,
  newHealth,
  opensAgainMs,
  probeEnded,
  scopeIds,
  slowStartFactor,
  breakerState,
  wellFromMs,
  withProbe,
} from "../../../src/channels/health.ts";
import { failure, type Failure, type FailureKind } from "../../../src/operations/failure.ts";
import { channel } from "../../support/plan-world.ts";

const middling = (): number => 0.5;
const overloaded = failure("overloaded", "503");
const unauthorized = failure("unauthorized", "401");
const limited = (retryAfterMs: number | null = null): Failure => failure("rate_limited", "429", { retryAfterMs });

/** Each outcome is of a call that began a moment before, or so long. */
function failed(health: Health | undefined, times: number, nowMs: number, what: Failure = overloaded, tookMs = 1): Health {
  let after = health ?? newHealth;
  for (let time = 0; time < times; time += 1) after = afterFailure(after, what, nowMs, middling, nowMs - tookMs);
  return after;
}

function succeeded(health: Health | undefined, times: number, nowMs: number): Health {
  let after = health ?? newHealth;
  for (let time = 0; time < times; time += 1) after = afterSuccess(after, nowMs, nowMs - 1);
  return after;
}

/** Failed once more at the moment it may be probed again, so many times. */
function probedInVain(health: Health, times: number, what: Failure = overloaded, tookMs = 1): Health {
  let after = health;
  for (let time = 0; time < times; time += 1) {
    const nowMs = opensAgainMs(after);
    after = afterFailure(withProbe(after, nowMs), what, nowMs + tookMs, middling, nowMs);
  }
  return after;
}

const openForMs = (health: Health, sinceMs: number): number => opensAgainMs(health) - sinceMs;

describe("the breaker opens", () => {
  test("a scope nobody has heard of is healthy", () => {
    expect(breakerState(undefined, 0)).toBe("closed");
    expect(breakerState(newHealth, 0)).toBe("closed");
    expect(slowStartFactor(undefined, 0)).toBe(1);
    expect(slowStartFactor(newHealth, 0)).toBe(1);
    expect(isHardCooled(undefined, 0)).toBe(false);
  });

  test("at the fifth failure in a row, not at the fourth", () => {
    expect(breakerState(failed(undefined, 4, 1_000), 1_000)).toBe("closed");
    expect(breakerState(failed(undefined, 5, 1_000), 1_000)).toBe("open");
  });

  test("not at the fifth failure if a success came between", () => {
    const interrupted = failed(succeeded(failed(succeeded(undefined, 12, 1_000), 4, 1_000), 1, 1_000), 4, 1_000);
    expect(breakerState(interrupted, 1_000)).toBe("closed");
  });

  test("when half of ten requests failed, not when four of ten did", () => {
    let health: Health | undefined;
    for (let pair = 0; pair < 4; pair += 1) health = failed(succeeded(health, 1, pair * 3_000), 1, pair * 3_000);
    expect(breakerState(succeeded(health, 2, 12_000), 12_000)).toBe("closed");
    expect(breakerState(failed(succeeded(health, 1, 12_000), 1, 12_000), 12_000)).toBe("open");
  });

  test("not for half of the very first requests: a share needs a few seconds to mean something", () => {
    let health: Health | undefined;
    for (let pair = 0; pair < 50; pair += 1) health = failed(succeeded(health, 1, 1_000 + pair), 1, 1_000 + pair);
    expect(breakerState(health, 1_100)).toBe("closed");
    expect(breakerState(failed(health, 1, 9_999), 9_999)).toBe("closed");
    expect(breakerState(failed(health, 1, 10_000), 10_000)).toBe("open");
  });

  test("never when fewer than ten requests say so and no five in a row", () => {
    let health: Health | undefined;
    for (let pair = 0; pair < 2; pair += 1) health = succeeded(failed(health, 3, 1_000), 1, 1_000);
    expect(breakerState(failed(health, 1, 1_000), 1_000)).toBe("closed");
  });

  test("for what failed in the last half minute, not for what failed before", () => {
    const early = failed(succeeded(failed(undefined, 4, 1_000), 4, 2_000), 1, 3_000);
    expect(breakerState(failed(early, 1, 20_000), 20_000)).toBe("open");
    expect(breakerState(failed(early, 1, 36_000), 36_000)).toBe("closed");
  });

  test("not for a burst of failures that the successes before it outweigh, though only so many of those were counted", () => {
    let health = succeeded(undefined, 1_000, 4_000);
    for (let burst = 0; burst < 12; burst += 1) {
      health = succeeded(failed(health, 3, 15_000), 1, 15_000);
      expect(breakerState(health, 15_000)).toBe("closed");
    }
  });

  test("not at five in a row where three in ten always fail, but soon when they all do", () => {
    let health: Health | undefined;
    for (let call = 0; call < 200; call += 1) health = call % 10 < 3 ? failed(health, 1, 1_000 + call) : succeeded(health, 1, 1_000 + call);
    expect(breakerState(failed(health, 11, 2_000), 2_000)).toBe("closed");
    expect(breakerState(failed(health, 16, 2_000), 2_000)).toBe("open");
  });

  test("not for a third of failures on top of earlier successes that nobody had kept a full count of", () => {
    let health = succeeded(undefined, 10_000, 4_000);
    for (let call = 0; call < 300; call += 1) {
      health = call % 10 < 3 ? failed(health, 1, 5_000 + call) : succeeded(health, 1, 5_000 + call);
      expect(breakerState(health, 5_000 + call)).toBe("closed");
    }
  });

  test.each([
    "client_gone",
    "deadline",
    "stale_socket",
    "model_failed",
    "invalid_request",
    "context_length",
    "saturated",
    "unsupported",
  ] satisfies FailureKind[])("never for %s", (kind) => {
    expect(failed(undefined, 20, 1_000, failure(kind, ""))).toEqual(newHealth);
  });
});

describe("the breaker stays open", () => {
  /** How long, as one probe after the other fails after so long. */
  function openTimes(tookMs: number, what: Failure = overloaded): readonly number[] {
    let health = failed(undefined, 5, 1_000, what, tookMs);
    const times = [openForMs(health, 1_000)];
    for (let probe = 0; probe < 8; probe += 1) {
      const nowMs = opensAgainMs(health);
      health = probedInVain(health, 1, what, tookMs);
      times.push(openForMs(health, nowMs + tookMs));
    }
    return times.map(Math.round);
  }

  test("twice as long each time a probe fails slowly, up to five minutes", () => {
    const minutes = [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000];
    expect(openTimes(1_000)).toEqual(minutes);
    expect(openTimes(60_000, failure("timed_out", ""))).toEqual(minutes);
    expect(openTimes(1, failure("interrupted", ""))).toEqual(minutes);
  });

  test.each(["overloaded", "disconnected", "unreachable", "bad_response"] satisfies FailureKind[])(
    "at most ten seconds where it fails within one (%s), jitter included",
    (kind) => {
      expect(Math.max(...openTimes(999, failure(kind, "")))).toBe(8_333);
      const health = probedInVain(failed(undefined, 5, 1_000), 5);
      const nowMs = opensAgainMs(health);
      const longest = afterFailure(withProbe(health, nowMs), failure(kind, ""), nowMs + 1, () => 0.999_999, nowMs);
      expect(openForMs(longest, nowMs + 1)).toBeLessThanOrEqual(10_000);
    },
  );

  test("no longer after a slow failure for all the quick ones before it", () => {
    const health = probedInVain(failed(undefined, 5, 1_000), 20);
    const nowMs = opensAgainMs(health);
    const slow = probedInVain(health, 1, overloaded, 5_000);
    expect(openForMs(slow, nowMs + 5_000)).toBe(20_000);
    expect([isCostly(health), isCostly(slow)]).toEqual([false, true]);
  });

  test("a fifth shorter or longer by the dice", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 0.999, noNaN: true }), (dice) => {
        const health = afterFailure(failed(undefined, 4, 1_000), overloaded, 1_000, () => dice, 999);
        expect(openForMs(health, 1_000)).toBeGreaterThanOrEqual(4_000);
        expect(openForMs(health, 1_000)).toBeLessThanOrEqual(6_000);
      }),
    );
  });

  test("and each healthy minute forgives one opening", () => {
    let health = probedInVain(failed(undefined, 5, 10_000, overloaded, 2_000), 3, overloaded, 2_000);
    const closedMs = opensAgainMs(health);
    health = succeeded(health, 2, closedMs);
    const reopenedAfter = (minutes: number): number => {
      const nowMs = closedMs + minutes * 60_000 + 2_010;
      return Math.round(openForMs(failed(health, 5, nowMs, overloaded, 2_000), nowMs));
    };
    expect([0, 1, 2, 3, 4, 50].map(reopenedAfter)).toEqual([80_000, 40_000, 20_000, 10_000, 5_000, 5_000]);
  });

  test("no longer for the failures of calls that were under way when it opened", () => {
    const health = failed(undefined, 5, 1_000);
    let after = health;
    for (let call = 0; call < 30; call += 1) after = afterFailure(after, overloaded, 1_001 + call, middling, 900);
    expect(after).toEqual(health);
  });

  test("in spite of successes of calls that were under way when it opened", () => {
    const health = failed(undefined, 5, 1_000);
    const after = afterSuccess(afterSuccess(health, 1_001, 900), 1_002, 900);
    expect(breakerState(after, 1_002)).toBe("open");
  });
});

describe("half-open", () => {
  const open = failed(undefined, 5, 1_000);
  const againMs = opensAgainMs(open);

  test("begins when the time is over", () => {
    expect(breakerState(open, againMs - 1)).toBe("open");
    expect(breakerState(open, againMs)).toBe("half_open");
  });

  test("one probe at a time", () => {
    const probing = withProbe(open, againMs);
    expect(isProbing(open, againMs)).toBe(false);
    expect(isProbing(probing, againMs)).toBe(true);
    expect(isProbing(afterSuccess(probing, againMs + 50, againMs), againMs + 50)).toBe(false);
    expect(isProbing(probeEnded(probing, againMs), againMs + 50)).toBe(false);
  });

  const outcomes = [
    overloaded,
    failure("timed_out", ""),
    failure("overloaded", "", { retryAfterMs: 1_000 }),
    unauthorized,
    failure("redirected", ""),
    limited(),
    failure("invalid_request", ""),
    "success",
  ] as const;
  const rows = outcomes.map((what) => [what === "success" ? what : what.kind, what] as const);
  test.each(rows)(
    "a probe is over when its attempt is, sent before its time or overtaken by another failure as it may be (%s)",
    (_, what) => {
      const outcome = (health: Health, nowMs: number, beganMs: number): Health =>
        what === "success" ? afterSuccess(health, nowMs, beganMs) : afterFailure(health, what, nowMs, middling, beganMs);
      const early = outcome(withProbe(open, 1_500), 1_600, 1_500);
      const overtaken = outcome(afterFailure(withProbe(open, 1_500), overloaded, 1_550, middling, 1_450), 1_600, 1_500);
      for (const after of [early, overtaken]) expect(isProbing(after, Math.max(1_600, opensAgainMs(after)))).toBe(false);
    },
  );

  test("the outcome of a call that began before the probe does not end the probe", () => {
    const probing = withProbe(open, againMs + 100);
    expect(isProbing(afterSuccess(probing, againMs + 200, againMs + 50), againMs + 200)).toBe(true);
    expect(isProbing(afterFailure(probing, limited(), againMs + 200, middling, againMs + 50), againMs + 200)).toBe(true);
  });

  test("a probe that never reports does not lock the scope out for ever", () => {
    expect(isProbing(withProbe(open, againMs), againMs + 3_600_000)).toBe(false);
  });

  test("a probe that timed out long before counts for nothing: its breaker has turned since", () => {
    const closed = succeeded(open, 2, againMs + 10);
    expect(afterFailure(closed, overloaded, againMs + 60_000, middling, againMs)).toEqual(closed);
  });

  test("two successes close it", () => {
    const once = succeeded(open, 1, againMs);
    expect(breakerState(once, againMs)).toBe("half_open");
    expect(breakerState(succeeded(once, 1, againMs + 10), againMs + 10)).toBe("closed");
  });

  test("a failure after one success opens it again, and the count starts over", () => {
    const reopened = probedInVain(succeeded(open, 1, againMs), 1);
    expect(breakerState(reopened, againMs + 2)).toBe("open");
    expect(breakerState(succeeded(reopened, 1, opensAgainMs(reopened)), opensAgainMs(reopened))).toBe("half_open");
  });

  test("failures from before it closed do not open it again", () => {
    const closed = succeeded(failed(open, 20, 1_500), 2, againMs);
    expect(breakerState(failed(closed, 4, againMs + 6_000), againMs + 6_000)).toBe("closed");
  });

  test("the first content of an answer disproves what opened it, but for streams that broke off", () => {
    expect(isProvedByContent(open)).toBe(true);
    expect(isProvedByContent(failed(undefined, 5, 1_000, failure("timed_out", ""), 60_000))).toBe(true);
    expect(isProvedByContent(failed(undefined, 5, 1_000, failure("interrupted", "")))).toBe(false);
    expect(isProvedByContent(succeeded(open, 2, againMs))).toBe(false);
  });

  test("a last resort that succeeds while it is open opens it to probes at once", () => {
    expect(breakerState(afterSuccess(open, 1_500, 1_400), 1_500)).toBe("half_open");
  });

  test("a last resort that fails while it is open does not put its probe off, and outweighs a success that began before", () => {
    const after = afterFailure(open, overloaded, 1_500, middling, 1_400);
    expect(opensAgainMs(after)).toBe(againMs);
    expect(afterSuccess(after, 1_600, 1_450)).toBe(after);
  });

  test("then the weight grows from a tenth to all of it in half a minute", () => {
    const closed = succeeded(open, 2, againMs);
    const factors = [0, 10_000, 20_000, 30_000, 90_000].map((ms) => slowStartFactor(closed, againMs + ms));
    expect(factors.map((factor) => Math.round(factor * 10) / 10)).toEqual([0.1, 0.4, 0.7, 1, 1]);
  });
});

describe("the upstream's own word", () => {
  test.each([
    [5_500, 5_500],
    [1, 1_000],
    [0, 1_000],
    [1e12, 3_600_000],
    [null, 10_000],
  ])("a 429 with Retry-After %p cools for %p ms at once", (retryAfterMs, expected) => {
    const health = failed(undefined, 1, 1_000, limited(retryAfterMs));
    expect(openForMs(health, 1_000)).toBe(expected);
    expect(isHardCooled(health, 1_000)).toBe(true);
    expect(cause(health, 1_000)).toBe("rate_limited");
  });

  test("it ends by itself, without a probe, and with little weight at first", () => {
    const health = failed(undefined, 1, 1_000, limited(4_000));
    expect(breakerState(health, 4_999)).toBe("open");
    expect(breakerState(health, 5_000)).toBe("closed");
    expect(isHardCooled(health, 5_000)).toBe(false);
    expect(slowStartFactor(health, 5_000)).toBeCloseTo(0.1);
    expect(slowStartFactor(health, 35_000)).toBe(1);
  });

  test("without a figure, ours doubles up to an hour", () => {
    let health: Health | undefined;
    const times: number[] = [];
    let nowMs = 1_000;
    for (let time = 0; time < 11; time += 1) {
      health = failed(health, 1, nowMs, limited());
      times.push(openForMs(health, nowMs) / 1_000);
      nowMs = opensAgainMs(health) + 1;
    }
    expect(times).toEqual([10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600]);
  });

  test("the doubling ends with the first call it lets in again", () => {
    const twice = failed(failed(undefined, 1, 1_000, limited()), 1, 20_000, limited());
    const served = succeeded(twice, 1, 60_000);
    expect(openForMs(failed(served, 1, 70_000, limited()), 70_000)).toBe(10_000);
  });

  test("the retries of one call do not lengthen the wait they came too early for", () => {
    const first = failed(undefined, 1, 1_000, limited());
    const third = failed(failed(first, 1, 2_000, limited()), 1, 4_000, limited());
    expect(openForMs(third, 4_000)).toBe(10_000);
  });

  test("many calls refused at the same time are one refusal", () => {
    let health: Health | undefined;
    for (let call = 0; call < 50; call += 1) health = afterFailure(health, limited(), 1_000 + call, middling, 500);
    expect(openForMs(health!, 1_049)).toBe(10_000);
  });

  test("a late, shorter figure does not shorten a longer one", () => {
    const health = failed(failed(undefined, 1, 1_000, limited(60_000)), 1, 2_000, limited(3_000));
    expect(opensAgainMs(health)).toBe(61_000);
  });

  test("a 503 with Retry-After is obeyed too, and still counts as a failure", () => {
    const withWait = failure("overloaded", "503", { retryAfterMs: 30_000 });
    const once = failed(undefined, 1, 1_000, withWait);
    expect(isHardCooled(once, 1_000)).toBe(true);
    expect(cause(once, 1_000)).toBe("overloaded");
    expect(breakerState(failed(failed(once, 4, 1_000), 0, 1_000), 31_500)).toBe("half_open");
  });

  test("a probe answered with 429 is over, and the scope stays half-open after the wait", () => {
    const open = failed(undefined, 5, 1_000);
    const againMs = opensAgainMs(open);
    const after = afterFailure(withProbe(open, againMs), limited(2_000), againMs + 5, middling, againMs);
    expect(breakerState(after, againMs + 6)).toBe("open");
    expect(breakerState(after, againMs + 2_005)).toBe("half_open");
    expect(isProbing(after, againMs + 2_005)).toBe(false);
  });
});

describe("what cannot work until it is fixed", () => {
  test.each(["unauthorized", "quota_exhausted", "model_missing"] satisfies FailureKind[])(
    "%s is off for a minute, then twice as long, up to fifteen",
    (kind) => {
      const what = failure(kind, "");
      let health = failed(undefined, 1, 1_000, what);
      const times = [openForMs(health, 1_000)];
      for (let probe = 0; probe < 5; probe += 1) {
        const nowMs = opensAgainMs(health);
        health = probedInVain(health, 1, what);
        times.push(openForMs(health, nowMs + 1));
      }
      expect(times).toEqual([60_000, 120_000, 240_000, 480_000, 900_000, 900_000]);
      expect(isHardCooled(health, opensAgainMs(health) - 1)).toBe(false);
    },
  );

  test.each(["redirected", "misconfigured"] satisfies FailureKind[])("%s is off for a minute each time", (kind) => {
    const health = probedInVain(failed(undefined, 1, 1_000, failure(kind, "")), 3, failure(kind, ""));
    expect(openForMs(health, opensAgainMs(health) - 60_000)).toBe(60_000);
    expect(breakerState(health, opensAgainMs(health))).toBe("half_open");
  });

  test("ten calls refused at once are one refusal", () => {
    let health: Health | undefined;
    for (let call = 0; call < 10; call += 1) health = afterFailure(health, unauthorized, 1_000 + call, middling, 500);
    expect(opensAgainMs(health)).toBe(61_000);
  });

  test("a fixed credential starts over: its next rejection switches it off for a minute again", () => {
    const fixed = succeeded(probedInVain(failed(undefined, 1, 1_000, unauthorized), 2, unauthorized), 2, 500_000);
    expect(openForMs(failed(fixed, 1, 600_000, unauthorized), 600_000)).toBe(60_000);
  });

  test("a quota that names its own return is not asked before", () => {
    const withWait = failure("quota_exhausted", "", { retryAfterMs: 1_800_000 });
    expect(openForMs(failed(undefined, 1, 1_000, withWait), 1_000)).toBe(1_800_000);
  });
});

describe("cost", () => {
  test("a busy healthy scope is remembered without a new value for each success", () => {
    const busy = succeeded(undefined, 64, 1_000);
    for (let call = 0; call < 1_000; call += 1) expect(afterSuccess(busy, 1_000 + call, 1_000)).toBe(busy);
  });

  test("from when on a scope is well is known without looking at it again, whatever has happened to it", () => {
    const happens = fc.record({
      what: fc.constantFrom<"success" | Failure>("success", "success", overloaded, unauthorized, limited(), limited(45_000)),
      times: fc.integer({ min: 1, max: 6 }),
      gapMs: fc.constantFrom(1, 900, 8_000, 40_000),
      laterMs: fc.integer({ min: 0, max: 60_000 }),
    });
    fc.assert(
      fc.property(fc.array(happens, { maxLength: 12 }), (story) => {
        let health: Health | undefined;
        let nowMs = 1_000_000;
        expect(nowMs).toBeGreaterThanOrEqual(wellFromMs(health));
        for (const { what, times, gapMs, laterMs } of story) {
          nowMs += gapMs;
          health = what === "success" ? succeeded(health, times, nowMs) : failed(health, times, nowMs, what);
          const atMs = nowMs + laterMs;
          const isWell = breakerState(health, atMs) === "closed" && slowStartFactor(health, atMs) === 1;
          expect(atMs >= wellFromMs(health)).toBe(isWell);
        }
      }),
    );
  });

  test("memory is bounded however long a scope lives", () => {
    let health: Health | undefined;
    for (let nowMs = 0; nowMs < 3_600_000; nowMs += 700) {
      health = nowMs % 2_100 === 0 ? failed(health, 1, nowMs) : succeeded(health, 1, nowMs);
    }
    expect(JSON.stringify(health).length).toBeLessThan(1_000);
  });

  test("an entry that says nothing any more may be dropped, and not before", () => {
    const well = succeeded(undefined, 3, 1_000);
    expect(isForgettable(well, 2_000)).toBe(false);
    expect(isForgettable(well, 40_000)).toBe(true);
    const closed = succeeded(failed(undefined, 5, 1_000), 2, 7_000);
    expect(isForgettable(succeeded(closed, 1, 8_000), 45_000)).toBe(false);
    expect(isForgettable(succeeded(closed, 1, 8_000), 70_000)).toBe(true);
    expect(isForgettable(failed(undefined, 1, 1_000), 1e9)).toBe(false);
  });
});

describe("who is charged", () => {
  const [plain] = candidatesOf({ id: "a/m", model: "m", channel: channel("a") }) as [Candidate];
  const [grouped] = candidatesOf({ id: "b/m", model: "m", channel: channel("b", { quota: "org" }) }) as [Candidate];
  const [pooled] = candidatesOf({ id: "c/m", model: "m", channel: channel("c", { credentials: ["k1", "k2"] }) }) as [Candidate];
  const cases: readonly [FailureKind, string | null, string | null, string | null][] = [
    ["unreachable", "host a.test", "host b.test", "host c.test"],
    ["connect_timeout", "host a.test", "host b.test", "host c.test"],
    ["redirected", "host a.test", "host b.test", "host c.test"],
    ["overloaded", "deployment a/m", "deployment b/m", "deployment c/m"],
    ["timed_out", "deployment a/m", "deployment b/m", "deployment c/m"],
    ["interrupted", "deployment a/m", "deployment b/m", "deployment c/m"],
    ["model_missing", "deployment a/m", "deployment b/m", "deployment c/m"],
    ["unauthorized", "credential a-key", "credential b-key", "credential k1"],
    ["rate_limited", "deployment a/m", "quota org", "credential k1"],
    ["quota_exhausted", "credential a-key", "quota org", "credential k1"],
    ["content_policy", null, null, null],
    ["client_gone", null, null, null],
    ["stale_socket", null, null, null],
  ];
  test.each(cases)("%s is charged to exactly one scope: alone %p, in a quota group %p, in a pool %p", (kind, alone, group, pool) => {
    expect(chargedScope(plain, failure(kind, ""))).toBe(alone);
    expect(chargedScope(grouped, failure(kind, ""))).toBe(group);
    expect(chargedScope(pooled, failure(kind, ""))).toBe(pool);
  });

  test("a limit the upstream put on the account is charged to the credential even outside a pool", () => {
    expect(chargedScope(plain, failure("rate_limited", "", { scope: "credential" }))).toBe("credential a-key");
    expect(chargedScope(plain, failure("rate_limited", "", { scope: "quota" }))).toBe("credential a-key");
  });

  test("a success is good news for every scope", () => {
    expect(scopeIds(plain.scopes)).toEqual(["host a.test", "credential a-key", "deployment a/m"]);
    expect(scopeIds(grouped.scopes)).toEqual(["host b.test", "credential b-key", "deployment b/m", "quota org"]);
  });
});
