import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { elementsOf, lastMember, membersOf, scanJson, valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { bodyMistake, misspelled, missing, mistake, modelMistake, present, wrongType } from "../../operations/mistakes.ts";
import { messagesConversation } from "./conversation.ts";
import { promptTokens } from "./prompt-tokens.ts";
import { runsAtClient } from "./tool-types.ts";

/** Reads a request to `POST /v1/messages`: the facts the gateway decides on, or the mistake that the client can fix. */
export function readMessagesRequest(body: Uint8Array): ChatRequest | Failure {
  const prompt = readPrompt(body);
  if (isFailure(prompt)) return prompt;
  const { members, tools } = prompt;

  const maxTokens = maxTokensIn(body, members);
  if (typeof maxTokens !== "number") return maxTokens;
  const stream = field(members, "stream");
  if (stream !== undefined && stream.kind !== "true" && stream.kind !== "false") return wrongType("stream", "a boolean");
  const excess = stopsExcess(body, field(members, "stop_sequences"));
  if (excess !== null) return excess;

  const hostedTools = tools.some((tool) => actsUpstream(body, tool)) || isFilled(field(members, "mcp_servers"));
  return {
    operation: "chat",
    surface: "anthropic-messages",
    toConversation: messagesConversation,
    body,
    document: prompt.document,
    members,
    model: prompt.model,
    stream: stream?.kind === "true",
    wantsUsage: true,
    maxTokens,
    maxCompletionTokens: null,
    choices: 1,
    hostedTools,
    reasons: asksToReason(body, members),
    plainText: tools.length === 0 && !hostedTools && !asksForFormat(body, members),
    promptTokensEstimate: prompt.tokensEstimate,
  };
}

/** What a request for an answer and a request to count its tokens have in common. */
export interface PromptFacts {
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly JsonMember[];
  readonly model: string;
  readonly tools: readonly JsonSpan[];
  readonly tokensEstimate: number;
}

export function readPrompt(body: Uint8Array): PromptFacts | Failure {
  const document = scanJson(body);
  const unreadable = bodyMistake(document);
  if (unreadable !== null || !document.ok) return unreadable!;
  const { members } = document;
  const unknown = misspelled(members, decidedOn);
  if (unknown !== null) return unknown;

  const model = field(members, "model");
  if (model === undefined) return missing("model");
  if (model.kind !== "string") return wrongType("model", "a string");
  const modelName = valueOf(body, model) as string;
  const unnamable = modelMistake(modelName);
  if (unnamable !== null) return unnamable;

  const messages = field(members, "messages");
  if (messages === undefined) return missing("messages");
  if (messages.kind !== "array") return wrongType("messages", "an array");
  if (messages.empty) return mistake("'messages' must hold at least one message.", "empty_array", "messages");

  const toolList = field(members, "tools");
  if (toolList !== undefined && toolList.kind !== "array") return wrongType("tools", "an array");
  const tools = toolList === undefined ? [] : elementsOf(body, toolList.start, toolList.end);
  if (tools.length > toolsMax) return tooMany("tools", tools.length, toolsMax);
  return { document, members, model: modelName, tools, tokensEstimate: promptTokens(body, members) };
}

/** What the gateway reads of a request. */
const decidedOn: ReadonlySet<string> = new Set([
  ...["model", "messages", "system", "tools", "max_tokens", "stream", "stop_sequences"],
  ...["thinking", "output_config", "output_format", "mcp_servers"],
]);

function field(members: readonly JsonMember[], key: string): JsonMember | undefined {
  return present(lastMember(members, key));
}

/** Limits and budgets count it. Where it is repeated an upstream may read either, and the largest counts. */
function maxTokensIn(body: Uint8Array, members: readonly JsonMember[]): number | Failure {
  let largest: number | null = null;
  for (const member of members) {
    if (member.key !== "max_tokens" || member.kind === "null") continue;
    if (member.kind !== "number") return wrongType("max_tokens", "an integer");
    const value = valueOf(body, member) as number;
    if (!Number.isInteger(value)) return wrongType("max_tokens", "an integer");
    // Zero asks for no answer: it only fills the prompt cache.
    if (value < 0) return mistake("'max_tokens' must not be negative.", "integer_below_min_value", "max_tokens");
    largest = Math.max(largest ?? 0, value);
  }
  return largest ?? missing("max_tokens");
}

function actsUpstream(body: Uint8Array, tool: JsonSpan): boolean {
  if (tool.kind !== "object") return false;
  const type = lastMember(membersOf(body, tool.start, tool.end), "type");
  return type?.kind === "string" && !runsAtClient(valueOf(body, type) as string);
}

function isFilled(member: JsonMember | undefined): boolean {
  return member?.kind === "array" && !member.empty;
}

/** Thinking is asked for by itself or by an effort. Who switches it off does not wait for it, whatever the effort is. */
function asksToReason(body: Uint8Array, members: readonly JsonMember[]): boolean {
  const thinking = inner(body, field(members, "thinking"), "type");
  if (thinking?.kind === "string") return valueOf(body, thinking) !== "disabled";
  return inner(body, field(members, "output_config"), "effort") !== undefined;
}

function asksForFormat(body: Uint8Array, members: readonly JsonMember[]): boolean {
  return field(members, "output_format") !== undefined || inner(body, field(members, "output_config"), "format") !== undefined;
}

function inner(body: Uint8Array, member: JsonMember | undefined, key: string): JsonMember | undefined {
  return member?.kind === "object" ? field(membersOf(body, member.start, member.end), key) : undefined;
}

function stopsExcess(body: Uint8Array, stops: JsonMember | undefined): Failure | null {
  if (stops === undefined) return null;
  if (stops.kind !== "array") return wrongType("stop_sequences", "an array");
  if (stops.end - stops.start > stopBytesMax) {
    return mistake(`'stop_sequences' is longer than ${stopBytesMax / 1024} KiB.`, "string_above_max_length", "stop_sequences");
  }
  const count = elementsOf(body, stops.start, stops.end).length;
  return count <= stopsMax ? null : tooMany("stop_sequences", count, stopsMax);
}

function tooMany(param: string, count: number, max: number): Failure {
  return mistake(`'${param}' has ${count} elements, and may have ${max}.`, "array_above_max_length", param);
}

/** The same bounds as for chat completions: an upstream looks for every stop sequence at every token. */
const stopsMax = 256;
const stopBytesMax = 64 * 1024;
const toolsMax = 1024;
