import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Candidate } from "../../../src/channels/channel.ts";
import { chargedScope } from "../../../src/channels/health.ts";
import { failure, type Failure, type FailureFacts, type FailureKind } from "../../../src/operations/failure.ts";
import { finalFailure } from "../../../src/routing/final-failure.ts";
import { judge, type JudgeInput, type NextAttempt, type FailedAttempt, type Verdict } from "../../../src/routing/judge.ts";
import type { Candidates } from "../../../src/routing/plan.ts";
import { kindsOfAttempts, kindsOfChannels } from "../../support/failure-kinds.ts";
import { candidate, candidates, policy } from "../../support/plan-world.ts";

const [a, b, c] = [candidate("a"), candidate("b"), candidate("c")];

function planned(...tiers: readonly (readonly Candidate[])[]): Candidates {
  const choices = tiers.flatMap((tier, at) => tier.map((one) => ({ candidate: one, tier: at, probe: false })));
  return { ok: true, mode: "normal", candidates: choices, skipped: [] };
}

function failed(who: Candidate, kind: FailureKind, facts: FailureFacts & { readonly tookMs?: number } = {}): FailedAttempt {
  const { tookMs = 50, ...rest } = facts;
  return { candidate: who, failure: failure(kind, "", rest), tookMs };
}

function verdict(plan: Candidates, attempts: readonly FailedAttempt[], facts: Partial<JudgeInput> = {}): Verdict {
  return judge({
    policy,
    plan,
    failedAttempts: attempts,
    deadlineMs: 120_000,
    remainingMs: 100_000,
    attemptTimerMs: 60_000,
    bodyBytes: 1_000,
    hostedTools: false,
    promptTokensEstimate: 1_000,
    upload: false,
    canRetry: true,
    admits: () => true,
    admitsAsLastResort: () => true,
    dice: () => 0.5,
    ...facts,
  });
}

function next(...args: Parameters<typeof verdict>): NextAttempt {
  const found = verdict(...args);
  if (found.action !== "attempt") throw new Error(`stopped: ${found.because}`);
  return found;
}

function stopped(...args: Parameters<typeof verdict>): string {
  const found = verdict(...args);
  return found.action === "stop" ? found.because : `next: ${found.candidate.deployment.id}`;
}

describe("a failure in a tier of equals", () => {
  test.each([
    "unreachable",
    "tls_failed",
    "connect_timeout",
    "disconnected",
    "timed_out",
    "overloaded",
    "rate_limited",
    "quota_exhausted",
    "unauthorized",
    "model_missing",
    "misconfigured",
    "redirected",
    "bad_response",
    "model_failed",
    "saturated",
  ] satisfies FailureKind[])("%s is retried on another channel, after nothing but jitter", (kind) => {
    expect(next(planned([a, b, c]), [failed(a, kind)])).toEqual({
      action: "attempt",
      candidate: b,
      probe: false,
      afterMs: 25,
      same: false,
      free: false,
    });
  });

  test.each([
    ["invalid_request", "client_fault"],
    ["content_policy", "client_fault"],
    ["client_gone", "client_gone"],
    ["deadline", "deadline"],
    ["interrupted", "committed"],
    ["shutting_down", "gateway"],
    ["no_channel", "gateway"],
    ["internal", "gateway"],
  ] satisfies [FailureKind, string][])("%s ends the call: %s", (kind, because) => {
    expect(stopped(planned([a, b, c]), [failed(a, kind)])).toBe(because);
  });

  test("skips a candidate that is no longer healthy", () => {
    expect(next(planned([a, b, c]), [failed(a, "overloaded")], { admits: (one) => one !== b }).candidate).toBe(c);
  });

  test("a probe stays a probe", () => {
    const plan = planned([a, b]);
    const probing: Candidates = {
      ...plan,
      candidates: plan.candidates.map((choice) => ({ ...choice, probe: choice.candidate === b })),
    };
    expect(next(probing, [failed(a, "overloaded")]).probe).toBe(true);
  });
});

