import type { Failure, FailureKind } from "../operations/failure.ts";

/**
 * The failure that is reported to the client when several attempts failed: the one that helps it most to decide what to do next,
 * by the order below. Among equals the last one is reported, among rate limits the one with the shortest wait.
 */
export function finalFailure(attempts: readonly { readonly failure: Failure }[]): Failure {
  let best: Failure | undefined;
  for (const { failure } of attempts) {
    if (best === undefined || order[failure.kind] < order[best.kind]) best = failure;
    else if (failure.kind === best.kind && isMoreUseful(failure, best)) best = failure;
  }
  if (best === undefined) throw new Error("no attempt was made, so none of them failed");
  return best;
}

const order: { readonly [K in FailureKind]: number } = {
  // The call ended for a reason of its own.
  client_gone: 1,
  interrupted: 2,
  internal: 3,
  shutting_down: 4,
  key_revoked: 4,
  // These come before any attempt, so never together with another failure.
  limited: 5,
  store_unavailable: 6,
  // The request itself is wrong.
  invalid_request: 11,
  content_policy: 12,
  // Failures that may pass, the likeliest first. The client may try again.
  timed_out: 21,
  deadline: 22,
  overloaded: 23,
  saturated: 24,
  no_channel: 25,
  rate_limited: 26,
  disconnected: 27,
  stale_socket: 28,
  bad_response: 29,
  model_failed: 30,
  connect_timeout: 31,
  unreachable: 32,
  tls_failed: 33,
  // Our credentials or configuration. The operator must fix them first.
  unauthorized: 41,
  quota_exhausted: 42,
  model_missing: 43,
  misconfigured: 44,
  redirected: 45,
  // What one channel could not do with this request. The others, which failed for another reason, may serve it later.
  context_length: 51,
  too_large: 52,
  ceiling: 53,
  unsupported: 54,
};

function isMoreUseful(later: Failure, best: Failure): boolean {
  if (later.kind !== "rate_limited") return true;
  return (later.retryAfterMs ?? Infinity) < (best.retryAfterMs ?? Infinity);
}
