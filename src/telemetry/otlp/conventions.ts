import { telemetryProviders } from "../../dialects/foreign-names.ts";
import type { Operation } from "../../operations/operation.ts";

/**
 * The versions of the GenAI semantic conventions that can be chosen. `latest` follows
 * https://github.com/open-telemetry/semantic-conventions-genai (client-inference.md, client-embeddings.md, gen-ai-token-metrics.md); the
 * others are versions of https://github.com/open-telemetry/semantic-conventions, which many dashboards were made for: 1.41 is the last one
 * there, 1.36 the last one before `gen_ai.system` became `gen_ai.provider.name`.
 */
export const genAiVersions = ["latest", "1.41", "1.36"] as const;
export type GenAiVersion = (typeof genAiVersions)[number];

/** What the conventions call an operation. Those that they do not name keep our name. */
export function operationName(operation: Operation): string {
  return operationNames[operation] ?? operation;
}

const operationNames: Partial<Record<Operation, string>> = {
  completion: "text_completion",
  embedding: "embeddings",
  image: "generate_content",
};

/** What the conventions call a provider. They allow names of our own where they have none. */
export function providerName(preset: string | null): string {
  return telemetryProviders[preset ?? ""] ?? preset ?? "custom";
}

export interface SpanNames {
  readonly provider: string;
  readonly cacheRead: string | null;
  readonly cacheWrite: string | null;
  readonly reasoning: string | null;
  readonly stream: string | null;
  readonly timeToFirstChunk: string | null;
}

export interface MetricNames {
  readonly duration: (operation: Operation) => string;
  readonly timeToFirstChunk: (operation: Operation) => string | null;
  /** One histogram for input and output together, or a counter for each kind and histograms of single operations. */
  readonly tokens: "usage_histogram" | "usage_counters";
}

export function spanNames(version: GenAiVersion): SpanNames {
  if (version === "1.36")
    return { provider: "gen_ai.system", cacheRead: null, cacheWrite: null, reasoning: null, stream: null, timeToFirstChunk: null };
  return {
    provider: "gen_ai.provider.name",
    cacheRead: "gen_ai.usage.cache_read.input_tokens",
    cacheWrite: version === "latest" ? "gen_ai.usage.cache_write.input_tokens" : "gen_ai.usage.cache_creation.input_tokens",
    reasoning: "gen_ai.usage.reasoning.output_tokens",
    stream: "gen_ai.request.stream",
    timeToFirstChunk: "gen_ai.response.time_to_first_chunk",
  };
}

export function metricNames(version: GenAiVersion): MetricNames {
  if (version === "latest") {
    return {
      duration: (operation) => `gen_ai.client.${metricScopeOf(operation) ?? "operation"}.duration`,
      // It is one of inference, and what is not counted there, such as speech, has none.
      timeToFirstChunk: (operation) => (metricScopeOf(operation) === "inference" ? "gen_ai.client.inference.time_to_first_chunk" : null),
      tokens: "usage_counters",
    };
  }
  return {
    duration: () => "gen_ai.client.operation.duration",
    timeToFirstChunk: () => (version === "1.41" ? "gen_ai.client.operation.time_to_first_chunk" : null),
    tokens: "usage_histogram",
  };
}

export type MetricScope = "inference" | "embeddings";

/** Which metrics of the present conventions are for it. Others, such as moderations, have none of their own. */
export function metricScopeOf(operation: Operation): MetricScope | null {
  return metricScopes[operation] ?? null;
}

const metricScopes: Partial<Record<Operation, MetricScope>> = {
  chat: "inference",
  completion: "inference",
  image: "inference",
  embedding: "embeddings",
};
