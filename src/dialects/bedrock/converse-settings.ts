import type { Conversation, ReasoningRequest } from "../../operations/conversation/conversation.ts";
import { encodeSampling } from "../anthropic/messages-body.ts";
import { messagesModel } from "../anthropic/model-facts.ts";
import { thinkingFields } from "../anthropic/thinking.ts";
import type { ModelFamily } from "../presets.ts";
import type { ConverseBlock } from "./converse-content.ts";

export interface ConverseOptions {
  /** The upstream's name of the model. */
  readonly model: string;
  readonly maxOutputTokens: number | null;
  /** The most output tokens to ask for, where the client allows any number. */
  readonly ceiling: number | null;
}

/** What depends on the maker of the model: how it is asked to reason, and what it refuses then. */
export interface ConverseSettings {
  /** The field `inferenceConfig`; what is null is left out. */
  readonly inference: ConverseBlock;
  /** The fields of the model's own maker. */
  readonly additional: ConverseBlock;
  /** The model can be made to call a tool. */
  readonly forcedTools: boolean;
}

/** `callsUnthought`: the conversation is between calls and their results, and there is no thought before the calls. */
export function converseSettings(
  conversation: Conversation,
  options: ConverseOptions,
  family: ModelFamily,
  callsUnthought: boolean,
  dropped: Set<string>,
): ConverseSettings {
  const { temperature } = conversation.sampling;
  if (temperature !== null && temperature > temperatureMax) dropped.add("temperature");
  const maxOutputTokens = options.maxOutputTokens === null ? null : Math.max(1, options.maxOutputTokens);
  return family.reasoning === "thinking"
    ? thinkingSettings(conversation, { ...options, maxOutputTokens }, callsUnthought, dropped)
    : usualSettings(conversation, maxOutputTokens, family, dropped);
}

const temperatureMax = 1;

/** These models take the fields of the Messages API among their own, and refuse together what it refuses together. */
function thinkingSettings(
  conversation: Conversation,
  { model, maxOutputTokens, ceiling }: ConverseOptions,
  callsUnthought: boolean,
  dropped: Set<string>,
): ConverseSettings {
  const facts = messagesModel(model);
  const allowed = maxOutputTokens ?? Math.min(facts.outputMax, ceiling ?? Infinity);
  const thought = thinkingFields(conversation, facts, allowed, callsUnthought);
  if (thought.isDropped) dropped.add("reasoning_effort");
  const sampled = new Map<string, unknown>();
  encodeSampling(conversation, facts, thought, dropped, (key, value) => sampled.set(key, value));
  // A budget counts as output, and has to be less than all of it.
  const hasBudget = thought.thinking?.["type"] === "enabled";
  return {
    inference: {
      maxTokens: hasBudget ? allowed : maxOutputTokens,
      temperature: sampled.get("temperature") ?? null,
      topP: sampled.get("top_p") ?? null,
    },
    additional: {
      ...(sampled.has("top_k") ? { top_k: sampled.get("top_k") } : undefined),
      ...(thought.thinking === null ? undefined : { thinking: thought.thinking }),
      ...(thought.effort === null ? undefined : { output_config: { effort: thought.effort } }),
    },
    forcedTools: facts.forcedTools,
  };
}

function usualSettings(
  { sampling: { temperature, topP, topK }, reasoning }: Conversation,
  maxOutputTokens: number | null,
  family: ModelFamily,
  dropped: Set<string>,
): ConverseSettings {
  if (topK !== null) dropped.add("top_k");
  return {
    inference: {
      maxTokens: maxOutputTokens,
      temperature: taken("temperature", temperature === null ? null : Math.min(temperatureMax, temperature), family, dropped),
      topP: taken("top_p", topP, family, dropped),
    },
    additional: reasoningFields(reasoning, family, maxOutputTokens, dropped),
    forcedTools: true,
  };
}

/** Null where the model refuses it, which is noted. */
export function taken<T>(name: ModelFamily["refuses"][number], value: T | null, { refuses }: ModelFamily, dropped: Set<string>): T | null {
  if (value === null || !refuses.includes(name)) return value;
  dropped.add(name);
  return null;
}

/** Reasoning is requested among the fields of the model's own maker. */
function reasoningFields(
  reasoning: ReasoningRequest | null,
  family: ModelFamily,
  maxOutputTokens: number | null,
  dropped: Set<string>,
): ConverseBlock {
  if (reasoning === null || (reasoning.effort === null && reasoning.budgetTokens === null)) return {};
  const { effort } = reasoning;
  switch (family.reasoning) {
    case "reasoning_effort":
      return { reasoning_effort: levelOf(reasoning) };
    case "reasoning":
      return { reasoning: { effort: effort === "none" ? "none" : levelOf(reasoning) } };
    case "reasoning_config": {
      if (effort === "none") return { reasoningConfig: { type: "disabled" } };
      const level = levelOf(reasoning);
      // The highest level refuses a bound on the output, which costs the client more than the level.
      const bounded = level === "high" && maxOutputTokens !== null ? "medium" : level;
      return { reasoningConfig: { type: "enabled", maxReasoningEffort: bounded } };
    }
    default:
      // Not to reason is what such a model does anyway.
      if (effort !== "none") dropped.add("reasoning_effort");
      return {};
  }
}

function levelOf({ effort, budgetTokens }: ReasoningRequest): "low" | "medium" | "high" {
  if (effort === null) return budgetTokens === null || budgetTokens < 4096 ? "low" : budgetTokens < 16_384 ? "medium" : "high";
  if (effort === "none" || effort === "minimal" || effort === "low") return "low";
  return effort === "medium" ? "medium" : "high";
}
