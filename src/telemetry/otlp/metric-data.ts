import type { MetricFamily, MetricSeries } from "../metrics/family.ts";
import { attributes, nanosText, type OtlpAttribute } from "./attributes.ts";

/** Metrics in the JSON encoding of OTLP (https://github.com/open-telemetry/opentelemetry-proto, metrics.proto). Sums are cumulative. */
export function metricData(
  families: readonly MetricFamily[],
  span: { readonly startMs: number; readonly nowMs: number },
): readonly object[] {
  return families.filter(({ series }) => series.length > 0).map((family) => metricOf(family, span));
}

function metricOf(family: MetricFamily, { startMs, nowMs }: { readonly startMs: number; readonly nowMs: number }): object {
  const named = { name: family.name, description: family.help, unit: unitOf(family.name) };
  const timeUnixNano = nanosText(nowMs);
  const since = { startTimeUnixNano: nanosText(startMs), timeUnixNano };
  const points = (fields: (one: MetricSeries) => object): readonly object[] =>
    family.series.map((one) => ({ attributes: labelAttributes(family.labels, one.labels), ...fields(one) }));
  switch (family.type) {
    case "gauge":
      return { ...named, gauge: { dataPoints: points(({ value }) => ({ timeUnixNano, asDouble: value })) } };
    case "counter": {
      const dataPoints = points(({ value }) => ({ ...since, asDouble: value }));
      return { ...named, sum: { aggregationTemporality: cumulative, isMonotonic: true, dataPoints } };
    }
    case "histogram": {
      const dataPoints = points(({ value, buckets = [] }) => ({
        ...since,
        count: String(buckets.reduce((sum, count) => sum + count, 0)),
        sum: value,
        bucketCounts: buckets.map(String),
        explicitBounds: family.bounds ?? [],
      }));
      return { ...named, histogram: { aggregationTemporality: cumulative, dataPoints } };
    }
  }
}

const cumulative = 2;

/** An empty label is a label that does not apply. */
function labelAttributes(names: readonly string[], values: readonly string[]): readonly OtlpAttribute[] {
  return attributes(Object.fromEntries(names.map((name, at) => [name, values[at] === "" ? null : values[at]])));
}

/**
 * Units of UCUM, which the names of our metrics tell. What is only counted has none: of `1`, collectors that write for Prometheus make the
 * suffix `_ratio` of a gauge, and no rule or dashboard would find it.
 */
export function unitOf(name: string): string {
  if (/_seconds(?:_total)?$|\.duration$|chunk$/.test(name)) return "s";
  if (/_bytes(?:_total)?$/.test(name)) return "By";
  if (/_usd(?:_total)?$/.test(name)) return "{USD}";
  return /tokens(?:_total)?$|\.token\.usage$/.test(name) ? "{token}" : "";
}
