import type { AttemptRecord, CallRecord } from "../../gateway/settlement/record.ts";
import { type Operation, operationSpecs } from "../../operations/operation.ts";
import { nothingCounted, type TokenUsage } from "../../operations/usage.ts";
import { type CounterFamily, type HistogramFamily, type MetricCounter, type MetricHistogram, MetricRegistry } from "../metrics/registry.ts";
import { metricNames, metricScopeOf, operationName, providerName, spanNames, type GenAiVersion, type MetricNames } from "./conventions.ts";
import { errorOf, firstChunkMsOf } from "./spans.ts";

/** The metrics of the GenAI conventions: one observation for each attempt that was sent, because each is an operation of a client. */
export class GenAiMetrics {
  readonly registry: MetricRegistry;
  private readonly durations = new Map<string, HistogramFamily>();
  private firstChunks: HistogramFamily | null = null;
  /** By the model's name, each with few others beside it. */
  private readonly series = new Map<string, AttemptSeries[]>();
  private seriesCount = 0;
  private readonly names: MetricNames;
  private readonly labels: readonly string[];
  private readonly usage: UsageFamilies;

  constructor(version: GenAiVersion, isListed: (model: string) => boolean) {
    this.registry = new MetricRegistry(isListed);
    this.names = metricNames(version);
    this.labels = ["gen_ai.operation.name", spanNames(version).provider, "gen_ai.request.model"];
    const { registry, labels } = this;
    this.usage = usageFamilies(registry, labels, this.names.tokens);
  }

  readonly observe = (record: CallRecord): void => {
    for (const attempt of record.attempts) {
      if (!attempt.sent) continue;
      const series = this.seriesOf(record, attempt);
      series.duration.observe(attempt.tookMs / 1000);
      const firstMs = firstChunkMsOf(record, attempt);
      if (firstMs !== null) this.firstChunkOf(series)?.observe(firstMs / 1000);
      series.used?.(attempt.usage ?? nothingCounted);
    }
  };

  /** What attempts of the same kind add to, looked up together. */
  private seriesOf({ operation, model }: CallRecord, attempt: AttemptRecord): AttemptSeries {
    const { provider } = attempt;
    const name = this.registry.modelLabel(attempt.model, model ?? "");
    const error = errorOf(attempt) ?? "";
    let ofModel = this.series.get(name);
    if (ofModel === undefined) this.series.set(name, (ofModel = []));
    for (const one of ofModel) if (one.operation === operation && one.provider === provider && one.error === error) return one;
    const made = this.makeSeries(operation, provider, name, error);
    if (this.seriesCount < seriesMax) {
      this.seriesCount += 1;
      ofModel.push(made);
    }
    return made;
  }

  private makeSeries(operation: Operation, provider: string | null, name: string, error: string): AttemptSeries {
    const values = [operationName(operation), providerName(provider), name];
    return {
      operation,
      provider,
      error,
      duration: this.duration(operation).with(...values, error),
      values,
      firstChunk: null,
      used: this.adderFor(operation, values, error),
    };
  }

  /** Made when it is needed: most attempts that fail have no stream. */
  private firstChunkOf(series: AttemptSeries): MetricHistogram | null {
    const name = this.names.timeToFirstChunk(series.operation);
    if (name === null) return null;
    // A version has one name for all operations that have one.
    this.firstChunks ??= this.registry.histograms(name, "Time to the first chunk of a stream.", this.labels, durationBounds);
    return (series.firstChunk ??= this.firstChunks.with(...series.values));
  }

  private adderFor(operation: Operation, values: readonly string[], error: string): UsageAdder | null {
    const { usage } = this;
    if (usage.kind === "histogram") return operationSpecs[operation].unit === "tokens" ? usageAdder(usage, values) : null;
    switch (metricScopeOf(operation)) {
      case "inference":
        return inferenceAdder(usage, values, error);
      case "embeddings":
        return embeddingsAdder(usage, values);
      case null:
        return null;
    }
  }

  private duration(operation: Operation): HistogramFamily {
    const name = this.names.duration(operation);
    let family = this.durations.get(name);
    if (family === undefined) {
      family = this.registry.histograms(name, "How long operations of GenAI clients took.", [...this.labels, "error.type"], durationBounds);
      this.durations.set(name, family);
    }
    return family;
  }
}

interface AttemptSeries {
  readonly operation: Operation;
  readonly provider: string | null;
  /** Empty for an attempt that did not fail. */
  readonly error: string;
  readonly duration: MetricHistogram;
  /** Of its labels, without the error. */
  readonly values: readonly string[];
  firstChunk: MetricHistogram | null;
  /** Null for what is not metered in tokens. */
  readonly used: UsageAdder | null;
}

