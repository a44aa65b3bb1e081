import type { ChatRequest } from "../../src/operations/chat/chat-request.ts";
import type { Conversation } from "../../src/operations/conversation/conversation.ts";
import type { AnswerContext, Surface } from "../../src/operations/conversation/surface.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { openaiChat } from "../../src/surfaces/openai-chat/index.ts";

/** Requests and answers of the chat API, as the tests of its surface write and read them. */
export const surface: Surface = openaiChat;

export const question = { role: "user", content: "Why?" };

/** The smallest request, with the fields that matter to a test. */
export function requestWith(fields: object): object {
  return { model: "m", messages: [question], ...fields };
}

function bytesOf(body: object | string): Uint8Array {
  return new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
}

export function askOf(body: object | string): ChatRequest {
  const ask = surface.parse(bytesOf(body));
  if (isFailure(ask)) throw new Error(ask.detail);
  return ask;
}

export function conversationOf(body: object | string): Conversation {
  const ask = askOf(body);
  const conversation = ask.toConversation(ask);
  if (isFailure(conversation)) throw new Error(`${conversation.param}: ${conversation.publicMessage}`);
  return conversation;
}

/** Why a request has no conversation. */
export function failureOf(body: object | string): Failure | null {
  const ask = askOf(body);
  const conversation = ask.toConversation(ask);
  return isFailure(conversation) ? conversation : null;
}

/** The context of an answer to a request. */
export function contextOf(request: object = {}, fields: Partial<AnswerContext> = {}): AnswerContext {
  const ask = askOf(requestWith(request));
  return { request: { ...ask, echo: surface.echo?.(ask) ?? {} }, idSeed: "seed", nowSeconds: 1_800_000_000, seal: null, ...fields };
}

export type ChatChunk = Readonly<Record<string, unknown>>;

/** The chunks of a stream, without its end mark, which has to be there. */
export function chunksOf(bytes: Uint8Array): readonly ChatChunk[] {
  const frames = framesOf(bytes);
  if (frames.at(-1) !== "[DONE]") throw new Error("the stream has no end mark");
  return frames.slice(0, -1).map((frame) => JSON.parse(frame) as ChatChunk);
}

/** The data of the events of a stream: this API has no other lines. */
export function framesOf(bytes: Uint8Array): readonly string[] {
  const text = new TextDecoder().decode(bytes);
  if (text === "") return [];
  if (!text.endsWith("\n\n")) throw new Error("the last event is not complete");
  return text
    .slice(0, -2)
    .split("\n\n")
    .map((frame) => {
      const [, data] = /^data: ([^\n]*)$/.exec(frame) ?? [];
      if (data === undefined) throw new Error(`not an event: ${frame}`);
      return data;
    });
}
