import type { ErrorFormat, StreamPlace, SurfaceFailure } from "../operations/conversation/surface.ts";
import { type Failure, type FailureKind, obeyedWaitMaxMs } from "../operations/failure.ts";
import { defaultErrors } from "../surfaces/index.ts";
import type { ResponseHead, HttpResponse } from "../net/server/http-response.ts";

/** The only place where a failure becomes a response: status, error object and retry hints. */
export function errorResponse(
  failure: Failure,
  head: ResponseHead,
  /** When a retry may succeed; null if waiting does not help. */
  retryAfterMs: number | null = null,
  /** The errors of the API that the client speaks. */
  format: ErrorFormat = defaultErrors,
): HttpResponse {
  const shown = shownOf(failure);
  head.type = "application/json";
  if (retryAfterMs !== null) addRetryAfter(head, retryAfterMs);
  else if (shown.final) head.add("x-should-retry", "false");
  const reported = surfaceFailure(failure, shown);
  return { status: format.status?.(reported) ?? shown.status, head, body: format.error(reported, head.requestId) };
}

/** The response to a request that is not served. */
export function refusal(
  why: Failure,
  head: ResponseHead,
  format: ErrorFormat = defaultErrors,
  waitMs: number | null = why.retryAfterMs,
): HttpResponse {
  // A client that is too slow to send its body must not hold its connection.
  if (why.status === 408) head.closesConnection = true;
  const retryAfterMs = waitMs ?? (why.kind === "saturated" || why.kind === "store_unavailable" ? 1000 : null);
  return errorResponse(why, head, retryAfterMs, format);
}

/** The form inside a stream whose status has been sent already. No end mark follows it. */
export function errorEvent(
  failure: Failure,
  requestId: string,
  format: ErrorFormat = defaultErrors,
  place: StreamPlace | null = null,
): Uint8Array {
  return format.errorEvent(surfaceFailure(failure, shownOf(failure)), requestId, place);
}

/** The status that the client sees. */
export function statusOf(failure: Failure, format: ErrorFormat = defaultErrors): number {
  const shown = shownOf(failure);
  return format.status?.(surfaceFailure(failure, shown)) ?? shown.status;
}

/** What a client would be told, for logs and the admin API. */
export function shownAs(failure: Failure): { readonly status: number; readonly code: string; readonly message: string } {
  const { status, code } = shownOf(failure);
  return { status, code: code ?? failure.kind, message: failure.publicMessage };
}

interface ErrorShape {
  readonly status: number;
  readonly type: string;
  readonly code: string | null;
  /** The gateway's own attempts are used up: a client that repeats the call multiplies the load and gains nothing. */
  readonly final: boolean;
}

const shown: { readonly [K in FailureKind]: ErrorShape } = {
  unreachable: { status: 502, type: "api_error", code: "upstream_unreachable", final: true },
  tls_failed: { status: 502, type: "api_error", code: "upstream_tls_error", final: true },
  connect_timeout: { status: 502, type: "api_error", code: "upstream_unreachable", final: true },
  stale_socket: { status: 502, type: "api_error", code: "upstream_disconnected", final: true },
  disconnected: { status: 502, type: "api_error", code: "upstream_disconnected", final: true },
  timed_out: { status: 504, type: "api_error", code: "upstream_timeout", final: true },
  overloaded: { status: 502, type: "api_error", code: "upstream_error", final: true },
  rate_limited: { status: 429, type: "rate_limit_error", code: "rate_limit_exceeded", final: false },
  quota_exhausted: { status: 502, type: "api_error", code: "upstream_auth_failed", final: true },
  unauthorized: { status: 502, type: "api_error", code: "upstream_auth_failed", final: true },
  model_missing: { status: 502, type: "api_error", code: "upstream_model_missing", final: true },
  misconfigured: { status: 502, type: "api_error", code: "upstream_misconfigured", final: true },
  redirected: { status: 502, type: "api_error", code: "upstream_redirect", final: true },
  invalid_request: { status: 400, type: "invalid_request_error", code: null, final: true },
  too_large: { status: 413, type: "invalid_request_error", code: "request_too_large", final: true },
  context_length: { status: 400, type: "invalid_request_error", code: "context_length_exceeded", final: true },
  content_policy: { status: 400, type: "invalid_request_error", code: "content_policy_violation", final: true },
  bad_response: { status: 502, type: "api_error", code: "upstream_invalid_response", final: true },
  model_failed: { status: 502, type: "api_error", code: "upstream_error", final: true },
  unsupported: { status: 400, type: "invalid_request_error", code: "unsupported_parameter", final: true },
  ceiling: { status: 400, type: "invalid_request_error", code: "integer_above_max_value", final: true },
  interrupted: { status: 502, type: "upstream_error", code: "upstream_stream_interrupted", final: true },
  client_gone: { status: 499, type: "invalid_request_error", code: "client_closed_request", final: true },
  deadline: { status: 504, type: "api_error", code: "upstream_timeout", final: true },
  key_revoked: { status: 401, type: "invalid_request_error", code: "key_revoked", final: true },
  limited: { status: 429, type: "rate_limit_error", code: "rate_limit_exceeded", final: false },
  no_channel: { status: 503, type: "service_unavailable_error", code: "no_channel_available", final: false },
  saturated: { status: 503, type: "service_unavailable_error", code: "overloaded", final: false },
  store_unavailable: { status: 503, type: "service_unavailable_error", code: "store_unavailable", final: false },
  shutting_down: { status: 503, type: "service_unavailable_error", code: "server_shutting_down", final: false },
  internal: { status: 500, type: "api_error", code: "internal_error", final: true },
};

