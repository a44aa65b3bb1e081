import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Candidate } from "../../../src/channels/channel.ts";
import { chargedScope } from "../../../src/channels/health.ts";
import { failure, type Failure, type FailureFacts, type FailureKind } from "../../../src/operations/failure.ts";
import { finalFailure } from "../../../src/routing/final-failure.ts";
import { judge, type JudgeInput, type Next, type FailedAttempt, type Verdict } from "../../../src/routing/judge.ts";
import type { Candidates } from "../../../src/routing/plan.ts";
import { candidate, candidates } from "../../support/plan-world.ts";

const policy = {
  attemptsMax: 3,
  hedgeAfterMs: null,
  rescue: "error",
  streamDeadlineMs: 120_000,
  wholeDeadlineMs: 600_000,
  waitMs: 0,
} as const;
const [a, b, c] = [candidate("a"), candidate("b"), candidate("c")];

function planned(...tiers: readonly (readonly Candidate[])[]): Candidates {
  const choices = tiers.flatMap((tier, at) => tier.map((one) => ({ candidate: one, tier: at, probe: false })));
  return { go: "ahead", mode: "normal", candidates: choices, skipped: [] };
}

function tried(who: Candidate, kind: FailureKind, facts: FailureFacts & { readonly tookMs?: number } = {}): FailedAttempt {
  const { tookMs = 50, ...rest } = facts;
  return { candidate: who, failure: failure(kind, "", rest), tookMs };
}

function verdict(plan: Candidates, attempts: readonly FailedAttempt[], facts: Partial<JudgeInput> = {}): Verdict {
  return judge({
    policy,
    plan,
    tried: attempts,
    deadlineMs: 120_000,
    remainingMs: 100_000,
    attemptTimerMs: 60_000,
    bodyBytes: 1_000,
    hostedTools: false,
    promptTokensEstimate: 1_000,
    upload: false,
    canRetry: true,
    admits: () => true,
    mayResort: () => true,
    dice: () => 0.5,
    ...facts,
  });
}

function next(...args: Parameters<typeof verdict>): Next {
  const found = verdict(...args);
  if (found.go !== "next") throw new Error(`stopped: ${found.because}`);
  return found;
}

function stopped(...args: Parameters<typeof verdict>): string {
  const found = verdict(...args);
  return found.go === "stop" ? found.because : `next: ${found.candidate.deployment.id}`;
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
  ] satisfies FailureKind[])("%s moves on to another channel, at once but for a little jitter", (kind) => {
    expect(next(planned([a, b, c]), [tried(a, kind)])).toEqual({
      go: "next",
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
  ] satisfies [FailureKind, string][])("%s goes nowhere: %s", (kind, because) => {
    expect(stopped(planned([a, b, c]), [tried(a, kind)])).toBe(because);
  });

  test("whoever is not well by now is passed over", () => {
    expect(next(planned([a, b, c]), [tried(a, "overloaded")], { admits: (one) => one !== b }).candidate).toBe(c);
  });

  test("a probe stays a probe", () => {
    const plan = planned([a, b]);
    const probing: Candidates = {
      ...plan,
      candidates: plan.candidates.map((choice) => ({ ...choice, probe: choice.candidate === b })),
    };
    expect(next(probing, [tried(a, "overloaded")]).probe).toBe(true);
  });
});

describe("what can be asked for in another way", () => {
  const otherwise: FailedAttempt = { ...tried(a, "unsupported", { param: "response_format" }), failure: mended() };

  function mended(): Failure {
    return { ...failure("unsupported", "", { param: "response_format" }), retryAdapted: true };
  }

  test("is asked of the same channel again, at once, and then of another", () => {
    expect(next(planned([a, b]), [otherwise])).toMatchObject({ candidate: a, afterMs: 0, same: true });
    expect(next(planned([a, b]), [otherwise, tried(a, "unsupported")])).toMatchObject({ candidate: b });
    expect(stopped(planned([a]), [otherwise, tried(a, "unsupported")])).toBe("client_fault");
  });

  test("does not count among the attempts, so that a large upload gets to another channel too", () => {
    const large = { bodyBytes: 20_000_000, upload: true };
    expect(next(planned([a, b]), [otherwise, tried(a, "unsupported")], large).candidate).toBe(b);
  });
});

