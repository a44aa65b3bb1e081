import type { Conversation, SurfaceName } from "../conversation/conversation.ts";
import { failure, isFailure, type Failure } from "../failure.ts";
import { type JsonMember, type JsonSpan, valueOf } from "../json.ts";
import { wrongType } from "../mistakes.ts";
import { promptTokens } from "../prompt-tokens.ts";
import {
  asksForStream,
  asksForUsage,
  field,
  listed,
  readDocument,
  requiredList,
  stopsExcess,
  streamMistake,
  toolsExcess,
  toolType,
} from "../request-fields.ts";

/**
 * A chat request: the bytes that the client sent, and the few facts that the gateway needs. Everything else in the body is passed on
 * unread. It is immutable; each attempt encodes its own copy.
 */
export interface ChatRequest {
  readonly operation: "chat";
  /** The API that the body is written in; null: the body is not what is asked for any more, and only the conversation is. */
  readonly surface: SurfaceName | null;
  /** Reads the whole request, for an upstream that speaks another API. The request is given to it, so that none has a function of its own. */
  readonly toConversation: (request: ChatRequest) => Conversation | Failure;
  readonly body: Uint8Array;
  readonly document: { readonly start: number; readonly end: number };
  readonly members: readonly JsonMember[];
  readonly model: string;
  readonly stream: boolean;
  /** The client asked for the usage chunk. If only the gateway did, the chunk is hidden from the client. */
  readonly wantsUsage: boolean;
  /** The larger of `max_tokens` and `n_predict`. */
  readonly maxTokens: number | null;
  readonly maxCompletionTokens: number | null;
  readonly choices: number;
  /** Tools that run at the upstream (web search, code interpreters), which a retry would run again. */
  readonly hostedTools: boolean;
  /** The model is asked to reason before it answers. */
  readonly reasons: boolean;
  /** The answer is plain text: no tools, no schema, no log probabilities, no audio, one choice. */
  readonly plainText: boolean;
  /** An estimate of the tokens of the prompt, for routing and reservations. */
  readonly promptTokensEstimate: number;
}

/** Reads a chat request, or returns the mistake that the client has to fix. Unknown fields are passed on. */
export function readChatRequest(body: Uint8Array, toConversation: ChatRequest["toConversation"] = untranslatable): ChatRequest | Failure {
  const read = readDocument(body, decidedOn);
  if (isFailure(read)) return read;
  const { document, members, model } = read;
  const messages = requiredList(members, "messages", "message");
  if (isFailure(messages)) return messages;
  const toolList = field(members, "tools");
  const tools = listed(body, toolList);
  const wrong = streamMistake(members) ?? toolsExcess("tools", tools) ?? excessOf(body, members);
  if (wrong !== null) return wrong;
  const hostedTools = actUpstream(body, tools) || field(members, "web_search_options") !== undefined;
  const asked = countedIn(body, members);
  if (isFailure(asked)) return asked;
  const choices = asked.n ?? 1;
  return {
    operation: "chat",
    surface: "openai-chat",
    toConversation,
    body,
    document,
    members,
    model,
    stream: asksForStream(members),
    wantsUsage: asksForUsage(body, members),
    maxTokens: larger(asked.max_tokens, asked.n_predict),
    maxCompletionTokens: asked.max_completion_tokens,
    choices,
    hostedTools,
    reasons: asksToReason(body, members),
    plainText: choices === 1 && !hostedTools && !members.some(isShaping),
    promptTokensEstimate: promptTokens(body, [messages, toolList, field(members, "functions"), field(members, "response_format")]),
  };
}

/** Fields that make the answer something other than plain text. */
const shapedBy = new Set(["tools", "functions", "response_format", "logprobs", "modalities", "audio"]);

/** The fields that limit the tokens of an answer. `n_predict` is another name for `max_tokens` that some servers read. */
type TokenBound = "max_tokens" | "max_completion_tokens" | "n_predict";
const tokenBounds: ReadonlySet<string> = new Set<TokenBound>(["max_tokens", "max_completion_tokens", "n_predict"]);

export function isTokenBound(key: string): key is TokenBound {
  return tokenBounds.has(key);
}

/** The fields that the gateway reads. */
const decidedOn: ReadonlySet<string> = new Set([
  ...shapedBy,
  "model",
  "messages",
  "stream",
  "stream_options",
  "n",
  ...tokenBounds,
  "stop",
  "web_search_options",
]);

/** Fields that make a model reason, under the names of several providers. */
const reasonedBy = new Set(["reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget"]);

function asksToReason(body: Uint8Array, members: readonly JsonMember[]): boolean {
  for (const member of members) {
    if (!reasonedBy.has(member.key) || member.kind === "null" || member.kind === "false") continue;
    if (member.kind !== "string" || valueOf(body, member) !== "none") return true;
  }
  return false;
}

function isShaping({ key, kind }: JsonMember): boolean {
  return kind !== "null" && shapedBy.has(key);
}

/** The fields that limits and budgets are based on. */
type Counted = Record<"n" | TokenBound, number | null>;

/**
 * Reads the fields that limits and budgets are based on. Some upstreams accept a number in a string, and some use the first of two
 * fields with the same name: so anything but a number is refused, and the largest value counts.
 */
function countedIn(body: Uint8Array, members: readonly JsonMember[]): Counted | Failure {
  const counted: Counted = { n: null, max_tokens: null, max_completion_tokens: null, n_predict: null };
  for (const member of members) {
    const { key, kind } = member;
    if (!isCounted(key) || kind === "null") continue;
    if (kind !== "number") return wrongType(key, "a number");
    counted[key] = larger(counted[key], valueOf(body, member) as number);
  }
  return counted;
}

function isCounted(key: string): key is keyof Counted {
  return key === "n" || isTokenBound(key);
}

function larger(a: number | null, b: number | null): number | null {
  if (a === null) return b;
  return b === null ? a : Math.max(a, b);
}

function actUpstream(body: Uint8Array, tools: readonly JsonSpan[]): boolean {
  for (const tool of tools) if (actsUpstream(body, tool)) return true;
  return false;
}

/** Functions and custom tools run at the client; every other type of tool runs at the upstream. */
function actsUpstream(body: Uint8Array, tool: JsonSpan): boolean {
  const type = toolType(body, tool) ?? "function";
  return type !== "function" && type !== "custom";
}

function excessOf(body: Uint8Array, members: readonly JsonMember[]): Failure | null {
  for (const member of members) {
    const excess =
      member.key === "functions"
        ? toolsExcess("functions", listed(body, member))
        : member.key === "stop"
          ? stopsExcess(body, member)
          : null;
    if (excess !== null) return excess;
  }
  return null;
}

function untranslatable(): Failure {
  return failure("unsupported", "requests of this API are not translated");
}
