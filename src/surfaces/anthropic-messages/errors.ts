import type { SurfaceFailure } from "../../operations/conversation/surface.ts";

/** The body of an error. */
export function errorBody(failure: SurfaceFailure, requestId: string): Uint8Array {
  return encoder.encode(errorJson(failure, requestId));
}

/** The error inside a stream. No `message_stop` follows it: a message that was cut is not complete. */
export function errorFrame(failure: SurfaceFailure, requestId: string): Uint8Array {
  return encoder.encode(`event: error\ndata: ${errorJson(failure, requestId)}\n\n`);
}

/** This API has a status of its own for a service that is busy, which its clients take for a reason to come back. */
export function errorStatus({ status }: SurfaceFailure): number {
  return status === 503 ? 529 : status;
}

function errorJson(failure: SurfaceFailure, requestId: string): string {
  const { status, code, message } = failure;
  const isTooLong = code === "context_length_exceeded";
  const error = {
    type: errorType(status),
    // Clients look for these words, and shorten the conversation.
    message: isTooLong && !message.startsWith(tooLong) ? `${tooLong}: ${message}` : message,
    ...(code === null ? undefined : { details: { error_code: code } }),
  };
  return JSON.stringify({ type: "error", error, request_id: requestId });
}

const tooLong = "prompt is too long";

function errorType(status: number): string {
  return types.get(status) ?? (status >= 500 ? "api_error" : "invalid_request_error");
}

const types: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [402, "billing_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [408, "timeout_error"],
  [409, "conflict_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [503, "overloaded_error"],
  [504, "timeout_error"],
  [529, "overloaded_error"],
]);

const encoder = new TextEncoder();