describe("the full queue of a model of this machine", () => {
  const { address } = a.deployment.channel;
  const [here] = candidates("here", { address: { ...address, baseUrl: "engine://local/v1" } }) as readonly [Candidate];
  const full = tried(here, "rate_limited", { retryAfterMs: 1_000 });

  test("is told to the client at once, and not waited for by the gateway too", () => {
    expect(stopped(planned([here]), [full])).toBe("no_candidate");
    expect(next(planned([a]), [tried(a, "rate_limited", { retryAfterMs: 1_000 })]).afterMs).toBeGreaterThanOrEqual(1_000);
  });

  test("sends the call to another channel at once, also to one of a lower tier", () => {
    expect(next(planned([here], [b]), [full])).toMatchObject({ candidate: b, afterMs: 25 });
  });
});

describe("what a failure rules out for the call", () => {
  const pool = candidates("pool", { credentials: ["k1", "k2", "k3"] });
  const [k1, k2] = pool as readonly [Candidate, Candidate, Candidate];

  test("a deployment's failure: its other credentials too", () => {
    expect(next(planned([...pool, b]), [tried(k1, "overloaded")]).candidate).toBe(b);
  });

  test.each(["unauthorized", "quota_exhausted", "rate_limited"] satisfies FailureKind[])("%s in a pool: that credential only", (kind) => {
    expect(next(planned([...pool, b]), [tried(k1, kind)]).candidate).toBe(k2);
  });

  test("a host's failure: everyone on that host", () => {
    const neighbour = candidate("n", { host: "a.test" });
    expect(next(planned([a, neighbour, b]), [tried(a, "unreachable")]).candidate).toBe(b);
    expect(next(planned([a, neighbour, b]), [tried(a, "overloaded")]).candidate).toBe(neighbour);
  });

  test("a quota's failure: everyone who shares the account", () => {
    const [x, y] = [candidate("x", { quota: "org" }), candidate("y", { quota: "org" })];
    expect(next(planned([x, y, b]), [tried(x, "rate_limited")]).candidate).toBe(b);
    expect(next(planned([x, y, b]), [tried(x, "overloaded")]).candidate).toBe(y);
  });
});

describe("attempts", () => {
  test("three at most, two for large bodies", () => {
    const plan = planned([a, b, c, candidate("d")]);
    const two = [tried(a, "overloaded"), tried(b, "overloaded")];
    expect(next(plan, two).candidate).toBe(c);
    expect(stopped(plan, [...two, tried(c, "overloaded")])).toBe("attempts");
    expect(stopped(plan, two, { bodyBytes: 1024 * 1024 + 1 })).toBe("attempts");
    expect(next(plan, two, { bodyBytes: 1024 * 1024 }).candidate).toBe(c);
  });

  test("an empty budget stops, with somebody to ask or not", () => {
    expect(stopped(planned([a, b]), [tried(a, "overloaded")], { canRetry: false })).toBe("budget");
  });

  test("a stale socket is tried again at once and free of charge, once", () => {
    const first = tried(a, "stale_socket");
    expect(next(planned([a, b]), [first], { canRetry: false })).toMatchObject({
      candidate: a,
      afterMs: 0,
      same: true,
      free: true,
    });
    expect(next(planned([a, b]), [first, first])).toMatchObject({ candidate: b, free: false });
    expect(next(planned([a, b, c]), [first, tried(a, "overloaded"), tried(b, "overloaded")]).candidate).toBe(c);
  });

  test("no attempt begins that has no time left to succeed", () => {
    const go = (remainingMs: number, facts: Partial<JudgeInput> = {}): string =>
      stopped(planned([a, b]), [tried(a, "overloaded")], { remainingMs, dice: () => 0, ...facts });
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
    expect(next(planned([a], [b]), [tried(a, kind)])).toMatchObject({ candidate: a, same: true, afterMs: 125 });
  });

  test("a 429 that names a short wait gets it after that wait; one that names a long wait or none does not", () => {
    const after = (retryAfterMs: number | null): Next =>
      next(planned([a], [b]), [tried(a, "rate_limited", { retryAfterMs })], { admits: (one) => one !== a });
    expect(after(3_000)).toMatchObject({ candidate: a, afterMs: 3_025 });
    expect(after(5_001).candidate).toBe(b);
    expect(after(null).candidate).toBe(b);
  });

  test("one more try, not two", () => {
    const twice = [tried(a, "overloaded"), tried(a, "overloaded")];
    expect(next(planned([a], [b]), twice).candidate).toBe(b);
    expect(next(planned([a], [b]), twice, { policy: { ...policy, attemptsMax: 9 } }).candidate).toBe(b);
  });

  test("none if then nothing would be left for the lower tier", () => {
    expect(next(planned([a, b], [c]), [tried(a, "overloaded"), tried(b, "overloaded")]).candidate).toBe(c);
    expect(next(planned([a], [b]), [tried(a, "overloaded")], { bodyBytes: 2 * 1024 * 1024 }).candidate).toBe(b);
  });

  test.each([
    ["timed_out", 100],
    ["connect_timeout", 100],
    ["unreachable", 10],
    ["overloaded", 20_000],
    ["unauthorized", 50],
  ] satisfies [FailureKind, number][])("none after %s that took %p ms", (kind, tookMs) => {
    expect(next(planned([a], [b]), [tried(a, kind, { tookMs })]).candidate).toBe(b);
  });

  test("none if somebody in the tier was silent", () => {
    const attempts = [tried(a, "timed_out", { tookMs: 4_000 }), tried(b, "overloaded")];
    expect(next(planned([a, b], [c]), attempts, { policy: { ...policy, attemptsMax: 5 } }).candidate).toBe(c);
  });

  test("none if its breaker has opened by now, or the wait does not fit", () => {
    expect(next(planned([a], [b]), [tried(a, "overloaded")], { admits: (one) => one !== a }).candidate).toBe(b);
    const late = { remainingMs: 6_500, dice: (): number => 0 };
    expect(next(planned([a], [b]), [tried(a, "rate_limited", { retryAfterMs: 3_000 })], late).candidate).toBe(b);
  });
});

