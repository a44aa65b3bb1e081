import type { StreamPlace, SurfaceFailure } from "../../operations/conversation/surface.ts";

/** The same as for chat completions: clients of both share their error classes. */
export function errorBody({ message, type, param, code }: SurfaceFailure): Uint8Array {
  return encoder.encode(JSON.stringify({ error: { message, type, param, code } }));
}

/**
 * A response that failed after its head was sent. Clients take `response.failed` for the end; what they do then depends on the code:
 * Codex repeats a request unless the code says that this is in vain.
 */
export function errorFrame(failure: SurfaceFailure, requestId: string, place: StreamPlace | null = null): Uint8Array {
  // The official client refuses the event of another response than the one that began, and a failure before one began.
  const id = place?.id || `resp_${requestId}`;
  const begun = {
    id,
    object: "response",
    created_at: 0,
    status: "in_progress",
    error: null,
    incomplete_details: null,
    output: [],
    usage: null,
  };
  const failed = { ...begun, status: "failed", error: { code: codeOf(failure), message: failure.message } };
  if (place !== null) return encoder.encode(lifecycleFrame("response.failed", place.sequence + 1, failed));
  return encoder.encode(lifecycleFrame("response.created", 0, begun) + lifecycleFrame("response.failed", 1, failed));
}

function lifecycleFrame(type: string, sequence: number, response: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence, response })}\n\n`;
}

function codeOf({ status, code }: SurfaceFailure): string {
  if (code === "context_length_exceeded" || code === "insufficient_quota") return code;
  if (status === 429) return "rate_limit_exceeded";
  return status === 400 ? "invalid_prompt" : "server_error";
}

const encoder = new TextEncoder();
/** The official client takes no event before the one that begins a response. */
export const earlyKeepAlive: Uint8Array = encoder.encode(": keep-alive\n\n");
/** An event and no comment: clients measure silence by events. Clients ignore types that they do not know. */
export const keepAlive: Uint8Array = encoder.encode('event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n');
