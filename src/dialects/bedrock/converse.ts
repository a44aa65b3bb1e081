import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { Tool } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { countIn, countRequest, fieldsOf } from "../counted-tokens.ts";
import type { Dialect, EncodedRequest, ExpectedStream, StreamReader, Target, UpstreamHead, UpstreamRequest } from "../dialect.ts";
import { conversationFor } from "../target-conversation.ts";
import { explainAws } from "./bedrock-errors.ts";
import { readConverse } from "./converse-answer.ts";
import { converseDialect, encodeConverse } from "./converse-body.ts";
import { ConverseStream } from "./converse-stream.ts";
import { EventStreamReader } from "./event-stream-reader.ts";

/** The Converse API of Amazon Bedrock: one API for the models of many makers. Every request is translated. */
export const bedrockConverse: Dialect = {
  name: converseDialect,
  chat: { encode: encodeChat, explain: explainAws },
  tokenCount: {
    request: countRequestOf,
    read: (body) => countIn(body, "inputTokens"),
  },
};

/** Few models count, and the answer of the others is an error (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html). */
function countRequestOf(chat: UpstreamRequest): UpstreamRequest | null {
  const fields = fieldsOf(chat);
  if (fields === null) return null;
  const prompt = Object.fromEntries(Object.entries(fields).filter(([name]) => countedFields.has(name)));
  return countRequest(chat, chat.url.replace(/\/converse(?=\?|$)/, "/count-tokens"), { input: { converse: prompt } });
}

const countedFields: ReadonlySet<string> = new Set(["messages", "system", "toolConfig", "additionalModelRequestFields"]);

function encodeChat(ask: ChatRequest, target: Target): EncodedRequest | Failure {
  const conversation = conversationFor(ask, target);
  if (isFailure(conversation)) return conversation;
  const { maxOutputTokens, tools } = conversation;
  const clampedTo = target.ceiling !== null && maxOutputTokens !== null && maxOutputTokens > target.ceiling ? target.ceiling : null;
  const encoded = encodeConverse(conversation, {
    model: target.model,
    maxOutputTokens: clampedTo ?? maxOutputTokens,
    ceiling: target.ceiling,
  });
  if (isFailure(encoded)) return encoded;
  const { baseUrl, chatPath, query } = target.channel.address;
  const path = chatPath.replace("{model}", encodeURIComponent(target.model));
  return {
    request: {
      method: "POST",
      url: `${baseUrl}${path}/${ask.stream ? "converse-stream" : "converse"}${query}`,
      headers: {
        "content-type": "application/json",
        accept: ask.stream ? "application/vnd.amazon.eventstream" : "application/json",
        ...target.forwarded,
        ...target.channel.headers,
      },
      body: encoded.body,
    },
    translated: true,
    answer: ask.stream ? new StreamedConverse(tools) : { kind: "whole", read: (body) => readConverse(body, tools) },
    clampedTo,
    voice: null,
    dropped: encoded.dropped,
  };
}

class StreamedConverse implements ExpectedStream {
  readonly kind = "stream";

  constructor(private readonly tools: readonly Tool[]) {}

  reader(): StreamReader {
    return new EventStreamReader(new ConverseStream(this.tools));
  }

  /** A valid answer that is not streamed is a failure too. */
  instead(body: Uint8Array, { status }: UpstreamHead): WholeAnswer | Failure {
    const whole = readConverse(body, this.tools);
    return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for", { status });
  }
}
