import type { MetricFamily } from "./family.ts";

/** What happened in one minute, from the counters of all workers. */
export interface TrafficMinute {
  /** Its beginning, on the wall clock. */
  readonly atMs: number;
  readonly calls: number;
  readonly failed: number;
  readonly refused: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costUsd: number;
  /** Times to first content: how many fell into each bucket. */
  readonly firstContents: readonly number[];
  readonly byOperation: ReadonlyMap<string, { readonly calls: number; readonly failed: number }>;
}

/**
 * Remembers the counters of this gateway minute by minute for a day: rates, errors and latencies that hourly sums cannot show. It reads the
 * same counters as a scrape, so that calls pay nothing for it. It begins anew with each start.
 */
export class RateHistory {
  private readonly minutes: MutableMinute[] = [];
  private before: CounterTotals | null = null;
  /** The upper bounds of the buckets, in seconds. */
  bounds: readonly number[] = [];
  /** Requests that are being served now. */
  inFlight = 0;

  /** Adds what was counted since the last time. */
  add(families: readonly MetricFamily[], wallMs: number): void {
    const now = totalsOf(families);
    this.bounds = now.bounds;
    this.inFlight = now.inFlight;
    const { before } = this;
    this.before = now;
    if (before === null) return;
    const minute = this.minuteOf(wallMs);
    minute.calls += grown(now.calls, before.calls);
    minute.failed += grown(now.failed, before.failed);
    minute.refused += grown(now.refused, before.refused);
    minute.inputTokens += grown(now.inputTokens, before.inputTokens);
    minute.outputTokens += grown(now.outputTokens, before.outputTokens);
    minute.costUsd += grown(now.costUsd, before.costUsd);
    minute.firstContents = now.firstContents.map(
      (value, at) => (minute.firstContents[at] ?? 0) + grown(value, before.firstContents[at] ?? 0),
    );
    for (const [operation, { calls, failed }] of now.byOperation) {
      const had = before.byOperation.get(operation) ?? nothing;
      const sum = minute.byOperation.get(operation) ?? nothing;
      minute.byOperation.set(operation, {
        calls: sum.calls + grown(calls, had.calls),
        failed: sum.failed + grown(failed, had.failed),
      });
    }
  }

  since(wallMs: number): readonly TrafficMinute[] {
    return this.minutes.filter(({ atMs }) => atMs >= wallMs);
  }

  private minuteOf(wallMs: number): MutableMinute {
    const atMs = wallMs - (wallMs % minuteMs);
    const last = this.minutes.at(-1);
    // A clock that was set back does not make minutes twice.
    if (last !== undefined && last.atMs >= atMs) return last;
    const minute: MutableMinute = {
      atMs,
      calls: 0,
      failed: 0,
      refused: 0,
      inputTokens: 0,
      outputTokens: 0,
      costUsd: 0,
      firstContents: [],
      byOperation: new Map(),
    };
    this.minutes.push(minute);
    if (this.minutes.length > minutesMax) this.minutes.shift();
    return minute;
  }
}

interface MutableMinute extends TrafficMinute {
  calls: number;
  failed: number;
  refused: number;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
  firstContents: readonly number[];
  readonly byOperation: Map<string, { readonly calls: number; readonly failed: number }>;
}

interface CounterTotals extends Omit<TrafficMinute, "atMs"> {
  readonly bounds: readonly number[];
  readonly inFlight: number;
}

const nothing = { calls: 0, failed: 0 };
const minuteMs = 60_000;
const minutesMax = 24 * 60;

/** A worker that was replaced counts from zero again, so that a sum may shrink. */
function grown(now: number, before: number): number {
  return Math.max(0, now - before);
}

function totalsOf(families: readonly MetricFamily[]): CounterTotals {
  const byName = new Map(families.map((family) => [family.name, family]));
  const requests = byName.get("sluice_requests_total");
  const firsts = byName.get("sluice_time_to_first_content_seconds");
  const byOperation = new Map<string, { calls: number; failed: number }>();
  let [calls, failed, refused] = [0, 0, 0];
  for (const { labels, value } of requests?.series ?? []) {
    const outcome = labelOf(requests, labels, "outcome");
    if (outcome === "refused") {
      refused += value;
      continue;
    }
    const isFailed = outcome === "failed" || outcome === "interrupted";
    calls += value;
    if (isFailed) failed += value;
    const operation = labelOf(requests, labels, "operation");
    const sum = byOperation.get(operation) ?? { calls: 0, failed: 0 };
    byOperation.set(operation, { calls: sum.calls + value, failed: sum.failed + (isFailed ? value : 0) });
  }
  const tokens = (kind: string): number => {
    const family = byName.get("sluice_tokens_total");
    return sumOf(family?.series.filter(({ labels }) => labelOf(family, labels, "kind") === kind) ?? []);
  };
  const bounds = firsts?.bounds ?? [];
  return {
    calls,
    failed,
    refused,
    byOperation,
    inputTokens: tokens("input"),
    outputTokens: tokens("output"),
    costUsd: sumOf(byName.get("sluice_cost_usd_total")?.series ?? []),
    inFlight: sumOf(byName.get("sluice_in_flight_requests")?.series ?? []),
    bounds,
    firstContents: [...bounds, Infinity].map((_, at) => (firsts?.series ?? []).reduce((sum, { buckets }) => sum + (buckets?.[at] ?? 0), 0)),
  };
}

function labelOf(family: MetricFamily | undefined, labels: readonly string[], name: string): string {
  return labels[family?.labels.indexOf(name) ?? -1] ?? "";
}

function sumOf(series: readonly { readonly value: number }[]): number {
  return series.reduce((sum, { value }) => sum + value, 0);
}
