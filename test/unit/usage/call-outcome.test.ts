import { describe, expect, test } from "bun:test";
import { marksOf, outcomeOf, type CallOutcome, type JudgedAttempt, type JudgedCall } from "../../../src/usage/call-outcome.ts";

const answer: JudgedAttempt = {
  channel: "a",
  outcome: "answered",
  status: 200,
  error: null,
  hedge: false,
  promptTokens: 100,
  completionTokens: 20,
  nanos: 700,
};
const rejected: JudgedAttempt = {
  ...answer,
  outcome: "failed",
  status: 503,
  error: "overloaded",
  promptTokens: null,
  completionTokens: null,
  nanos: 0,
};
/** A text stream that broke off in the middle. */
const broken: JudgedAttempt = { ...answer, outcome: "failed", error: "interrupted", completionTokens: 8, nanos: 300 };
const lost: JudgedAttempt = { ...answer, outcome: "abandoned", status: null, error: "deadline", completionTokens: 0, nanos: 100 };

function outcome(attempts: readonly JudgedAttempt[], other: Partial<JudgedCall> = {}): CallOutcome {
  return outcomeOf({ state: "complete", error: null, finish: null, hedgeWasteNanos: 0, cacheSavedNanos: null, attempts, ...other });
}

describe("the outcome of a call", () => {
  test("has nothing to count where the first attempt answered", () => {
    expect(outcome([answer])).toEqual({});
    expect(outcome([])).toEqual({});
  });

  test("is a failover where another channel answered, and a retry where the same one did", () => {
    expect(outcome([rejected, { ...answer, channel: "b" }])).toEqual({ failed_over: 1, extra_attempts: 1 });
    expect(outcome([rejected, answer])).toEqual({ retried: 1, extra_attempts: 1 });
    expect(outcome([rejected, rejected, { ...answer, channel: "b" }])).toEqual({ failed_over: 1, extra_attempts: 2 });
    // The gateway found the connection closed, which is nobody's fault.
    expect(outcome([{ ...rejected, outcome: "abandoned", error: "stale_socket" }, answer])).toEqual({ retried: 1, extra_attempts: 1 });
  });

  test("counts what a failed attempt cost before another one answered", () => {
    const charged = { ...rejected, error: "timed_out", promptTokens: 100, completionTokens: 3, nanos: 50 };
    expect(outcome([charged, { ...answer, channel: "b" }])).toEqual({
      failed_over: 1,
      extra_attempts: 1,
      extra_tokens: 103,
      failover_nanos: 50,
    });
  });

  test("saved nothing where every attempt failed, and the last one would have been made anyway", () => {
    expect(outcome([rejected, { ...rejected, channel: "b" }], { state: "failed", error: "overloaded" })).toEqual({ extra_attempts: 1 });
  });

  test("is a rescue where a broken text was continued", () => {
    expect(outcome([broken, { ...answer, channel: "b" }])).toEqual({
      rescued: 1,
      extra_attempts: 1,
      extra_tokens: 120,
      rescue_nanos: 700,
    });
    expect(outcome([broken, { ...rejected, channel: "b" }], { state: "interrupted" })).toEqual({
      rescue_failed: 1,
      interrupted: 1,
      extra_attempts: 1,
    });
    expect(outcome([broken], { state: "interrupted" })).toEqual({ interrupted: 1 });
    // An error within the stream may have a status of its own.
    expect(
      outcome([
        { ...broken, status: 529 },
        { ...answer, channel: "b" },
      ]),
    ).toMatchObject({ rescued: 1 });
  });

  test("counts hedges, those that won, and what the losers cost", () => {
    const slow = { ...lost, hedge: false };
    expect(outcome([slow, { ...answer, channel: "b", hedge: true }], { hedgeWasteNanos: 100 })).toEqual({
      hedges: 1,
      hedges_won: 1,
      hedge_nanos: 100,
      extra_attempts: 1,
      extra_tokens: 100,
    });
    expect(outcome([answer, { ...lost, channel: "b", hedge: true }], { hedgeWasteNanos: 100 })).toEqual({
      hedges: 1,
      hedge_nanos: 100,
      extra_attempts: 1,
      extra_tokens: 100,
    });
    // The first one failed while the hedge was running: that is no failover.
    expect(outcome([rejected, { ...answer, channel: "b", hedge: true }])).toEqual({ hedges: 1, hedges_won: 1, extra_attempts: 1 });
  });

  test("does not take the parts of a long call for extra attempts", () => {
    expect(outcome([answer, answer, answer])).toEqual({});
  });

  test("tells answers that were cut or refused, and requests that were", () => {
    expect(outcome([answer], { finish: "length" })).toEqual({ truncated: 1 });
    expect(outcome([answer], { finish: "content_filter" })).toEqual({ refused: 1 });
    expect(outcome([rejected], { state: "failed", error: "content_policy" })).toEqual({ refused: 1 });
    expect(outcome([answer], { state: "abandoned", error: "client_gone" })).toEqual({ abandoned: 1 });
    expect(outcome([], { state: "unknown" })).toEqual({ unknown: 1 });
  });

  test("counts what caches saved, and what filling them lost", () => {
    expect(outcome([answer], { cacheSavedNanos: 42 })).toEqual({ cache_saved_nanos: 42 });
    expect(outcome([answer], { cacheSavedNanos: -7 })).toEqual({ cache_saved_nanos: -7 });
  });

  test("marks what calls are found by", () => {
    expect(marksOf(outcome([broken, { ...answer, channel: "b" }], { finish: "length" }))).toEqual(["truncated", "rescued"]);
    expect(marksOf(outcome([answer, { ...lost, hedge: true }]))).toEqual(["hedged"]);
    expect(marksOf(outcome([answer], { cacheSavedNanos: 42 }))).toEqual([]);
  });
});
