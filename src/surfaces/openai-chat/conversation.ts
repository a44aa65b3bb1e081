import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import {
  webSearchField,
  type Conversation,
  type OutputFormat,
  type ReasoningEffort,
  type ReasoningRequest,
  type WebSearch,
} from "../../operations/conversation/conversation.ts";
import type { Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { mistake } from "../../operations/mistakes.ts";
import { FieldReader } from "../field-reader.ts";
import { Uncarried } from "../uncarried.ts";
import { MessageReader } from "./messages.ts";
import { chatTools } from "./declared-functions.ts";
import { unsupported } from "./unsupported.ts";

/** The whole request as a conversation. Its body was scanned before, so that its depth and its number of values are bounded. */
export function chatConversation(request: ChatRequest): Conversation | Failure {
  const body = JSON.parse(decoder.decode(request.body.subarray(request.document.start, request.document.end))) as JsonObject;
  const unanswerable = unanswerableIn(body, request);
  if (unanswerable !== null) return unanswerable;
  const fields = new FieldReader();
  const uncarried = new Uncarried();
  for (const key of Object.keys(body))
    if (!carried.has(key) && (isSet(body[key]) || (key === webSearchField && isJsonObject(body[key])))) uncarried.add(key);

  const turns = new MessageReader(fields, uncarried).read(fields.list(body["messages"], "messages"));
  const { tools, choice, parallel } = chatTools(body, fields, uncarried);
  const conversation: Conversation = {
    turns,
    tools,
    toolChoice: choice,
    parallelToolCalls: parallel,
    outputFormat: formatOf(fields.optionalObject(body["response_format"], "response_format"), fields),
    sampling: {
      temperature: fields.optionalNumber(body["temperature"], "temperature"),
      topP: fields.optionalNumber(body["top_p"], "top_p"),
      topK: fields.optionalNumber(body["top_k"], "top_k"),
      presencePenalty: fields.optionalNumber(body["presence_penalty"], "presence_penalty"),
      frequencyPenalty: fields.optionalNumber(body["frequency_penalty"], "frequency_penalty"),
      seed: fields.optionalNumber(body["seed"], "seed"),
      topLogprobs: null,
    },
    reasoning: reasoningOf(body, fields),
    maxOutputTokens: boundOf(request.maxCompletionTokens ?? request.maxTokens),
    stop: stopsOf(body["stop"], fields),
    stream: request.stream,
    endUser: fields.optionalText(body["safety_identifier"] ?? body["user"], "user"),
    promptCacheKey: fields.optionalText(body["prompt_cache_key"], "prompt_cache_key"),
    serviceTier: fields.optionalText(body["service_tier"], "service_tier"),
    verbosity: fields.optionalChoice(body["verbosity"], ["low", "medium", "high"], "verbosity"),
    ...webSearchOf(body, fields),
    uncarried: uncarried.names,
  };
  if (fields.mistake === null && turns.length === 0) {
    return mistake("'messages' must hold at least one message with content.", "empty_array", "messages");
  }
  return fields.mistake ?? conversation;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The fields of a request that the conversation has, in one way or another, and those that only say something to the gateway. */
const carried: ReadonlySet<string> = new Set([
  ...["model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "n_predict", "temperature", "top_p"],
  ...["top_k", "presence_penalty", "frequency_penalty", "seed", "stop", "tools", "tool_choice", "functions", "function_call"],
  ...["parallel_tool_calls", "response_format", "reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget"],
  ...["user", "safety_identifier", "prompt_cache_key", "service_tier", "verbosity", "modalities", "logprobs"],
]);

/** An empty object asks for it, too. */
function webSearchOf(body: JsonObject, fields: FieldReader): { readonly webSearch?: WebSearch } {
  const options = fields.optionalObject(body[webSearchField], webSearchField);
  if (options === null) return {};
  const sizes = ["low", "medium", "high"] as const;
  const contextSize = fields.optionalChoice(options["search_context_size"], sizes, `${webSearchField}.search_context_size`);
  const person = fields.optionalObject(options["user_location"], `${webSearchField}.user_location`);
  const place = person === null ? null : fields.optionalObject(person["approximate"], `${webSearchField}.user_location.approximate`);
  const known = Object.entries(place ?? {}).filter((entry): entry is [string, string] => isPlace(entry[0]) && typeof entry[1] === "string");
  return { webSearch: { location: known.length === 0 ? null : Object.fromEntries(known), contextSize } };
}

function isPlace(name: string): boolean {
  return name === "country" || name === "region" || name === "city" || name === "timezone";
}

/** What is switched off or empty asks for nothing. */
function isSet(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isJsonObject(value)) return Object.keys(value).length > 0;
  return value != null && value !== false;
}

/** What would make the answer another one than the client reads: it is not left out, but refused. */
function unanswerableIn(body: JsonObject, { choices }: ChatRequest): Failure | null {
  if (choices !== 1) return unsupported("n", "This model gives one answer at a time: 'n' must be 1.");
  if (body["logprobs"] === true) return unsupported("logprobs", "This model reports no log probabilities.");
  const { modalities } = body;
  const others = Array.isArray(modalities) ? (modalities as readonly unknown[]).filter((modality) => modality !== "text") : [];
  return others.length === 0 ? null : unsupported("modalities", "This model answers in text only.");
}

function formatOf(format: JsonObject | null, fields: FieldReader): OutputFormat | null {
  if (format === null) return null;
  switch (fields.text(format["type"], "response_format.type")) {
    case "text":
      return { kind: "text" };
    case "json_object":
      return { kind: "json" };
    case "json_schema":
      return schemaOf(fields.object(format["json_schema"], "response_format.json_schema"), fields);
    default:
      if (fields.mistake === null) fields.fail(unsupported("response_format", "This model knows no such 'response_format'."));
      return null;
  }
}

function schemaOf(format: JsonObject, fields: FieldReader): OutputFormat {
  const path = "response_format.json_schema";
  const schema = fields.optionalObject(format["schema"], `${path}.schema`);
  if (schema === null) return { kind: "json" };
  return {
    kind: "schema",
    name: fields.optionalText(format["name"], `${path}.name`),
    description: fields.optionalText(format["description"], `${path}.description`),
    schema,
    strict: fields.optionalBoolean(format["strict"], `${path}.strict`),
  };
}

const efforts: ReadonlySet<string> = new Set<ReasoningEffort>(["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

/** Clients know more levels than upstreams do: one that is not known is more than all that are. */
function effortOf(effort: string | null): ReasoningEffort | null {
  if (effort === null) return null;
  return efforts.has(effort) ? (effort as ReasoningEffort) : "max";
}

/** The field of the API counts first. The others are those that servers of other makers have for it. */
function reasoningOf(body: JsonObject, fields: FieldReader): ReasoningRequest | null {
  const effort = effortOf(fields.optionalText(body["reasoning_effort"], "reasoning_effort"));
  if (effort !== null) return { effort, budgetTokens: null, summary: null };
  const { reasoning, thinking } = body;
  if (isJsonObject(reasoning)) {
    const budget = fields.optionalNumber(reasoning["max_tokens"], "reasoning.max_tokens");
    const asked = effortOf(fields.optionalText(reasoning["effort"], "reasoning.effort"));
    return switched(reasoning["enabled"] !== false, asked, budget, reasoning["exclude"] === true ? "none" : null);
  }
  if (isJsonObject(thinking)) {
    return switched(
      thinking["type"] !== "disabled",
      null,
      fields.optionalNumber(thinking["budget_tokens"], "thinking.budget_tokens"),
      null,
    );
  }
  const enabled = body["enable_thinking"];
  if (typeof enabled !== "boolean") return null;
  return switched(enabled, null, fields.optionalNumber(body["thinking_budget"], "thinking_budget"), null);
}

function switched(on: boolean, effort: ReasoningEffort | null, budgetTokens: number | null, summary: string | null): ReasoningRequest {
  if (!on) return { effort: "none", budgetTokens: null, summary: null };
  return { effort: effort ?? (budgetTokens === null ? "medium" : null), budgetTokens, summary };
}

/** Servers of other makers take a negative number for no bound. */
function boundOf(tokens: number | null): number | null {
  return tokens !== null && Number.isFinite(tokens) && tokens >= 0 ? tokens : null;
}

function stopsOf(value: unknown, fields: FieldReader): readonly string[] {
  const stops = typeof value === "string" ? [value] : fields.optionalList(value, "stop").map((stop, at) => fields.text(stop, `stop.${at}`));
  return stops.filter((stop) => stop !== "");
}
