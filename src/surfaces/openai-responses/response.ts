import type { ChatAnswer, CitedPage, Finish } from "../../operations/conversation/answer-parts.ts";
import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { Part } from "../../operations/conversation/conversation.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import { isJsonObject, lastMember, valueOf, type JsonObject } from "../../operations/json.ts";
import type { MeteredUsage } from "../../operations/usage.ts";

/** An item of the output. */
export type Item = Readonly<Record<string, unknown>>;

/** `incomplete`: the item that was being written when the answer was cut off. */
export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** Whose encrypted reasoning comes back through this API, unless it is the gateway's own. */
export const ownDialect = "openai-responses";

/** The reasoning items that the gateway wrote. */
export const ownReasoningId = /^rs_sluice_/;

/** The body of a complete answer. */
export function responseBody(answer: ChatAnswer, context: AnswerContext): Uint8Array {
  const output: Item[] = [];
  let characters = 0;
  const cut = incompleteReason(answer.finish) === null ? null : answer.parts.at(-1);
  for (const part of answer.parts) {
    const length = part.kind === "text" ? part.text.length : 0;
    const status = part === cut ? "incomplete" : "completed";
    addItems(part, output, context, status, annotationsOf(answer.sources ?? [], characters, length));
    characters += length;
  }
  const { model, finish, usage } = answer;
  const stored = keepOutput(context, output);
  return encoder.encode(JSON.stringify(responseObject(context, { model, output, finish, usage, status: null, stored })));
}

/** Whether the client may refer to the items of its response. */
export function keepOutput({ keep }: AnswerContext, output: readonly Item[]): boolean {
  if (keep === undefined) return false;
  return keep(output.flatMap((item) => (typeof item["id"] === "string" ? [{ id: item["id"], json: JSON.stringify(item) }] : [])));
}

const encoder = new TextEncoder();

function addItems(part: Part, output: Item[], context: AnswerContext, status: ItemStatus, annotations: readonly Item[]): void {
  switch (part.kind) {
    case "text":
      if (part.text !== "") output.push(messageItem(context, output.length, status, [textContent(part.text, annotations)]));
      if (part.signature !== undefined) output.push(...carrierItem(context, output.length, part));
      return;
    case "refusal":
      output.push(messageItem(context, output.length, status, [{ type: "refusal", refusal: part.text }]));
      return;
    case "reasoning":
      if (part.text === "") output.push(...carrierItem(context, output.length, part));
      else output.push(reasoningItem(context, output.length, part.text, sealedOf(part, context)));
      return;
    case "tool_call": {
      const call = { ...part, id: callIdOf(part.id, context, output.length) };
      if (part.signature !== undefined) output.push(...carrierItem(context, output.length, call));
      output.push(callItem(context, output.length, call, status));
      break;
    }
    // A model that is asked for text makes nothing else.
    default:
  }
}

/** Reasoning that is not shown. A signature on a text or a call has no place of its own here, and is carried like that beside them. */
export function carrierItem(context: AnswerContext, index: number, part: Part): readonly Item[] {
  const sealed = sealedOf(part, context);
  return sealed === null ? [] : [reasoningItem(context, index, "", sealed)];
}

/** An id for a call of an upstream that gave it none. */
export function callIdOf(id: string, context: AnswerContext, index: number): string {
  return id === "" ? itemId("call", context, index) : id;
}

export function messageItem(context: AnswerContext, index: number, status: ItemStatus, content: readonly unknown[]): Item {
  return { id: itemId("msg", context, index), type: "message", status, role: "assistant", content };
}

export function textContent(text: string, annotations: readonly Item[] = []): Item {
  return { type: "output_text", text, annotations, logprobs: [] };
}

/** The pages that one text of an answer is made of. `before`: how many characters of other texts stand before it. */
export function annotationsOf(sources: readonly CitedPage[], before: number, length: number): readonly Item[] {
  return sources
    .filter(({ start, end }) => start >= before && end <= before + length)
    .map(({ url, title, start, end }) => ({ type: "url_citation", start_index: start - before, end_index: end - before, url, title }));
}

export function reasoningItem(context: AnswerContext, index: number, text: string, sealed: string | null): Item {
  return {
    id: itemId("rs_sluice", context, index),
    type: "reasoning",
    summary: text === "" ? [] : [{ type: "summary_text", text }],
    ...(sealed === null ? undefined : { encrypted_content: sealed }),
  };
}

/** A call of a function, of a custom tool, or of the client's search for more tools. */
export interface ItemCall {
  readonly id: string;
  readonly name: string;
  readonly namespace?: string;
  readonly custom?: boolean;
  readonly search?: true;
  readonly arguments: string;
}