describe("with nobody else left", () => {
  test("the same candidate after a backoff that doubles", () => {
    const wide = { policy: { ...policy, attemptsMax: 9 }, dice: (): number => 0.999_999 };
    const waits: number[] = [];
    for (let times = 1; times <= 7; times += 1) {
      waits.push(
        Math.round(
          next(
            planned([a]),
            Array.from({ length: times }, () => tried(a, "overloaded")),
            wide,
          ).afterMs,
        ),
      );
    }
    expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000, 4_000, 4_000]);
  });

  test("even if its breaker opened meanwhile: there is nothing to lose", () => {
    expect(next(planned([a]), [tried(a, "overloaded")], { admits: () => false })).toMatchObject({
      candidate: a,
      same: true,
    });
  });

  test("a 429 waits as long as it was asked to, if that is short; longer ones stop", () => {
    const after = (retryAfterMs: number | null, facts: Partial<JudgeInput> = {}): string | number => {
      const found = verdict(planned([a]), [tried(a, "rate_limited", { retryAfterMs })], { dice: () => 0.5, ...facts });
      return found.go === "next" ? found.afterMs : found.because;
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
    expect(stopped(planned([a]), [tried(a, kind)])).toBe("no_candidate");
  });

  test("of several, the one asked least, the best first", () => {
    expect(next(planned([a, b]), [tried(b, "overloaded"), tried(a, "overloaded")]).candidate).toBe(a);
    expect(next(planned([a, b]), [tried(a, "overloaded"), tried(b, "unauthorized")])).toMatchObject({
      candidate: a,
      same: false,
    });
    const wide = { policy: { ...policy, attemptsMax: 5 } };
    expect(next(planned([a, b]), [tried(a, "overloaded"), tried(b, "overloaded"), tried(a, "overloaded")], wide).candidate).toBe(b);
  });

  test("not one whose account was switched off by another's failure", () => {
    const [m1, m2] = [candidate("m1", { quota: "org" }), candidate("m2", { quota: "org" })];
    expect(stopped(planned([m1, m2]), [tried(m1, "overloaded"), tried(m2, "quota_exhausted")])).toBe("no_candidate");
  });
});

