import { failure, type Failure } from "../../operations/failure.ts";
import type { ErrorResponse } from "../dialect.ts";
import { errorBody, presentable } from "../errors/error-body.ts";
import { explain } from "../errors/explain.ts";

/**
 * Explains an error response to a speech request. A voice that the upstream does not have was named by the client, and must not be
 * charged to the channel, though an upstream may report it as something that does not exist there.
 */
export function explainSpeech(refusal: ErrorResponse): Failure {
  const cause = explain(refusal);
  return refusal.status < 500 && isAboutVoice(refusal.body) ? unknownVoice(cause, refusal) : cause;
}

/** The failure of a request whose voice, or a model that is a voice, is not available. Another channel may have it. */
export function unknownVoice(cause: Failure, { body }: ErrorResponse): Failure {
  return failure("unsupported", cause.detail, {
    message: presentable(errorBody(body).message, messageMaxChars) || "The upstream does not have this voice.",
    status: 400,
    type: "invalid_request_error",
    code: "invalid_value",
    param: "voice",
    upstreamWords: cause.upstreamWords,
  });
}

function isAboutVoice(text: string): boolean {
  const { code, status, param, message } = errorBody(text);
  if ([code, status].some((each) => each !== null && /^(?:invalid_voice|voice_(?:id_)?(?:not_found|does_not_exist))/i.test(each)))
    return true;
  if (param !== null && /^voice(?:[._]id)?$/.test(param)) return true;
  return /\bvoices?\b.{0,120}\b(?:not found|not exist|not available|not supported|not valid|invalid|unknown)\b|\b(?:unknown|invalid|no such) voice\b/is.test(
    message.slice(0, messageMaxChars),
  );
}

const messageMaxChars = 1000;
