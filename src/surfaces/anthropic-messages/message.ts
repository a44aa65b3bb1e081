import type { Finish } from "../../operations/conversation/answer-parts.ts";
import type { Part, ProviderValue } from "../../operations/conversation/conversation.ts";
import type { AnswerContext } from "../../operations/conversation/surface.ts";
import { scanJson, type JsonLimits } from "../../operations/json.ts";
import type { MeteredUsage } from "../../operations/usage.ts";
import { ownDialect } from "./content.ts";

/** What a whole answer and a stream say in the same words. Clients require every field of a message, also where it has nothing to say. */
export interface MessageFields {
  readonly id: string;
  readonly model: string;
  /** The content as JSON, without its brackets. */
  readonly content: string;
  readonly stop: StopFields | null;
  readonly usage: MessageUsage;
}

export function messageJson({ id, model, content, stop, usage }: MessageFields): string {
  const { stop_reason, stop_sequence, stop_details } = stop ?? notStopped;
  const head = JSON.stringify({ id, type: "message", role: "assistant", model });
  const tail = JSON.stringify({ stop_reason, stop_sequence, stop_details, container: null, diagnostics: null, usage });
  return `${head.slice(0, -1)},"content":[${content}],${tail.slice(1)}`;
}

export function messageId(context: AnswerContext): string {
  return `msg_${context.idSeed}`;
}

export interface MessageUsage {
  readonly input_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
  readonly output_tokens: number;
  readonly cache_creation: { readonly ephemeral_5m_input_tokens: number; readonly ephemeral_1h_input_tokens: number } | null;
  readonly output_tokens_details: { readonly thinking_tokens: number } | null;
  readonly server_tool_use: null;
  readonly service_tier: null;
  readonly inference_geo: null;
  readonly speed: null;
}

/** Here the tokens that went through a cache are not part of the input. Where the upstream did not count, our estimates are all there is. */
export function messageUsage(usage: MeteredUsage | null, inputEstimate: number, outputEstimate: number): MessageUsage {
  const written = usage?.cacheWriteTokens ?? 0;
  const hour = usage?.cacheWriteHourTokens ?? null;
  const read = usage?.cachedTokens ?? 0;
  const prompt = usage?.promptTokens ?? null;
  const thought = usage?.reasoningTokens ?? null;
  return {
    input_tokens: prompt === null ? inputEstimate : Math.max(0, prompt - read - written),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    output_tokens: usage?.completionTokens ?? outputEstimate,
    cache_creation:
      hour === null ? null : { ephemeral_5m_input_tokens: Math.max(0, written - hour), ephemeral_1h_input_tokens: Math.min(hour, written) },
    output_tokens_details: thought === null ? null : { thinking_tokens: thought },
    server_tool_use: null,
    service_tier: null,
    inference_geo: null,
    speed: null,
  };
}

/** Of an answer that nobody counted, by its characters. */
export function outputTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

export interface StopFields {
  readonly stop_reason: "end_turn" | "max_tokens" | "stop_sequence" | "tool_use" | "refusal";
  readonly stop_sequence: string | null;
  readonly stop_details: { readonly type: "refusal"; readonly category: null; readonly explanation: string | null } | null;
}

const notStopped = { stop_reason: null, stop_sequence: null, stop_details: null };

/**
 * Why an answer ended. Clients run tools when the reason says so: an answer with calls that was complete ends for their sake, whatever the
 * upstream calls it, and one without does not.
 */
export function stopOf({ reason, stopSequence }: Finish, hasCalls: boolean, refusal: string | null): StopFields {
  if (reason === "content_filter" || refusal !== null) {
    return { stop_reason: "refusal", stop_sequence: null, stop_details: { type: "refusal", category: null, explanation: refusal } };
  }
  const plain = { stop_sequence: null, stop_details: null };
  if (reason === "length") return { ...plain, stop_reason: "max_tokens" };
  if (hasCalls) return { ...plain, stop_reason: "tool_use" };
  if (stopSequence !== null) return { ...plain, stop_reason: "stop_sequence", stop_sequence: stopSequence };
  return { ...plain, stop_reason: "end_turn" };
}

/**
 * What goes to the client for a value that only its provider understands: the value itself if it is of this API or of ours, else sealed.
 * Empty where it cannot be carried: a signature is never made up.
 */
export function signatureText(value: ProviderValue | null, part: Part, { seal }: AnswerContext): string {
  if (value === null) return "";
  if (value.dialect === ownDialect || value.dialect === "sluice") return value.data;
  return seal === null ? "" : seal(part);
}

export function redactedBlock(data: string): string {
  return JSON.stringify({ type: "redacted_thinking", data });
}

export function textBlock(text: string, citations: readonly unknown[] | null): string {
  return JSON.stringify({ type: "text", text, citations });
}

export function thinkingBlock(thinking: string, signature: string): string {
  return JSON.stringify({ type: "thinking", thinking, signature });
}

/** `input` is JSON. */
export function toolUseBlock(id: string, name: string, input: string): string {
  const head = JSON.stringify({ type: "tool_use", id, name });
  return `${head.slice(0, -1)},"input":${input},"caller":{"type":"direct"}}`;
}

/** An id for a call of an upstream that gave it none. */
export function callId(id: string, index: number, context: AnswerContext): string {
  return id === "" ? `toolu_${context.idSeed}_${index}` : id;
}

/** The arguments of a call as the JSON object that an input is here. What is none is kept as a text in one. */
export function inputJson(text: string): string {
  const json = text.trim();
  if (json === "" || json === "null") return "{}";
  const scanned = scanJson(encoder.encode(json), inputLimits);
  return scanned.ok && scanned.kind === "object" ? json : JSON.stringify({ _raw: text });
}

/** Of a tool that takes free text. */
export function freeInputJson(text: string): string {
  return JSON.stringify({ input: text });
}

/** Clients parse an input recursively; how much an upstream may write is bounded elsewhere. */
const inputLimits: JsonLimits = { depthMax: 512, membersMax: Infinity, tokensMax: Infinity };
const encoder = new TextEncoder();

/** The citations of a text; null where they are of another API, which has another shape for them. */
export function citationsOf(value: ProviderValue | undefined): readonly unknown[] | null {
  if (value?.dialect !== ownDialect) return null;
  try {
    const parsed = JSON.parse(value.data) as unknown;
    return Array.isArray(parsed) ? (parsed as readonly unknown[]) : [parsed];
  } catch {
    return null;
  }
}
