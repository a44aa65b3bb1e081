/**
 * Why a call or an attempt did not succeed. Expected failures are values of this type, never exceptions. `blame` says who must act,
 * `scope` what a cool-down is charged to. `publicMessage` is for the client, `detail` for the log; neither contains a prompt, an answer
 * or a secret.
 */
export interface Failure {
  readonly kind: FailureKind;
  readonly blame: "client" | "channel" | "gateway";
  readonly scope: FailureScope;
  readonly publicMessage: string;
  readonly detail: string;
  /** The upstream's status, if there was one. */
  readonly status: number | null;
  /** How long the upstream asked to wait. */
  readonly retryAfterMs: number | null;
  /** The upstream's own type, code and parameter for a client's mistake, which the client needs to fix it. */
  readonly type: string | null;
  readonly code: string | null;
  readonly param: string | null;
  /** The most output tokens this deployment allows, learned from its refusal. */
  readonly ceiling: number | null;
  /** It happened in a local engine: there is no upstream. */
  readonly local?: true;
  /** The upstream did the work, but its answer could not be used. */
  readonly served?: true;
  /** The same deployment may succeed with the adapted request of the next attempt. */
  readonly retryAdapted?: true;
  /** The upstream's text, until it is decided how much of it may be shown; null if there is none. */
  readonly upstreamWords: UpstreamWords | null;
}

/** Text of an upstream. It may be an echo of the request, so it must not be logged or used for a decision before that is ruled out. */
export interface UpstreamWords {
  readonly sentence: string;
  /** The part that the failure's kind or figure is based on; null if that is a code or the status. */
  readonly basis: string | null;
  /** The parts that the wait is based on, and the wait without them; null if it is not based on text. */
  readonly wait: { readonly words: readonly string[]; readonly otherwiseMs: number | null } | null;
}

/** What a failure is charged to: one of these cools down, or nothing for `request`. */
export type FailureScope = "request" | "deployment" | "credential" | "host" | "quota";

/**
 * | class of the fault table | kinds |
 * |---|---|
 * | not sent | unreachable, tls_failed, connect_timeout |
 * | stale socket | stale_socket |
 * | ambiguous | disconnected, timed_out |
 * | overload | overloaded, rate_limited |
 * | credential or configuration | quota_exhausted, unauthorized, model_missing, misconfigured, redirected |
 * | the client's fault | invalid_request, too_large, context_length, content_policy |
 * | bad payload | bad_response, model_failed |
 * | capability of the pair | unsupported, ceiling |
 * | after content | interrupted |
 * | local | client_gone, deadline, key_revoked, limited, no_channel, saturated, store_unavailable, shutting_down, internal |
 */
export type FailureKind =
  | "unreachable"
  | "tls_failed"
  | "connect_timeout"
  | "stale_socket"
  | "disconnected"
  | "timed_out"
  | "overloaded"
  | "rate_limited"
  | "quota_exhausted"
  | "unauthorized"
  | "model_missing"
  | "misconfigured"
  | "redirected"
  | "invalid_request"
  | "too_large"
  | "context_length"
  | "content_policy"
  | "bad_response"
  | "model_failed"
  | "unsupported"
  | "ceiling"
  | "interrupted"
  | "client_gone"
  | "deadline"
  | "limited"
  | "key_revoked"
  | "no_channel"
  | "saturated"
  | "store_unavailable"
  | "shutting_down"
  | "internal";

/** The `param` of a request that was refused for the signature of a thought in it. */
export const signedParam = "thinking";

/** The `param` of a request that was refused because it asks the model to reason. */
export const effortParam = "reasoning_effort";

/** The `param` of a request that was refused for a beta feature that it names. */
export const betasParam = "betas";

type Charge = Pick<Failure, "blame" | "scope">;