export function callItem(context: AnswerContext, index: number, call: ItemCall, status: ItemStatus): Item {
  const { id: callId, name, namespace, custom, search, arguments: text } = call;
  if (search === true) {
    const item = { id: itemId("tsc", context, index), type: "tool_search_call", status, execution: "client" };
    return { ...item, call_id: callId, arguments: searchArguments(text) };
  }
  const named = { call_id: callId, name, ...(namespace === undefined ? undefined : { namespace }) };
  return custom === true
    ? { id: itemId("ctc", context, index), type: "custom_tool_call", status, ...named, input: text }
    : { id: itemId("fc", context, index), type: "function_call", status, ...named, arguments: text };
}

/** They are an object here, not a text. What cannot be read is left to the client to refuse. */
function searchArguments(text: string): unknown {
  if (text === "") return {};
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export function itemId(prefix: string, { idSeed }: AnswerContext, index: number): string {
  return `${prefix}_${idSeed}${index.toString(16).padStart(4, "0")}`;
}

/** What only its provider understands, for the client to send back; null where there is nothing, or no way to seal it. */
export function sealedOf(part: Part, { seal }: AnswerContext): string | null {
  if (part.kind === "reasoning" && part.signature?.dialect === ownDialect) return part.signature.data;
  const sealed = seal?.(part) ?? "";
  return sealed === "" ? null : sealed;
}

export interface ResponseFacts {
  /** The model that served; null: the one that was asked for. */
  readonly model: string | null;
  readonly output: readonly Item[];
  /** Null while the answer is being made. */
  readonly finish: Finish | null;
  readonly usage: MeteredUsage | null;
  /** Null: what the finish says. */
  readonly status: "in_progress" | null;
  /** The items are kept, so that the client can refer to them. */
  readonly stored: boolean;
}

/** The fields of a request that its response repeats. */
export function echoOf({ body, members }: ChatRequest): Readonly<Record<string, unknown>> {
  const echo: Record<string, unknown> = {};
  for (const key of echoed) {
    const member = lastMember(members, key);
    if (member !== undefined) echo[key] = valueOf(body, member);
  }
  return echo;
}

const echoed = [
  ...["instructions", "max_tool_calls", "parallel_tool_calls", "presence_penalty", "frequency_penalty", "prompt_cache_key", "reasoning"],
  ...["safety_identifier", "service_tier", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"],
  "metadata",
] as const;

export function responseId({ idSeed }: AnswerContext): string {
  return `resp_${idSeed}`;
}

/** Why an answer is not complete; null: it is. */
export function incompleteReason(finish: Finish | null): "max_output_tokens" | "content_filter" | null {
  if (finish?.reason === "length") return "max_output_tokens";
  return finish?.reason === "content_filter" ? "content_filter" : null;
}

/** The API requires every one of these keys, whatever was asked for. */
export function responseObject(context: AnswerContext, facts: ResponseFacts): Item {
  const { request, nowSeconds } = context;
  const asked = (key: string): unknown => request.echo[key] ?? null;
  const incomplete = incompleteReason(facts.finish);
  const status = facts.status ?? (incomplete === null ? "completed" : "incomplete");
  return {
    id: responseId(context),
    object: "response",
    created_at: nowSeconds,
    completed_at: status === "completed" ? nowSeconds : null,
    status,
    background: false,
    access_programs: null,
    error: null,
    incomplete_details: incomplete === null ? null : { reason: incomplete },
    instructions: asked("instructions"),
    max_output_tokens: request.maxCompletionTokens,
    max_tool_calls: asked("max_tool_calls"),
    model: facts.model ?? request.model,
    output: facts.output,
    parallel_tool_calls: asked("parallel_tool_calls") ?? true,
    previous_response_id: null,
    presence_penalty: asked("presence_penalty") ?? 0,
    frequency_penalty: asked("frequency_penalty") ?? 0,
    prompt_cache_key: asked("prompt_cache_key"),
    reasoning: reasoningOf(asked("reasoning")),
    safety_identifier: asked("safety_identifier"),
    service_tier: asked("service_tier") ?? "default",
    store: facts.stored,
    temperature: asked("temperature") ?? 1,
    text: { format: { type: "text" }, ...objectOf(asked("text")) },
    tool_choice: asked("tool_choice") ?? "auto",
    tools: asked("tools") ?? [],
    top_logprobs: asked("top_logprobs") ?? 0,
    top_p: asked("top_p") ?? 1,
    truncation: asked("truncation") ?? "disabled",
    usage: facts.usage === null ? null : responseUsage(facts.usage),
    user: asked("user"),
    metadata: asked("metadata") ?? {},
  };
}

function reasoningOf(reasoning: unknown): JsonObject {
  return { effort: null, summary: null, ...objectOf(reasoning) };
}

function objectOf(value: unknown): JsonObject | undefined {
  return isJsonObject(value) ? value : undefined;
}

/** Every figure is required: one that the upstream did not report is zero. */
export function responseUsage(usage: MeteredUsage): Item {
  const input = usage.promptTokens ?? 0;
  const output = usage.completionTokens ?? 0;
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cachedTokens ?? 0,
      cache_write_tokens: usage.cacheWriteTokens ?? 0,
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
    total_tokens: input + output,
  };
}
