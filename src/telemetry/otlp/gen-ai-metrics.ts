import type { AttemptRecord, CallRecord } from "../../gateway/settlement/record.ts";
import { type Operation, operationSpecs } from "../../operations/operation.ts";
import type { AttemptReceipt, Receipt } from "../../usage/receipt.ts";
import { chunkGapMs } from "../metrics/call-metrics.ts";
import { BoundedNames, type CounterFamily, type HistogramFamily, MetricRegistry } from "../metrics/registry.ts";
import { metricNames, operationName, providerName, spanNames, type GenAiVersion, type MetricNames } from "./conventions.ts";

/** The metrics of the GenAI conventions: one observation for each attempt that was sent, because each is an operation of a client. */
export class GenAiMetrics {
  readonly registry = new MetricRegistry();
  private readonly models = new BoundedNames(modelsMax);
  private readonly durations = new Map<string, HistogramFamily>();
  private readonly names: MetricNames;
  private readonly labels: readonly string[];
  private readonly firstChunks: HistogramFamily | null;
  private readonly perChunks: HistogramFamily | null;
  private readonly usage: UsageFamilies;

  constructor(version: GenAiVersion) {
    this.names = metricNames(version);
    this.labels = ["gen_ai.operation.name", spanNames(version).provider, "gen_ai.request.model"];
    const { registry, labels } = this;
    const { timeToFirstChunk, timePerChunk } = this.names;
    this.firstChunks =
      timeToFirstChunk === null ? null : registry.histograms(timeToFirstChunk, "Time to the first chunk of a stream.", labels, chunkBounds);
    this.perChunks =
      timePerChunk === null
        ? null
        : registry.histograms(timePerChunk, "The mean time between two chunks of a stream.", labels, chunkBounds);
    this.usage = usageFamilies(registry, labels, this.names.tokens);
  }

  readonly observe = (record: CallRecord, receipt: Receipt | null): void => {
    const { attempts, operation } = record;
    for (let at = 0; at < attempts.length; at += 1) {
      const attempt = attempts[at];
      if (attempt === undefined || !attempt.sent) continue;
      const values = [operationName(operation), providerName(attempt.provider), this.models.of(attempt.model)];
      const error = attempt.outcome === "failed" ? (attempt.failure?.kind ?? "_OTHER") : "";
      this.duration(operation)
        .with(...values, error)
        .observe(attempt.tookMs / 1000);
      if (attempt.outcome === "answered") this.streamed(record, attempt, values);
      const used = receipt?.attempts[at];
      if (used !== undefined && operationSpecs[operation].unit === "tokens") this.used(used, values);
    }
  };

  private duration(operation: Operation): HistogramFamily {
    const name = this.names.duration(operation);
    let family = this.durations.get(name);
    if (family === undefined) {
      family = this.registry.histograms(name, "How long operations of GenAI clients took.", [...this.labels, "error.type"], durationBounds);
      this.durations.set(name, family);
    }
    return family;
  }

  private streamed(record: CallRecord, attempt: AttemptRecord, values: readonly string[]): void {
    if (!record.stream || record.firstContentMs === null) return;
    this.firstChunks?.with(...values).observe(Math.max(0, record.startedMs + record.firstContentMs - attempt.startedMs) / 1000);
    const gapMs = chunkGapMs(record);
    if (gapMs !== null) this.perChunks?.with(...values).observe(gapMs / 1000);
  }

  private used(used: AttemptReceipt, values: readonly string[]): void {
    const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = used;
    const { usage } = this;
    if (usage.kind === "histogram") {
      if (promptTokens !== null) usage.tokens.with(...values, "input").observe(promptTokens);
      if (completionTokens !== null) usage.tokens.with(...values, "output").observe(completionTokens);
      return;
    }
    // Upstreams report audio and images apart only in part, so that the modality is not known.
    if (promptTokens !== null) usage.input.with(...values, "unknown").value += promptTokens;
    if (completionTokens !== null) usage.output.with(...values, "unknown").value += completionTokens;
    if (cachedTokens !== null) usage.cacheRead.with(...values, "unknown").value += cachedTokens;
    if (reasoningTokens !== null) usage.reasoning.with(...values, "unknown").value += reasoningTokens;
  }
}

type UsageFamilies =
  | { readonly kind: "histogram"; readonly tokens: HistogramFamily }
  | {
      readonly kind: "counters";
      readonly input: CounterFamily;
      readonly output: CounterFamily;
      readonly cacheRead: CounterFamily;
      readonly reasoning: CounterFamily;
    };

function usageFamilies(registry: MetricRegistry, labels: readonly string[], kind: MetricNames["tokens"]): UsageFamilies {
  if (kind === "usage_histogram") {
    const all = [...labels, "gen_ai.token.type"];
    return { kind: "histogram", tokens: registry.histograms("gen_ai.client.token.usage", "Tokens of an operation.", all, tokenBounds) };
  }
  const counters = (name: string, help: string): CounterFamily =>
    registry.counters(`gen_ai.client.inference.usage.${name}`, help, [...labels, "gen_ai.token.modality"]);
  return {
    kind: "counters",
    input: counters("input_tokens", "Tokens of prompts, including those from a cache."),
    output: counters("output_tokens", "Tokens of answers, including reasoning."),
    cacheRead: counters("cache_read.input_tokens", "Tokens of prompts that came from a cache."),
    reasoning: counters("reasoning.output_tokens", "Tokens of reasoning."),
  };
}

const modelsMax = 300;
/** The bounds that the conventions advise. */
const durationBounds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const chunkBounds = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const tokenBounds = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864];
