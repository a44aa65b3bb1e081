import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { valueOf, type JsonMember, type JsonSpan } from "../../operations/json.ts";
import { missing, wrongType } from "../../operations/mistakes.ts";
import {
  asksForStream,
  field,
  inner,
  largestInteger,
  listed,
  readDocument,
  requiredList,
  stopsExcess,
  streamMistake,
  toolsExcess,
  toolType,
} from "../../operations/request-fields.ts";
import { messagesConversation } from "./conversation.ts";
import { promptTokens } from "./prompt-tokens.ts";
import { runsAtClient } from "./tool-types.ts";

/** Reads a request to `POST /v1/messages`: the facts the gateway decides on, or the mistake that the client can fix. */
export function readMessagesRequest(body: Uint8Array): ChatRequest | Failure {
  const prompt = readPrompt(body);
  if (isFailure(prompt)) return prompt;
  const { members } = prompt;

  // Zero asks for no answer: it only fills the prompt cache.
  const maxTokens = largestInteger(body, members, "max_tokens", 0);
  if (isFailure(maxTokens)) return maxTokens;
  if (maxTokens.value === null) return missing("max_tokens");
  const wrong = streamMistake(members) ?? stopsMistake(body, field(members, "stop_sequences"));
  if (wrong !== null) return wrong;

  return requestOf(body, prompt, { maxTokens: maxTokens.value, stream: asksForStream(members) });
}

/** The facts of a request for an answer, or of one that only has its prompt. */
export function requestOf(
  body: Uint8Array,
  prompt: PromptFacts,
  { maxTokens, stream }: { readonly maxTokens: number | null; readonly stream: boolean },
): ChatRequest {
  const { members, tools } = prompt;
  const hostedTools = tools.some((tool) => actsUpstream(body, tool)) || isFilled(field(members, "mcp_servers"));
  return {
    operation: "chat",
    surface: "anthropic-messages",
    toConversation: messagesConversation,
    body,
    document: prompt.document,
    members,
    model: prompt.model,
    stream,
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
  const read = readDocument(body, decidedOn);
  if (isFailure(read)) return read;
  const { document, members, model } = read;
  const messages = requiredList(members, "messages", "message");
  if (isFailure(messages)) return messages;
  const toolList = field(members, "tools");
  if (toolList !== undefined && toolList.kind !== "array") return wrongType("tools", "an array");
  const tools = listed(body, toolList);
  const excess = toolsExcess("tools", tools);
  if (excess !== null) return excess;
  return { document, members, model, tools, tokensEstimate: promptTokens(body, members) };
}

/** What the gateway reads of a request. */
const decidedOn: ReadonlySet<string> = new Set([
  ...["model", "messages", "system", "tools", "max_tokens", "stream", "stop_sequences"],
  ...["thinking", "output_config", "output_format", "mcp_servers"],
]);

function actsUpstream(body: Uint8Array, tool: JsonSpan): boolean {
  const type = toolType(body, tool);
  return type !== null && !runsAtClient(type);
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

function stopsMistake(body: Uint8Array, stops: JsonMember | undefined): Failure | null {
  if (stops === undefined) return null;
  return stops.kind === "array" ? stopsExcess(body, stops) : wrongType("stop_sequences", "an array");
}
