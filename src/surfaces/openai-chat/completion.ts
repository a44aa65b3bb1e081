import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { ChatAnswer, CitedPage, Finish } from "../../operations/conversation/answer-parts.ts";
import type { Part, ToolCallPart } from "../../operations/conversation/conversation.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import { lastMember, type JsonObject } from "../../operations/json.ts";
import { present } from "../../operations/mistakes.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { callExtra, reasoningDetails, sealedOf, type SealedThought } from "./reasoning.ts";

/** The body of a complete answer. */
export function completionBody(answer: ChatAnswer, context: AnswerContext): Uint8Array {
  const { parts, usage } = answer;
  const calls = parts.filter((part) => part.kind === "tool_call");
  const completion = {
    id: completionId(context),
    object: "chat.completion",
    created: context.nowSeconds,
    model: answer.model ?? context.request.model,
    choices: [
      {
        index: 0,
        message: messageOf(answer, calls, context),
        logprobs: null,
        finish_reason: finishReason(answer.finish, calls.length, context),
      },
    ],
    ...(usage === null ? undefined : { usage: usageObject(usage) }),
  };
  return encoder.encode(JSON.stringify(completion));
}

const encoder = new TextEncoder();

/** The pages of an answer, as this API names them. */
export function annotationsOf(sources: readonly CitedPage[]): readonly JsonObject[] {
  return sources.map(({ url, title, start, end }) => ({
    type: "url_citation",
    url_citation: { start_index: start, end_index: end, title, url },
  }));
}

function messageOf({ parts, sources }: ChatAnswer, calls: readonly ToolCallPart[], context: AnswerContext): JsonObject {
  const thought = joinedText(parts, "reasoning");
  const text = joinedText(parts, "text");
  const refusal = joinedText(parts, "refusal");
  return {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal === "" ? null : refusal,
    ...(sources === undefined ? undefined : { annotations: annotationsOf(sources) }),
    ...(thought === "" ? undefined : { reasoning_content: thought }),
    ...reasoningDetails(sealedIn(parts, context)),
    ...callsField(calls, context),
  };
}

function joinedText(parts: ChatAnswer["parts"], kind: "text" | "refusal" | "reasoning"): string {
  return parts.map((part) => (part.kind === kind ? part.text : "")).join("");
}

/** Without the signatures of calls, which have a place of their own. */
function sealedIn(parts: ChatAnswer["parts"], context: AnswerContext): readonly SealedThought[] {
  const sealed: SealedThought[] = [];
  let characters = 0;
  let calls = 0;
  for (const part of parts) {
    if (part.kind === "text") characters += part.text.length;
    if (part.kind === "tool_call") calls++;
    const data = isSigned(part) ? sealedOf(part, context) : "";
    if (data !== "") sealed.push({ data, characters, calls });
  }
  return sealed;
}

function isSigned(part: Part): boolean {
  return (part.kind === "reasoning" && part.signature !== null) || (part.kind === "text" && part.signature !== undefined);
}

function callsField(calls: readonly ToolCallPart[], context: AnswerContext): JsonObject | undefined {
  const [first] = calls;
  if (first === undefined) return undefined;
  if (context.request.echo["functions"] === true) return { function_call: { name: first.name, arguments: argumentsOf(first) } };
  return {
    tool_calls: calls.map((call, index) => ({
      ...callHead(call, index, context),
      ...(call.custom === true
        ? { custom: { name: call.name, input: call.arguments } }
        : { function: { name: call.name, arguments: argumentsOf(call) } }),
    })),
  };
}

/** Clients parse them, and an empty text is no JSON. */
function argumentsOf({ arguments: text }: ToolCallPart): string {
  return text.trim() === "" ? "{}" : text;
}

/** What a call begins with. An upstream may have given it no id, and the client needs one to answer to. */
export function callHead(call: Omit<ToolCallPart, "arguments" | "kind">, index: number, context: AnswerContext): JsonObject {
  const id = call.id === "" ? `call_${context.idSeed}_${index}` : call.id;
  const { name, signature } = call;
  const sealed = signature === undefined ? "" : sealedOf({ kind: "tool_call", id, name, arguments: "", signature }, context);
  return { id, type: call.custom === true ? "custom" : "function", ...(sealed === "" ? undefined : callExtra(sealed)) };
}

export function completionId({ idSeed }: AnswerContext): string {
  return `chatcmpl-${idSeed}`;
}

/** Clients run tools when the reason says so: an answer with calls that was complete ends for their sake, and one without does not. */
export function finishReason({ reason }: Finish, calls: number, { request }: AnswerContext): string {
  if (reason === "length" || reason === "content_filter") return reason;
  if (calls === 0) return "stop";
  return request.echo["functions"] === true ? "function_call" : "tool_calls";
}

/** Parts are included in their wholes. A figure that the upstream did not report is zero where clients require one. */
export function usageObject(usage: MeteredUsage): JsonObject {
  const prompt = usage.promptTokens ?? 0;
  const completion = usage.completionTokens ?? 0;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: usage.cachedTokens ?? 0,
      audio_tokens: usage.audioInputTokens ?? 0,
      ...(usage.cacheWriteTokens === undefined ? undefined : { cache_write_tokens: usage.cacheWriteTokens }),
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens ?? 0,
      audio_tokens: usage.audioOutputTokens ?? 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

/** What the answer has to know of its request: whether a stream ends with its usage, and in which field calls are looked for. */
export function echoOf({ members, wantsUsage }: ChatRequest): Readonly<Record<string, unknown>> {
  const has = (key: string): boolean => present(lastMember(members, key)) !== undefined;
  return { usage: wantsUsage, functions: has("functions") && !has("tools") };
}