describe("a request that can be repeated in an adapted form", () => {
  const otherwise: FailedAttempt = { ...failed(a, "unsupported", { param: "response_format" }), failure: adaptedRetry() };

  function adaptedRetry(): Failure {
    return { ...failure("unsupported", "", { param: "response_format" }), retryAdapted: true };
  }

  test("is sent to the same channel again at once, then to another", () => {
    expect(next(planned([a, b]), [otherwise])).toMatchObject({ candidate: a, afterMs: 0, same: true });
    expect(next(planned([a, b]), [otherwise, failed(a, "unsupported")])).toMatchObject({ candidate: b });
    expect(stopped(planned([a]), [otherwise, failed(a, "unsupported")])).toBe("client_fault");
  });

  test("does not count as an attempt, so a large upload still reaches another channel", () => {
    const large = { bodyBytes: 20_000_000, upload: true };
    expect(next(planned([a, b]), [otherwise, failed(a, "unsupported")], large).candidate).toBe(b);
  });
});

describe("the full queue of a local model", () => {
  const { address } = a.deployment.channel;
  const [here] = candidates("here", { address: { ...address, baseUrl: "engine://local/v1" } }) as readonly [Candidate];
  const full = failed(here, "rate_limited", { retryAfterMs: 1_000 });

  test("is reported to the client at once, without a wait", () => {
    expect(stopped(planned([here]), [full])).toBe("no_candidate");
    expect(next(planned([a]), [failed(a, "rate_limited", { retryAfterMs: 1_000 })]).afterMs).toBeGreaterThanOrEqual(1_000);
  });

  test("sends the call to another channel at once, also to one of a lower tier", () => {
    expect(next(planned([here], [b]), [full])).toMatchObject({ candidate: b, afterMs: 25 });
  });
});

describe("what a failure rules out for the call", () => {
  const pool = candidates("pool", { credentials: ["k1", "k2", "k3"] });
  const [k1, k2] = pool as readonly [Candidate, Candidate, Candidate];

  test("a deployment's failure rules out its other credentials", () => {
    expect(next(planned([...pool, b]), [failed(k1, "overloaded")]).candidate).toBe(b);
  });

  test.each(["unauthorized", "quota_exhausted", "rate_limited"] satisfies FailureKind[])("%s in a pool: that credential only", (kind) => {
    expect(next(planned([...pool, b]), [failed(k1, kind)]).candidate).toBe(k2);
  });

  test("a host's failure rules out every candidate on that host", () => {
    const neighbour = candidate("n", { host: "a.test" });
    expect(next(planned([a, neighbour, b]), [failed(a, "unreachable")]).candidate).toBe(b);
    expect(next(planned([a, neighbour, b]), [failed(a, "overloaded")]).candidate).toBe(neighbour);
  });

  test("a quota group's failure rules out every candidate of that account", () => {
    const [x, y] = [candidate("x", { quota: "org" }), candidate("y", { quota: "org" })];
    expect(next(planned([x, y, b]), [failed(x, "rate_limited")]).candidate).toBe(b);
    expect(next(planned([x, y, b]), [failed(x, "overloaded")]).candidate).toBe(y);
  });
});

describe("attempts", () => {
  test("three at most, two for large bodies", () => {
    const plan = planned([a, b, c, candidate("d")]);
    const two = [failed(a, "overloaded"), failed(b, "overloaded")];
    expect(next(plan, two).candidate).toBe(c);
    expect(stopped(plan, [...two, failed(c, "overloaded")])).toBe("attempts");
    expect(stopped(plan, two, { bodyBytes: 1024 * 1024 + 1 })).toBe("attempts");
    expect(next(plan, two, { bodyBytes: 1024 * 1024 }).candidate).toBe(c);
  });

  test("an empty retry budget stops the call, whether a candidate is left or not", () => {
    expect(stopped(planned([a, b]), [failed(a, "overloaded")], { canRetry: false })).toBe("budget");
  });

  test("a stale socket is retried once, at once, and is not charged to the retry budget", () => {
    const first = failed(a, "stale_socket");
    expect(next(planned([a, b]), [first], { canRetry: false })).toMatchObject({
      candidate: a,
      afterMs: 0,
      same: true,
      free: true,
    });
    expect(next(planned([a, b]), [first, first])).toMatchObject({ candidate: b, free: false });
    expect(next(planned([a, b, c]), [first, failed(a, "overloaded"), failed(b, "overloaded")]).candidate).toBe(c);
  });

  test("starts no attempt that has too little time left", () => {
    const go = (remainingMs: number, facts: Partial<JudgeInput> = {}): string =>
      stopped(planned([a, b]), [failed(a, "overloaded")], { remainingMs, dice: () => 0, ...facts });
    expect(go(6_000)).toBe("next: b/m");
    expect(go(5_999)).toBe("deadline");
    expect(go(2_000, { attemptTimerMs: 10_000 })).toBe("next: b/m");
    expect(go(1_999, { attemptTimerMs: 10_000 })).toBe("deadline");
    expect(go(200, { deadlineMs: 1_000 })).toBe("next: b/m");
    expect(go(199, { deadlineMs: 1_000 })).toBe("deadline");
  });
});

