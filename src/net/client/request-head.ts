import type { UpstreamRequest } from "../../dialects/dialect.ts";
import type { TraceHeaders } from "../../gateway/ports.ts";
import { safeFieldValue } from "../message/header-lines.ts";
import type { Origin } from "./connection.ts";

/** The headers that every request has. */
export const ownHeaders = { "accept-encoding": "identity", "user-agent": "sluice" };
const ownLines = "accept-encoding: identity\r\nuser-agent: sluice\r\n";

export interface HeadFields {
  readonly host: string;
  readonly authHeader: string;
  readonly auth: string | null;
}

/** The head of a request but for the Content-Length. Every character is one byte (Latin-1). */
export function makeHead(
  { method, headers }: Pick<UpstreamRequest, "headers"> & { readonly method: string },
  path: string,
  { host, authHeader, auth }: HeadFields,
): Uint8Array {
  let head = `${method} ${path === "" ? "/" : path} HTTP/1.1\r\nhost: ${host}\r\n${ownLines}`;
  if (auth !== null) head += `${authHeader}: ${safeFieldValue(auth, "")}\r\n`;
  for (const name in headers) {
    // Our own headers are not sent twice: the upstream might believe the other value.
    if (name === "user-agent" || name === "accept-encoding" || (name === authHeader && auth !== null)) continue;
    head += `${name}: ${safeFieldValue(headers[name]!, "")}\r\n`;
  }
  return Buffer.from(head, "latin1");
}

/** The lines that tell an upstream which trace its request belongs to. The state is as the client sent it. */
export function traceLines(trace: TraceHeaders | null): string {
  if (trace === null) return "";
  const { traceparent, tracestate } = trace;
  const parent = `traceparent: ${traceparent}\r\n`;
  return tracestate === null ? parent : `${parent}tracestate: ${safeFieldValue(tracestate, "")}\r\n`;
}

/** The same as headers. */
export function traceFields(trace: TraceHeaders | null): Readonly<Record<string, string>> {
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return tracestate === null ? { traceparent } : { traceparent, tracestate };
}

export function pathStart(url: string): number {
  const at = url.indexOf("/", url.indexOf("://") + 3);
  return at < 0 ? url.length : at;
}

/**
 * Where to connect for an address, and the Host header, which leaves out the usual port. A connection that was opened under one reach
 * is never reused under another, so the key has to tell them apart.
 */
export function originOf(address: string, key: string, reach: Origin["reach"]): { readonly origin: Origin; readonly host: string } {
  const { protocol, hostname, port, host } = new URL(address);
  const secure = protocol === "https:";
  const origin = {
    key,
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || (secure ? 443 : 80)),
    secure,
    reach,
    socketPath: null,
  };
  return { origin, host };
}