describe("those in reserve, whose breakers are open", () => {
  const d = candidate("d");
  const reserving = (mode: Candidates["mode"], candidates: readonly Candidate[], ...reserve: readonly Candidate[]): Candidates => ({
    ...planned(candidates),
    mode,
    reserve: reserve.map((one) => ({ candidate: one, tier: 0, probe: false, held: true })),
  });

  test("are asked at once when everybody else has failed, and before anybody is asked again", () => {
    const plan = reserving("normal", [a, b], c, d);
    expect(next(plan, [tried(a, "overloaded")]).candidate).toBe(b);
    expect(next(plan, [tried(a, "overloaded"), tried(b, "disconnected")])).toMatchObject({ candidate: c, held: true, afterMs: 0 });
    expect(next(reserving("normal", [a], c), [tried(a, "model_failed")]).candidate).toBe(c);
  });

  test("in turn, and only whom the pace of last resorts allows", () => {
    const plan = reserving("last_resort", [a], b, c);
    expect(next(plan, [tried(a, "overloaded")]).candidate).toBe(b);
    expect(next(plan, [tried(a, "overloaded"), tried(b, "unreachable")]).candidate).toBe(c);
    expect(next(plan, [tried(a, "overloaded")], { mayResort: (one) => one !== b }).candidate).toBe(c);
  });

  test("not for what they share with the one that failed", () => {
    const neighbour = candidate("n", { host: "a.test" });
    expect(next(reserving("normal", [a], neighbour), [tried(a, "unreachable")])).toMatchObject({ candidate: a, same: true });
  });

  test("nor is a last resort asked again by the same call, unless the pace allows it or it is well by now", () => {
    const plan = reserving("last_resort", [a]);
    const none = { admits: () => false, mayResort: () => false };
    expect(stopped(plan, [tried(a, "overloaded")], none)).toBe("no_candidate");
    expect(next(plan, [tried(a, "overloaded")], { ...none, mayResort: () => true }).candidate).toBe(a);
    expect(next(plan, [tried(a, "overloaded")], { ...none, admits: () => true }).candidate).toBe(a);
  });
});

describe("what the pair of request and channel could not do", () => {
  const [small, medium, large] = [
    candidate("s", { contextTokens: 8_000 }),
    candidate("m", { contextTokens: 32_000 }),
    candidate("l", { contextTokens: 200_000 }),
  ];

  test("a context that is too long goes to a channel that declares more room", () => {
    const kind = "context_length";
    expect(next(planned([small, a, medium, large]), [tried(small, kind)]).candidate).toBe(medium);
    expect(next(planned([small, medium, large]), [tried(small, kind), tried(medium, kind)]).candidate).toBe(large);
    expect(stopped(planned([large, medium]), [tried(large, kind)])).toBe("client_fault");
    const twin = candidate("twin", { contextTokens: 32_000 });
    expect(stopped(planned([medium, twin]), [tried(medium, kind)])).toBe("client_fault");
  });

  test("or else to one other that declares nothing, and then to the client", () => {
    const kind = "context_length";
    expect(next(planned([large, medium, a, b]), [tried(large, kind)]).candidate).toBe(a);
    expect(stopped(planned([large, medium, a, b]), [tried(large, kind), tried(a, kind)])).toBe("client_fault");
    expect(next(planned([a, b, c]), [tried(a, kind)]).candidate).toBe(b);
    expect(stopped(planned([a, b, c]), [tried(a, kind), tried(b, kind)])).toBe("client_fault");
    expect(next(planned([a, b, large]), [tried(a, kind), tried(b, kind)]).candidate).toBe(large);
    expect(next(planned([medium, large, b]), [tried(medium, kind), tried(large, kind)]).candidate).toBe(b);
    expect(stopped(planned([a, small]), [tried(a, kind)], { promptTokensEstimate: 20_000 })).toBe("client_fault");
    expect(stopped(planned([a, b]), [tried(a, kind)], { admits: () => false })).toBe("client_fault");
  });

  test("which is not the same model on the same host, if there is another", () => {
    const twin = candidate("twin", { host: "a.test" });
    expect(next(planned([a, twin, b]), [tried(a, "context_length")]).candidate).toBe(b);
    expect(next(planned([a, twin]), [tried(a, "context_length")]).candidate).toBe(twin);
  });

  test.each([false, true])(
    "a body that is too large goes to one channel on another host, and then to the client (a file: %p)",
    (upload) => {
      const neighbour = candidate("n", { host: "a.test", contextTokens: 200_000 });
      const kind = "too_large";
      expect(next(planned([a, neighbour, b, c]), [tried(a, kind)], { upload }).candidate).toBe(b);
      expect(next(planned([large, a]), [tried(large, kind)], { upload }).candidate).toBe(a);
      expect(next(planned([a, small]), [tried(a, kind)], { upload }).candidate).toBe(small);
      expect(stopped(planned([a, b, c]), [tried(a, kind), tried(b, kind)], { upload })).toBe("client_fault");
      expect(stopped(planned([a, neighbour]), [tried(a, kind)], { upload })).toBe("client_fault");
    },
  );

  test("where the first declares nothing, the prompt itself is the measure", () => {
    expect(next(planned([a, small, large]), [tried(a, "context_length")], { promptTokensEstimate: 20_000 }).candidate).toBe(large);
  });

  test("an unsupported parameter is tried on one other channel", () => {
    expect(next(planned([a, b, c]), [tried(a, "unsupported", { param: "logprobs" })]).candidate).toBe(b);
    expect(stopped(planned([a, b, c]), [tried(a, "unsupported"), tried(b, "unsupported")])).toBe("client_fault");
    expect(stopped(planned([a]), [tried(a, "unsupported")])).toBe("client_fault");
    const pool = candidates("pool", { credentials: ["k1", "k2"] });
    expect(stopped(planned(pool), [tried(pool[0]!, "unsupported")])).toBe("client_fault");
  });

  test("stream_options refused: the same candidate at once, without it; then elsewhere", () => {
    const refusal = tried(a, "unsupported", { param: "stream_options" });
    expect(next(planned([a, b]), [refusal])).toMatchObject({ candidate: a, afterMs: 0, same: true, free: false });
    expect(next(planned([a, b]), [refusal, refusal]).candidate).toBe(b);
  });

  test("a fault inside the client's own stream_options is nothing the same candidate could mend", () => {
    expect(next(planned([a, b]), [tried(a, "unsupported", { param: "stream_options.other" })]).candidate).toBe(b);
  });

  test("a ceiling that was told: the same candidate at once; one that was not, or did not help: elsewhere", () => {
    const refusal = tried(a, "ceiling", { ceiling: 4_096 });
    expect(next(planned([a, b]), [refusal])).toMatchObject({ candidate: a, afterMs: 0, same: true });
    expect(next(planned([a, b]), [refusal, refusal]).candidate).toBe(b);
    expect(next(planned([a, b]), [tried(a, "ceiling")]).candidate).toBe(b);
    expect(stopped(planned([a]), [tried(a, "ceiling")])).toBe("client_fault");
  });

  test("a model that failed is replaced once", () => {
    expect(next(planned([a, b, c]), [tried(a, "model_failed")]).candidate).toBe(b);
    expect(stopped(planned([a, b, c]), [tried(a, "model_failed"), tried(b, "model_failed")])).toBe("attempts");
  });
});