const charges: { readonly [K in FailureKind]: Charge } = {
  unreachable: { blame: "channel", scope: "host" },
  tls_failed: { blame: "channel", scope: "host" },
  connect_timeout: { blame: "channel", scope: "host" },
  stale_socket: { blame: "gateway", scope: "request" },
  disconnected: { blame: "channel", scope: "deployment" },
  timed_out: { blame: "channel", scope: "deployment" },
  overloaded: { blame: "channel", scope: "deployment" },
  rate_limited: { blame: "channel", scope: "deployment" },
  quota_exhausted: { blame: "channel", scope: "credential" },
  unauthorized: { blame: "channel", scope: "credential" },
  model_missing: { blame: "channel", scope: "deployment" },
  misconfigured: { blame: "channel", scope: "host" },
  redirected: { blame: "channel", scope: "host" },
  invalid_request: { blame: "client", scope: "request" },
  too_large: { blame: "client", scope: "request" },
  context_length: { blame: "client", scope: "request" },
  content_policy: { blame: "client", scope: "request" },
  bad_response: { blame: "channel", scope: "deployment" },
  model_failed: { blame: "channel", scope: "request" },
  unsupported: { blame: "client", scope: "request" },
  ceiling: { blame: "client", scope: "request" },
  interrupted: { blame: "channel", scope: "deployment" },
  client_gone: { blame: "client", scope: "request" },
  deadline: { blame: "gateway", scope: "request" },
  limited: { blame: "client", scope: "request" },
  key_revoked: { blame: "client", scope: "request" },
  no_channel: { blame: "gateway", scope: "request" },
  saturated: { blame: "gateway", scope: "request" },
  store_unavailable: { blame: "gateway", scope: "request" },
  shutting_down: { blame: "gateway", scope: "request" },
  internal: { blame: "gateway", scope: "request" },
};

export type FailureFacts = Partial<Omit<Failure, "kind" | "blame" | "publicMessage">> & { readonly message?: string };

/** Makes a failure. What is not given follows from its kind. */
export function failure(kind: FailureKind, detail: string, facts: FailureFacts = {}): Failure {
  return {
    kind,
    blame: charges[kind].blame,
    scope: facts.scope ?? charges[kind].scope,
    publicMessage: facts.message ?? publicMessages[kind],
    detail: facts.detail ?? detail,
    status: facts.status ?? null,
    retryAfterMs: facts.retryAfterMs ?? null,
    type: facts.type ?? null,
    code: facts.code ?? null,
    param: facts.param ?? null,
    ceiling: facts.ceiling ?? null,
    upstreamWords: facts.upstreamWords ?? null,
  };
}

/** Fixed texts: an upstream's own text about its problems may name accounts or repeat keys, so clients do not see it. */
const publicMessages: { readonly [K in FailureKind]: string } = {
  unreachable: "The upstream could not be reached.",
  tls_failed: "A secure connection to the upstream could not be made.",
  connect_timeout: "The upstream did not accept a connection in time.",
  stale_socket: "The connection to the upstream was closed.",
  disconnected: "The upstream closed the connection before it answered.",
  timed_out: "The upstream did not answer in time.",
  overloaded: "The upstream is overloaded or failing.",
  rate_limited: "The upstream is limiting requests. Try again later.",
  quota_exhausted: "The upstream account cannot serve requests at the moment.",
  unauthorized: "The gateway's credentials were refused by the upstream.",
  model_missing: "The upstream does not have this model.",
  misconfigured: "The upstream refused the gateway's request: the channel is misconfigured.",
  redirected: "The upstream answered with a redirect, which is never followed.",
  invalid_request: "The request was refused by the upstream.",
  too_large: "The request is too large for the upstream.",
  context_length: "The request is longer than the model's context. (context_length_exceeded)",
  content_policy: "The request was refused by the upstream's content policy.",
  bad_response: "The upstream sent an answer that could not be understood.",
  model_failed: "The model failed to produce an answer.",
  unsupported: "The upstream does not support a parameter of this request.",
  ceiling: "The requested number of output tokens is larger than the model allows.",
  interrupted: "The upstream was interrupted before the answer was complete.",
  client_gone: "The client left before the answer was complete.",
  deadline: "No upstream answered in time.",
  key_revoked: "This key was revoked.",
  limited: "A limit of this key leaves no room for the request. Try again later.",
  no_channel: "No channel can serve this request at the moment. Try again later.",
  saturated: "The gateway is at its limit of concurrent requests. Try again later.",
  store_unavailable: "The gateway's store cannot be reached at the moment. Try again later.",
  shutting_down: "The gateway is shutting down.",
  internal: "The gateway made a mistake. It has been logged.",
};

/** Rewords a failure of a local engine, so that its reader does not look for an upstream. */
export function ofLocalEngine(cause: Failure): Failure {
  const usual = publicMessages[cause.kind];
  const isOurs = cause.publicMessage === usual;
  return {
    ...cause,
    publicMessage: isOurs
      ? usual.replace("upstream account", "local engine").replace("upstream", "local engine")
      : cause.publicMessage.replace(/^The upstream\b/, "The local engine"),
    local: true,
  };
}

export function isFailure(value: object): value is Failure {
  return "blame" in value;
}

/** The longest wait that official clients honour; they ignore a longer Retry-After and retry on their own schedule. */
export const obeyedWaitMaxMs = 60_000;
