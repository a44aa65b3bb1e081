import { quantile } from "../statistics.ts";

export interface Point {
  readonly minute: number;
  readonly value: number;
}

/** How a value changes, and how sure that is: the true change lies within `noise` of it, in nineteen cases of twenty. */
export interface Trend {
  readonly perMinute: number;
  readonly noise: number;
}

/**
 * Least squares over the lower quartiles of equal parts of the time. Memory goes up and down with each collection, and samples that
 * follow one another have much in common: parts of a minute or more are nearly independent, and their low side is what stays.
 * Null where there is too little to say anything.
 */
export function trendOf(points: readonly Point[], parts = 12): Trend | null {
  const first = points[0]?.minute ?? 0;
  const span = (points.at(-1)?.minute ?? 0) - first;
  if (points.length < parts * 2 || span <= 0) return null;
  const partOf = ({ minute }: Point): number => Math.min(parts - 1, Math.floor(((minute - first) / span) * parts));
  const lows = [...Map.groupBy(points, partOf).values()].map((part) => ({
    minute: part.reduce((sum, { minute }) => sum + minute, 0) / part.length,
    value: quantile(
      part.map(({ value }) => value),
      0.25,
    ),
  }));
  return lows.length < 4 ? null : leastSquares(lows);
}

/** Flat, unless it grows by more than the limit even where the noise is taken off. */
export function isFlat({ perMinute, noise }: Trend, limitPerMinute: number): boolean {
  return perMinute - noise <= limitPerMinute;
}

function leastSquares(points: readonly Point[]): Trend {
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const middle = mean(points.map(({ minute }) => minute));
  const level = mean(points.map(({ value }) => value));
  const spread = points.reduce((sum, { minute }) => sum + (minute - middle) ** 2, 0);
  const perMinute = points.reduce((sum, { minute, value }) => sum + (minute - middle) * (value - level), 0) / spread;
  const left = points.reduce((sum, { minute, value }) => sum + (value - level - perMinute * (minute - middle)) ** 2, 0);
  return { perMinute, noise: sure * Math.sqrt(left / (points.length - 2) / spread) };
}

/** Student's t for ten degrees of freedom and 95 %. */
const sure = 2.23;
