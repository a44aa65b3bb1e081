import { isJson } from "../json-body.ts";
import { AdminError } from "../admin-error.ts";
import { timingSafeEqual } from "node:crypto";

/**
 * Why a request that is authenticated by a cookie may be forged (CSRF); null if it is not. Another site can make a browser send a request,
 * but it does not know the session's CSRF token, cannot send JSON or a custom header without a preflight, and cannot change its origin.
 */
export function csrfProblem(headers: Headers, csrf: string, secure: boolean): AdminError | null {
  const foreign = foreignOrigin(headers, secure);
  if (foreign !== null) return foreign;
  if (headers.get("origin") === null && headers.get("sec-fetch-site") === null) {
    return refused("A request with a session cookie needs the header 'Origin' or 'Sec-Fetch-Site'.");
  }
  if (!isJson(headers.get("content-type"))) {
    return refused("A request with a session cookie that changes something needs 'Content-Type: application/json'.");
  }
  if (!sameText(headers.get("x-csrf-token") ?? "", csrf)) {
    return refused("The header 'x-csrf-token' must be the CSRF token of the session: GET /admin/api/me returns it.");
  }
  return null;
}

/** Why a request comes from another site, as far as its headers tell. Clients other than browsers do not send these headers. */
export function foreignOrigin(headers: Headers, secure: boolean): AdminError | null {
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin") return refused("The request was made by a page of another site.");
  const origin = headers.get("origin");
  if (origin === null || origin.toLowerCase() === `${secure ? "https" : "http"}://${(headers.get("host") ?? "").toLowerCase()}`)
    return null;
  return refused("The request was made by a page of another origin: 'Origin' and 'Host' differ.");
}

function refused(message: string): AdminError {
  return new AdminError(403, "csrf", message);
}

/** Compares in constant time. */
export function sameText(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
