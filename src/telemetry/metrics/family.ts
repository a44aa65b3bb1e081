/**
 * A metric and its values at one moment: what a scrape shows, what one worker sends to another, and what an export is made of. It is plain
 * data.
 */
export interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  /** The upper bounds of a histogram's buckets, without the last one, which has none. */
  readonly bounds?: readonly number[];
  readonly series: readonly MetricSeries[];
}

export interface MetricSeries {
  /** The values of the family's labels, in their order. */
  readonly labels: readonly string[];
  /** Of a histogram, the sum of all that was observed. */
  readonly value: number;
  /** How many observations fell into each bucket of a histogram, the last one included. */
  readonly buckets?: readonly number[];
}

/** A metric that is read when somebody asks for it. */
export function gauge(name: string, help: string, labels: readonly string[], series: readonly MetricSeries[]): MetricFamily {
  return { name, help, type: "gauge", labels, series };
}

/** The same for one value without labels. */
export function plainGauge(name: string, help: string, value: number): MetricFamily {
  return gauge(name, help, [], [{ labels: [], value }]);
}

/** The families of one worker, told apart from those of the others by a label. A worker that is restarted begins at zero. */
export function ofWorker(families: readonly MetricFamily[], worker: number): readonly MetricFamily[] {
  const value = String(worker);
  return families.map((family) => ({
    ...family,
    labels: ["worker", ...family.labels],
    series: family.series.map((one) => ({ ...one, labels: [value, ...one.labels] })),
  }));
}

/** The families of several workers as one list: each name once. */
export function joinedFamilies(lists: readonly (readonly MetricFamily[])[]): readonly MetricFamily[] {
  const byName = new Map<string, { readonly family: MetricFamily; readonly series: MetricSeries[] }>();
  for (const list of lists) {
    for (const family of list) {
      const found = byName.get(family.name);
      if (found === undefined) byName.set(family.name, { family, series: [...family.series] });
      else found.series.push(...family.series);
    }
  }
  return [...byName.values()].map(({ family, series }) => ({ ...family, series }));
}
