import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { Failure } from "../../operations/failure.ts";
import { elementsOf, lastMember, membersOf, scanJson, valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { bodyMistake, misspelled, missing, mistake, modelMistake, present, wrongType } from "../../operations/mistakes.ts";
import { responsesConversation } from "./conversation.ts";

/** Reads a request to `POST /v1/responses`: the facts the gateway decides on, or the mistake that the client can fix. */
export function readResponsesRequest(body: Uint8Array): ChatRequest | Failure {
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

  const input = field(members, "input");
  if (input === undefined) return missing("input");
  if (input.kind !== "string" && input.kind !== "array") return wrongType("input", "a string or an array");
  if (input.kind === "array" && input.empty) return mistake("'input' must hold at least one item.", "empty_array", "input");
  const stored = statefulField(body, members);
  if (stored !== null) return stored;

  const stream = field(members, "stream");
  if (stream !== undefined && stream.kind !== "true" && stream.kind !== "false") return wrongType("stream", "a boolean");
  const maxTokens = maxTokensIn(body, members);
  if (maxTokens !== null && typeof maxTokens !== "number") return maxTokens;
  const toolList = field(members, "tools");
  if (toolList !== undefined && toolList.kind !== "array") return wrongType("tools", "an array");
  const tools = toolList === undefined ? [] : elementsOf(body, toolList.start, toolList.end);
  if (tools.length > toolsMax) {
    return mistake(`'tools' has ${tools.length} elements, and may have ${toolsMax}.`, "array_above_max_length", "tools");
  }

  const hostedTools = tools.some((tool) => actsUpstream(body, tool));
  return {
    operation: "chat",
    surface: "openai-responses",
    toConversation: responsesConversation,
    body,
    document,
    members,
    model: modelName,
    stream: stream?.kind === "true",
    wantsUsage: true,
    maxTokens: null,
    maxCompletionTokens: maxTokens,
    choices: 1,
    hostedTools,
    reasons: asksToReason(body, members),
    plainText: tools.length === 0 && !asksForFormat(body, members),
    promptTokensEstimate: Math.ceil([input, field(members, "instructions"), toolList].reduce(bytesOf, 0) / bytesPerToken),
  };
}

const bytesPerToken = 4;
const toolsMax = 1024;

function bytesOf(sum: number, member: JsonMember | undefined): number {
  return member === undefined ? sum : sum + member.end - member.start;
}

/** What the gateway reads of a request. */
const decidedOn: ReadonlySet<string> = new Set([
  ...["model", "input", "instructions", "stream", "max_output_tokens", "tools", "tool_choice", "text", "reasoning"],
  ...["previous_response_id", "conversation", "background", "store"],
]);

function field(members: readonly JsonMember[], key: string): JsonMember | undefined {
  return present(lastMember(members, key));
}

/** The gateway keeps no conversations: whatever a request refers to has to stand in it. */
function statefulField(body: Uint8Array, members: readonly JsonMember[]): Failure | null {
  for (const key of ["previous_response_id", "conversation"]) {
    if (field(members, key) === undefined) continue;
    return mistake(
      `'${key}' is not supported: this gateway stores no responses. Send the whole conversation in 'input'.`,
      "unsupported_parameter",
      key,
    );
  }
  const background = field(members, "background");
  if (background === undefined || valueOf(body, background) !== true) return null;
  return mistake("'background' is not supported: wait for the response, or stream it.", "unsupported_parameter", "background");
}

/** Limits and budgets count it. Where it is repeated an upstream may read either, and the largest counts. */
function maxTokensIn(body: Uint8Array, members: readonly JsonMember[]): number | Failure | null {
  let largest: number | null = null;
  for (const member of members) {
    if (member.key !== "max_output_tokens" || member.kind === "null") continue;
    const value = member.kind === "number" ? (valueOf(body, member) as number) : NaN;
    if (!Number.isInteger(value)) return wrongType("max_output_tokens", "an integer");
    if (value < 1) return mistake("'max_output_tokens' must be at least 1.", "integer_below_min_value", "max_output_tokens");
    largest = Math.max(largest ?? 0, value);
  }
  return largest;
}

/** Tools that the client runs itself. All others act at the upstream. */
export const clientTools: ReadonlySet<string> = new Set([
  ...["function", "custom", "namespace", "local_shell", "shell", "apply_patch", "tool_search"],
]);

function actsUpstream(body: Uint8Array, tool: JsonSpan): boolean {
  if (tool.kind !== "object") return false;
  const type = lastMember(membersOf(body, tool.start, tool.end), "type");
  return type?.kind === "string" && !clientTools.has(valueOf(body, type) as string);
}

function asksToReason(body: Uint8Array, members: readonly JsonMember[]): boolean {
  const reasoning = field(members, "reasoning");
  const effort = inner(body, reasoning, "effort");
  return reasoning !== undefined && (effort === undefined || valueOf(body, effort) !== "none");
}

function asksForFormat(body: Uint8Array, members: readonly JsonMember[]): boolean {
  const type = inner(body, inner(body, field(members, "text"), "format"), "type");
  return type !== undefined && valueOf(body, type) !== "text";
}

function inner(body: Uint8Array, member: JsonMember | undefined, key: string): JsonMember | undefined {
  return member?.kind === "object" ? field(membersOf(body, member.start, member.end), key) : undefined;
}
