import type {
  CacheMarker,
  Conversation,
  ConversationTurn,
  OutputFormat,
  Part,
  ProviderValue,
  ReasoningRequest,
  Tool,
  ToolChoice,
  ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { customDescription, customParameters } from "../../operations/conversation/custom-input.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { ModelFamily } from "../presets.ts";
import { argumentsObject, shortWireId, wireId } from "../translated/tool-calls.ts";
import { DocumentNames, isMedia, mediaBlock, textBlock, type ConverseBlock } from "./converse-content.ts";

export const converseDialect = "bedrock-converse";

export interface ConverseOptions {
  readonly maxOutputTokens: number | null;
  readonly family: ModelFamily;
}

export interface ConverseBody {
  readonly body: Uint8Array;
  readonly dropped: readonly string[];
}

/**
 * A conversation as a Converse request. The blocks of a turn depend on that turn and the number of documents before it alone, so that
 * a conversation that goes on begins with the same blocks: prompt caches and signatures of reasoning depend on it.
 */
export function encodeConverse(conversation: Conversation, options: ConverseOptions): ConverseBody | Failure {
  const { sampling, outputFormat, stop } = conversation;
  if (sampling.topLogprobs !== null) return noLogprobs;
  const dropped = new Set(conversation.uncarried);
  const encoder = new TurnEncoder(options, dropped);
  const opening = conversation.turns.findIndex(({ role }) => role !== "system" && role !== "developer");
  const systemTurns = opening === -1 ? conversation.turns : conversation.turns.slice(0, opening);
  const system = encoder.system(systemTurns);
  const messages = encoder.messages(conversation.turns.slice(systemTurns.length));
  if (isFailure(messages)) return messages;
  if (outputFormat?.kind === "json") system.push({ text: jsonInstruction });

  const taken = <T>(name: ModelFamily["refuses"][number], value: T | null): T | null => {
    if (value === null || !options.family.refuses.includes(name)) return value;
    dropped.add(name);
    return null;
  };
  const inference = present({
    maxTokens: options.maxOutputTokens === null ? null : Math.max(1, options.maxOutputTokens),
    temperature: taken("temperature", sampling.temperature === null ? null : Math.min(1, sampling.temperature)),
    topP: taken("top_p", sampling.topP),
    stopSequences: taken("stop", nonEmpty(stop.filter((text) => text.trim() !== ""))),
  });
  if (sampling.temperature !== null && sampling.temperature > 1) dropped.add("temperature");
  const additional = { ...topK(sampling.topK, options.family, dropped), ...reasoningFields(conversation, options, dropped) };
  noteUncarried(conversation, dropped);
  const body = present({
    system: nonEmpty(system),
    messages,
    toolConfig: toolConfig(conversation, encoder, dropped),
    inferenceConfig: nonEmptyObject(inference),
    additionalModelRequestFields: nonEmptyObject(additional),
    outputConfig: outputConfig(outputFormat),
    serviceTier: serviceTier(conversation.serviceTier, dropped),
  });
  return { body: textEncoder.encode(JSON.stringify(body)), dropped: [...dropped] };
}

interface ConverseMessage {
  readonly role: "user" | "assistant";
  readonly content: ConverseBlock[];
}

class TurnEncoder {
  private readonly names = new DocumentNames();
  /** The tools that were called, by their names on the wire. */
  readonly called = new Set<string>();

  constructor(
    private readonly options: ConverseOptions,
    private readonly dropped: Set<string>,
  ) {}

  system(turns: readonly ConversationTurn[]): ConverseBlock[] {
    const blocks: ConverseBlock[] = [];
    for (const { parts } of turns) {
      for (const part of parts) {
        if (part.kind !== "text") {
          this.dropped.add(`system ${part.kind}`);
          continue;
        }
        const block = textBlock(part);
        if (block !== null) blocks.push(block, ...this.cachePoint(part.cache));
      }
    }
    return blocks;
  }

  /** Neighbours of one role become one message, because roles have to alternate. */
  messages(turns: readonly ConversationTurn[]): readonly ConverseMessage[] | Failure {
    const messages: ConverseMessage[] = [];
    for (const turn of turns) {
      const content = this.turn(turn);
      if (isFailure(content)) return content;
      if (content.length === 0) continue;
      const role = turn.role === "assistant" ? "assistant" : "user";
      if (messages.length === 0 && role === "assistant") messages.push({ role: "user", content: [{ text: openingText }] });
      const last = messages.at(-1);
      if (last?.role === role) last.content.push(...content);
      else messages.push({ role, content: [...content] });
    }
    return messages;
  }

  private turn({ role, parts }: ConversationTurn): readonly ConverseBlock[] | Failure {
    switch (role) {
      case "system":
      case "developer":
        return this.laterSystem(parts);
      case "user":
        return this.user(parts);
      case "assistant":
        return this.assistant(parts);
      case "tool":
        return this.results(parts);
    }
  }

  /** The API takes instructions at the beginning only. Moved there, a later one would change the prefix of the conversation. */
  private laterSystem(parts: readonly Part[]): readonly ConverseBlock[] {
    const text = parts.map((part) => (part.kind === "text" ? part.text : "")).join("\n");
    return text.trim() === "" ? [] : [{ text: `<system>\n${text}\n</system>` }];
  }

  private user(parts: readonly Part[]): readonly ConverseBlock[] | Failure {
    const blocks: ConverseBlock[] = [];
    for (const part of parts) {
      if (part.kind === "text") {
        const block = textBlock(part);
        if (block !== null) blocks.push(block, ...this.cachePoint(part.cache));
      } else if (isMedia(part)) {
        const block = mediaBlock(part, this.names);
        if (isFailure(block)) return block;
        blocks.push(block, ...this.cachePoint(part.kind === "audio" ? undefined : part.cache));
      } else this.dropped.add(`user ${part.kind}`);
    }
    const needsText = blocks.some((block) => "document" in block) && !blocks.some((block) => "text" in block);
    return needsText ? [...blocks, { text: documentText }] : blocks;
  }

  private assistant(parts: readonly Part[]): readonly ConverseBlock[] | Failure {
    const blocks: ConverseBlock[] = [];
    const reasoned = parts.some((part) => part.kind === "reasoning" && this.own(part.signature) !== null);
    for (const part of parts) {
      switch (part.kind) {
        case "text":
        case "refusal": {
          // Beside reasoning the answer is returned exactly as it was, and its empty texts with it.
          const block = reasoned ? { text: part.text } : textBlock({ kind: "text", text: part.text });
          if (block !== null) blocks.push(block, ...this.cachePoint(part.kind === "text" ? part.cache : undefined));
          break;
        }
        case "reasoning": {
          const signature = this.own(part.signature);
          if (signature === null) break;
          blocks.push({
            reasoningContent: part.redacted === true ? { redactedContent: signature } : { reasoningText: { text: part.text, signature } },
          });
          break;
        }
        case "tool_call": {
          const name = wireName(part);
          this.called.add(name);
          blocks.push({ toolUse: { toolUseId: this.idOf(part.id), name, input: argumentsObject(part) } }, ...this.cachePoint(part.cache));
          break;
        }
        default:
          this.dropped.add(`assistant ${part.kind}`);
      }
    }
    return blocks;
  }

  private results(parts: readonly Part[]): readonly ConverseBlock[] | Failure {
    // Two results for one call are refused; the last one counts.
    const results = new Map<string, ToolResultPart>();
    for (const part of parts) if (part.kind === "tool_result") results.set(part.callId, part);
    const blocks: ConverseBlock[] = [];
    for (const { callId, content, isError, cache } of results.values()) {
      const inner: ConverseBlock[] = [];
      for (const part of content) {
        if (part.kind === "audio") return noAudioResult;
        const block = part.kind === "text" ? textBlock(part) : mediaBlock(part, this.names);
        if (block === null) continue;
        if (isFailure(block)) return block;
        inner.push(block);
      }
      const toolResult = {
        toolUseId: this.idOf(callId),
        content: inner.length === 0 ? [{ text: "(empty)" }] : inner,
        ...(isError ? { status: "error" } : undefined),
      };
      blocks.push({ toolResult }, ...this.cachePoint(cache));
    }
    return blocks;
  }

  private idOf(id: string): string {
    return this.options.family.shortIds ? shortWireId(id) : wireId(id);
  }

  /** Marks what is before it as worth caching. Models that know no marks refuse them. */
  cachePoint(cache: CacheMarker | undefined): readonly ConverseBlock[] {
    if (cache === undefined) return [];
    if (!this.options.family.cachePoints) {
      this.dropped.add("cache_control");
      return [];
    }
    return [{ cachePoint: { type: "default", ...(cache.ttl === "1h" ? { ttl: "1h" } : undefined) } }];
  }

  /** A value of this API's own, as it was. */
  private own(signature: ProviderValue | null): string | null {
    return signature?.dialect === converseDialect ? signature.data : null;
  }
}

/** Tools are needed wherever earlier turns called some, even if the client declares none any more. */
function toolConfig(conversation: Conversation, encoder: TurnEncoder, dropped: Set<string>): ConverseBlock | null {
  const { tools, toolChoice, parallelToolCalls } = conversation;
  const isForbidden = toolChoice?.kind === "none";
  if (isForbidden && encoder.called.size === 0) return null;
  if (isForbidden && tools.length > 0) dropped.add("tool_choice");
  const declared = new Set(tools.map(wireName));
  const specs = tools.flatMap((tool) => [toolSpec(tool, dropped), ...encoder.cachePoint(tool.cache)]);
  for (const name of encoder.called) if (!declared.has(name)) specs.push({ toolSpec: { name, inputSchema: { json: anyObject } } });
  if (specs.length === 0) return null;
  if (parallelToolCalls === false && tools.length > 0) dropped.add("parallel_tool_calls");
  const choice = tools.length === 0 || toolChoice === null ? null : encodeChoice(toolChoice, tools);
  return { tools: specs, ...(choice === null ? undefined : { toolChoice: choice }) };
}

function toolSpec(tool: Tool, dropped: Set<string>): ConverseBlock {
  const description = tool.custom === undefined ? tool.description : customDescription(tool);
  if (tool.strict === true) dropped.add("strict");
  const schema = tool.custom === undefined ? { ...anyObject, ...tool.parameters } : customParameters;
  return {
    toolSpec: {
      name: wireName(tool),
      ...(description === null || description.trim() === "" ? undefined : { description }),
      inputSchema: { json: schema },
    },
  };
}

function encodeChoice(choice: ToolChoice, tools: readonly Tool[]): ConverseBlock | null {
  switch (choice.kind) {
    case "auto":
      return { auto: {} };
    case "required":
      return { any: {} };
    case "named": {
      const tool = tools.find(({ name }) => name === choice.name);
      return { tool: { name: tool === undefined ? wireName({ name: choice.name }) : wireName(tool) } };
    }
    case "none":
      return null;
  }
}

function topK(value: number | null, { topK: isTaken }: ModelFamily, dropped: Set<string>): ConverseBlock {
  if (value === null) return {};
  if (isTaken) return { top_k: value };
  dropped.add("top_k");
  return {};
}

/** Reasoning is requested among the fields of the model's own maker. */
function reasoningFields({ reasoning }: Conversation, { family, maxOutputTokens }: ConverseOptions, dropped: Set<string>): ConverseBlock {
  if (reasoning === null || (reasoning.effort === null && reasoning.budgetTokens === null)) return {};
  const { effort } = reasoning;
  switch (family.reasoning) {
    case "thinking":
      return thinking(reasoning, maxOutputTokens);
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
    case null:
      // Not to reason is what such a model does anyway.
      if (effort !== "none") dropped.add("reasoning_effort");
      return {};
  }
}

function thinking({ effort, budgetTokens }: ReasoningRequest, maxOutputTokens: number | null): ConverseBlock {
  if (effort === "none") return { thinking: { type: "disabled" } };
  if (budgetTokens === null) {
    return { thinking: { type: "adaptive" }, output_config: { effort: effort === "minimal" ? "low" : effort } };
  }
  // A budget counts as output, and has to leave some of it for the answer.
  const most = maxOutputTokens === null ? budgetTokens : Math.min(budgetTokens, maxOutputTokens - 1);
  return { thinking: most < thinkingMin ? { type: "disabled" } : { type: "enabled", budget_tokens: most } };
}

const thinkingMin = 1024;

function levelOf({ effort, budgetTokens }: ReasoningRequest): "low" | "medium" | "high" {
  if (effort === null) return budgetTokens === null || budgetTokens < 4096 ? "low" : budgetTokens < 16_384 ? "medium" : "high";
  if (effort === "none" || effort === "minimal" || effort === "low") return "low";
  return effort === "medium" ? "medium" : "high";
}

function outputConfig(format: OutputFormat | null): ConverseBlock | null {
  if (format?.kind !== "schema") return null;
  const { name, description, schema } = format;
  const jsonSchema = {
    schema: JSON.stringify(schema),
    name: name ?? "structured_output",
    ...(description === null ? undefined : { description }),
  };
  return { textFormat: { type: "json_schema", structure: { jsonSchema } } };
}

function serviceTier(tier: string | null, dropped: Set<string>): ConverseBlock | null {
  if (tier === null || tier === "auto") return null;
  if (serviceTiers.includes(tier)) return { type: tier };
  dropped.add("service_tier");
  return null;
}

const serviceTiers = ["default", "flex", "priority", "reserved"];

function noteUncarried({ sampling, verbosity }: Conversation, dropped: Set<string>): void {
  if (sampling.presencePenalty) dropped.add("presence_penalty");
  if (sampling.frequencyPenalty) dropped.add("frequency_penalty");
  if (sampling.seed !== null) dropped.add("seed");
  if (verbosity !== null) dropped.add("verbosity");
}

function present(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function nonEmpty<T>(list: readonly T[]): readonly T[] | null {
  return list.length === 0 ? null : list;
}

function nonEmptyObject(fields: ConverseBlock): ConverseBlock | null {
  return Object.keys(fields).length === 0 ? null : fields;
}

const noLogprobs = failure("unsupported", "the upstream reports no log probabilities", {
  message: "This model reports no log probabilities.",
  param: "logprobs",
});
const noAudioResult = failure("unsupported", "the upstream takes no audio in the result of a tool", {
  message: "This model takes no audio in the result of a tool.",
});
const jsonInstruction = "Answer with one JSON object and nothing else.";
const documentText = "The document is attached.";
const openingText = "Continue.";
const anyObject = { type: "object", properties: {} };
const textEncoder = new TextEncoder();
