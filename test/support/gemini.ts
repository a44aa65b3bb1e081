import { gemini } from "../../src/dialects/gemini/gemini.ts";
import { encodeGeminiBody } from "../../src/dialects/gemini/request-body.ts";
import type { EncodedRequest, StreamReader } from "../../src/dialects/dialect.ts";
import type { ChatRequest } from "../../src/operations/chat/chat-request.ts";
import type { StreamPart } from "../../src/operations/conversation/answer-parts.ts";
import type { Conversation, Part, Tool } from "../../src/operations/conversation/conversation.ts";
import type { Emission, WholeAnswer } from "../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { scanJson } from "../../src/operations/json.ts";
import { emptyConversation } from "./conversations.ts";
import { channel } from "./plan-world.ts";

/** Conversations and answers of `generateContent`, as the tests of its dialect write and read them. */
export const newest = "gemini-9-flash";

export interface EncodedBody {
  readonly body: Record<string, unknown>;
  readonly dropped: readonly string[];
}

export function encodedFor(change: Partial<Conversation>, model = newest): EncodedBody | Failure {
  const result = encodeGeminiBody(
    { ...emptyConversation, ...change },
    { model, maxOutputTokens: change.maxOutputTokens ?? null, hasTiers: true },
  );
  if (isFailure(result)) return result;
  return { body: JSON.parse(new TextDecoder().decode(result.body)) as Record<string, unknown>, dropped: result.dropped };
}

export function bodyFor(change: Partial<Conversation>, model = newest): Record<string, unknown> {
  const result = encodedFor(change, model);
  if (isFailure(result)) throw new Error(result.detail);
  return result.body;
}

export function text(value: string): Part {
  return { kind: "text", text: value };
}

/** A request as the gateway hands it to the dialect: in another API, or in the dialect's own where `body` is given. */
export function askFor(fields: Partial<ChatRequest>, conversation: Partial<Conversation> = {}, body: object | null = null): ChatRequest {
  const bytes = new TextEncoder().encode(JSON.stringify(body ?? {}));
  const document = scanJson(bytes);
  if (!document.ok) throw new Error(document.message);
  return {
    operation: "chat",
    surface: body === null ? "openai-chat" : "gemini",
    toConversation: () => ({ ...emptyConversation, turns: [{ role: "user", parts: [text("hi")] }], ...conversation }),
    body: bytes,
    document,
    members: document.members,
    model: "m",
    stream: false,
    wantsUsage: true,
    maxTokens: null,
    maxCompletionTokens: null,
    choices: 1,
    hostedTools: false,
    reasons: false,
    plainText: true,
    promptTokensEstimate: 1,
    ...fields,
  };
}

export function encodedRequest(ask: ChatRequest, model = newest, ceiling: number | null = null): EncodedRequest {
  const target = { channel: channel("a"), model, ceiling, meterStream: true, forwarded: {} };
  const encoded = gemini.chat?.encode(ask, target);
  if (encoded === undefined || isFailure(encoded)) throw new Error(encoded?.detail ?? "no chat");
  return encoded;
}

export function readerFor(tools: readonly Tool[] | null, choices = 1): StreamReader {
  const ask = tools === null ? askFor({ stream: true, choices }, {}, { contents: [] }) : askFor({ stream: true }, { tools });
  const { answer } = encodedRequest(ask);
  if (answer.kind !== "stream") throw new Error("a stream was asked for");
  const reader = answer.reader({ status: 200, header: () => null }, { transcoder: () => Promise.resolve(null) });
  if (reader instanceof Promise || isFailure(reader)) throw new Error("a chat stream needs no tools");
  return reader;
}

export function wholeFor(body: unknown, tools: readonly Tool[] | null = []): WholeAnswer | Failure {
  const { answer } = encodedRequest(tools === null ? askFor({}, {}, { contents: [] }) : askFor({}, { tools }));
  if (answer.kind !== "whole") throw new Error("no stream was asked for");
  const bytes = body instanceof Uint8Array ? body : new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
  return answer.read(bytes, { status: 200, header: () => null });
}

export interface PlayedStream {
  readonly emissions: readonly Emission[];
  readonly parts: readonly StreamPart[];
  readonly failure: Failure | null;
}

/** What is made of a body that arrives in these pieces. */
export function play(pieces: readonly Uint8Array[], tools: readonly Tool[] | null = [], choices = 1): PlayedStream {
  const reader = readerFor(tools, choices);
  const emissions: Emission[] = [];
  let broken: Failure | null = null;
  for (const piece of [...pieces.filter(({ length }) => length > 0), null]) {
    const read = piece === null ? reader.close() : reader.push(piece);
    if (read instanceof Promise) throw new Error("a chat stream is read at once");
    if (isFailure(read)) broken = read;
    else emissions.push(...read);
    broken ??= reader.pending;
    if (broken !== null) break;
  }
  const parts = emissions.flatMap((emission) => ("parts" in emission ? (emission.parts ?? []) : []));
  return { emissions, parts, failure: broken };
}

/** The events of a stream, as the API sends them: with CRLF, and nothing but data. */
export function eventsFor(...responses: readonly (object | string)[]): Uint8Array {
  const lines = responses.map((one) => `data: ${typeof one === "string" ? one : JSON.stringify(one)}\r\n\r\n`);
  return new TextEncoder().encode(lines.join(""));
}

/** One response of the API with these parts. */
export function response(parts: readonly object[], fields: object = {}, others: object = {}): object {
  return {
    candidates: [{ content: { parts, role: "model" }, index: 0, ...fields }],
    modelVersion: "gemini-9-flash-001",
    responseId: "r1",
    ...others,
  };
}
