import { isFailure, type Failure } from "../../operations/failure.ts";
import { readPrompt } from "./request.ts";

/** A request to `POST /v1/messages/count_tokens`: the prompt of a request without the answer. */
export interface CountTokensRequest {
  readonly model: string;
  readonly promptTokensEstimate: number;
}

export function readCountTokensRequest(body: Uint8Array): CountTokensRequest | Failure {
  const prompt = readPrompt(body);
  return isFailure(prompt) ? prompt : { model: prompt.model, promptTokensEstimate: prompt.tokensEstimate };
}

/** The answer to it. Only the provider of a model knows its tokens; where nobody can be asked, an estimate is better than an error. */
export function countTokensBody(inputTokens: number): Uint8Array {
  return encoder.encode(JSON.stringify({ input_tokens: inputTokens }));
}

const encoder = new TextEncoder();
