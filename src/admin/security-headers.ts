/** The headers of every answer of the admin listener. There are no `access-control-*` headers, so no other origin can read an answer. */
export function securityHeaders(requestId: string, secure: boolean): Headers {
  const headers = new Headers(prepared);
  headers.set("x-request-id", requestId);
  if (secure) headers.set("strict-transport-security", "max-age=31536000");
  return headers;
}

const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  // Recordings and speech that the console has made or fetched itself.
  "media-src 'self' blob:",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join("; ");

const prepared = new Headers({
  "cache-control": "no-store",
  vary: "authorization, cookie",
  "content-security-policy": contentPolicy,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
});

/** The id of a request: the caller's own if it is safe to log, else a new one. */
export function requestIdOf(given: string | null): string {
  if (given !== null && /^[\w.-]{1,64}$/.test(given)) return given;
  return `req_${crypto.randomUUID().replaceAll("-", "")}`;
}
