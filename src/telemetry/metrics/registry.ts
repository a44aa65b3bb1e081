import type { MetricFamily, MetricSeries } from "./family.ts";

/**
 * Counters and histograms that calls add to. Whoever adds often keeps the counter, so that adding is an addition and no search. We have our
 * own instead of a package because the packages look the labels up at every addition, which would cost more than the rest of a settlement.
 *
 * A family has a limit of series: names of models may come from clients, and a time series costs memory here and at the server that scrapes.
 * What is beyond the limit is added up under the label value `other`. Labels of few values keep them: failures stay failures, and tokens
 * of prompts do not become those of answers.
 */
export class MetricRegistry {
  private readonly families: (CounterFamily | HistogramFamily)[] = [];
  private readonly models: ModelNames;

  /** `isListed`: whether a channel lists the model that a client asked for. */
  constructor(isListed: (model: string) => boolean = () => true) {
    this.models = new ModelNames(isListed);
  }

  /** The label of a model. `asked`: what the client calls it, where that is another name. */
  modelLabel(name: string, asked = name): string {
    return this.models.of(name, asked);
  }

  counters(name: string, help: string, labels: readonly string[], scale = 1): CounterFamily {
    const family = new CounterFamily(name, help, labels, scale, this.models.isUnlisted);
    this.families.push(family);
    return family;
  }

  histograms(name: string, help: string, labels: readonly string[], bounds: readonly number[]): HistogramFamily {
    const family = new HistogramFamily(name, help, labels, bounds, this.models.isUnlisted);
    this.families.push(family);
    return family;
  }

  collect(): readonly MetricFamily[] {
    return this.families.map((family) => family.collect());
  }
}

/** A number that only grows. */
export interface MetricCounter {
  value: number;
}

/** The series of one metric, by the values of their labels. */
class LabelledSeries<Series> {
  private readonly byKey = new Map<string, { readonly labels: readonly string[]; readonly series: Series }>();
  private unlisted = 0;

  constructor(
    private readonly labels: readonly string[],
    private readonly make: () => Series,
    private readonly isUnlisted: (value: string) => boolean,
  ) {}

  with(values: readonly string[]): Series {
    const key = values.join("\0");
    const found = this.byKey.get(key);
    if (found !== undefined) return found.series;
    const isUnlisted = values.some(this.isUnlisted);
    if (this.byKey.size >= seriesMax || (isUnlisted && this.unlisted >= unlistedSeriesMax)) {
      const summed = values.map((value, at) => (fewValued.has(this.labels[at]!) ? value : otherLabel));
      if (summed.some((value, at) => value !== values[at])) return this.with(summed);
      const isFull = this.byKey.size >= seriesMax + summedMax;
      if (isFull && values.some((value) => value !== otherLabel)) return this.with(values.map(() => otherLabel));
    }
    if (isUnlisted) this.unlisted += 1;
    const series = this.make();
    this.byKey.set(key, { labels: values, series });
    return series;
  }

  map<To>(to: (labels: readonly string[], series: Series) => To): readonly To[] {
    return Array.from(this.byKey.values(), ({ labels, series }) => to(labels, series));
  }
}

export class CounterFamily {
  private readonly all: LabelledSeries<MetricCounter>;

  constructor(
    private readonly name: string,
    private readonly help: string,
    private readonly labels: readonly string[],
    /** What a value is multiplied by when it is shown: money is counted in whole billionths of a dollar. */
    private readonly scale: number,
    isUnlisted: (value: string) => boolean,
  ) {
    this.all = new LabelledSeries<MetricCounter>(labels, () => ({ value: 0 }), isUnlisted);
  }

  with(...values: readonly string[]): MetricCounter {
    return this.all.with(values);
  }

  collect(): MetricFamily {
    const { name, help, labels } = this;
    const series = this.all.map((values, { value }): MetricSeries => ({ labels: values, value: value * this.scale }));
    return { name, help, type: "counter", labels, series };
  }
}

export class HistogramFamily {
  private readonly all: LabelledSeries<MetricHistogram>;

  constructor(
    private readonly name: string,
    private readonly help: string,
    private readonly labels: readonly string[],
    private readonly bounds: readonly number[],
    isUnlisted: (value: string) => boolean,
  ) {
    this.all = new LabelledSeries(labels, () => new MetricHistogram(bounds), isUnlisted);
  }

  with(...values: readonly string[]): MetricHistogram {
    return this.all.with(values);
  }

  collect(): MetricFamily {
    const { name, help, labels, bounds } = this;
    const series = this.all.map((values, { sum, buckets }): MetricSeries => ({ labels: values, value: sum, buckets: [...buckets] }));
    return { name, help, type: "histogram", labels, bounds, series };
  }
}

export class MetricHistogram {
  sum = 0;
  readonly buckets: Float64Array;

  constructor(private readonly bounds: readonly number[]) {
    this.buckets = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, buckets } = this;
    this.sum += value;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at += 1;
    buckets[at] = (buckets[at] ?? 0) + 1;
  }
}

/** Names in labels, of which there are at most `max`: the first that come. Later ones count as `other`. */
export class BoundedNames {
  private readonly known = new Set<string>();

  constructor(private readonly max: number) {}

  has(name: string): boolean {
    return this.known.has(name);
  }

  of(name: string): string {
    if (this.known.has(name)) return name;
    if (name.length > nameCharactersMax) return otherLabel;
    if (this.known.size >= this.max) return otherLabel;
    this.known.add(name);
    return name;
  }
}

/**
 * Names of models in labels. Clients may invent some where a channel takes any model, so these are bounded by themselves, and so are
 * their series: however many there are, a model that a channel lists has its label.
 */
class ModelNames {
  private readonly listed = new BoundedNames(listedModelsMax);
  private readonly others = new BoundedNames(otherModelsMax);

  constructor(private readonly isListed: (model: string) => boolean) {}

  of(name: string, asked: string): string {
    return (this.isListed(asked) ? this.listed : this.others).of(name);
  }

  readonly isUnlisted = (name: string): boolean => this.others.has(name) && !this.listed.has(name);
}

export const otherLabel = "other";
const listedModelsMax = 300;
const otherModelsMax = 100;
const seriesMax = 2_000;
const unlistedSeriesMax = 500;
/** Labels whose values do not come from clients or from the configuration. */
const fewValued: ReadonlySet<string> = new Set([
  ...["operation", "status", "outcome", "blame", "kind", "error"],
  ...["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.token.type", "gen_ai.token.modality", "error.type"],
]);
/** So many sums are told apart by these. */
const summedMax = 500;
const nameCharactersMax = 200;
