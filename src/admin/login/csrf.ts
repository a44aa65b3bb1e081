import { isJson } from "../json-body.ts";
import { AdminError } from "../admin-error.ts";
import { timingSafeEqual } from "node:crypto";

/**
 * Why a request that a browser's cookie vouches for may not change anything, or null. Another site can make a browser send a request,
 * but it can neither know the session's token, nor send JSON or a header of its own without asking us first, nor hide where it is.
 */
export function csrfProblem(headers: Headers, csrf: string, secure: boolean): AdminError | null {
  const foreign = foreignOrigin(headers, secure);
  if (foreign !== null) return foreign;
  if (headers.get("origin") === null && headers.get("sec-fetch-site") === null) {
    return refused("A request with a session's cookie must say where it comes from: it has neither 'Origin' nor 'Sec-Fetch-Site'.");
  }
  if (!isJson(headers.get("content-type"))) {
    return refused("A request with a session's cookie that changes something must have 'Content-Type: application/json'.");
  }
  if (!sameText(headers.get("x-csrf-token") ?? "", csrf)) {
    return refused("The header 'x-csrf-token' must hold the session's token, which GET /admin/api/me tells.");
  }
  return null;
}

/** Why a request is not from our own pages, as far as it says where it comes from. Programs say nothing, which is fine. */
export function foreignOrigin(headers: Headers, secure: boolean): AdminError | null {
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin") return refused("The request was made by a page of another site.");
  const origin = headers.get("origin");
  if (origin === null || origin.toLowerCase() === `${secure ? "https" : "http"}://${(headers.get("host") ?? "").toLowerCase()}`)
    return null;
  return refused("The request was made by a page of another origin than the one it is sent to.");
}

function refused(message: string): AdminError {
  return new AdminError(403, "csrf", message);
}

/** Compares in a time that tells nothing about where two texts differ. */
export function sameText(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}
