import type { ChatRequest } from "./chat/chat-request.ts";
import type { PassthroughRequest } from "./passthrough/passthrough-request.ts";
import type { SpeechRequest } from "./speech/speech-request.ts";
import type { TranscriptionRequest } from "./transcription/transcription-request.ts";

/** The request of a client, for one of the operations. */
export type CallRequest = ChatRequest | TranscriptionRequest | SpeechRequest | PassthroughRequest;

/** What another attempt would cost. */
export interface RetryCost {
  readonly bodyBytes: number;
  readonly choices: number;
  /** Tools that run at the upstream, and so would run again. */
  readonly hostedTools: boolean;
  readonly promptTokensEstimate: number;
}

export function retryCostOf(ask: CallRequest): RetryCost {
  switch (ask.operation) {
    case "chat":
      return {
        bodyBytes: ask.body.length,
        choices: ask.choices,
        hostedTools: ask.hostedTools,
        promptTokensEstimate: ask.promptTokensEstimate,
      };
    case "transcription":
      return { bodyBytes: ask.file.content.length, choices: 1, hostedTools: false, promptTokensEstimate: 0 };
    case "speech":
      return { bodyBytes: ask.body.length, choices: 1, hostedTools: false, promptTokensEstimate: 0 };
    default:
      return { bodyBytes: ask.body.length, choices: ask.choices, hostedTools: false, promptTokensEstimate: ask.contextTokens };
  }
}

/** An estimate of the tokens of its prompt; 0 if it has none. */
export function promptTokensOf(request: CallRequest): number {
  return "promptTokensEstimate" in request ? request.promptTokensEstimate : 0;
}

/** The part of it that has to fit into a model's context; 0 if that is not known. */
export function contextTokensOf(request: CallRequest): number {
  if (request.operation === "chat") return request.promptTokensEstimate;
  return "contextTokens" in request ? request.contextTokens : 0;
}

/** The most output tokens that the client allows, under either name; 0 if it sets no limit. */
export function maxOutputTokensOf(request: CallRequest): number {
  if (request.operation === "chat") return Math.max(request.maxTokens ?? 0, request.maxCompletionTokens ?? 0);
  return "maxTokens" in request ? (request.maxTokens ?? 0) : 0;
}

/** The first sign of an answer may take long as a rule: the model is asked to reason before it answers, or to draw. */
export function takesLong(request: CallRequest): boolean {
  return request.operation === "image" || (request.operation === "chat" && request.reasons);
}
