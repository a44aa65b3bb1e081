import { describe, expect, test } from "bun:test";
import { problemPath, seriesOf } from "../../../src/console/pages/overview/overview-answer.ts";
import { wholeOf } from "../../../src/console/pages/requests/waterfall.tsx";
import { groupName, spanBefore, spanDays, summed, type UsageAnswerRow } from "../../../src/console/pages/usage/usage-rows.ts";
import { sparkPath } from "../../../src/console/parts/spark.tsx";

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
    expect(spanBefore("7d")).toEqual({ since: "336h", until: "168h" });
    expect(spanBefore("nonsense")).toEqual({ since: "48h", until: "24h" });
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
    expect(problemPath({ ...problem, kind: "many_failures", subject: null })).toBe("/console/requests?state=failed&since=1h");
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