describe("before a lower tier", () => {
  test.each(["overloaded", "disconnected"] satisfies FailureKind[])("a quick %s gets the tier one more try after a backoff", (kind) => {
    expect(next(planned([a], [b]), [failed(a, kind)])).toMatchObject({ candidate: a, same: true, afterMs: 125 });
  });

  test("a 429 that names a short wait gets it after that wait; one that names a long wait or none does not", () => {
    const after = (retryAfterMs: number | null): NextAttempt =>
      next(planned([a], [b]), [failed(a, "rate_limited", { retryAfterMs })], { admits: (one) => one !== a });
    expect(after(3_000)).toMatchObject({ candidate: a, afterMs: 3_025 });
    expect(after(5_001).candidate).toBe(b);
    expect(after(null).candidate).toBe(b);
  });

  test("the tier is asked once more, not twice", () => {
    const twice = [failed(a, "overloaded"), failed(a, "overloaded")];
    expect(next(planned([a], [b]), twice).candidate).toBe(b);
    expect(next(planned([a], [b]), twice, { policy: { ...policy, attemptsMax: 9 } }).candidate).toBe(b);
  });

  test("not if no attempt would be left for the lower tier", () => {
    expect(next(planned([a, b], [c]), [failed(a, "overloaded"), failed(b, "overloaded")]).candidate).toBe(c);
    expect(next(planned([a], [b]), [failed(a, "overloaded")], { bodyBytes: 2 * 1024 * 1024 }).candidate).toBe(b);
  });

  test.each([
    ["timed_out", 100],
    ["connect_timeout", 100],
    ["unreachable", 10],
    ["overloaded", 20_000],
    ["unauthorized", 50],
  ] satisfies [FailureKind, number][])("none after %s that took %p ms", (kind, tookMs) => {
    expect(next(planned([a], [b]), [failed(a, kind, { tookMs })]).candidate).toBe(b);
  });

  test("not if a candidate of the tier timed out", () => {
    const attempts = [failed(a, "timed_out", { tookMs: 4_000 }), failed(b, "overloaded")];
    expect(next(planned([a, b], [c]), attempts, { policy: { ...policy, attemptsMax: 5 } }).candidate).toBe(c);
  });

  test("not if the breaker has opened meanwhile, or the wait is too long", () => {
    expect(next(planned([a], [b]), [failed(a, "overloaded")], { admits: (one) => one !== a }).candidate).toBe(b);
    const late = { remainingMs: 6_500, dice: (): number => 0 };
    expect(next(planned([a], [b]), [failed(a, "rate_limited", { retryAfterMs: 3_000 })], late).candidate).toBe(b);
  });
});

