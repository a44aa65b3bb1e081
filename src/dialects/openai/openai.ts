import type { Address, Channel } from "../../channels/channel.ts";
import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { splice, type Splice } from "../../operations/splice.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import type { Dialect, UpstreamHead, EncodedRequest, ExpectedStream, StreamReader, Target, ExpectedWhole } from "../dialect.ts";
import type { Conversation, Tool } from "../../operations/conversation/conversation.ts";
import { EventReader } from "../readers/event-reader.ts";
import { explain } from "../errors/explain.ts";
import { conversationFor } from "../target-conversation.ts";
import { readAnswer } from "./answer.ts";
import { encodeChatBody } from "./chat-body.ts";
import { chatAnswer } from "./chat-parts.ts";
import { encodeResponses } from "../openai-responses/openai-responses.ts";
import { speaksResponses } from "../openai-responses/models.ts";
import { foreignReasoning } from "./foreign-reasoning.ts";
import { listedModels } from "./listed-models.ts";
import { openaiPassthrough } from "./passthrough.ts";
import { clampTokens, meterStream, renameModel } from "../passthrough/request-splices.ts";
import { openaiSpeech } from "./speech.ts";
import { OpenAiStream } from "./stream.ts";
import { openaiTranscription } from "./transcription.ts";

/** The dialect of the OpenAI API. Nothing is translated: the client's bytes are sent with a few values replaced, and answers pass unchanged. */
export const openai: Dialect = {
  name: "openai",
  chat: { encode: encodeChat, explain },
  transcription: openaiTranscription,
  speech: openaiSpeech,
  ...openaiPassthrough,
  models: {
    path: (address) => address.modelsPath,
    read: listedModels,
  },
};

function encodeChat(ask: ChatRequest, target: Target): EncodedRequest | Failure {
  if (speaksResponses(ask, target.channel, target.model)) return encodeResponses(ask, target);
  return ask.surface === "openai-chat" ? spliceChat(ask, target) : translateChat(ask, conversationFor(ask, target), target);
}

/** The request of a client that speaks another API. */
function translateChat(ask: ChatRequest, conversation: Conversation | Failure, target: Target): EncodedRequest | Failure {
  if (isFailure(conversation)) return conversation;
  const { maxOutputTokens, tools } = conversation;
  const clampedTo = target.ceiling !== null && maxOutputTokens !== null && maxOutputTokens > target.ceiling ? target.ceiling : null;
  const encoded = encodeChatBody(conversation, {
    model: target.model,
    maxOutputTokens: clampedTo ?? maxOutputTokens,
    quirks: target.channel.quirks,
    meterStream: target.meterStream,
  });
  if (isFailure(encoded)) return encoded;
  return {
    request: {
      method: "POST",
      url: chatUrl(target.channel.address, target.model),
      headers: headersOf(ask.stream ? "text/event-stream" : "application/json", target),
      body: encoded.body,
    },
    translated: true,
    answer: ask.stream ? new StreamedChat(false, 1, tools) : { kind: "whole", read: (body) => readTranslated(body, tools) },
    clampedTo,
    voice: null,
    dropped: encoded.dropped,
  };
}

function readTranslated(body: Uint8Array, tools: readonly Tool[]): WholeAnswer | Failure {
  const whole = readAnswer(body);
  if (isFailure(whole)) return whole;
  const answer = chatAnswer(body, tools);
  return isFailure(answer) ? answer : { ...whole, answer };
}

function spliceChat(ask: ChatRequest, target: Target): EncodedRequest {
  const splices = changes;
  splices.length = 0;
  renameModel(ask, target.model, splices);
  const clampedTo = clampTokens(ask, target.ceiling, splices);
  const hidesUsage = target.meterStream && meterStream(ask, splices);
  for (const cut of foreignReasoning(ask, target.channel.quirks.needsReasoning === true)) splices.push(cut);
  return {
    request: {
      method: "POST",
      url: chatUrl(target.channel.address, target.model),
      headers: headersOf(ask.stream ? "text/event-stream" : "application/json", target),
      body: splice(ask.body, splices),
    },
    translated: false,
    answer: ask.stream ? new StreamedChat(hidesUsage, ask.choices, null) : wholeAnswer,
    clampedTo,
    voice: null,
  };
}

/** One list for all requests, to avoid an allocation: encoding is synchronous, and most requests need no change. */
const changes: Splice[] = [];

const wholeAnswer: ExpectedWhole = { kind: "whole", read: readAnswer };

class StreamedChat implements ExpectedStream {
  readonly kind = "stream";

  constructor(
    readonly hidesUsage: boolean,
    readonly choices: number,
    readonly tools: readonly Tool[] | null,
  ) {}

  reader(): StreamReader {
    return new EventReader(new OpenAiStream(this));
  }

  /** A valid answer that is not streamed is a failure too. */
  instead(body: Uint8Array, { status }: UpstreamHead): WholeAnswer | Failure {
    const whole = readAnswer(body);
    return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for", { status });
  }
}

function headersOf(accept: string, { forwarded, channel }: Target): Readonly<Record<string, string>> {
  for (const _ in forwarded) return { ...usualHeaders(accept), ...forwarded, ...channel.headers };
  // Without forwarded headers they are the same for every request of a channel.
  let known = knownHeaders.get(channel);
  if (known === undefined) knownHeaders.set(channel, (known = new Map<string, Readonly<Record<string, string>>>()));
  let headers = known.get(accept);
  if (headers === undefined) known.set(accept, (headers = { ...usualHeaders(accept), ...channel.headers }));
  return headers;
}

function usualHeaders(accept: string): Readonly<Record<string, string>> {
  return { "content-type": "application/json", accept };
}

const knownHeaders = new WeakMap<Channel, Map<string, Readonly<Record<string, string>>>>();

/** Cached for each address, unless it contains the model's name. */
function chatUrl(address: Address, model: string): string {
  const known = chatUrls.get(address);
  if (known !== undefined) return known;
  const { baseUrl, chatPath, query } = address;
  if (chatPath.includes("{model}")) return baseUrl + chatPath.replace("{model}", encodeURIComponent(model)) + query;
  const url = baseUrl + chatPath + query;
  chatUrls.set(address, url);
  return url;
}

const chatUrls = new WeakMap<Address, string>();
