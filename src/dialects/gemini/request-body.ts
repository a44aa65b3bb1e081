import {
  webSearchField,
  type Conversation,
  type OutputFormat,
  type Tool,
  type ToolChoice,
} from "../../operations/conversation/conversation.ts";
import { customDescription, customParameters } from "../../operations/conversation/custom-input.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import { encodeContents, unreadableIn } from "./contents.ts";
import { budgetFor, effortFor, levelFor, modelFacts, type ModelFacts } from "./model-facts.ts";
import { enforceableSchema, openApiSchema } from "./schema.ts";

export interface GeminiBody {
  readonly body: Uint8Array;
  readonly dropped: readonly string[];
}

export interface GeminiBodyOptions {
  readonly model: string;
  readonly maxOutputTokens: number | null;
  /** The upstream has tiers of service to choose from; the same API in the provider's cloud has not, and refuses the field. */
  readonly hasTiers: boolean;
}

/** A conversation as the body of `generateContent`. A failure names what this model cannot do, and another channel perhaps can. */
export function encodeGeminiBody(conversation: Conversation, options: GeminiBodyOptions): GeminiBody | Failure {
  const facts = modelFacts(options.model);
  const unreadable = unreadableIn(conversation.turns, facts);
  if (unreadable !== null) return unreadable;
  if (conversation.sampling.topLogprobs !== null) return noLogprobs;
  const dropped = new Set(conversation.uncarried);
  const format = formatOf(conversation, facts, dropped);
  if (format !== null && isFailure(format)) return format;
  const { system, contents } = encodeContents(conversation.turns, facts);
  const { tools } = conversation;
  const body: Record<string, unknown> = {};
  // What stays the same from turn to turn comes first.
  if (system.length > 0) body["systemInstruction"] = { parts: system };
  const search = searchTool(conversation, facts, dropped);
  if (tools.length === 0 && search.length > 0) body["tools"] = search;
  if (tools.length > 0) {
    body["tools"] = [{ functionDeclarations: tools.map((tool) => encodeDeclaration(tool, facts, dropped)) }, ...search];
    const config = callingConfig(conversation, format !== null);
    if (config !== null) body["toolConfig"] = { functionCallingConfig: config };
  }
  body["contents"] = contents;
  const generation = generationConfig(conversation, facts, options.maxOutputTokens, dropped);
  if (format !== null) Object.assign(generation, format);
  if (Object.keys(generation).length > 0) body["generationConfig"] = generation;
  const tier = tierOf(conversation.serviceTier, options.hasTiers, dropped);
  if (tier !== null) body["serviceTier"] = tier;
  for (const hint of unknownHints(conversation)) dropped.add(hint);
  return { body: encoder.encode(JSON.stringify(body)), dropped: [...dropped] };
}

const encoder = new TextEncoder();

/** The tool that runs at the upstream. It is not told where the person is, nor how much to read. */
function searchTool({ webSearch, tools }: Conversation, facts: ModelFacts, dropped: Set<string>): readonly JsonObject[] {
  if (webSearch === undefined || (tools.length > 0 && !facts.searchBesideTools)) return [];
  dropped.delete(webSearchField);
  if (webSearch.location !== null) dropped.add(`${webSearchField}.user_location`);
  if (webSearch.contextSize !== null) dropped.add(`${webSearchField}.search_context_size`);
  return [{ googleSearch: {} }];
}

const noLogprobs = failure("unsupported", "a translated answer has no log probabilities", {
  message: "Log probabilities are not available from this model in this API.",
  param: "logprobs",
});

/** Fields of the answer's form. A mere wish for text is none. */
function formatOf(conversation: Conversation, facts: ModelFacts, dropped: Set<string>): JsonObject | Failure | null {
  const { outputFormat, tools, toolChoice } = conversation;
  if (outputFormat === null || outputFormat.kind === "text") return null;
  if (tools.length > 0 && toolChoice?.kind !== "none") {
    if (!facts.schemaBesideTools) return noSchemaBesideTools;
    // A call is forced, so that the answer is no text in any case.
    if (toolChoice?.kind === "required" || toolChoice?.kind === "named") {
      dropped.add("response_format");
      return null;
    }
  }
  return encodeFormat(outputFormat, facts, dropped);
}

const noSchemaBesideTools = failure("unsupported", "the model takes either tools or a format of its answer", {
  message: "This model cannot answer in a given format while it has tools. Use a newer model, or leave one of the two out.",
  param: "response_format",
});

function encodeFormat(format: OutputFormat, facts: ModelFacts, dropped: Set<string>): JsonObject {
  if (format.kind !== "schema") return { responseMimeType: "application/json" };
  return facts.jsonSchema
    ? { responseMimeType: "application/json", responseJsonSchema: enforceableSchema(format.schema, dropped) }
    : { responseMimeType: "application/json", responseSchema: openApiSchema(format.schema, dropped) };
}

