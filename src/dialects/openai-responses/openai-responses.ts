import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { searchesWeb } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Codec, Dialect, EncodedRequest, ExpectedAnswer, Target, UpstreamHead, UpstreamRequest } from "../dialect.ts";
import { explain } from "../errors/explain.ts";
import { EventReader } from "../readers/event-reader.ts";
import { conversationFor, openerFor } from "../target-conversation.ts";
import { listedModels } from "../openai/listed-models.ts";
import { readResponse } from "./answer.ts";
import { DeclaredTools } from "./items.ts";
import { spliceResponsesBody } from "./native-body.ts";
import { encodeResponsesBody } from "./responses-body.ts";
import { ResponsesStream } from "./stream.ts";

/**
 * The Responses API. The client's bytes are sent with a few values replaced where it speaks this API itself; what others say is written
 * anew. Upstreams that have chat completions as well are asked through the codec here for the models that need it.
 */
export const openaiResponses: Dialect = {
  name: "openai-responses",
  chat: responsesCodec(),
  models: { path: (address) => address.modelsPath, read: listedModels },
};

export function responsesCodec(): Codec<ChatRequest> {
  return { encode: encodeResponses, explain };
}

export function encodeResponses(ask: ChatRequest, target: Target): EncodedRequest | Failure {
  return ask.surface === "openai-responses" ? spliced(ask, target) : translated(ask, target);
}

function spliced(ask: ChatRequest, target: Target): EncodedRequest {
  const { model, ceiling } = target;
  const { body, clampedTo } = spliceResponsesBody(ask, { model, ceiling, unseal: openerFor(target) });
  return {
    request: requestOf(ask, target, body),
    translated: false,
    answer: answerOf(ask, null),
    clampedTo,
    voice: null,
  };
}

function translated(ask: ChatRequest, target: Target): EncodedRequest | Failure {
  const conversation = conversationFor(ask, target);
  if (isFailure(conversation)) return conversation;
  const { model, ceiling } = target;
  const { maxOutputTokens, tools } = conversation;
  const clampedTo = ceiling !== null && maxOutputTokens !== null && maxOutputTokens > ceiling ? ceiling : null;
  const encoded = encodeResponsesBody(conversation, { model, maxOutputTokens: clampedTo ?? maxOutputTokens });
  if (isFailure(encoded)) return encoded;
  return {
    request: requestOf(ask, target, encoded.body),
    translated: true,
    hostedTools: searchesWeb(conversation, encoded.dropped),
    answer: answerOf(ask, new DeclaredTools(tools)),
    clampedTo,
    voice: null,
    dropped: encoded.dropped,
  };
}

function requestOf(ask: ChatRequest, { channel, forwarded, model }: Target, body: Uint8Array): UpstreamRequest {
  const { baseUrl, responsesPath, query } = channel.address;
  const accept = ask.stream ? "text/event-stream" : "application/json";
  return {
    method: "POST",
    url: baseUrl + responsesPath.replace("{model}", encodeURIComponent(model)) + query,
    headers: { "content-type": "application/json", accept, ...forwarded, ...channel.headers },
    body,
  };
}

function answerOf({ stream }: ChatRequest, tools: DeclaredTools | null): ExpectedAnswer {
  if (!stream) return { kind: "whole", read: (body) => readResponse(body, tools) };
  return { kind: "stream", reader: () => new EventReader(new ResponsesStream(tools)), instead };
}

/** A valid response that is not streamed is a failure too. */
function instead(body: Uint8Array, { status }: UpstreamHead): WholeAnswer | Failure {
  const whole = readResponse(body, null);
  return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for", { status });
}
