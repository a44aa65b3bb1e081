import type { Failure } from "../operations/failure.ts";
import type { Arrival } from "./arrival.ts";
import { readBody, wholeBody } from "./body.ts";
import type { Incoming } from "../net/server/incoming.ts";
import { notJson } from "./refusals.ts";

/** A request whose body is one JSON document, as far as its headers tell. */
export function barsNotJson(request: Incoming): Failure | null {
  const type = request.header("content-type");
  return type === null || isJson(type) ? null : notJson;
}

function isJson(type: string): boolean {
  return type === "application/json" || /^application\/json\s*(;|$)/i.test(type);
}

export function readJsonBody({ request, snapshot, edge }: Arrival): Uint8Array | Failure | Promise<Uint8Array | Failure> {
  const { bodyBytesMax, bodyReadMs } = snapshot.service;
  const whole = wholeBody(request, bodyBytesMax);
  if (whole !== null) return whole;
  const { gateway, hasRoom } = edge;
  return readBody(request, { bytesMax: bodyBytesMax, readMs: bodyReadMs, after: gateway.ports.after, hasRoom });
}
