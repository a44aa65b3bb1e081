import { describe, expect, test } from "bun:test";
import type { InvoiceRow, OutcomeFigures } from "../../../src/console/core/answers.ts";
import {
  extraCost,
  invoiceChannels,
  invoiceDifference,
  lastMonths,
  plainlyFailed,
  savedCalls,
  typedAmount,
} from "../../../src/console/pages/outcomes/outcome-rows.ts";
import { problemPath, seriesOf, shownProblems } from "../../../src/console/pages/overview/overview-answer.ts";
import { wholeOf } from "../../../src/console/pages/requests/waterfall.tsx";
import { groupName, spanBefore, spanDays, summed, type UsageAnswerRow } from "../../../src/console/pages/usage/usage-rows.ts";
import { sparkPath } from "../../../src/console/parts/spark.tsx";
import { ceiling, floor } from "../../../src/store/receipts/usage-query.ts";
import { parsePastMoment } from "../../../src/usage/time-text.ts";

const none: UsageAnswerRow = {
  calls: 0,
  failed: 0,
  prompt_tokens: 0,
  cached_tokens: 0,
  completion_tokens: 0,
  audio_seconds: 0,
  characters: 0,
  cost_usd: 0,
  unpriced: 0,
};

describe("usage", () => {
  test("has an unknown cost only if that of every row is unknown", () => {
    expect(summed([]).cost_usd).toBe(0);
    expect(summed([{ ...none, cost_usd: null }]).cost_usd).toBeNull();
    expect(
      summed([
        { ...none, cost_usd: null, calls: 1 },
        { ...none, cost_usd: 2, calls: 3 },
      ]),
    ).toMatchObject({ cost_usd: 2, calls: 4 });
  });

  test("is compared with the span of the same length before", () => {
    expect(spanDays("24h")).toBe(1);
    expect(spanBefore("7d")).toEqual({ since: "336h", until: "169h" });
    expect(spanBefore("nonsense")).toEqual({ since: "48h", until: "25h" });
  });

  test.each(["1h", "24h", "30d"])("is compared with whole hours that end where those of the span begin: %s", (since) => {
    const hourMs = 3_600_000;
    const nowMs = Date.parse("2026-03-31T13:20:00Z");
    const ms = (text: string): number => parsePastMoment(text, nowMs) ?? Number.NaN;
    const before = spanBefore(since);
    expect(ceiling(ms(before.until), hourMs)).toBe(floor(ms(since), hourMs));
    expect(ceiling(ms(before.until), hourMs) - floor(ms(before.since), hourMs)).toBe(nowMs - ms(since));
  });

  test("names its groups, also where a key is gone and where nobody answered", () => {
    expect(groupName({ ...none, key: "id", key_name: null }, "key")).toBe("id");
    expect(groupName({ ...none, channel: null }, "channel")).toBe("no channel answered");
    expect(groupName({ ...none, day: "2026-01-31" }, "day")).toBe("2026-01-31");
  });
});

describe("the overview", () => {
  test("shows zeros where nothing happened, and every value in its place", () => {
    const figures = { calls: 3, failed: 1, input_tokens: 0, output_tokens: 0, cost_usd: null };
    const now = { running: 0, calls_per_minute: 0, since_at: "" };
    const shared = { totals: figures, before: null, first_content: null, first_content_before: null, by_operation: [], now };
    const { at, calls, cost } = seriesOf({
      ...shared,
      span: "24h",
      from_at: "2026-03-01T10:20:00.000Z",
      to_at: "2026-03-01T13:20:00.000Z",
      series: [{ ...figures, at: "2026-03-01T12:00:00.000Z" }],
    });
    expect(calls).toEqual([0, 0, 3, 0]);
    expect(cost).toEqual([0, 0, 0, 0]);
    expect(at[0]).toBe(Date.parse("2026-03-01T10:00:00Z") / 1000);
  });

  test("leads from each problem to where it is solved", () => {
    const problem = { severity: "warning", message: "", next: "", until_at: null } as const;
    expect(problemPath({ ...problem, kind: "channel_cooling", subject: "a b" })).toBe("/console/channels/a%20b");
    expect(problemPath({ ...problem, kind: "budget_near", subject: "k1" })).toBe("/console/keys/k1");
    expect(problemPath({ ...problem, kind: "budget_near", subject: "grp_1" })).toBe("/console/groups/grp_1");
    expect(problemPath({ ...problem, kind: "many_failures", subject: null })).toBe("/console/requests?state=failed&since=1h");
  });

  test("does not say that everything works once asking for problems failed", () => {
    const problem = { severity: "warning", kind: "budget_near", subject: "k1", message: "", next: "", until_at: null } as const;
    expect([shownProblems(null, false), shownProblems([], false), shownProblems([], true)]).toEqual([null, [], null]);
    expect(shownProblems([problem], true)).toEqual([problem]);
  });
});