function encodeDeclaration(tool: Tool, facts: ModelFacts, dropped: Set<string>): JsonObject {
  const description = tool.custom === undefined ? tool.description : customDescription(tool);
  const schema = tool.custom === undefined ? tool.parameters : customParameters;
  return {
    name: wireName(tool),
    ...(description === null ? undefined : { description }),
    ...parametersOf(schema, facts, dropped),
  };
}

/** A function without parameters has no schema: an object without properties is refused. */
function parametersOf(schema: JsonObject | null, facts: ModelFacts, dropped: Set<string>): JsonObject | undefined {
  if (schema === null || Object.keys((schema["properties"] as JsonObject | undefined) ?? {}).length === 0) {
    const isPlain = schema === null || !["$ref", "anyOf", "oneOf", "allOf", "additionalProperties"].some((key) => key in schema);
    if (isPlain) return undefined;
  }
  if (!facts.jsonSchema) return { parameters: openApiSchema(schema ?? {}, dropped) };
  const { $schema: _, ...plain } = schema ?? {};
  return { parametersJsonSchema: plain };
}

/** Null where the model may do as it likes, which needs no words. */
function callingConfig({ toolChoice, tools }: Conversation, hasFormat: boolean): JsonObject | null {
  const choice: ToolChoice = toolChoice ?? { kind: "auto" };
  switch (choice.kind) {
    case "none":
      return { mode: "NONE" };
    case "required":
      return { mode: "ANY" };
    case "named": {
      const tool = tools.find(({ name }) => name === choice.name);
      return { mode: "ANY", allowedFunctionNames: [tool === undefined ? choice.name : wireName(tool)] };
    }
    case "auto":
      // Calls that keep to their schema, or text. It goes with no format of the answer.
      return tools.some(({ strict }) => strict === true) && !hasFormat ? { mode: "VALIDATED" } : null;
  }
}

function generationConfig(
  { sampling, stop, reasoning }: Conversation,
  facts: ModelFacts,
  maxOutputTokens: number | null,
  dropped: Set<string>,
): Record<string, unknown> {
  const config: Record<string, unknown> = {};
  const set = (key: string, value: unknown): void => {
    if (value !== null) config[key] = value;
  };
  set("temperature", sampling.temperature);
  set("topP", sampling.topP);
  set("topK", sampling.topK);
  set("seed", sampling.seed);
  if (facts.penalties) {
    set("presencePenalty", sampling.presencePenalty);
    set("frequencyPenalty", sampling.frequencyPenalty);
  } else {
    if (sampling.presencePenalty !== null) dropped.add("presence_penalty");
    if (sampling.frequencyPenalty !== null) dropped.add("frequency_penalty");
  }
  set("maxOutputTokens", maxOutputTokens === null ? null : Math.max(1, maxOutputTokens));
  if (stop.length > stopsMax) dropped.add("stop");
  if (stop.length > 0) config["stopSequences"] = stop.slice(0, stopsMax);
  set("thinkingConfig", thinkingConfig(reasoning, facts, dropped));
  return config;
}

/** More are refused. */
const stopsMax = 5;

function thinkingConfig(reasoning: Conversation["reasoning"], { thinking }: ModelFacts, dropped: Set<string>): JsonObject | null {
  if (reasoning === null) return null;
  const { effort, budgetTokens, summary } = reasoning;
  const shown = summary === "none" || effort === "none" ? undefined : { includeThoughts: true };
  if (effort === null && budgetTokens === null) return thinking.kind === "none" ? null : (shown ?? null);
  switch (thinking.kind) {
    case "none":
      if (effort !== "none") dropped.add("reasoning");
      return null;
    case "level":
      return { thinkingLevel: levelFor(effort ?? effortFor(budgetTokens ?? 0), thinking.levels), ...shown };
    case "budget": {
      const tokens = effort === "none" ? 0 : (budgetTokens ?? budgetFor(effort ?? "medium", thinking.most));
      const atLeast = tokens <= 0 ? thinking.least : Math.max(thinking.smallest, Math.floor(tokens));
      return { thinkingBudget: Math.min(atLeast, thinking.most), ...shown };
    }
  }
}

function tierOf(tier: string | null, hasTiers: boolean, dropped: Set<string>): string | null {
  if (tier === null || tier === "auto" || tier === "default") return null;
  if (hasTiers && (tier === "flex" || tier === "priority")) return tier;
  dropped.add("service_tier");
  return null;
}

/** What the API has no field for, and may make a difference to the answer. */
function unknownHints({ parallelToolCalls, tools, verbosity }: Conversation): readonly string[] {
  return [
    ...(parallelToolCalls === false && tools.length > 0 ? ["parallel_tool_calls"] : []),
    ...(verbosity === null ? [] : ["verbosity"]),
  ];
}
