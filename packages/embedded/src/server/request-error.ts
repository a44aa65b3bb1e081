/** Why a request is not served, with the fields of an OpenAI API error. An expected failure is a value, not an exception. */
export interface RequestError {
  readonly status: number;
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  /** When a retry may succeed; null if that is unknown. */
  readonly retryAfterMs: number | null;
}

type Facts = Partial<Pick<RequestError, "type" | "param" | "code" | "retryAfterMs">>;

/** An error of the client by default. */
export function requestError(status: number, message: string, facts: Facts = {}): RequestError {
  const { type = "invalid_request_error", param = null, code = null, retryAfterMs = null } = facts;
  return { status, message, type, param, code, retryAfterMs };
}

export function isRequestError(value: object): value is RequestError {
  return "status" in value && "message" in value && "param" in value;
}

export function errorResponse({ status, message, type, param, code, retryAfterMs }: RequestError): Response {
  const headers: Record<string, string> =
    retryAfterMs === null
      ? {}
      : { "retry-after": String(Math.ceil(retryAfterMs / 1000)), "retry-after-ms": String(Math.ceil(retryAfterMs)) };
  return Response.json({ error: { message, type, param, code } }, { status, headers });
}
