/**
 * How busy a deployment is and how quickly it answers. It changes: the upstream state, which owns it, calls `begun`, `ended` and
 * `observed`. Everything else gets it as `Readonly<Load>`.
 */
export interface Load {
  inFlight: number;
  /** A moving average of milliseconds to first content, as of `observedMs`. */
  averageMs: number;
  /** When the last latency was observed; `null`: none was yet. */
  observedMs: number | null;
  /** How long content took: of streams to their first, of whole answers to all of it. A whole one takes as long as it is. */
  streamed: Latencies | null;
  whole: Latencies | null;
}

/** A histogram of fixed size: of the last calls, the later ones weigh more. */
interface Latencies {
  readonly weights: Uint16Array;
  total: number;
  /** How many calls are known. */
  calls: number;
  /** Since when its weights were last halved, in hours. */
  hour: number;
}

// The histogram: bins that grow by a quarter, from 5 ms to about ten minutes. A percentile is at most that much too high.
const binFirstMs = 5;
const binGrowth = 1.25;
const bins = 54;
/** Fewer calls than this have no percentile worth acting on. */
const callsMin = 20;
/** What a call weighs at first. All weights are halved when they are those of so many calls, and every hour. */
const callWeight = 16;
const totalMax = 256 * callWeight;
const hourMs = 3_600_000;

/** How long a latency stays in the average, and the bounds of what one of them may weigh. */
const memoryMs = 10_000;
const sampleWeightMin = 0.02;
const sampleWeightMax = 0.5;
/** An average nobody renews fades in about this time, so that a deployment which was slow once is tried again. */
const fadeMs = 45_000;

export function newLoad(): Load {
  return {
    inFlight: 0,
    averageMs: 0,
    observedMs: null,
    streamed: null,
    whole: null,
  };
}

export function begun(load: Load): void {
  load.inFlight += 1;
}

export function ended(load: Load): void {
  if (load.inFlight === 0) throw new Error("a call ended that never began");
  load.inFlight -= 1;
}

/** First content came after this long; or nothing came, and this is how long we waited. Quick refusals are no latency. */
export function observed(load: Load, latencyMs: number, nowMs: number, streamed: boolean): void {
  if (load.observedMs === null) {
    load.averageMs = latencyMs;
  } else {
    const byTime = 1 - Math.exp(-(nowMs - load.observedMs) / memoryMs);
    const weight = Math.min(sampleWeightMax, Math.max(sampleWeightMin, byTime));
    load.averageMs += weight * (latencyMs - load.averageMs);
  }
  load.observedMs = nowMs;
  const hour = Math.floor(nowMs / hourMs);
  if (streamed) count((load.streamed ??= newLatencies(hour)), binOf(latencyMs), hour);
  else count((load.whole ??= newLatencies(hour)), binOf(latencyMs), hour);
}

/** The average as it stands now; `null`: unknown. */
export function latencyMs(load: Readonly<Load> | undefined, nowMs: number): number | null {
  if (load === undefined || load.observedMs === null) return null;
  return load.averageMs * Math.exp(-(nowMs - load.observedMs) / fadeMs);
}

/** 95 of 100 calls had content by then; `null`: too few calls to say. */
export function p95Ms(load: Readonly<Load> | undefined, streamed: boolean): number | null {
  const latencies = (streamed ? load?.streamed : load?.whole) ?? null;
  if (latencies === null || latencies.calls < callsMin) return null;
  const { weights, total } = latencies;
  let above = total * 0.05;
  let bin = bins - 1;
  while (bin > 0 && weights[bin]! <= above) {
    above -= weights[bin]!;
    bin -= 1;
  }
  return binFirstMs * binGrowth ** bin;
}

function newLatencies(hour: number): Latencies {
  return { weights: new Uint16Array(bins), total: 0, calls: 0, hour };
}

function count(latencies: Latencies, bin: number, hour: number): void {
  if (hour !== latencies.hour) {
    shrink(latencies, hour - latencies.hour);
    latencies.hour = hour;
  }
  if (latencies.total >= totalMax) shrink(latencies, 1);
  latencies.weights[bin]! += callWeight;
  latencies.total += callWeight;
  latencies.calls += 1;
}

/** Halves all weights so many times. What has faded altogether is unknown again. */
function shrink(latencies: Latencies, times: number): void {
  const { weights } = latencies;
  latencies.total = 0;
  for (let bin = 0; bin < bins; bin += 1) {
    weights[bin]! >>= Math.min(16, times);
    latencies.total += weights[bin]!;
  }
  if (latencies.total === 0) latencies.calls = 0;
}

/** The first bin whose upper edge is not below the latency. */
function binOf(latencyMs: number): number {
  const bin = Math.ceil(Math.log(latencyMs / binFirstMs) / Math.log(binGrowth));
  return bin > 0 ? Math.min(bins - 1, bin) : 0;
}