describe("when no other candidate is left", () => {
  test("the same candidate is asked again after a backoff that doubles", () => {
    const wide = { policy: { ...policy, attemptsMax: 9 }, dice: (): number => 0.999_999 };
    const waits: number[] = [];
    for (let times = 1; times <= 7; times += 1) {
      waits.push(
        Math.round(
          next(
            planned([a]),
            Array.from({ length: times }, () => failed(a, "overloaded")),
            wide,
          ).afterMs,
        ),
      );
    }
    expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000, 4_000, 4_000]);
  });

  test("even if its breaker opened meanwhile", () => {
    expect(next(planned([a]), [failed(a, "overloaded")], { admits: () => false })).toMatchObject({
      candidate: a,
      same: true,
    });
  });

  test("a short Retry-After is waited for; a long one ends the call", () => {
    const after = (retryAfterMs: number | null, facts: Partial<JudgeInput> = {}): string | number => {
      const found = verdict(planned([a]), [failed(a, "rate_limited", { retryAfterMs })], { dice: () => 0.5, ...facts });
      return found.action === "attempt" ? found.afterMs : found.because;
    };
    expect(after(2_000)).toBe(2_025);
    expect(after(5_001)).toBe("no_candidate");
    expect(after(null)).toBe(500);
    expect(after(4_000, { remainingMs: 12_000 })).toBe("no_candidate");
    expect(after(2_500, { remainingMs: 12_000, attemptTimerMs: 10_000 })).toBe(2_525);
  });

  test.each([
    "timed_out",
    "unauthorized",
    "quota_exhausted",
    "model_missing",
    "redirected",
    "misconfigured",
    "tls_failed",
    "model_failed",
    "saturated",
  ] satisfies FailureKind[])("not after %s", (kind) => {
    expect(stopped(planned([a]), [failed(a, kind)])).toBe("no_candidate");
  });

  test("of several candidates, the one with the fewest attempts is asked, in the order of the plan", () => {
    expect(next(planned([a, b]), [failed(b, "overloaded"), failed(a, "overloaded")]).candidate).toBe(a);
    expect(next(planned([a, b]), [failed(a, "overloaded"), failed(b, "unauthorized")])).toMatchObject({
      candidate: a,
      same: false,
    });
    const wide = { policy: { ...policy, attemptsMax: 5 } };
    expect(next(planned([a, b]), [failed(a, "overloaded"), failed(b, "overloaded"), failed(a, "overloaded")], wide).candidate).toBe(b);
  });

  test("not a candidate whose account was ruled out by another's failure", () => {
    const [m1, m2] = [candidate("m1", { quota: "org" }), candidate("m2", { quota: "org" })];
    expect(stopped(planned([m1, m2]), [failed(m1, "overloaded"), failed(m2, "quota_exhausted")])).toBe("no_candidate");
  });
});

describe("candidates in reserve, whose breakers are open,", () => {
  const d = candidate("d");
  const reserving = (mode: Candidates["mode"], candidates: readonly Candidate[], ...reserve: readonly Candidate[]): Candidates => ({
    ...planned(candidates),
    mode,
    reserve: reserve.map((one) => ({ candidate: one, tier: 0, probe: false, lastResort: true })),
  });

  test("are asked at once when all others have failed, before any candidate is asked twice", () => {
    const plan = reserving("normal", [a, b], c, d);
    expect(next(plan, [failed(a, "overloaded")]).candidate).toBe(b);
    expect(next(plan, [failed(a, "overloaded"), failed(b, "disconnected")])).toMatchObject({ candidate: c, lastResort: true, afterMs: 0 });
    expect(next(reserving("normal", [a], c), [failed(a, "model_failed")]).candidate).toBe(c);
  });

  test("are asked in turn, as far as the pace of last resorts allows", () => {
    const plan = reserving("last_resort", [a], b, c);
    expect(next(plan, [failed(a, "overloaded")]).candidate).toBe(b);
    expect(next(plan, [failed(a, "overloaded"), failed(b, "unreachable")]).candidate).toBe(c);
    expect(next(plan, [failed(a, "overloaded")], { admitsAsLastResort: (one) => one !== b }).candidate).toBe(c);
  });

  test("are not asked if they share the failed scope", () => {
    const neighbour = candidate("n", { host: "a.test" });
    expect(next(reserving("normal", [a], neighbour), [failed(a, "unreachable")])).toMatchObject({ candidate: a, same: true });
  });

  test("are not asked again by the same call, unless the pace allows it or they are healthy again", () => {
    const plan = reserving("last_resort", [a]);
    const none = { admits: () => false, admitsAsLastResort: () => false };
    expect(stopped(plan, [failed(a, "overloaded")], none)).toBe("no_candidate");
    expect(next(plan, [failed(a, "overloaded")], { ...none, admitsAsLastResort: () => true }).candidate).toBe(a);
    expect(next(plan, [failed(a, "overloaded")], { ...none, admits: () => true }).candidate).toBe(a);
  });
});

