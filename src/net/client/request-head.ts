import type { UpstreamRequest } from "../../dialects/dialect.ts";
import type { TraceHeaders } from "../../gateway/ports.ts";
import { safeFieldValue } from "../message/header-lines.ts";
import type { Origin } from "./connection.ts";

/** The headers that every request has. */
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

/** Where a request goes to: what to connect to, the Host header, and what to request there. */
export interface Destination {
  readonly origin: Origin;
  /** Without the usual port. */
  readonly host: string;
  /** The request target: a path, or for a proxy that passes the request on, the whole URL (RFC 9112, 3.2.2). */
  readonly path: string;
}

/** The destination of a URL. A connection that was opened under one reach, or through one proxy, is never reused under another. */
export function destinationOf(url: string, reach: Origin["reach"], proxy: string | null = null): Destination {
  const pathAt = pathStart(url);
  const address = url.slice(0, pathAt);
  const { host, ...place } = placeOf(address);
  const key = `${reach} ${address}`;
  if (proxy === null) return { origin: { key, ...place, reach, proxy: null }, host, path: url.slice(pathAt) };
  const { host: _, ...proxyPlace } = placeOf(proxy);
  const throughProxy: Origin = { key: proxy, ...proxyPlace, reach: "any" };
  const origin = { key: `${proxy} ${key}`, ...place, reach, proxy: throughProxy };
  return { origin, host, path: place.secure ? url.slice(pathAt) : url };
}

export function pathStart(url: string): number {
  const at = url.indexOf("/", url.indexOf("://") + 3);
  return at < 0 ? url.length : at;
}

function placeOf(address: string) {
  const { protocol, hostname, port, host } = new URL(address);
  const secure = protocol === "https:";
  return { host, hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (secure ? 443 : 80)), secure, socketPath: null };
}
