/**
 * How busy a deployment is and how quickly it answers. A changing value with one owner: the table that holds it calls
 * `begun`, `ended` and `observed`; everybody else only reads.
 */
export interface Load {
  readonly inFlight: number;
  /** A moving average of milliseconds to first content, as of `observedMs`. */
  readonly averageMs: number;
  /** When the last latency was observed; `null`: none was yet. */
  readonly observedMs: number | null;
  /** The first latencies, each as its minute and its bin: of a name that clients made up there is hardly ever a second. */
  readonly first: readonly number[];
  /** Of all of them, once there are more than a few. */
  readonly histogram: Histogram | null;
}

/** Latencies of the last five minutes. */
interface Histogram {
  /** The bins of each minute, one after the other. */
  readonly counts: Uint16Array;
  /** Which minutes they are. */
  readonly minutes: Float64Array;
}

type Owned = { -readonly [K in keyof Load]: Load[K] };

// The histogram: bins that grow by a quarter, from 5 ms to about ten minutes. A percentile is at most that much too high.
const binFirstMs = 5;
const binGrowth = 1.25;
const bins = 54;
const minutesKept = 5;
const minuteMs = 60_000;
const countMax = 65_535;
/** Fewer latencies than this have no percentile worth acting on. */
const samplesMin = 50;
/** So many are kept one by one, before they are worth a histogram. */
const firstMax = 8;
/** More than there are bins: what a minute is multiplied by where both are one number. */
const binsBase = 64;
const none: readonly number[] = [];

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
    first: none,
    histogram: null,
  };
}

export function begun(load: Load): void {
  (load as Owned).inFlight += 1;
}

export function ended(load: Load): void {
  if (load.inFlight === 0) throw new Error("a call ended that never began");
  (load as Owned).inFlight -= 1;
}

/** First content came after this long; or nothing came, and this is how long we waited. Quick refusals are no latency. */
export function observed(load: Load, latencyMs: number, nowMs: number): void {
  const owned = load as Owned;
  if (owned.observedMs === null) {
    owned.averageMs = latencyMs;
  } else {
    const byTime = 1 - Math.exp(-(nowMs - owned.observedMs) / memoryMs);
    const weight = Math.min(sampleWeightMax, Math.max(sampleWeightMin, byTime));
    owned.averageMs += weight * (latencyMs - owned.averageMs);
  }
  owned.observedMs = nowMs;
  count(owned, Math.floor(nowMs / minuteMs), binOf(latencyMs));
}

/** The average as it stands now; `null`: unknown. */
export function latencyMs(load: Load | undefined, nowMs: number): number | null {
  if (load === undefined || load.observedMs === null) return null;
  return load.averageMs * Math.exp(-(nowMs - load.observedMs) / fadeMs);
}

/** 95 of 100 calls of the last five minutes had content by then; `null`: too few calls to say. */
export function p95Ms(load: Load | undefined, nowMs: number): number | null {
  const histogram = load?.histogram ?? null;
  if (histogram === null) return null;
  const oldest = Math.floor(nowMs / minuteMs) - minutesKept + 1;
  const totals = new Float64Array(bins);
  let samples = 0;
  for (let at = 0; at < minutesKept; at += 1) {
    if (histogram.minutes[at]! < oldest) continue;
    for (let bin = 0; bin < bins; bin += 1) {
      const counted = histogram.counts[at * bins + bin]!;
      totals[bin]! += counted;
      samples += counted;
    }
  }
  if (samples < samplesMin) return null;

  let above = samples * 0.05;
  let bin = bins - 1;
  while (bin > 0 && totals[bin]! <= above) {
    above -= totals[bin]!;
    bin -= 1;
  }
  return binFirstMs * binGrowth ** bin;
}

function count(load: Owned, minute: number, bin: number): void {
  if (load.histogram === null && load.first.length < firstMax) {
    load.first = [...load.first, minute * binsBase + bin];
    return;
  }
  if (load.histogram === null) {
    load.histogram = newHistogram();
    for (const one of load.first) countIn(load.histogram, Math.floor(one / binsBase), one % binsBase);
    load.first = none;
  }
  countIn(load.histogram, minute, bin);
}

function newHistogram(): Histogram {
  return {
    counts: new Uint16Array(bins * minutesKept),
    minutes: new Float64Array(minutesKept).fill(Number.NEGATIVE_INFINITY),
  };
}

function countIn({ counts, minutes }: Histogram, minute: number, bin: number): void {
  const at = minute % minutesKept;
  if (minutes[at] !== minute) {
    minutes[at] = minute;
    counts.fill(0, at * bins, (at + 1) * bins);
  }
  const place = at * bins + bin;
  if (counts[place]! < countMax) counts[place]! += 1;
}

/** The first bin whose upper edge is not below the latency. */
function binOf(latencyMs: number): number {
  const bin = Math.ceil(Math.log(latencyMs / binFirstMs) / Math.log(binGrowth));
  return bin > 0 ? Math.min(bins - 1, bin) : 0;
}
