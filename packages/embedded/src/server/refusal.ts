/** Why a request is not served, in the convention's words. An expected failure: a value, never an exception. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
}

/** The client's own mistake unless the facts say otherwise. */
export function refusal(status: number, message: string, facts: Partial<Pick<Refusal, "type" | "param" | "code">> = {}): Refusal {
  return { status, message, type: facts.type ?? "invalid_request_error", param: facts.param ?? null, code: facts.code ?? null };
}

export function isRefusal(value: object): value is Refusal {
  return "status" in value && "message" in value && "param" in value;
}

export function refusalResponse({ status, message, type, param, code }: Refusal): Response {
  const headers: Record<string, string> = status === 429 ? { "retry-after": "1", "retry-after-ms": "1000" } : {};
  return Response.json({ error: { message, type, param, code } }, { status, headers });
}