/** The entry of the table, except where the upstream's own status or code for a client's mistake is more specific. */
function shownOf(failure: Failure): ErrorShape {
  const usual = shown[failure.kind];
  if (failure.kind === "overloaded") return overload(failure, usual);
  if (failure.kind === "model_missing" && failure.code === "model_not_found")
    return { ...usual, status: 404, type: "invalid_request_error", code: failure.code };
  // The code tells whether one channel is full or the whole gateway.
  if (failure.kind === "saturated") return { ...usual, code: failure.code ?? usual.code };
  if (failure.kind === "limited") return limitation(failure, usual);
  if (failure.blame !== "client") return failure.local === true ? ofLocalEngine(usual) : usual;
  // A key cannot be used because it was revoked, or because its group is frozen: the failure says which.
  const isOwnStatus = failure.kind === "invalid_request" || failure.kind === "key_revoked";
  const passesStatus = isOwnStatus && failure.status !== null && failure.status >= 400 && failure.status < 500;
  return {
    status: passesStatus ? failure.status : usual.status,
    type: failure.type ?? usual.type,
    code: failure.code ?? usual.code,
    final: true,
  };
}

/** Codes that blame an upstream are not used for an engine of this machine. */
function ofLocalEngine(usual: ErrorShape): ErrorShape {
  return usual.code?.startsWith("upstream_") === true ? { ...usual, type: "api_error", code: "local_engine_failed" } : usual;
}

function overload(failure: Failure, usual: ErrorShape): ErrorShape {
  const unavailable = failure.status === 503 || failure.status === 529;
  if (failure.local === true) return { ...ofLocalEngine(usual), status: unavailable ? 503 : usual.status };
  return unavailable ? { ...usual, status: 503, type: "service_unavailable_error", code: "upstream_unavailable" } : usual;
}

/** The limiter knows which limit was hit. Without a time to wait for, a retry gains nothing. */
function limitation(failure: Failure, usual: ErrorShape): ErrorShape {
  return {
    status: failure.status ?? usual.status,
    type: failure.type ?? usual.type,
    code: failure.code ?? usual.code,
    final: failure.retryAfterMs === null,
  };
}

function surfaceFailure({ param, publicMessage }: Failure, { status, type, code }: ErrorShape): SurfaceFailure {
  return { status, type, code, param, message: publicMessage };
}

/**
 * Sets Retry-After (RFC 9110, 10.2.3). The official clients of the OpenAI API obey waits of up to a minute and ignore longer
 * ones, so a longer wait is also marked as not worth a retry.
 */
function addRetryAfter(head: ResponseHead, waitMs: number): void {
  const shownMs = Math.min(Math.max(Math.ceil(waitMs), 1000), obeyedWaitMaxMs);
  head.add("retry-after", String(Math.ceil(shownMs / 1000)));
  head.add("retry-after-ms", String(shownMs));
  if (waitMs > obeyedWaitMaxMs) head.add("x-should-retry", "false");
}
