import type { ErrorFormat, SurfaceFailure } from "../../operations/conversation/surface.ts";

/** The errors of the OpenAI API, for chats, audio and every path that belongs to no other API. */
export const openaiErrors: ErrorFormat = {
  error: (failure, requestId) => encoder.encode(envelope(failure, requestId)),
  errorEvent: (failure, requestId) => encoder.encode(`data: ${envelope(failure, requestId)}\n\n`),
  // A comment: the clients of this API take any event for a chunk.
  keepAlive: new TextEncoder().encode(": keep-alive\n\n"),
};

function envelope({ message, type, param, code }: SurfaceFailure, requestId: string): string {
  return JSON.stringify({ error: { message, type, param, code, request_id: requestId } });
}

const encoder = new TextEncoder();