test("a waterfall is as long as its longest attempt, which may end after the call", () => {
  const attempt = { channel: "a", model: "m", status: null, error: null, hedge: false, cost_usd: null };
  expect(wholeOf({ took_ms: 10, first_content_ms: null, attempts: [{ ...attempt, after_ms: 5, took_ms: 20, outcome: "abandoned" }] })).toBe(
    25,
  );
  expect(wholeOf({ took_ms: 0, first_content_ms: null, attempts: [] })).toBe(1);
});

test("a sparkline goes from zero to its highest value", () => {
  expect(sparkPath([], 10, 10)).toBe("");
  expect(sparkPath([5], 10, 10)).toBe("");
  expect(sparkPath([0, 2, 1], 10, 12)).toBe("M0 11L5 1L10 6");
  expect(sparkPath([0, 0], 10, 10)).toBe("M0 9L10 9");
});

describe("outcomes", () => {
  const figures: OutcomeFigures = {
    calls: 100,
    failed: 9,
    truncated: 0,
    refused: 0,
    interrupted: 2,
    abandoned: 3,
    unknown: 1,
    failed_over: 4,
    retried: 5,
    rescued: 6,
    rescue_failed: 0,
    hedges: 0,
    hedges_won: 0,
    extra_attempts: 0,
    extra_tokens: 0,
    failover_usd: 0.5,
    hedge_usd: 0.25,
    rescue_usd: 0.125,
    prompt_tokens: 0,
    cached_tokens: 0,
    completion_tokens: 0,
    cost_usd: 0,
    cache_saved_usd: 0,
    unpriced: 0,
  };

  test("count each call once, and add up what extra attempts cost", () => {
    expect(savedCalls(figures)).toBe(15);
    expect(plainlyFailed(figures)).toBe(3);
    // Old hours know no states.
    expect(plainlyFailed({ ...figures, failed: 1 })).toBe(0);
    expect(extraCost(figures)).toBe(0.875);
  });

  test("of an invoice are by channel, the dearest first, and unknown only if no price is known", () => {
    const row: InvoiceRow = {
      channel: "a",
      model: "m",
      attempts: 1,
      answered: 1,
      prompt_tokens: 0,
      cached_tokens: 0,
      completion_tokens: 0,
      reasoning_tokens: 0,
      audio_seconds: 0,
      characters: 0,
      cost_usd: 1,
      unpriced: 0,
      uncertain: 1,
      estimated: 0,
    };
    const rows = [row, { ...row, model: "n", cost_usd: null, unpriced: 2 }, { ...row, channel: "b", cost_usd: 3 }];
    expect(invoiceChannels([...rows, { ...row, channel: null, cost_usd: null }])).toMatchObject([
      { channel: "b", cost: 3, models: [{}] },
      { channel: "a", cost: 1, unpriced: 2, uncertain: 2, models: [{}, {}] },
      { channel: null, cost: null },
    ]);
  });

  test("of an invoice are compared with an amount that was typed", () => {
    expect(["12.5", "$1,234.50", " 7 ", "", "twelve", "-3", "1.2.3"].map(typedAmount)).toEqual([12.5, 1234.5, 7, null, null, null, null]);
    expect(invoiceDifference(10.001, 10)).toBe("The same, to the cent");
    expect(invoiceDifference(11, 10)).toBe("The invoice has +$1.00 (+10.0\u202f%)");
    expect(invoiceDifference(9.5, 10)).toBe("The invoice has −$0.50 (−5.0\u202f%)");
    expect(invoiceDifference(2, 0)).toBe("The invoice has +$2.00");
  });

  test("are of calendar months in UTC, across the turn of a year", () => {
    expect(lastMonths(Date.UTC(2027, 1, 28, 23), 4)).toEqual(["2027-02", "2027-01", "2026-12", "2026-11"]);
    expect(lastMonths(Date.UTC(2027, 2, 31), 2)).toEqual(["2027-03", "2027-02"]);
  });
});
