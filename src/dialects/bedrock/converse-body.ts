import type {
  CacheMarker,
  Conversation,
  ConversationTurn,
  OutputFormat,
  Part,
  ProviderValue,
  Tool,
  ToolChoice,
  ToolResultPart,
} from "../../operations/conversation/conversation.ts";
import { customDescription, customParameters } from "../../operations/conversation/custom-input.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { modelFamilies, unknownFamily, type ModelFamily } from "../presets.ts";
import { argumentsObject, shortWireId, wireId } from "../translated/tool-calls.ts";
import { DocumentNames, isMedia, mediaBlock, textBlock, type ConverseBlock } from "./converse-content.ts";
import { converseSettings, taken, type ConverseOptions } from "./converse-settings.ts";

export const converseDialect = "bedrock-converse";

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
  const family = familyOf(options.model);
  if (sampling.topLogprobs !== null) return noLogprobs;
  const dropped = new Set(conversation.uncarried);
  const encoder = new TurnEncoder(family, dropped);
  const opening = conversation.turns.findIndex(({ role }) => role !== "system" && role !== "developer");
  const systemTurns = opening === -1 ? conversation.turns : conversation.turns.slice(0, opening);
  const system = encoder.system(systemTurns);
  const messages = encoder.messages(conversation.turns.slice(systemTurns.length));
  if (isFailure(messages)) return messages;
  if (outputFormat?.kind === "json") system.push({ text: jsonInstruction });

  const { inference, additional, forcedTools } = converseSettings(conversation, options, family, callsUnthought(messages), dropped);
  const stopSequences = taken("stop", nonEmpty(stop.filter((text) => text.trim() !== "")), family, dropped);
  noteUncarried(conversation, dropped);
  const body = present({
    system: nonEmpty(system),
    messages,
    toolConfig: toolConfig(conversation, encoder, forcedTools, dropped),
    inferenceConfig: nonEmptyObject(present({ ...inference, stopSequences })),
    additionalModelRequestFields: nonEmptyObject(additional),
    outputConfig: outputConfig(outputFormat),
    serviceTier: serviceTier(conversation.serviceTier, dropped),
  });
  return { body: textEncoder.encode(JSON.stringify(body)), dropped: [...dropped] };
}

/** By the name of the model; the name of an inference profile contains it, but may hide it as well. */
function familyOf(model: string): ModelFamily {
  return modelFamilies.find(({ mark }) => model.includes(mark)) ?? unknownFamily;
}

/** The conversation is between calls and their results, and the answer with the calls does not begin with a thought. */
function callsUnthought(messages: readonly ConverseMessage[]): boolean {
  const content = messages.findLast(({ role }) => role === "assistant")?.content ?? [];
  return content.some((block) => "toolUse" in block) && !("reasoningContent" in content[0]!);
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
    private readonly family: ModelFamily,
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
    return this.family.shortIds ? shortWireId(id) : wireId(id);
  }

  /** Marks what is before it as worth caching. Models that know no marks refuse them. */
  cachePoint(cache: CacheMarker | undefined): readonly ConverseBlock[] {
    if (cache === undefined) return [];
    if (!this.family.cachePoints) {
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
function toolConfig(conversation: Conversation, encoder: TurnEncoder, forcedTools: boolean, dropped: Set<string>): ConverseBlock | null {
  const { tools, toolChoice, parallelToolCalls } = conversation;
  const isForbidden = toolChoice?.kind === "none";
  if (isForbidden && encoder.called.size === 0) return null;
  if (isForbidden && tools.length > 0) dropped.add("tool_choice");
  const declared = new Set(tools.map(wireName));
  const specs = tools.flatMap((tool) => [toolSpec(tool, dropped), ...encoder.cachePoint(tool.cache)]);
  for (const name of encoder.called) if (!declared.has(name)) specs.push({ toolSpec: { name, inputSchema: { json: anyObject } } });
  if (specs.length === 0) return null;
  if (parallelToolCalls === false && tools.length > 0) dropped.add("parallel_tool_calls");
  const isForced = toolChoice?.kind === "required" || toolChoice?.kind === "named";
  if (isForced && !forcedTools && tools.length > 0) dropped.add("tool_choice");
  const possible = isForced && !forcedTools ? ({ kind: "auto" } as const) : toolChoice;
  const choice = tools.length === 0 || possible === null ? null : encodeChoice(possible, tools);
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
