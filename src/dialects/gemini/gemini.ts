import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { searchesWeb, type Conversation, type Tool } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { Dialect, EncodedRequest, ExpectedStream, ExpectedWhole, StreamReader, Target, UpstreamHead } from "../dialect.ts";
import { explain } from "../errors/explain.ts";
import { EventReader } from "../readers/event-reader.ts";
import { conversationFor } from "../target-conversation.ts";
import { readGeminiAnswer } from "./answer.ts";
import { spliceGenerate } from "./native-body.ts";
import { generateRequest } from "./generate-request.ts";
import { encodeGeminiBody } from "./request-body.ts";
import { dialectName } from "./response-parts.ts";
import { geminiModels } from "./listed-models.ts";
import { geminiSpeech } from "./speech.ts";
import { GeminiStream } from "./stream.ts";
import { generateTokenCount, isInCloud } from "./token-count.ts";
import { geminiTranscription } from "./transcription.ts";

/** The dialect of `generateContent`. The model stands in the path, and so does whether the answer is streamed. */
export const gemini: Dialect = {
  name: dialectName,
  chat: { encode: encodeChat, explain },
  tokenCount: generateTokenCount,
  speech: geminiSpeech,
  transcription: geminiTranscription,
  models: geminiModels,
};

function encodeChat(ask: ChatRequest, target: Target): EncodedRequest | Failure {
  if (ask.surface === dialectName) return spliceChat(ask, target);
  const conversation = conversationFor(ask, target);
  return isFailure(conversation) ? conversation : translateChat(ask, conversation, target);
}

/** The request of a client that speaks another API. */
function translateChat(ask: ChatRequest, conversation: Conversation, target: Target): EncodedRequest | Failure {
  if (ask.choices > 1) return oneChoice;
  const { maxOutputTokens, tools } = conversation;
  const clampedTo = target.ceiling !== null && maxOutputTokens !== null && maxOutputTokens > target.ceiling ? target.ceiling : null;
  const encoded = encodeGeminiBody(conversation, {
    model: target.model,
    maxOutputTokens: clampedTo ?? maxOutputTokens,
    hasTiers: !isInCloud(target.channel.address),
  });
  if (isFailure(encoded)) return encoded;
  return {
    request: generateRequest(encoded.body, ask.stream, target),
    answer: ask.stream ? new StreamedGenerate(1, tools) : { kind: "whole", read: (body) => readGeminiAnswer(body, tools) },
    clampedTo,
    voice: null,
    dropped: encoded.dropped,
    translated: true,
    hostedTools: searchesWeb(conversation, encoded.dropped),
  };
}

const oneChoice = failure("unsupported", "a translated answer is one choice", {
  message: "This model gives one answer to a request in this API.",
  param: "n",
});

function spliceChat(ask: ChatRequest, target: Target): EncodedRequest {
  const { body, clampedTo } = spliceGenerate(ask, target.model, target.ceiling);
  return {
    request: generateRequest(body, ask.stream, target),
    answer: ask.stream ? new StreamedGenerate(ask.choices, null) : nativeAnswer,
    clampedTo,
    voice: null,
    translated: false,
  };
}

const nativeAnswer: ExpectedWhole = { kind: "whole", read: (body) => readGeminiAnswer(body, null) };

class StreamedGenerate implements ExpectedStream {
  readonly kind = "stream";

  constructor(
    readonly choices: number,
    readonly tools: readonly Tool[] | null,
  ) {}

  reader(): StreamReader {
    return new EventReader(new GeminiStream(this));
  }

  /** A valid answer that is not streamed is a failure too. */
  instead(body: Uint8Array, { status }: UpstreamHead): WholeAnswer | Failure {
    const whole = readGeminiAnswer(body, null);
    return isFailure(whole) ? whole : failure("bad_response", "a whole answer came where a stream was asked for", { status });
  }
}