/** Adds what an upstream has reported. Where it reported nothing, the conventions want no estimate in its place. */
type UsageAdder = (reported: TokenUsage) => void;

function usageAdder({ tokens }: UsageHistogram, values: readonly string[]): UsageAdder {
  const input = tokens.with(...values, "input");
  const output = tokens.with(...values, "output");
  return ({ promptTokens, completionTokens }) => {
    if (promptTokens !== null) input.observe(promptTokens);
    if (completionTokens !== null) output.observe(completionTokens);
  };
}

/** Upstreams report audio and images apart only in part, so that the modality of tokens is not known. */
function inferenceAdder(usage: UsageCounters, values: readonly string[], error: string): UsageAdder {
  const families = [usage.input, usage.output, usage.cacheRead, usage.cacheWrite, usage.reasoning];
  const [input, output, cacheRead, cacheWrite, reasoning] = families.map((family) => family.with(...values, "unknown"));
  const inputs = usage.inputs.with(...values, error);
  const outputs = usage.outputs.with(...values, error);
  return ({ promptTokens, completionTokens, cachedTokens, reasoningTokens, cacheWriteTokens = 0 }) => {
    // The conventions want every operation in these, those that failed as well, and 0 for one of which nothing was reported.
    inputs.observe(promptTokens ?? 0);
    outputs.observe(completionTokens ?? 0);
    add(input, promptTokens);
    add(output, completionTokens);
    add(cacheRead, cachedTokens);
    add(cacheWrite, cacheWriteTokens);
    add(reasoning, reasoningTokens);
  };
}

/** Of embeddings, the conventions want only what was reported, and without an error. */
function embeddingsAdder({ embeddingInputs }: UsageCounters, values: readonly string[]): UsageAdder {
  const inputs = embeddingInputs.with(...values);
  return ({ promptTokens }) => {
    if (promptTokens !== null) inputs.observe(promptTokens);
  };
}

function add(counter: MetricCounter | undefined, count: number | null): void {
  if (counter !== undefined && count !== null) counter.value += count;
}

type UsageFamilies = UsageHistogram | UsageCounters;

interface UsageHistogram {
  readonly kind: "histogram";
  readonly tokens: HistogramFamily;
}

interface UsageCounters {
  readonly kind: "counters";
  readonly input: CounterFamily;
  readonly output: CounterFamily;
  readonly cacheRead: CounterFamily;
  readonly cacheWrite: CounterFamily;
  readonly reasoning: CounterFamily;
  /** Of single operations: how they differ. */
  readonly inputs: HistogramFamily;
  readonly outputs: HistogramFamily;
  readonly embeddingInputs: HistogramFamily;
}

function usageFamilies(registry: MetricRegistry, labels: readonly string[], kind: MetricNames["tokens"]): UsageFamilies {
  if (kind === "usage_histogram") {
    const all = [...labels, "gen_ai.token.type"];
    return { kind: "histogram", tokens: registry.histograms("gen_ai.client.token.usage", "Tokens of an operation.", all, tokenBounds) };
  }
  const counters = (name: string, help: string): CounterFamily =>
    registry.counters(`gen_ai.client.inference.usage.${name}`, help, [...labels, "gen_ai.token.modality"]);
  const histograms = (name: string, help: string): HistogramFamily =>
    registry.histograms(`gen_ai.client.inference.operation.${name}`, help, [...labels, "error.type"], tokenBounds);
  return {
    kind: "counters",
    input: counters("input_tokens", "Tokens of prompts, including those from a cache."),
    output: counters("output_tokens", "Tokens of answers, including reasoning."),
    cacheRead: counters("cache_read.input_tokens", "Tokens of prompts that came from a cache."),
    cacheWrite: counters("cache_write.input_tokens", "Tokens of prompts that were written to a cache."),
    reasoning: counters("reasoning.output_tokens", "Tokens of reasoning."),
    inputs: histograms("input_tokens", "Tokens of the prompt of an operation."),
    outputs: histograms("output_tokens", "Tokens of the answer of an operation."),
    embeddingInputs: registry.histograms(
      "gen_ai.client.embeddings.operation.input_tokens",
      "Tokens of the input of an operation.",
      labels,
      tokenBounds,
    ),
  };
}

const seriesMax = 2_000;
/** The bounds that the conventions advise: these for whole operations as well as for their first chunks. */
const durationBounds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const tokenBounds = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864];
