import type { ChatRequest } from "../../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import { readPrompt, requestOf } from "./request.ts";

/** Reads a request to `POST /v1/messages/count_tokens`: the prompt of a request, without a bound for the answer. */
export function readCountTokensRequest(body: Uint8Array): ChatRequest | Failure {
  const prompt = readPrompt(body);
  return isFailure(prompt) ? prompt : requestOf(body, prompt, { maxTokens: null, stream: false });
}

export function countTokensBody(inputTokens: number): Uint8Array {
  return encoder.encode(JSON.stringify({ input_tokens: inputTokens }));
}

const encoder = new TextEncoder();
