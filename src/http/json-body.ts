import type { Failure } from "../operations/failure.ts";
import type { RequestContext } from "./request-context.ts";
import { readBody, wholeBody } from "./body.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";
import { notJson } from "./request-errors.ts";

/** A request whose body is one JSON document, as far as its headers tell. */
export function rejectNotJson(request: IncomingRequest): Failure | null {
  const type = request.header("content-type");
  return type === null || isJson(type) ? null : notJson;
}

function isJson(type: string): boolean {
  return type === "application/json" || /^application\/json\s*(;|$)/i.test(type);
}

export function readJsonBody({ request, snapshot, services }: RequestContext): Uint8Array | Failure | Promise<Uint8Array | Failure> {
  const { bodyBytesMax, bodyReadMs } = snapshot.service;
  const whole = wholeBody(request, bodyBytesMax);
  if (whole !== null) return whole;
  const { gateway, hasRoom } = services;
  return readBody(request, { bytesMax: bodyBytesMax, readMs: bodyReadMs, after: gateway.ports.after, hasRoom });
}
