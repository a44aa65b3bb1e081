import { readMessage } from "../../src/dialects/anthropic/answer.ts";
import { MessagesStream } from "../../src/dialects/anthropic/stream.ts";
import { readConverse } from "../../src/dialects/bedrock/converse-answer.ts";
import { ConverseStream } from "../../src/dialects/bedrock/converse-stream.ts";
import { EventStreamReader } from "../../src/dialects/bedrock/event-stream-reader.ts";
import { CohereStream, readCohere } from "../../src/dialects/cohere/cohere-answer.ts";
import { readGeminiAnswer } from "../../src/dialects/gemini/answer.ts";
import { GeminiStream } from "../../src/dialects/gemini/stream.ts";
import { chatAnswer } from "../../src/dialects/openai/chat-parts.ts";
import { readAnswer } from "../../src/dialects/openai/answer.ts";
import { OpenAiStream } from "../../src/dialects/openai/stream.ts";
import { readResponse } from "../../src/dialects/openai-responses/answer.ts";
import { DeclaredTools } from "../../src/dialects/openai-responses/items.ts";
import { ResponsesStream } from "../../src/dialects/openai-responses/stream.ts";
import { EventReader } from "../../src/dialects/readers/event-reader.ts";
import type { WholeAnswer } from "../../src/operations/emission.ts";
import { isFailure, type Failure } from "../../src/operations/failure.ts";
import type { collectStream } from "./collected-stream.ts";
import { awsEvent } from "./event-stream.ts";

/** How the answers of one dialect are read for a client that speaks another API. */
export interface ProviderReader {
  whole(body: Uint8Array): WholeAnswer | Failure;
  stream(): Parameters<typeof collectStream>[0];
  /** The bytes of a stream that has these events. */
  framed(events: readonly string[]): Uint8Array;
}

export const providerReaders: Readonly<Record<string, ProviderReader>> = {
  anthropic: { whole: (body) => readMessage(body, []), stream: () => new EventReader(new MessagesStream([])), framed: sse },
  "bedrock-converse": {
    whole: (body) => readConverse(body, []),
    stream: () => new EventStreamReader(new ConverseStream([])),
    framed: (events) => new Uint8Array(Buffer.concat(events.map(awsFrame))),
  },
  cohere: { whole: (body) => readCohere(body, []), stream: () => new EventReader(new CohereStream([])), framed: sse },
  gemini: {
    whole: (body) => readGeminiAnswer(body, []),
    stream: () => new EventReader(new GeminiStream({ choices: 1, tools: [] })),
    framed: sse,
  },
  openai: {
    whole: readCompletion,
    stream: () => new EventReader(new OpenAiStream({ hidesUsage: false, choices: 1, tools: [] })),
    framed: (events) => sse([...events, "[DONE]"]),
  },
  "openai-responses": {
    whole: (body) => readResponse(body, new DeclaredTools([])),
    stream: () => new EventReader(new ResponsesStream(new DeclaredTools([]))),
    framed: sse,
  },
};

function readCompletion(body: Uint8Array): WholeAnswer | Failure {
  const whole = readAnswer(body);
  if (isFailure(whole)) return whole;
  const answer = chatAnswer(body, []);
  return isFailure(answer) ? answer : { ...whole, answer };
}

function sse(events: readonly string[]): Uint8Array {
  return new TextEncoder().encode(events.map((event) => `data: ${event}\n\n`).join(""));
}

/** An event in the form of the official client: an object with the type as its only key. */
function awsFrame(event: string): Uint8Array {
  const [[type, payload] = ["", {}]] = Object.entries(JSON.parse(event) as Readonly<Record<string, Readonly<Record<string, unknown>>>>);
  return awsEvent(type, payload);
}
