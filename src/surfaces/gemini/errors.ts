import type { ErrorFormat, SurfaceFailure } from "../../operations/conversation/surface.ts";

/** Errors as `google.rpc.Status`, with our own code as the reason. */
export const generateErrors: ErrorFormat = {
  error: (failure, requestId) => encoder.encode(errorJson(failure, requestId)),
  errorEvent: (failure, requestId) => encoder.encode(`data: ${errorJson(failure, requestId)}\n\n`),
  // Some clients parse every line that they get, so that a comment would end their stream.
  keepAlive: new TextEncoder().encode('data: {"candidates":[]}\n\n'),
};

/** The errors of a stream that is a list: the error is the last of its elements. */
export const listedErrors: ErrorFormat = {
  streamType: "application/json",
  error: (failure, requestId) => encoder.encode(`[${errorJson(failure, requestId)}]`),
  errorEvent: (failure, requestId, place = null) => encoder.encode(`${place === null ? "[" : ",\n"}${errorJson(failure, requestId)}]`),
  // White space may stand before the list and between its elements.
  keepAlive: new TextEncoder().encode("\n"),
};

const encoder = new TextEncoder();

function errorJson({ status, code, message, param }: SurfaceFailure, requestId: string): string {
  const reason = (code ?? "error").toUpperCase();
  return JSON.stringify({
    error: {
      code: status,
      message,
      status: statusName(status),
      details: [
        {
          "@type": "type.googleapis.com/google.rpc.ErrorInfo",
          reason: status === 401 ? "API_KEY_INVALID" : reason,
          domain: "sluice",
          ...(param === null ? undefined : { metadata: { field: param } }),
        },
        { "@type": "type.googleapis.com/google.rpc.RequestInfo", requestId },
      ],
    },
  });
}

function statusName(status: number): string {
  return names.get(status) ?? (status >= 500 ? "INTERNAL" : "INVALID_ARGUMENT");
}

const names: ReadonlyMap<number, string> = new Map([
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "NOT_FOUND"],
  [405, "UNIMPLEMENTED"],
  [408, "DEADLINE_EXCEEDED"],
  [409, "ABORTED"],
  [429, "RESOURCE_EXHAUSTED"],
  [499, "CANCELLED"],
  [502, "UNAVAILABLE"],
  [503, "UNAVAILABLE"],
  [504, "DEADLINE_EXCEEDED"],
]);
