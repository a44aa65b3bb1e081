import type { HttpResponse, ResponseHead } from "../net/server/http-response.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";

/**
 * Lets pages of the configured origins read responses (the CORS protocol of the Fetch standard). The headers are added to the head that
 * every response of the request has, errors and streams included. Returns the answer to a preflight request; null for any other.
 *
 * Credentials of the browser, such as cookies, are never allowed: a key is sent in a header that the page itself sets.
 */
export function allowOrigin(request: IncomingRequest, head: ResponseHead, origins: ReadonlySet<string>): HttpResponse | null {
  const any = origins.has(anyOrigin);
  // Caches must not give the response for one origin to another.
  if (!any) head.add("vary", "origin");
  const origin = request.header("origin");
  if (origin === null || !(any || origins.has(origin))) return null;
  head.add("access-control-allow-origin", any ? anyOrigin : origin);
  if (request.method !== "OPTIONS" || request.header("access-control-request-method") === null) {
    head.add("access-control-expose-headers", "*");
    return null;
  }
  head.add("access-control-allow-methods", "GET, POST");
  const asked = request.header("access-control-request-headers");
  // A star would not include Authorization.
  if (asked !== null && isNameList(asked)) head.add("access-control-allow-headers", asked);
  head.add("access-control-max-age", maxAgeSeconds);
  return { status: 200, head, body: "" };
}

/** In the configuration, and in the answer to it. */
export const anyOrigin = "*";

function isNameList(text: string): boolean {
  return text.length <= namesLengthMax && /^[\w!#$%&'*+.^`|~, -]+$/.test(text);
}

const namesLengthMax = 4096;
/** Two hours, the most that a common browser remembers it. */
const maxAgeSeconds = "7200";
