import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { missing, mistake, wrongType } from "../../operations/mistakes.ts";
import { promptTokens } from "../../operations/prompt-tokens.ts";
import {
  asksForStream,
  field,
  inner,
  largestInteger,
  listed,
  readDocument,
  streamMistake,
  toolsExcess,
  toolType,
} from "../../operations/request-fields.ts";
import { responsesConversation } from "./conversation.ts";

/** Reads a request to `POST /v1/responses`: the facts the gateway decides on, or the mistake that the client can fix. */
export function readResponsesRequest(body: Uint8Array): ChatRequest | Failure {
  const read = readDocument(body, decidedOn);
  if (isFailure(read)) return read;
  const { document, members, model } = read;
  const input = field(members, "input");
  if (input === undefined) return missing("input");
  if (input.kind !== "string" && input.kind !== "array") return wrongType("input", "a string or an array");
  if (input.kind === "array" && input.empty) return mistake("'input' must hold at least one item.", "empty_array", "input");
  const unawaited = backgroundMistake(body, members);
  if (unawaited !== null) return unawaited;

  const maxTokens = largestInteger(body, members, "max_output_tokens", 1);
  if (isFailure(maxTokens)) return maxTokens;
  const toolList = field(members, "tools");
  if (toolList !== undefined && toolList.kind !== "array") return wrongType("tools", "an array");
  const tools = listed(body, toolList);
  const wrong = streamMistake(members) ?? toolsExcess("tools", tools);
  if (wrong !== null) return wrong;

  const hostedTools = tools.some((tool) => actsUpstream(body, tool));
  return {
    operation: "chat",
    surface: "openai-responses",
    toConversation: responsesConversation,
    body,
    document,
    members,
    model,
    stream: asksForStream(members),
    wantsUsage: true,
    maxTokens: null,
    maxCompletionTokens: maxTokens.value,
    choices: 1,
    hostedTools,
    reasons: asksToReason(body, members),
    plainText: tools.length === 0 && !asksForFormat(body, members),
    promptTokensEstimate: promptTokens(body, [input, field(members, "instructions"), toolList]),
  };
}

/** What the gateway reads of a request. */
const decidedOn: ReadonlySet<string> = new Set([
  ...["model", "input", "instructions", "stream", "max_output_tokens", "tools", "tool_choice", "text", "reasoning"],
  ...["previous_response_id", "conversation", "background", "store"],
]);

/** A client that does not wait would ask for its response later, and nobody could tell it which upstream has it. */
function backgroundMistake(body: Uint8Array, members: readonly JsonMember[]): Failure | null {
  const background = field(members, "background");
  if (background === undefined || valueOf(body, background) !== true) return null;
  return mistake("'background' is not supported: wait for the response, or stream it.", "unsupported_parameter", "background");
}

/** Tools that the client runs itself. All others act at the upstream. */
export const clientTools: ReadonlySet<string> = new Set([
  ...["function", "custom", "namespace", "local_shell", "shell", "apply_patch", "tool_search"],
]);

function actsUpstream(body: Uint8Array, tool: JsonSpan): boolean {
  const type = toolType(body, tool);
  return type !== null && !clientTools.has(type);
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
