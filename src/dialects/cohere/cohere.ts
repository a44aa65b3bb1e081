import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { Tool } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { PassthroughRequest } from "../../operations/passthrough/passthrough-request.ts";
import { inputUsage } from "../../operations/passthrough/passthrough-usage.ts";
import { splice, type Splice } from "../../operations/splice.ts";
import type { Dialect, EncodedRequest, ErrorResponse, ExpectedStream, StreamReader, Target, UpstreamHead } from "../dialect.ts";
import { errorBody } from "../errors/error-body.ts";
import { explain } from "../errors/explain.ts";
import { readList } from "../passthrough/list-answer.ts";
import { passthroughHead } from "../passthrough/passthrough-request-head.ts";
import { renameModel } from "../passthrough/request-splices.ts";
import { EventReader } from "../readers/event-reader.ts";
import { conversationFor } from "../target-conversation.ts";
import { CohereStream, readCohere } from "./cohere-answer.ts";
import { encodeCohere } from "./cohere-body.ts";

/** The second API of Cohere. Every chat is translated; rerankings have the form that others took from here. */
export const cohere: Dialect = {
  name: "cohere",
  chat: { encode: encodeChat, explain: explainCohere },
  rerank: { encode: encodeRerank, explain: explainCohere },
  models: {
    path: (address) => address.modelsPath,
    read: readModels,
  },
};

function encodeChat(ask: ChatRequest, target: Target): EncodedRequest | Failure {
  const conversation = conversationFor(ask, target);
  if (isFailure(conversation)) return conversation;
  const { maxOutputTokens, tools } = conversation;
  const clampedTo = target.ceiling !== null && maxOutputTokens !== null && maxOutputTokens > target.ceiling ? target.ceiling : null;
  const encoded = encodeCohere(conversation, target.model, clampedTo ?? maxOutputTokens);
  if (isFailure(encoded)) return encoded;
  const { baseUrl, chatPath, query } = target.channel.address;
  return {
    request: {
      method: "POST",
      url: baseUrl + chatPath + query,
      headers: {
        "content-type": "application/json",
        accept: ask.stream ? "text/event-stream" : "application/json",
        ...target.forwarded,
        ...target.channel.headers,
      },
      body: encoded.body,
    },
    translated: true,
    answer: ask.stream ? new StreamedCohere(tools) : { kind: "whole", read: (body) => readCohere(body, tools) },
    clampedTo,
    voice: null,
    dropped: encoded.dropped,
  };
}

function encodeRerank(ask: PassthroughRequest, target: Target): EncodedRequest {
  const splices: Splice[] = [];
  renameModel(ask, target.model, splices);
  return {
    request: { ...passthroughHead(ask, target), body: splice(ask.body, splices) },
    // It is billed by the search, and reports no tokens.
    answer: { kind: "whole", read: (body) => readList(body, "results", inputUsage) },
    clampedTo: null,
    voice: null,
  };
}

class StreamedCohere implements ExpectedStream {
  readonly kind = "stream";

  constructor(private readonly tools: readonly Tool[]) {}

  reader(): StreamReader {
    return new EventReader(new CohereStream(this.tools));
  }

  /** A valid answer that is not streamed is a failure too. */
  instead(body: Uint8Array, { status }: UpstreamHead): WholeAnswer | Failure {
    const whole = readCohere(body, this.tools);
    return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for", { status });
  }
}

/** Errors have a message and no code: two of its sentences mean more than their status. */
function explainCohere(response: ErrorResponse): Failure {
  const { message } = errorBody(response.body);
  const code =
    response.status === 429 && /(?:\bper|\/) ?month\b|monthly/i.test(message)
      ? "quota_exceeded"
      : response.status === 400 && /too many tokens/i.test(message)
        ? "context_length_exceeded"
        : null;
  return explain(code === null ? response : { ...response, body: JSON.stringify({ message, code }) });
}

function readModels(body: string): readonly string[] | null {
  try {
    const list = JSON.parse(body) as { readonly models?: unknown } | null;
    if (!Array.isArray(list?.models)) return null;
    return (list.models as readonly ({ readonly name?: unknown } | null)[]).flatMap((model) =>
      typeof model?.name === "string" && model.name !== "" ? [model.name] : [],
    );
  } catch {
    return null;
  }
}
