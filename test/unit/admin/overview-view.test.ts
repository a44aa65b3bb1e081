import { describe, expect, test } from "bun:test";
import type { Services, TrafficFigures } from "../../../src/admin/services.ts";
import { overviewOf } from "../../../src/admin/views/overview-view.ts";
import { ceiling, floor } from "../../../src/store/receipts/usage-query.ts";
import type { UsageQuery, UsageRow } from "../../../src/usage/usage-row.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const nowMs = Date.parse("2026-03-31T13:20:40Z");

interface Facts {
  readonly minutes?: readonly TrafficFigures[];
  readonly sinceMs?: number | null;
  readonly asked?: UsageQuery[];
}

/** A gateway with one call at the beginning of each hour, in sums of whole hours. */
function services({ minutes = [], sinceMs = null, asked = [] }: Facts): Services {
  const usage = (query: UsageQuery): Promise<readonly UsageRow[]> => {
    asked.push(query);
    const hours = (ceiling(query.untilMs ?? nowMs, hourMs) - floor(query.sinceMs ?? 0, hourMs)) / hourMs;
    const figures = { calls: hours, failedCalls: 0, promptTokens: 0, completionTokens: 0, nanos: 0, unpricedCalls: 0 };
    return Promise.resolve([{ group: { hour: "2026-03-31T13:00Z", day: "2026-03-31" }, ...figures } as UsageRow]);
  };
  const parts = {
    wallMs: () => nowMs,
    traffic: {
      since: (wallMs: number) => minutes.filter(({ atMs }) => atMs >= wallMs),
      state: () => ({ inFlight: 0, sinceMs }),
      firstContent: () => null,
    },
    reports: { receipts: { usage, firstContents: () => Promise.resolve([]) } },
  };
  return parts as unknown as Services;
}

describe("the overview", () => {
  test.each([
    ["24h", 24],
    ["30d", 720],
  ] as const)("compares with whole hours that end where its own begin: %s", async (span, hours) => {
    const asked: UsageQuery[] = [];
    const { totals, before } = await overviewOf(span, services({ asked }));
    expect([totals.calls, before?.calls]).toEqual([hours + 1, hours]);
    const beganMs = floor(asked[0]?.sinceMs ?? 0, hourMs);
    expect(asked.find(({ untilMs }) => untilMs !== null)).toMatchObject({ untilMs: beganMs, sinceMs: beganMs - hours * hourMs });
  });

  /** Sixty calls a minute until now, since this moment. */
  function steady(sinceMs: number): readonly TrafficFigures[] {
    const minutes: TrafficFigures[] = [];
    for (let atMs = floor(sinceMs, minuteMs); atMs < nowMs; atMs += minuteMs) {
      const calls = (Math.min(nowMs, atMs + minuteMs) - Math.max(sinceMs, atMs)) / 1000;
      minutes.push({ atMs, calls, failed: 0, inputTokens: 0, outputTokens: 0, costUsd: 0, byOperation: new Map() });
    }
    return minutes;
  }

  test.each([
    ["in the middle of a minute", 60 * minuteMs, 60],
    ["a few minutes after the start", 2.5 * minuteMs, 60],
    ["just after the start, where less than a minute is not made more of", 30_000, 30],
  ])("tells how many calls there are a minute: %s", async (_, agoMs, perMinute) => {
    const sinceMs = nowMs - agoMs;
    const { now } = await overviewOf("1h", services({ minutes: steady(sinceMs), sinceMs }));
    expect(now.calls_per_minute).toBe(perMinute);
  });

  test("tells no rate where nothing is counted", async () => {
    const { now } = await overviewOf("1h", services({}));
    expect(now).toEqual({ running: 0, calls_per_minute: 0, since_at: null });
  });
});
