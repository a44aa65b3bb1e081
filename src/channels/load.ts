/**
 * How busy a deployment is and how quickly it answers. The upstream state owns it and calls `startCall`, `endCall` and
 * `recordLatency`; everything else gets a `Readonly<Load>`.
 */
export interface Load {
  inFlight: number;
  /** A moving average of milliseconds to first content, as of `observedMs`. */
  averageMs: number;
  /** When the last latency was observed; `null`: none was yet. */
  observedMs: number | null;
  /** Latencies: of streams to the first content, of other answers to the last byte, because those depend on the length. */
  streamed: Latencies | null;
  whole: Latencies | null;
}

/** A histogram of fixed size in which recent calls have more weight. */
interface Latencies {
  readonly weights: Uint16Array;
  total: number;
  /** How many calls are known. */
  calls: number;
  /** The hour in which its weights were last halved. */
  hour: number;
}

// The bins grow by a quarter, from 5 ms to about ten minutes, so a percentile is at most a quarter too high.
const binFirstMs = 5;
const binGrowth = 1.25;
const bins = 54;
/** Fewer calls than this are too few for a percentile. */
const callsMin = 20;
/** The weight of a new call. All weights are halved when their sum reaches the maximum, and every hour. */
const callWeight = 16;
const totalMax = 256 * callWeight;
const hourMs = 3_600_000;

/** The time constant of the moving average, and the bounds for the weight of one latency. */
const memoryMs = 10_000;
const sampleWeightMin = 0.02;
const sampleWeightMax = 0.5;
/** An average without new latencies fades in about this time, so that a deployment which was slow once is tried again. */
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

export function startCall(load: Load): void {
  load.inFlight += 1;
}

export function endCall(load: Load): void {
  if (load.inFlight === 0) throw new Error("a call ended that never began");
  load.inFlight -= 1;
}

/** Records the time to the first content, or the wait until a timeout. Quick rejections are not recorded. */
export function recordLatency(load: Load, latencyMs: number, nowMs: number, streamed: boolean): void {
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

/** The present average; `null`: unknown. */
export function latencyMs(load: Readonly<Load> | undefined, nowMs: number): number | null {
  if (load === undefined || load.observedMs === null) return null;
  return load.averageMs * Math.exp(-(nowMs - load.observedMs) / fadeMs);
}

/** The 95th percentile; `null`: too few calls. */
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

/** Halves all weights so many times. If none is left, the percentile is unknown again. */
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
