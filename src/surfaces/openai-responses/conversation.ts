import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type {
  Conversation,
  OutputFormat,
  ReasoningEffort,
  ReasoningRequest,
  Tool,
  ToolChoice,
} from "../../operations/conversation/conversation.ts";
import { wireName } from "../../operations/conversation/tool-names.ts";
import { failure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { mistake } from "../../operations/mistakes.ts";
import { field } from "../../operations/request-fields.ts";
import { FieldReader } from "../field-reader.ts";
import { Uncarried } from "../uncarried.ts";
import { ItemReader, searchName } from "./items.ts";

/** The whole request as a conversation. Its body was scanned before, so that its depth and its number of values are bounded. */
export function responsesConversation(request: ChatRequest): Conversation | Failure {
  const elsewhere = storedElsewhere(request);
  if (elsewhere !== null) return elsewhere;
  const body = JSON.parse(decoder.decode(request.body.subarray(request.document.start, request.document.end))) as JsonObject;
  if (Array.isArray(body["include"]) && body["include"].includes("message.output_text.logprobs")) return noLogprobs;
  const fields = new FieldReader();
  const uncarried = new Uncarried();
  for (const key of Object.keys(body)) if (!carried.has(key) && body[key] !== null) uncarried.add(key);

  const items = new ItemReader(fields, uncarried);
  const instructions = fields.optionalText(body["instructions"], "instructions");
  if (instructions !== null && instructions !== "") items.add("system", { kind: "text", text: instructions });
  if (typeof body["input"] === "string") items.add("user", { kind: "text", text: body["input"] });
  else items.read(fields.list(body["input"], "input"));

  const declared = distinct(toolsOf([...fields.optionalList(body["tools"], "tools"), ...items.tools], fields, uncarried));
  const tools = allowedOf(declared, body["tool_choice"], fields);
  const text = fields.optionalObject(body["text"], "text");
  const conversation: Conversation = {
    turns: items.turns,
    tools,
    toolChoice: choiceOf(body["tool_choice"], tools, fields, uncarried),
    parallelToolCalls: fields.optionalBoolean(body["parallel_tool_calls"], "parallel_tool_calls"),
    outputFormat: formatOf(fields.optionalObject(text?.["format"], "text.format"), fields),
    sampling: {
      temperature: fields.optionalNumber(body["temperature"], "temperature"),
      topP: fields.optionalNumber(body["top_p"], "top_p"),
      topK: null,
      presencePenalty: fields.optionalNumber(body["presence_penalty"], "presence_penalty"),
      frequencyPenalty: fields.optionalNumber(body["frequency_penalty"], "frequency_penalty"),
      seed: null,
      topLogprobs: null,
    },
    reasoning: reasoningOf(fields.optionalObject(body["reasoning"], "reasoning"), fields),
    maxOutputTokens: request.maxCompletionTokens,
    stop: [],
    stream: request.stream,
    endUser: fields.optionalText(body["safety_identifier"] ?? body["user"], "safety_identifier"),
    promptCacheKey: fields.optionalText(body["prompt_cache_key"], "prompt_cache_key"),
    serviceTier: fields.optionalText(body["service_tier"], "service_tier"),
    verbosity: fields.optionalChoice(text?.["verbosity"], verbosities, "text.verbosity"),
    uncarried: uncarried.names,
  };
  if (fields.mistake === null && items.turns.length === 0) {
    return mistake("'input' must hold at least one item with content.", "empty_array", "input");
  }
  return fields.mistake ?? conversation;
}

/**
 * The gateway keeps no conversations. Items of answers can be referred to, but their requests are not kept: clients that repeat the whole
 * conversation with each request, as most do, would fill the memory with copies of it. An upstream that speaks this API may have stored it.
 */
function storedElsewhere({ members }: ChatRequest): Failure | null {
  const key = ["previous_response_id", "conversation"].find((name) => field(members, name) !== undefined);
  if (key === undefined) return null;
  return failure("unsupported", `'${key}' refers to what only an upstream of this API may have stored`, {
    message: `'${key}' is not supported: neither this gateway nor the model's upstream stores responses. Send the whole conversation in 'input'.`,
    code: "unsupported_parameter",
    param: key,
  });
}

const noLogprobs = failure("unsupported", "a translated answer has no log probabilities", {
  message: "This model reports no log probabilities.",
  code: "unsupported_parameter",
  param: "include",
});

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const verbosities = ["low", "medium", "high"] as const;

/** The fields of a request that the conversation has, and those that say nothing about the answer. */
const carried: ReadonlySet<string> = new Set([
  ...["model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "stream", "temperature"],
  ...["top_p", "presence_penalty", "frequency_penalty", "max_output_tokens", "service_tier", "prompt_cache_key", "safety_identifier"],
  ...["user", "metadata", "client_metadata", "store", "include", "stream_options", "truncation", "prompt_cache_retention", "background"],
]);

function toolsOf(
  values: readonly unknown[],
  fields: FieldReader,
  uncarried: Uncarried,
  within: Pick<Tool, "namespace" | "namespaceDescription"> = {},
): readonly Tool[] {
  const { namespace } = within;
  const tools: Tool[] = [];
  for (const [index, value] of values.entries()) {
    const path = namespace === undefined ? `tools.${index}` : `tools.${namespace}.${index}`;
    const tool = fields.object(value, path);
    if (fields.mistake !== null) break;
    const type = fields.text(tool["type"], `${path}.type`);
    const description = (): string | null => fields.optionalText(tool["description"], `${path}.description`);
    switch (type) {
      case "function":
        tools.push({
          name: fields.name(tool["name"], `${path}.name`),
          description: description(),
          parameters: fields.optionalObject(tool["parameters"], `${path}.parameters`),
          strict: fields.optionalBoolean(tool["strict"], `${path}.strict`),
          ...within,
        });
        break;
      case "custom":
        tools.push({
          name: fields.name(tool["name"], `${path}.name`),
          description: description(),
          parameters: null,
          strict: null,
          custom: grammarOf(fields.optionalObject(tool["format"], `${path}.format`), fields, `${path}.format`),
          ...within,
        });
        break;
      case "namespace": {
        const name = fields.name(tool["name"], `${path}.name`);
        const about = description();
        const group = { namespace: name, ...(about === null ? undefined : { namespaceDescription: about }) };
        tools.push(...toolsOf(fields.list(tool["tools"], `${path}.tools`), fields, uncarried, group));
        break;
      }
      case "tool_search":
        // An upstream that searches itself has to know the tools that it may find.
        if (tool["execution"] !== "client") uncarried.add(`tools.${type}`);
        else {
          const parameters = fields.optionalObject(tool["parameters"], `${path}.parameters`);
          tools.push({ name: searchName, description: description(), parameters, strict: null, search: true });
        }
        break;
      default:
        uncarried.add(`tools.${type}`);
    }
  }
  return tools;
}

/** Each once: a tool that was found may have been found before. */
function distinct(tools: readonly Tool[]): readonly Tool[] {
  const byName = new Map<string, Tool>();
  for (const tool of tools) if (!byName.has(wireName(tool))) byName.set(wireName(tool), tool);
  return [...byName.values()];
}

/** What a custom tool takes: the grammar also tells a model what is expected that cannot be bound to it. */
function grammarOf(format: JsonObject | null, fields: FieldReader, path: string): NonNullable<Tool["custom"]> {
  if (format === null || format["type"] !== "grammar") return { format: null };
  const { syntax } = format;
  return {
    format: fields.optionalText(format["definition"], `${path}.definition`),
    ...(syntax === "lark" || syntax === "regex" ? { syntax } : undefined),
  };
}

const allowedTools = "allowed_tools";

/** No other API can allow some of the tools that it is told about: the others are not told. */
function allowedOf(tools: readonly Tool[], choice: unknown, fields: FieldReader): readonly Tool[] {
  if (!isJsonObject(choice) || choice["type"] !== allowedTools) return tools;
  const listed = fields.list(choice["tools"], "tool_choice.tools");
  const names = new Set(listed.map((tool) => (isJsonObject(tool) ? tool["name"] : null)));
  return tools.filter(({ name, namespace }) => names.has(name) || (namespace !== undefined && names.has(namespace)));
}

function choiceOf(value: unknown, tools: readonly Tool[], fields: FieldReader, uncarried: Uncarried): ToolChoice | null {
  if (value == null || tools.length === 0) return null;
  if (typeof value === "string") {
    if (value === "auto" || value === "none" || value === "required") return { kind: value };
    fields.invalid("tool_choice", "'tool_choice' must be one of: auto, none, required, or an object.");
    return null;
  }
  const choice = fields.object(value, "tool_choice");
  const type = fields.text(choice["type"], "tool_choice.type");
  if (type === "function" || type === "custom") {
    const name = fields.name(choice["name"], "tool_choice.name");
    if (!tools.some((tool) => tool.name === name))
      fields.invalid("tool_choice.name", "'tool_choice.name' is the name of no tool in 'tools'.");
    return { kind: "named", name };
  }
  if (type === allowedTools) {
    return { kind: fields.optionalChoice(choice["mode"], ["auto", "required"], "tool_choice.mode") ?? "auto" };
  }
  uncarried.add(`tool_choice.${type}`);
  return null;
}

function formatOf(format: JsonObject | null, fields: FieldReader): OutputFormat | null {
  if (format === null) return null;
  switch (fields.text(format["type"], "text.format.type")) {
    case "text":
      return { kind: "text" };
    case "json_object":
      return { kind: "json" };
    case "json_schema":
      return {
        kind: "schema",
        name: fields.optionalText(format["name"], "text.format.name"),
        description: fields.optionalText(format["description"], "text.format.description"),
        schema: fields.object(format["schema"], "text.format.schema"),
        strict: fields.optionalBoolean(format["strict"], "text.format.strict"),
      };
    default:
      fields.invalid("text.format.type", "'text.format.type' must be one of: text, json_object, json_schema.");
      return null;
  }
}

const efforts: ReadonlySet<string> = new Set<ReasoningEffort>(["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

/** Clients know more levels than upstreams do: one that is not known is more than all that are. */
function reasoningOf(reasoning: JsonObject | null, fields: FieldReader): ReasoningRequest | null {
  if (reasoning === null) return null;
  const effort = fields.optionalText(reasoning["effort"], "reasoning.effort");
  return {
    effort: effort === null ? null : efforts.has(effort) ? (effort as ReasoningEffort) : "max",
    budgetTokens: null,
    summary: fields.optionalText(reasoning["summary"] ?? reasoning["generate_summary"], "reasoning.summary"),
  };
}