describe("hosted tools may have acted", () => {
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
    expect(stopped(planned([a, b]), [tried(a, kind, { status })], { hostedTools: true })).toBe(expected);
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
  const kind = fc.constantFrom<FailureKind>(
    "unreachable",
    "tls_failed",
    "connect_timeout",
    "stale_socket",
    "disconnected",
    "timed_out",
    "overloaded",
    "rate_limited",
    "quota_exhausted",
    "unauthorized",
    "model_missing",
    "misconfigured",
    "redirected",
    "too_large",
    "context_length",
    "bad_response",
    "model_failed",
    "unsupported",
    "ceiling",
    "saturated",
  );
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
      if (found.go === "stop") return { attempts, waitedMs, ended: found.because };
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

  test("nobody is asked while the scope of an earlier failure rules it out, unless nobody else was left or it is the tier's one more try", () => {
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

  test("while somebody untouched is left in the plan, a passing trouble never ends a call early", () => {
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

describe("the failure a client is told of", () => {
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
      "unreachable",
      "tls_failed",
      "connect_timeout",
      "stale_socket",
      "disconnected",
      "timed_out",
      "overloaded",
      "rate_limited",
      "quota_exhausted",
      "unauthorized",
      "model_missing",
      "misconfigured",
      "redirected",
      "invalid_request",
      "too_large",
      "context_length",
      "content_policy",
      "bad_response",
      "model_failed",
      "unsupported",
      "ceiling",
      "interrupted",
      "client_gone",
      "deadline",
      "no_channel",
      "saturated",
      "shutting_down",
      "internal",
    );
    fc.assert(
      fc.property(fc.array(kinds, { minLength: 1, maxLength: 5 }), (some) => {
        const failures = some.map((one) => failure(one, ""));
        expect(failures).toContain(final(...failures));
      }),
    );
  });
});
