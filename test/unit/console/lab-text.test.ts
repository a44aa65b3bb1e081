import { describe, expect, test } from "bun:test";
import type { LabRunView } from "../../../src/admin/views/lab-view.ts";
import { breakerOf, progressOf, seenBy } from "../../../src/console/pages/lab/lab-text.ts";

const run: LabRunView = {
  id: "lab-1",
  scenario: "reset",
  mode: "streamed",
  calls: 2,
  rate: 1,
  state: "running",
  started_at: "2027-01-31T12:00:00.000Z",
  as_promised: null,
  broken: [],
  channels: [],
  results: [],
};

describe("a run of the lab on its page", () => {
  test.each([
    [null, "accent", "running"],
    [{ sees: "answer", status: 200, code: null, words: 60, retry_after_s: null }, "good", "the whole answer, 60 words"],
    [{ sees: "error", status: 503, code: "no_channel_available", words: 0, retry_after_s: null }, "warn", "503 no channel available"],
    [
      { sees: "error", status: 429, code: "rate_limit_exceeded", words: 0, retry_after_s: 20 },
      "warn",
      "429 rate limit exceeded, again in 20 s",
    ],
    [{ sees: "interruption", status: 200, code: "cut_off", words: 40, retry_after_s: null }, "warn", "40 words, then cut off"],
    [{ sees: "wrong", status: 200, code: null, words: 70, retry_after_s: null }, "bad", "70 words that are not the answer"],
  ] as const)("says what a client saw: %j", (client, tone, text) => {
    expect(seenBy({ client })).toEqual({ tone, text });
  });

  test("says whether a channel may be asked", () => {
    expect(breakerOf({ breaker: null })).toEqual({ tone: "good", text: "may be asked" });
    expect(breakerOf({ breaker: { state: "open", cause: "rate_limited", for_ms: 500 } }).text).toMatch(
      /^cools down: rate limited, another 500\sms$/,
    );
    expect(breakerOf({ breaker: { state: "half_open", cause: "overloaded", for_ms: 0 } })).toEqual({
      tone: "warn",
      text: "is probed: overloaded",
    });
  });

  test("says how far it is, and then whether it was as promised", () => {
    expect(progressOf(run)).toEqual({ tone: "accent", text: "0 of 2 calls" });
    expect(progressOf({ ...run, state: "ended", as_promised: true })).toEqual({ tone: "good", text: "as promised" });
    expect(progressOf({ ...run, state: "ended", as_promised: false })).toEqual({ tone: "bad", text: "not as promised" });
    expect(progressOf({ ...run, state: "stopped" })).toEqual({ tone: "", text: "ended early" });
  });
});