describe("a request that one channel cannot serve", () => {
  const [small, medium, large] = [
    candidate("s", { contextTokens: 8_000 }),
    candidate("m", { contextTokens: 32_000 }),
    candidate("l", { contextTokens: 200_000 }),
  ];

  test("a prompt that is too long goes to a channel with a larger declared context", () => {
    const kind = "context_length";
    expect(next(planned([small, a, medium, large]), [failed(small, kind)]).candidate).toBe(medium);
    expect(next(planned([small, medium, large]), [failed(small, kind), failed(medium, kind)]).candidate).toBe(large);
    expect(stopped(planned([large, medium]), [failed(large, kind)])).toBe("client_fault");
    const twin = candidate("twin", { contextTokens: 32_000 });
    expect(stopped(planned([medium, twin]), [failed(medium, kind)])).toBe("client_fault");
  });

  test("or else to one channel that declares none; then the call ends", () => {
    const kind = "context_length";
    expect(next(planned([large, medium, a, b]), [failed(large, kind)]).candidate).toBe(a);
    expect(stopped(planned([large, medium, a, b]), [failed(large, kind), failed(a, kind)])).toBe("client_fault");
    expect(next(planned([a, b, c]), [failed(a, kind)]).candidate).toBe(b);
    expect(stopped(planned([a, b, c]), [failed(a, kind), failed(b, kind)])).toBe("client_fault");
    expect(next(planned([a, b, large]), [failed(a, kind), failed(b, kind)]).candidate).toBe(large);
    expect(next(planned([medium, large, b]), [failed(medium, kind), failed(large, kind)]).candidate).toBe(b);
    expect(stopped(planned([a, small]), [failed(a, kind)], { promptTokensEstimate: 20_000 })).toBe("client_fault");
    expect(stopped(planned([a, b]), [failed(a, kind)], { admits: () => false })).toBe("client_fault");
  });

  test("which is not the same model on the same host if there is another", () => {
    const twin = candidate("twin", { host: "a.test" });
    expect(next(planned([a, twin, b]), [failed(a, "context_length")]).candidate).toBe(b);
    expect(next(planned([a, twin]), [failed(a, "context_length")]).candidate).toBe(twin);
  });

  test.each([false, true])(
    "a body that is too large goes to one channel on another host, and then to the client (a file: %p)",
    (upload) => {
      const neighbour = candidate("n", { host: "a.test", contextTokens: 200_000 });
      const kind = "too_large";
      expect(next(planned([a, neighbour, b, c]), [failed(a, kind)], { upload }).candidate).toBe(b);
      expect(next(planned([large, a]), [failed(large, kind)], { upload }).candidate).toBe(a);
      expect(next(planned([a, small]), [failed(a, kind)], { upload }).candidate).toBe(small);
      expect(stopped(planned([a, b, c]), [failed(a, kind), failed(b, kind)], { upload })).toBe("client_fault");
      expect(stopped(planned([a, neighbour]), [failed(a, kind)], { upload })).toBe("client_fault");
    },
  );

  test("if the first channel declares no context, the length of the prompt is used", () => {
    expect(next(planned([a, small, large]), [failed(a, "context_length")], { promptTokensEstimate: 20_000 }).candidate).toBe(large);
  });

  test("an unsupported parameter is tried on one other channel", () => {
    expect(next(planned([a, b, c]), [failed(a, "unsupported", { param: "logprobs" })]).candidate).toBe(b);
    expect(stopped(planned([a, b, c]), [failed(a, "unsupported"), failed(b, "unsupported")])).toBe("client_fault");
    expect(stopped(planned([a]), [failed(a, "unsupported")])).toBe("client_fault");
    const pool = candidates("pool", { credentials: ["k1", "k2"] });
    expect(stopped(planned(pool), [failed(pool[0]!, "unsupported")])).toBe("client_fault");
  });

  test("after stream_options was rejected, the same candidate is asked without it, then another", () => {
    const refusal = failed(a, "unsupported", { param: "stream_options" });
    expect(next(planned([a, b]), [refusal])).toMatchObject({ candidate: a, afterMs: 0, same: true, free: false });
    expect(next(planned([a, b]), [refusal, refusal]).candidate).toBe(b);
  });

  test("an error inside the client's own stream_options is not retried on the same candidate", () => {
    expect(next(planned([a, b]), [failed(a, "unsupported", { param: "stream_options.other" })]).candidate).toBe(b);
  });

  test("a ceiling that was named is retried on the same candidate; without one, or if it did not help, on another", () => {
    const refusal = failed(a, "ceiling", { ceiling: 4_096 });
    expect(next(planned([a, b]), [refusal])).toMatchObject({ candidate: a, afterMs: 0, same: true });
    expect(next(planned([a, b]), [refusal, refusal]).candidate).toBe(b);
    expect(next(planned([a, b]), [failed(a, "ceiling")]).candidate).toBe(b);
    expect(stopped(planned([a]), [failed(a, "ceiling")])).toBe("client_fault");
  });

  test("a model that failed is replaced once", () => {
    expect(next(planned([a, b, c]), [failed(a, "model_failed")]).candidate).toBe(b);
    expect(stopped(planned([a, b, c]), [failed(a, "model_failed"), failed(b, "model_failed")])).toBe("attempts");
  });
});

