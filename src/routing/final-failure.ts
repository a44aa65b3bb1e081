import type { Failure, FailureKind } from "../operations/failure.ts";

/**
 * The one failure a client is told of when several attempts failed, each in its own way: the one that helps it most to
 * decide what to do next. In order:
 *
 * 1. The client left, or an answer broke off: nothing else matters any more.
 * 2. Its own fault, said of the request as such.
 * 3. Its own fault, said of the pair of request and channel, if every attempt ended so (then the last, from the largest).
 *    If only some did, the others' troubles count: they pass, and then the request may well be served.
 * 4. All limited: try again after the shortest of the waits.
 * 5. All refused our credentials or configuration: nothing to gain by trying again.
 * 6. Of a mixture, what is likeliest to pass: a timeout, then overload, limits, a broken connection, a bad answer, an
 *    upstream that cannot be reached, a refusal of credentials.
 */
export function finalFailure(tried: readonly { readonly failure: Failure }[]): Failure {
  const failures = tried.map((attempt) => attempt.failure);
  const last = failures.at(-1);
  if (last === undefined) throw new Error("no attempt was made, so none of them failed");

  const ending =
    failures.find(({ kind }) => standing[kind] === "ended") ?? failures.find(({ kind }) => standing[kind] === "client");
  if (ending !== undefined) return ending;

  const passing = failures.filter(({ kind }) => standing[kind] !== "pair");
  if (passing.length === 0) return last;
  if (passing.every(({ kind }) => kind === "rate_limited")) return soonest(passing);
  if (passing.every(({ kind }) => standing[kind] === "refused")) {
    return passing.find(({ kind }) => kind === "unauthorized") ?? passing[0]!;
  }
  const kind = mixtureOrder.find((candidate) => passing.some((failure) => failure.kind === candidate));
  if (kind === "rate_limited") return soonest(passing);
  return passing.findLast((failure) => failure.kind === kind) ?? last;
}

const standing: { readonly [K in FailureKind]: "ended" | "client" | "pair" | "refused" | "trouble" } = {
  client_gone: "ended",
  interrupted: "ended",
  shutting_down: "ended",
  internal: "ended",
  invalid_request: "client",
  content_policy: "client",
  too_large: "pair",
  context_length: "pair",
  unsupported: "pair",
  ceiling: "pair",
  unauthorized: "refused",
  quota_exhausted: "refused",
  model_missing: "refused",
  misconfigured: "refused",
  redirected: "refused",
  deadline: "trouble",
  timed_out: "trouble",
  overloaded: "trouble",
  rate_limited: "trouble",
  disconnected: "trouble",
  stale_socket: "trouble",
  model_failed: "trouble",
  bad_response: "trouble",
  saturated: "trouble",
  no_channel: "trouble",
  connect_timeout: "trouble",
  tls_failed: "trouble",
  unreachable: "trouble",
};

const mixtureOrder: readonly FailureKind[] = [
  "timed_out",
  "deadline",
  "overloaded",
  "saturated",
  "no_channel",
  "rate_limited",
  "disconnected",
  "stale_socket",
  "bad_response",
  "model_failed",
  "connect_timeout",
  "unreachable",
  "tls_failed",
  "unauthorized",
  "quota_exhausted",
  "model_missing",
  "misconfigured",
  "redirected",
];

/** The rate limit with the shortest wait that was named; one without a figure only if none has. */
function soonest(failures: readonly Failure[]): Failure {
  const limited = failures.filter(({ kind }) => kind === "rate_limited");
  return limited.reduce((best, one) => ((one.retryAfterMs ?? Infinity) < (best.retryAfterMs ?? Infinity) ? one : best));
}
