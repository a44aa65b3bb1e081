/** Times to first content: most streams had theirs within `p50_ms`, nearly all within `p99_ms`. */
export interface FirstContentTimes {
  readonly p50_ms: number;
  readonly p95_ms: number;
  readonly p99_ms: number;
  readonly streams: number;
}

/**
 * The upper bounds, in milliseconds, of the buckets in which the store counts times to first content; beyond the last one there is another
 * bucket. Each bound is at most twice the one before, so that a quantile is wrong by less than that.
 */
export const firstContentBoundsMs: readonly number[] = [
  10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 60_000,
  120_000,
];

/** The index of the bucket that a time falls into. */
export function firstContentBucket(ms: number): number {
  let [low, high] = [0, firstContentBoundsMs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ms <= firstContentBoundsMs[middle]!) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** From how many streams fell into each bucket; null if none did. */
export function firstContentTimes(boundsMs: readonly number[], buckets: readonly number[]): FirstContentTimes | null {
  const ms = (share: number): number => Math.round(quantile(boundsMs, buckets, share) ?? 0);
  const streams = buckets.reduce((sum, value) => sum + value, 0);
  return streams === 0 ? null : { p50_ms: ms(0.5), p95_ms: ms(0.95), p99_ms: ms(0.99), streams };
}

/** The value below which this share of all observations is, in the unit of the bounds; null if there is none. */
export function quantile(bounds: readonly number[], buckets: readonly number[], share: number): number | null {
  const whole = buckets.reduce((sum, value) => sum + value, 0);
  if (whole === 0) return null;
  let left = share * whole;
  for (const [at, value] of buckets.entries()) {
    const upper = bounds[at];
    // What lies above the last bound is only known to be larger.
    if (upper === undefined) return bounds.at(-1) ?? null;
    const lower = bounds[at - 1] ?? 0;
    if (value > 0 && left <= value) return lower + ((upper - lower) * left) / value;
    left -= value;
  }
  return bounds.at(-1) ?? null;
}
