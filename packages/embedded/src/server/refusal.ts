/** Why a request is not served, in the convention's words. An expected failure: a value, never an exception. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
  /** When asking again has a chance, where it has one. */
  readonly retryAfterMs: number | null;
}

type Facts = Partial<Pick<Refusal, "type" | "param" | "code" | "retryAfterMs">>;

/** The client's own mistake unless the facts say otherwise. */
export function refusal(status: number, message: string, facts: Facts = {}): Refusal {
  const { type = "invalid_request_error", param = null, code = null, retryAfterMs = null } = facts;
  return { status, message, type, param, code, retryAfterMs };
}

export function isRefusal(value: object): value is Refusal {
  return "status" in value && "message" in value && "param" in value;
}

export function refusalResponse({ status, message, type, param, code, retryAfterMs }: Refusal): Response {
  const headers: Record<string, string> =
    retryAfterMs === null
      ? {}
      : { "retry-after": String(Math.ceil(retryAfterMs / 1000)), "retry-after-ms": String(Math.ceil(retryAfterMs)) };
  return Response.json({ error: { message, type, param, code } }, { status, headers });
}
