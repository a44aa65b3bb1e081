import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type {
  CacheMarker,
  Conversation,
  FilePart,
  ImagePart,
  OutputFormat,
  Part,
  ReasoningEffort,
  ReasoningRequest,
  TextPart,
  Tool,
  ToolCallPart,
  ToolChoice,
  ToolResultPart,
  ConversationTurn,
} from "../../operations/conversation/conversation.ts";
import type { Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import { mistake } from "../../operations/mistakes.ts";
import { cacheMarker, ContentReader } from "./content.ts";
import { FieldReader } from "../field-reader.ts";
import { Uncarried } from "../uncarried.ts";

/** The whole request as a conversation. Its body was scanned before, so that its depth and its number of values are bounded. */
export function messagesConversation(request: ChatRequest): Conversation | Failure {
  const body = JSON.parse(decoder.decode(request.body.subarray(request.document.start, request.document.end))) as JsonObject;
  const fields = new FieldReader();
  const uncarried = new Uncarried();
  for (const key of Object.keys(body)) if (!carried.has(key) && body[key] !== null) uncarried.add(key);

  const turns = turnsOf(request, body, fields, uncarried);
  const tools = toolsOf(fields.optionalList(body["tools"], "tools"), fields, uncarried);
  const choice = choiceOf(fields.optionalObject(body["tool_choice"], "tool_choice"), tools, fields, uncarried);
  const output = fields.optionalObject(body["output_config"], "output_config");
  const metadata = fields.optionalObject(body["metadata"], "metadata");
  const tier = fields.optionalText(body["service_tier"], "service_tier");
  const conversation: Conversation = {
    turns: markedLast(turns, cacheMarker(body["cache_control"], "cache_control", fields)),
    tools: tools.carried,
    toolChoice: choice.choice,
    parallelToolCalls: choice.parallel,
    outputFormat: formatOf(body, output, fields),
    sampling: {
      temperature: fields.optionalNumber(body["temperature"], "temperature"),
      topP: fields.optionalNumber(body["top_p"], "top_p"),
      topK: fields.optionalNumber(body["top_k"], "top_k"),
      presencePenalty: null,
      frequencyPenalty: null,
      seed: null,
      topLogprobs: null,
    },
    reasoning: reasoningOf(fields.optionalObject(body["thinking"], "thinking"), output, fields),
    maxOutputTokens: request.maxTokens,
    stop: fields.optionalList(body["stop_sequences"], "stop_sequences").map((stop, index) => fields.text(stop, `stop_sequences.${index}`)),
    stream: request.stream,
    endUser: fields.optionalText(metadata?.["user_id"], "metadata.user_id"),
    promptCacheKey: null,
    // The one that excludes the better, dearer tier has another name in the model.
    serviceTier: tier === "standard_only" ? "default" : tier,
    verbosity: null,
    uncarried: uncarried.names,
  };
  if (fields.mistake === null && turns.length === 0) {
    return mistake("'messages' must hold at least one message with content.", "empty_array", "messages");
  }
  return fields.mistake ?? conversation;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The fields of a request that the conversation has, in one way or another. */
const carried: ReadonlySet<string> = new Set([
  ...["model", "messages", "system", "max_tokens", "stream", "stop_sequences", "temperature", "top_p", "top_k", "metadata"],
  ...["tools", "tool_choice", "thinking", "output_config", "output_format", "service_tier", "cache_control"],
]);

function turnsOf(request: ChatRequest, body: JsonObject, fields: FieldReader, uncarried: Uncarried): readonly ConversationTurn[] {
  const content = new ContentReader(request, fields, uncarried);
  const turns: ConversationTurn[] = [];
  const add = (role: ConversationTurn["role"], parts: readonly Part[]): void => {
    if (parts.length > 0) turns.push({ role, parts });
  };
  if (body["system"] != null) add("system", content.system(body["system"], "system").flatMap(withoutAttribution));

  for (const [index, value] of fields.list(body["messages"], "messages").entries()) {
    if (fields.mistake !== null) break;
    const path = `messages.${index}`;
    const message = fields.object(value, path);
    const role = fields.text(message["role"], `${path}.role`);
    switch (role) {
      case "user": {
        // The results of tools come first, whatever order they are in: they answer the calls of the turn before.
        const { results, parts } = content.user(message["content"], `${path}.content`);
        add("tool", results);
        add("user", parts);
        break;
      }
      case "assistant":
        add("assistant", content.assistant(message["content"], index, `${path}.content`));
        break;
      case "system":
        add("system", content.system(message["content"], `${path}.content`));
        break;
      default:
        fields.invalid(`${path}.role`, `'${path}.role' must be one of: user, assistant, system.`);
    }
  }
  return turns;
}

/**
 * One client begins its prompt with a line about itself that is different in every request. The API that it is meant for takes it out
 * before it looks into its cache. For any other upstream it would make a new prompt of every request.
 */
function withoutAttribution(part: Part): readonly Part[] {
  if (part.kind !== "text" || !part.text.startsWith(attribution)) return [part];
  const end = part.text.indexOf("\n");
  const rest = end === -1 ? "" : part.text.slice(end).trimStart();
  return rest === "" ? [] : [{ ...part, text: rest }];
}

const attribution = "x-anthropic-billing-header:";

/** A marker for the whole request stands for one on the last part that can have one. */
function markedLast(turns: readonly ConversationTurn[], cache: CacheMarker | null): readonly ConversationTurn[] {
  if (cache === null) return turns;
  const turn = turns.at(-1);
  const last = turn?.parts.findLastIndex(isMarkable) ?? -1;
  if (turn === undefined || last === -1) return turns;
  const parts = turn.parts.map((part, index) => (index === last && isMarkable(part) ? { ...part, cache } : part));
  return [...turns.slice(0, -1), { role: turn.role, parts }];
}

function isMarkable(part: Part): part is TextPart | ImagePart | FilePart | ToolCallPart | ToolResultPart {
  return part.kind !== "reasoning" && part.kind !== "refusal" && part.kind !== "audio";
}

interface Tools {
  readonly carried: readonly Tool[];
  /** The names of those that cannot be carried. */
  readonly others: ReadonlySet<string>;
}

function toolsOf(values: readonly unknown[], fields: FieldReader, uncarried: Uncarried): Tools {
  const tools: Tool[] = [];
  const others = new Set<string>();
  for (const [index, value] of values.entries()) {
    const path = `tools.${index}`;
    const tool = fields.object(value, path);
    if (fields.mistake !== null) break;
    const type = fields.optionalText(tool["type"], `${path}.type`) ?? "custom";
    if (type !== "custom") {
      uncarried.add(`tools.${type}`);
      if (typeof tool["name"] === "string") others.add(tool["name"]);
      continue;
    }
    for (const key of toolHints) if (tool[key] != null && tool[key] !== false) uncarried.add(`tools.${key}`);
    const cache = cacheMarker(tool["cache_control"], `${path}.cache_control`, fields);
    tools.push({
      name: fields.name(tool["name"], `${path}.name`),
      description: fields.optionalText(tool["description"], `${path}.description`),
      parameters: fields.object(tool["input_schema"], `${path}.input_schema`),
      strict: fields.optionalBoolean(tool["strict"], `${path}.strict`),
      ...(cache === null ? undefined : { cache }),
    });
  }
  return { carried: tools, others };
}

const toolHints = ["allowed_callers", "defer_loading", "input_examples"] as const;

interface ParsedToolChoice {
  readonly choice: ToolChoice | null;
  readonly parallel: boolean | null;
}

const noChoice: ParsedToolChoice = { choice: null, parallel: null };

function choiceOf(value: JsonObject | null, tools: Tools, fields: FieldReader, uncarried: Uncarried): ParsedToolChoice {
  if (value === null) return noChoice;
  const type = fields.text(value["type"], "tool_choice.type");
  const single = fields.optionalBoolean(value["disable_parallel_tool_use"], "tool_choice.disable_parallel_tool_use");
  const name = type === "tool" ? fields.name(value["name"], "tool_choice.name") : null;
  const choice = choiceNamed(type, name);
  if (choice === null) {
    fields.invalid("tool_choice.type", "'tool_choice.type' must be one of: auto, any, tool, none.");
    return noChoice;
  }
  const isDeclared = name === null || tools.carried.some((tool) => tool.name === name);
  if (!isDeclared && !tools.others.has(name)) {
    fields.invalid("tool_choice.name", "'tool_choice.name' is the name of no tool in 'tools'.");
  }
  // Upstreams refuse a choice where there is nothing to choose from.
  if (!isDeclared || tools.carried.length === 0) {
    if (choice.kind !== "auto" && choice.kind !== "none") uncarried.add("tool_choice");
    return noChoice;
  }
  return { choice, parallel: single === null ? null : !single };
}

function choiceNamed(type: string, name: string | null): ToolChoice | null {
  switch (type) {
    case "auto":
      return { kind: "auto" };
    case "any":
      return { kind: "required" };
    case "none":
      return { kind: "none" };
    case "tool":
      return { kind: "named", name: name ?? "" };
    default:
      return null;
  }
}

/** `output_format` is what it was called before it became a part of `output_config`. */
function formatOf(body: JsonObject, output: JsonObject | null, fields: FieldReader): OutputFormat | null {
  const isOld = output?.["format"] == null;
  const path = isOld ? "output_format" : "output_config.format";
  const format = fields.optionalObject(isOld ? body["output_format"] : output["format"], path);
  if (format === null) return null;
  fields.optionalChoice(fields.text(format["type"], `${path}.type`), ["json_schema"], `${path}.type`);
  const schema = fields.object(format["schema"], `${path}.schema`);
  return { kind: "schema", name: "structured_output", description: null, schema, strict: null };
}

const efforts = ["low", "medium", "high", "xhigh", "max"] as const satisfies readonly ReasoningEffort[];

/** An effort that the client names counts, unless it switches thinking off. */
function reasoningOf(thinking: JsonObject | null, output: JsonObject | null, fields: FieldReader): ReasoningRequest | null {
  const effort = fields.optionalChoice(output?.["effort"], efforts, "output_config.effort");
  if (thinking === null) return effort === null ? null : { effort, budgetTokens: null, summary: null };
  const type = fields.text(thinking["type"], "thinking.type");
  const budgetTokens = fields.optionalNumber(thinking["budget_tokens"], "thinking.budget_tokens");
  const display = fields.optionalText(thinking["display"], "thinking.display");
  const summary = display === null ? null : display === "omitted" ? "none" : "auto";
  switch (type) {
    case "disabled":
      return { effort: "none", budgetTokens: null, summary: null };
    case "enabled":
      return { effort: effort ?? (budgetTokens === null ? "medium" : null), budgetTokens, summary };
    case "adaptive":
      return { effort: effort ?? "high", budgetTokens: null, summary };
    // Little of it: only after the results of tools.
    case "between_tools":
      return { effort: effort ?? "low", budgetTokens: null, summary };
    default:
      fields.invalid("thinking.type", "'thinking.type' must be one of: enabled, adaptive, between_tools, disabled.");
      return null;
  }
}