describe("after an attempt in which hosted tools may have run", () => {
  test.each([
    ["unreachable", null, "next: b/m"],
    ["tls_failed", null, "next: b/m"],
    ["connect_timeout", null, "next: b/m"],
    ["rate_limited", 429, "next: b/m"],
    ["quota_exhausted", 429, "next: b/m"],
    ["overloaded", 503, "next: b/m"],
    ["overloaded", 500, "hosted_tools"],
    ["overloaded", 502, "hosted_tools"],
    ["disconnected", null, "hosted_tools"],
    ["timed_out", null, "hosted_tools"],
    ["stale_socket", null, "hosted_tools"],
    ["bad_response", 200, "hosted_tools"],
    ["model_failed", 400, "hosted_tools"],
  ] satisfies [FailureKind, number | null, string][])("%s with status %p: %s", (kind, status, expected) => {
    expect(stopped(planned([a, b]), [failed(a, kind, { status })], { hostedTools: true })).toBe(expected);
  });
});

describe("any verdict", () => {
  const hosts = ["h1", "h2"];
  const crowd = [
    ...candidates("p", { credentials: ["k1", "k2"], host: "h1" }),
    candidate("q", { host: "h1", contextTokens: 16_000 }),
    candidate("r", { host: "h2", quota: "org" }),
    candidate("s", { quota: "org", contextTokens: 64_000 }),
    candidate("t", { host: hosts[1]! }),
  ];
  const kind = fc.constantFrom<FailureKind>(...kindsOfChannels, "ceiling", "saturated");
  const script = fc.array(
    fc.record({
      kind,
      tookMs: fc.integer({ min: 0, max: 20_000 }),
      retryAfterMs: fc.option(fc.integer({ min: 0, max: 20_000 })),
      status: fc.constantFrom(null, 429, 500, 503),
    }),
    { minLength: 1, maxLength: 12 },
  );

  /** Plays a call whose attempts fail by the script; returns the attempts and how it ended. */
  function play(
    plan: Candidates,
    failures: readonly (FailureFacts & { kind: FailureKind; tookMs: number })[],
    facts: Partial<JudgeInput>,
  ): { readonly attempts: readonly FailedAttempt[]; readonly waitedMs: number; readonly ended: string } {
    const attempts: FailedAttempt[] = [];
    let remainingMs = 120_000;
    let waitedMs = 0;
    let who = plan.candidates[0]!.candidate;
    for (const { kind: what, tookMs, ...rest } of failures) {
      attempts.push({ candidate: who, failure: failure(what, "", rest), tookMs });
      remainingMs -= tookMs;
      const found = verdict(plan, attempts, { remainingMs, ...facts });
      if (found.action === "stop") return { attempts, waitedMs, ended: found.because };
      expect(found.afterMs).toBeGreaterThanOrEqual(0);
      expect(remainingMs - found.afterMs).toBeGreaterThanOrEqual(2_000);
      expect(found.same).toBe(found.candidate === who);
      waitedMs += found.afterMs;
      remainingMs -= found.afterMs;
      who = found.candidate;
    }
    return { attempts, waitedMs, ended: "script" };
  }

  test("no call makes more than three attempts, stale sockets aside, and none waits past its deadline", () => {
    fc.assert(
      fc.property(
        script,
        fc.shuffledSubarray(crowd, { minLength: 1 }),
        fc.integer({ min: 0, max: 6 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (failures, chosen, cut, dice) => {
          const plan = planned(chosen.slice(0, cut), chosen.slice(cut));
          const { attempts } = play(plan, failures, { dice: () => dice });
          expect(attempts.filter((attempt) => attempt.failure.kind !== "stale_socket").length).toBeLessThanOrEqual(3);
          expect(attempts.length).toBeLessThanOrEqual(9);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test("no candidate is asked that an earlier failure rules out, unless no other was left or its tier is asked once more", () => {
    fc.assert(
      fc.property(script, fc.shuffledSubarray(crowd, { minLength: 1 }), (failures, chosen) => {
        const plan = planned(chosen);
        const { attempts } = play(plan, failures, {});
        attempts.forEach((attempt, at) => {
          const before = attempts.slice(0, at);
          if (before.some((one) => one.candidate === attempt.candidate)) return;
          for (const one of before) {
            const charged = chargedScope(one.candidate, one.failure);
            expect(Object.values(attempt.candidate.scopes)).not.toContain(charged ?? one.candidate.scopes.deployment);
          }
        });
      }),
      { numRuns: 1_000 },
    );
  });

  test("while an unaffected candidate is left in the plan, a failure that may pass never ends the call", () => {
    const passing = fc.constantFrom<FailureKind>("unreachable", "disconnected", "overloaded", "bad_response", "timed_out", "unauthorized");
    fc.assert(
      fc.property(passing, passing, (first, second) => {
        const { ended, attempts } = play(
          planned([a, b, c]),
          [
            { kind: first, tookMs: 10 },
            { kind: second, tookMs: 10 },
          ],
          {},
        );
        expect(ended).toBe("script");
        expect(new Set(attempts.map((attempt) => attempt.candidate)).size).toBe(2);
      }),
    );
  });
});

describe("the failure that is reported to the client", () => {
  const final = (...failures: readonly (FailureKind | Failure)[]): Failure =>
    finalFailure(failures.map((one) => ({ failure: typeof one === "string" ? failure(one, "") : one })));

  test.each([
    [["overloaded", "invalid_request"], "invalid_request"],
    [["content_policy"], "content_policy"],
    [["context_length", "context_length"], "context_length"],
    [["overloaded", "context_length"], "overloaded"],
    [["rate_limited", "unsupported"], "rate_limited"],
    [["rate_limited", "rate_limited"], "rate_limited"],
    [["unauthorized", "quota_exhausted"], "unauthorized"],
    [["quota_exhausted", "model_missing"], "quota_exhausted"],
    [["unauthorized", "overloaded"], "overloaded"],
    [["rate_limited", "overloaded"], "overloaded"],
    [["rate_limited", "unauthorized"], "rate_limited"],
    [["overloaded", "timed_out"], "timed_out"],
    [["unreachable", "bad_response"], "bad_response"],
    [["unreachable", "unauthorized"], "unreachable"],
    [["disconnected", "unreachable"], "disconnected"],
    [["overloaded", "client_gone"], "client_gone"],
    [["overloaded", "deadline"], "deadline"],
    [["unauthorized", "unsupported"], "unauthorized"],
    [["unsupported", "context_length"], "context_length"],
    [["timed_out", "internal"], "internal"],
  ] satisfies [FailureKind[], FailureKind][])("%p: %s", (kinds, expected) => {
    expect(final(...kinds).kind).toBe(expected);
  });

  test("of several limits, the one with the shortest wait", () => {
    const limit = (retryAfterMs: number | null): Failure => failure("rate_limited", "", { retryAfterMs });
    expect(final(limit(9_000), limit(null), limit(2_000)).retryAfterMs).toBe(2_000);
    expect(final(limit(null)).retryAfterMs).toBeNull();
  });

  test("is always one of those that happened", () => {
    const kinds = fc.constantFrom<FailureKind>(
      ...kindsOfAttempts,
      ...(["ceiling", "client_gone", "no_channel", "saturated", "shutting_down", "internal"] as const),
    );
    fc.assert(
      fc.property(fc.array(kinds, { minLength: 1, maxLength: 5 }), (some) => {
        const failures = some.map((one) => failure(one, ""));
        expect(failures).toContain(final(...failures));
      }),
    );
  });
});
