import type { FailureKind } from "../../src/operations/failure.ts";

/** Failures of an attempt after which another candidate may be tried. */
export const kindsOfChannels = [
  "unreachable",
  "tls_failed",
  "connect_timeout",
  "stale_socket",
  "disconnected",
  "timed_out",
  "overloaded",
  "rate_limited",
  "quota_exhausted",
  "unauthorized",
  "model_missing",
  "misconfigured",
  "redirected",
  "too_large",
  "context_length",
  "bad_response",
  "model_failed",
  "unsupported",
] as const satisfies readonly FailureKind[];

/** Those, and what is final: the client's own mistakes, and what comes too late for another attempt. */
export const kindsOfAttempts = [
  ...kindsOfChannels,
  "invalid_request",
  "content_policy",
  "interrupted",
  "deadline",
] as const satisfies readonly FailureKind[];
