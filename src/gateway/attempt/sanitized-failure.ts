import { failure, type Failure } from "../../operations/failure.ts";
import { holdsFigure, requestFree } from "../../operations/request-text.ts";

/**
 * A failure as it may be passed on: without secrets of the channel, and without the parts of the upstream's message that repeat the
 * request. If its classification rests on words that the client wrote, it is charged to the request instead of the channel.
 *
 * `text` is what the client wrote; null if it is no longer in memory.
 */
export function sanitizedFailure(cause: Failure, text: string | null, redact: (text: string) => string): Failure {
  if (cause.upstreamWords === null) return cause;
  const sentence = redact(cause.upstreamWords.sentence);
  const rest = requestFree(sentence, text);
  const detail = rest === "" ? cause.detail : `${redact(cause.detail)}: ${rest}`;
  const { wait } = cause.upstreamWords;
  const isWaitEcho = wait !== null && text !== null && wait.words.some((words) => text.includes(words));
  const clean: Failure = {
    ...cause,
    ...(isWaitEcho && { retryAfterMs: wait.otherwiseMs }),
    detail: detail.slice(0, detailMaxChars).toWellFormed(),
    publicMessage: redact(cause.publicMessage),
    type: redactWord(cause.type, redact),
    code: redactWord(cause.code, redact),
    param: redactWord(cause.param, redact),
    upstreamWords: null,
  };
  if (text === null || cause.blame === "client" || cause.scope === "request" || !isEcho(cause, text)) return clean;
  // The upstream rejects what the client wrote and quotes it.
  if (cause.status === null || cause.status === 400 || cause.status === 422) {
    return failure("invalid_request", clean.detail, { status: cause.status, ...(sentence !== "" && { message: sentence }) });
  }
  return { ...clean, scope: "request", retryAfterMs: null };
}

/** Whether the classification of a failure may rest on words of the client. Then nothing is learned from it, and no channel is charged. */
export function isEcho({ kind, ceiling, upstreamWords }: Failure, text: string): boolean {
  const basis = upstreamWords?.basis ?? null;
  if (basis === null) return false;
  if (kind !== "ceiling") return text.includes(basis);
  return holdsFigure(text, basis) || (ceiling !== null && holdsFigure(text, String(ceiling)));
}

const detailMaxChars = 300;

function redactWord(word: string | null, redact: (text: string) => string): string | null {
  return word === null ? null : redact(word);
}
