import { z } from "zod";
import { dollarsNumber } from "../../usage/dollars.ts";
import { firstContentBoundsMs, firstContentTimes, type FirstContentTimes } from "../../usage/first-content.ts";
import { isoMoment, isoOrNull } from "../../usage/time-text.ts";
import { knownNanos, type UsageRow } from "../../usage/usage-row.ts";
import { moment } from "../fields/scalars.ts";
import type { Services, TrafficFigures } from "../services.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** The spans that an overview can have, and what its series is grouped by. */
export const spans = {
  "1h": { lengthMs: hourMs, by: "minute" },
  "24h": { lengthMs: dayMs, by: "hour" },
  "7d": { lengthMs: 7 * dayMs, by: "hour" },
  "30d": { lengthMs: 30 * dayMs, by: "day" },
  "90d": { lengthMs: 90 * dayMs, by: "day" },
} as const;

export const figuresAnswer = z.strictObject({
  calls: z.number(),
  failed: z.number(),
  input_tokens: z.number(),
  output_tokens: z.number(),
  cost_usd: z.number().nullable().describe("The known part of the cost; null if nothing is known."),
});

type FiguresView = z.input<typeof figuresAnswer>;

export const firstContentAnswer = z.strictObject({
  p50_ms: z.number(),
  p95_ms: z.number(),
  p99_ms: z.number(),
  streams: z.int(),
  from_at: moment.describe("Sums of the store begin with an hour."),
});

/** Answers for 90 days from a few queries of the sums, which do not grow with the number of calls. */
export async function overviewOf(span: keyof typeof spans, services: Services) {
  const { lengthMs, by } = spans[span];
  const nowMs = services.wallMs();
  const sinceMs = nowMs - lengthMs;
  const shared = { span, from_at: isoMoment(sinceMs), to_at: isoMoment(nowMs), now: presentOf(services, nowMs) };
  if (by === "minute") {
    const firstContent = await firstContentOfHour(services, nowMs);
    return {
      ...shared,
      ...byMinutes(services.traffic.since(sinceMs)),
      before: null,
      first_content: firstContent,
      first_content_before: null,
    };
  }
  const { receipts } = services.reports;
  const everyone = { keyId: null, model: null, channel: null };
  // Sums are of whole hours. The end of a span would be rounded up, so that its hour would be in both.
  const beganMs = Math.floor(sinceMs / hourMs) * hourMs;
  const [rows, operations, before, firstContent, firstContentBefore] = await Promise.all([
    receipts.usage({ by: [by], sinceMs, untilMs: null, ...everyone }),
    receipts.usage({ by: ["operation"], sinceMs, untilMs: null, ...everyone }),
    receipts.usage({ by: [], sinceMs: beganMs - lengthMs, untilMs: beganMs, ...everyone }),
    storedFirstContent(services, sinceMs, null),
    storedFirstContent(services, sinceMs - lengthMs, sinceMs),
  ]);
  return {
    ...shared,
    totals: summed(rows),
    before: summed(before),
    first_content: firstContent,
    first_content_before: firstContentBefore,
    series: rows.map((row) => ({ at: momentOf(row.group[by] ?? ""), ...figuresOf(row) })),
    by_operation: operations.map(({ group, calls, failedCalls }) => ({ operation: group.operation ?? "", calls, failed: failedCalls })),
  };
}

type FirstContentView = z.input<typeof firstContentAnswer>;

/** By the minute where this process has counted for so long; after a restart from the sums, with the hour before. */
async function firstContentOfHour(services: Services, nowMs: number): Promise<FirstContentView | null> {
  const sinceMs = nowMs - hourMs;
  const countsSinceMs = services.traffic.state().sinceMs;
  const isCounted = countsSinceMs !== null && countsSinceMs <= sinceMs;
  return isCounted ? shownTimes(services.traffic.firstContent(sinceMs), sinceMs) : storedFirstContent(services, sinceMs, null);
}

