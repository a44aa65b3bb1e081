import type { MetricFamily, MetricSeries } from "./family.ts";

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
  /** What each worker had counted when it reported last, by the label `worker`; those who reported longest ago come first. */
  private readonly before = new Map<string, CounterTotals>();
  private beganMs: number | null = null;
  /** The upper bounds of the buckets, in seconds. */
  bounds: readonly number[] = [];
  /** Requests that are being served now. */
  inFlight = 0;

  /** Adds what each worker counted since its last report. One that is left out of a round is late, and makes up for it with its next report. */
  add(families: readonly MetricFamily[], wallMs: number): void {
    const now = totalsByWorker(families);
    this.bounds = familyNamed(families, firstContentName)?.bounds ?? [];
    this.inFlight = sumOf(familyNamed(families, "sluice_in_flight_requests")?.series ?? []);
    const { beganMs } = this;
    this.beganMs ??= wallMs;
    const minute = beganMs === null ? null : this.minuteOf(wallMs);
    for (const [worker, totals] of now) {
      if (minute !== null) addGrowth(minute, totals, baseOf(this.before.get(worker), totals, beganMs ?? wallMs));
      this.before.delete(worker);
      this.before.set(worker, totals);
    }
    for (const worker of this.before.keys()) {
      if (this.before.size <= workersMax) break;
      this.before.delete(worker);
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

/** What one worker has counted since its start. */
interface CounterTotals extends Omit<MutableMinute, "atMs"> {
  /** Null if it is not known. */
  startedMs: number | null;
  readonly firstContents: number[];
}

const nothing = { calls: 0, failed: 0 };
const minuteMs = 60_000;
const minutesMax = 24 * 60;
/** Workers that are gone for good are forgotten when there are more. */
const workersMax = 1_024;
const firstContentName = "sluice_time_to_first_content_seconds";

/** What was counted already, before that which is new; null if all of it is new. */
function baseOf(before: CounterTotals | undefined, now: CounterTotals, beganMs: number): CounterTotals | null {
  if (before === undefined) {
    // A worker that has run for long, but was left out of the first round, counted in a time of which this history knows nothing.
    return now.startedMs !== null && now.startedMs < beganMs - minuteMs ? now : null;
  }
  const isRestarted = now.startedMs !== before.startedMs || now.calls < before.calls || now.refused < before.refused;
  return isRestarted ? null : before;
}

function addGrowth(minute: MutableMinute, now: CounterTotals, base: CounterTotals | null): void {
  minute.calls += grown(now.calls, base?.calls);
  minute.failed += grown(now.failed, base?.failed);
  minute.refused += grown(now.refused, base?.refused);
  minute.inputTokens += grown(now.inputTokens, base?.inputTokens);
  minute.outputTokens += grown(now.outputTokens, base?.outputTokens);
  minute.costUsd += grown(now.costUsd, base?.costUsd);
  const { firstContents } = minute;
  minute.firstContents = now.firstContents.map((value, at) => (firstContents[at] ?? 0) + grown(value, base?.firstContents[at]));
  for (const [operation, { calls, failed }] of now.byOperation) {
    const had = base?.byOperation.get(operation) ?? nothing;
    const sum = minute.byOperation.get(operation) ?? nothing;
    minute.byOperation.set(operation, {
      calls: sum.calls + grown(calls, had.calls),
      failed: sum.failed + grown(failed, had.failed),
    });
  }
}

function grown(now: number, before = 0): number {
  return Math.max(0, now - before);
}

/** By the value of the label `worker`, which is empty where there is one process. */
function totalsByWorker(families: readonly MetricFamily[]): ReadonlyMap<string, CounterTotals> {
  const bounds = familyNamed(families, firstContentName)?.bounds ?? [];
  const byWorker = new Map<string, CounterTotals>();
  const each = (name: string, take: (totals: CounterTotals, series: MetricSeries, label: (name: string) => string) => void): void => {
    const family = familyNamed(families, name);
    for (const series of family?.series ?? []) {
      const label = (wanted: string): string => labelOf(family, series.labels, wanted);
      const worker = label("worker");
      const totals = byWorker.get(worker) ?? noTotals(bounds.length + 1);
      byWorker.set(worker, totals);
      take(totals, series, label);
    }
  };
  each("process_start_time_seconds", (totals, { value }) => {
    totals.startedMs = value * 1000;
  });
  each("sluice_requests_total", (totals, { value }, label) => {
    const outcome = label("outcome");
    if (outcome === "refused") {
      totals.refused += value;
      return;
    }
    const failed = outcome === "failed" || outcome === "interrupted" ? value : 0;
    totals.calls += value;
    totals.failed += failed;
    const operation = label("operation");
    const sum = totals.byOperation.get(operation) ?? nothing;
    totals.byOperation.set(operation, { calls: sum.calls + value, failed: sum.failed + failed });
  });
  each("sluice_tokens_total", (totals, { value }, label) => {
    const kind = label("kind");
    if (kind === "input") totals.inputTokens += value;
    else if (kind === "output") totals.outputTokens += value;
  });
  each("sluice_cost_usd_total", (totals, { value }) => {
    totals.costUsd += value;
  });
  each(firstContentName, ({ firstContents }, { buckets }) => {
    for (const at of firstContents.keys()) firstContents[at] = (firstContents[at] ?? 0) + (buckets?.[at] ?? 0);
  });
  return byWorker;
}

function noTotals(buckets: number): CounterTotals {
  return {
    startedMs: null,
    ...{ calls: 0, failed: 0, refused: 0, inputTokens: 0, outputTokens: 0, costUsd: 0 },
    firstContents: Array<number>(buckets).fill(0),
    byOperation: new Map(),
  };
}

function familyNamed(families: readonly MetricFamily[], name: string): MetricFamily | undefined {
  return families.find((family) => family.name === name);
}

function labelOf(family: MetricFamily | undefined, labels: readonly string[], name: string): string {
  return labels[family?.labels.indexOf(name) ?? -1] ?? "";
}

function sumOf(series: readonly { readonly value: number }[]): number {
  return series.reduce((sum, { value }) => sum + value, 0);
}
