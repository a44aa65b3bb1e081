import type { Address } from "../../channels/channel.ts";
import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import type { Conversation, Tool } from "../../operations/conversation/conversation.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type {
  Dialect,
  EncodedRequest,
  ExpectedStream,
  ExpectedWhole,
  StreamReader,
  Target,
  UpstreamHead,
  UpstreamRequest,
} from "../dialect.ts";
import { explain } from "../errors/explain.ts";
import { EventReader } from "../readers/event-reader.ts";
import { conversationFor } from "../target-conversation.ts";
import { readGeminiAnswer } from "./answer.ts";
import { spliceGenerate } from "./native-body.ts";
import { encodeGeminiBody } from "./request-body.ts";
import { dialectName } from "./response-parts.ts";
import { GeminiStream } from "./stream.ts";
import { generateTokenCount, isInCloud } from "./token-count.ts";

/** The dialect of `generateContent`. The model stands in the path, and so does whether the answer is streamed. */
export const gemini: Dialect = {
  name: dialectName,
  chat: { encode: encodeChat, explain },
  models: { path: modelsPath, read: readModels },
  tokenCount: generateTokenCount,
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
    request: requestFor(encoded.body, ask.stream, target),
    answer: ask.stream ? new StreamedGenerate(1, tools) : { kind: "whole", read: (body) => readGeminiAnswer(body, tools) },
    clampedTo,
    voice: null,
    dropped: encoded.dropped,
    translated: true,
  };
}

const oneChoice = failure("unsupported", "a translated answer is one choice", {
  message: "This model gives one answer to a request in this API.",
  param: "n",
});

function spliceChat(ask: ChatRequest, target: Target): EncodedRequest {
  const { body, clampedTo } = spliceGenerate(ask, target.model, target.ceiling);
  return {
    request: requestFor(body, ask.stream, target),
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

function requestFor(body: Uint8Array, stream: boolean, { channel, model, forwarded }: Target): UpstreamRequest {
  return {
    method: "POST",
    url: generateUrl(channel.address, model, stream),
    headers: {
      "content-type": "application/json",
      accept: stream ? "text/event-stream" : "application/json",
      ...forwarded,
      ...channel.headers,
    },
    body,
  };
}

/** Without `alt=sse` a stream is one JSON array. */
export function generateUrl({ baseUrl, chatPath, query }: Address, model: string, stream: boolean): string {
  const name = model.startsWith(listedPrefix) ? model.slice(listedPrefix.length) : model;
  const path = (chatPath.includes("{model}") ? chatPath : usualPath).replace("{model}", () => encodeURIComponent(name));
  if (!stream) return baseUrl + path + query;
  const method = path.replace(/:generateContent$/, ":streamGenerateContent");
  return `${baseUrl}${method}${query === "" ? "?" : `${query}&`}alt=sse`;
}

const usualPath = "/models/{model}:generateContent";
/** The list of models names them with it, and requests may too. */
const listedPrefix = "models/";

/** The largest page: the usual one has 50 models. */
function modelsPath({ modelsPath: path }: Address): string | null {
  return path === null ? null : `${path}?pageSize=1000`;
}

/** Only the models that generate content. A list that says nothing about that is believed. */
function readModels(body: string): readonly string[] | null {
  try {
    const list = JSON.parse(body) as { readonly models?: unknown } | null;
    if (!Array.isArray(list?.models)) return null;
    return (list.models as readonly (Readonly<Record<string, unknown>> | null)[]).flatMap((model) => {
      const name = model?.["name"];
      const methods = model?.["supportedGenerationMethods"];
      const generates = !Array.isArray(methods) || (methods as readonly unknown[]).includes("generateContent");
      return typeof name === "string" && name !== "" && generates ? [name] : [];
    });
  } catch {
    return null;
  }
}
