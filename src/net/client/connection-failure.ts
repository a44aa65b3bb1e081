import { failure, type Failure, type FailureKind } from "../../operations/failure.ts";

/** Maps an exception of the HTTP client to a failure. The codes in the table were found by provoking each of them. */
export function connectionFailure(error: unknown): Failure {
  const code = codeOf(error);
  return failure(kinds[code] ?? (code.includes("CERT") ? "tls_failed" : "bad_response"), `the connection failed: ${code}`);
}

const kinds: { readonly [code: string]: FailureKind } = {
  ECONNREFUSED: "unreachable",
  ENOENT: "unreachable",
  EACCES: "unreachable",
  ENOTFOUND: "unreachable",
  EAI_AGAIN: "unreachable",
  ENODATA: "unreachable",
  ESERVFAIL: "unreachable",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  ETIMEDOUT: "connect_timeout",
  EADDRNOTAVAIL: "unreachable",
  FailedToOpenSocket: "unreachable",
  ConnectionRefused: "unreachable",
  DNSResolutionFailed: "unreachable",
  EBARRED: "misconfigured",
  EPROTO: "tls_failed",
  DEPTH_ZERO_SELF_SIGNED_CERT: "tls_failed",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "tls_failed",
  ERR_TLS_CERT_ALTNAME_INVALID: "tls_failed",
  ECONNRESET: "disconnected",
  EPIPE: "disconnected",
  ConnectionClosed: "disconnected",
};

/** The code or name of an error, without its message, which may contain a path or a secret. */
export function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return "unknown";
  const { code, name } = error as { code?: unknown; name?: unknown };
  if (typeof code === "string") return code;
  return typeof name === "string" ? name : "unknown";
}
