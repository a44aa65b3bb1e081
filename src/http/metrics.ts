import { timingSafeEqual } from "node:crypto";
import { parseBearer } from "../keys/bearer.ts";
import { failure } from "../operations/failure.ts";
import type { HttpResponse, ResponseHead } from "../net/server/http-response.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";
import { errorResponse } from "./errors.ts";
import { wrongMethod } from "./request-errors.ts";

export const metricsPath = "/metrics";

/** Metrics on the listener of the clients. Client keys do not open them. */
export interface MetricsEndpoint {
  /** Null: everybody may read them. */
  readonly token: string | null;
  readonly text: () => Promise<string>;
}

export async function metricsResponse(
  request: IncomingRequest,
  head: ResponseHead,
  { token, text }: MetricsEndpoint,
): Promise<HttpResponse> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    head.add("allow", "GET");
    return errorResponse(wrongMethod(request.method, metricsPath), head);
  }
  if (token !== null && !isToken(request.header("authorization"), token)) return errorResponse(noMetricsToken, head);
  head.type = "text/plain; version=0.0.4; charset=utf-8";
  return { status: 200, head, body: await text() };
}

function isToken(header: string | null, token: string): boolean {
  const given = parseBearer(header);
  if (typeof given !== "string") return false;
  const [one, other] = [Buffer.from(given), Buffer.from(token)];
  return one.length === other.length && timingSafeEqual(one, other);
}

const noMetricsToken = failure("invalid_request", "no metrics token", {
  status: 401,
  type: "invalid_request_error",
  code: "invalid_api_key",
  message: "The metrics need the token of the setting `metrics.token`, as 'Authorization: Bearer …'.",
});