async function storedFirstContent({ reports }: Services, sinceMs: number, untilMs: number | null): Promise<FirstContentView | null> {
  const fromMs = Math.floor(sinceMs / hourMs) * hourMs;
  const wholeUntilMs = untilMs === null ? null : Math.floor(untilMs / hourMs) * hourMs;
  return shownTimes(firstContentTimes(firstContentBoundsMs, await reports.receipts.firstContents(fromMs, wholeUntilMs)), fromMs);
}

function shownTimes(times: FirstContentTimes | null, fromMs: number): FirstContentView | null {
  return times === null ? null : { ...times, from_at: isoMoment(fromMs) };
}

function figuresOf(row: UsageRow): FiguresView {
  const nanos = knownNanos(row);
  return {
    calls: row.calls,
    failed: row.failedCalls,
    input_tokens: row.promptTokens,
    output_tokens: row.completionTokens,
    cost_usd: nanos === null ? null : dollarsNumber(nanos),
  };
}

function summed(rows: readonly UsageRow[]): FiguresView {
  const add = (pick: (row: UsageRow) => number): number => rows.reduce((sum, row) => sum + pick(row), 0);
  const known = rows.filter((row) => knownNanos(row) !== null);
  return {
    calls: add(({ calls }) => calls),
    failed: add(({ failedCalls }) => failedCalls),
    input_tokens: add(({ promptTokens }) => promptTokens),
    output_tokens: add(({ completionTokens }) => completionTokens),
    cost_usd: rows.length > 0 && known.length === 0 ? null : dollarsNumber(add(({ nanos }) => nanos)),
  };
}

/** A day as `2026-01-31`, an hour as `2026-01-31T14:00Z`. */
function momentOf(group: string): string {
  return new Date(group).toISOString();
}

function byMinutes(minutes: readonly TrafficFigures[]) {
  const byOperation = new Map<string, { readonly calls: number; readonly failed: number }>();
  for (const minute of minutes) {
    for (const [operation, { calls, failed }] of minute.byOperation) {
      const sum = byOperation.get(operation);
      byOperation.set(operation, { calls: (sum?.calls ?? 0) + calls, failed: (sum?.failed ?? 0) + failed });
    }
  }
  const figures = minutes.map((minute) => ({ at: isoMoment(minute.atMs), ...minuteFigures(minute) }));
  const add = (pick: (row: FiguresView) => number): number => figures.reduce((sum, row) => sum + pick(row), 0);
  return {
    totals: {
      calls: add(({ calls }) => calls),
      failed: add(({ failed }) => failed),
      input_tokens: add(({ input_tokens }) => input_tokens),
      output_tokens: add(({ output_tokens }) => output_tokens),
      cost_usd: add(({ cost_usd }) => cost_usd ?? 0),
    },
    series: figures,
    by_operation: Array.from(byOperation, ([operation, { calls, failed }]) => ({ operation, calls, failed })),
  };
}

function minuteFigures({ calls, failed, inputTokens, outputTokens, costUsd }: TrafficFigures): FiguresView {
  return { calls, failed, input_tokens: inputTokens, output_tokens: outputTokens, cost_usd: costUsd };
}

function presentOf({ traffic }: Services, nowMs: number) {
  const { inFlight, sinceMs } = traffic.state();
  const startMs = sinceMs ?? nowMs;
  // From the beginning of a minute on, because what was counted in it is not known more exactly.
  const fromMs = Math.floor((nowMs - rateSpanMs) / minuteMs) * minuteMs;
  const coveredMs = Math.max(minuteMs, nowMs - Math.max(fromMs, startMs));
  const calls = traffic.since(fromMs).reduce((sum, minute) => sum + minute.calls, 0);
  return {
    running: inFlight,
    calls_per_minute: Math.round((calls * minuteMs * 10) / coveredMs) / 10,
    since_at: isoOrNull(sinceMs),
  };
}

const rateSpanMs = 5 * minuteMs;
