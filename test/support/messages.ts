import type { ChatRequest } from "../../src/operations/chat/chat-request.ts";
import type { Conversation } from "../../src/operations/conversation/conversation.ts";
import type { AnswerContext, Surface } from "../../src/operations/conversation/surface.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import { anthropicMessages } from "../../src/surfaces/anthropic-messages/index.ts";

/** Requests and answers of the Messages API, as the tests of its surface write and read them. */
export const surface: Surface = anthropicMessages;

export function bytesOf(body: object | string): Uint8Array {
  return new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
}

export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

export const question = { role: "user", content: "Why?" };

/** The smallest request, with the fields that matter to a test. */
export function requestWith(fields: object): object {
  return { model: "m", max_tokens: 100, messages: [question], ...fields };
}

export function askOf(body: object | string): ChatRequest {
  const ask = surface.parse(bytesOf(body));
  if (isFailure(ask)) throw new Error(ask.detail);
  return ask;
}

export function conversationOf(body: object | string): Conversation {
  const ask = askOf(body);
  const conversation = ask.toConversation(ask);
  if (isFailure(conversation)) throw new Error(conversation.detail);
  return conversation;
}

/** What is wrong with a request, as the facts or as a conversation. */
export function mistakeOf(body: object | string): Failure | null {
  const ask = surface.parse(bytesOf(body));
  if (isFailure(ask)) return ask;
  const conversation = ask.toConversation(ask);
  return isFailure(conversation) ? conversation : null;
}

export function contextOf(fields: Partial<AnswerContext> = {}): AnswerContext {
  return {
    request: { ...askOf(requestWith({ stream: true })), echo: {} },
    idSeed: "seed",
    nowSeconds: 1_800_000_000,
    seal: null,
    ...fields,
  };
}

export interface MessageEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The events of a stream; the name of each must be its type. */
export function eventsOf(bytes: Uint8Array): readonly MessageEvent[] {
  const text = textOf(bytes);
  if (text === "") return [];
  if (!text.endsWith("\n\n")) throw new Error("the last event is not complete");
  return text
    .slice(0, -2)
    .split("\n\n")
    .map((frame) => {
      const [, name, data] = /^event: (\w+)\ndata: ([^\n]*)$/.exec(frame) ?? [];
      if (data === undefined) throw new Error(`not an event: ${frame}`);
      const event = JSON.parse(data) as MessageEvent;
      if (event.type !== name) throw new Error(`${name} has the type ${event.type}`);
      return event;
    });
}

export function joinedBytes(pieces: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(pieces));
}
