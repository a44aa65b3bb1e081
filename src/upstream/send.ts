import type { UpstreamRequest } from "../adapters/adapter.ts";
import type { Send } from "../gateway/ports.ts";
import type { Origin } from "./connection.ts";
import { HttpExchange } from "./exchange.ts";
import { Pool } from "./pool.ts";
import { proxiedExchange } from "./proxied.ts";

/**
 * The only place that talks to upstreams. It never throws, never follows a redirect and owns no timer but the one for
 * connecting: whoever waits for an answer aborts the exchange.
 */
export function makeSend(secret: (credential: string) => string | undefined, nowMs: () => number): Send {
  const pool = new Pool(nowMs);
  const origins = new Map<string, Origin>();

  return function send(request, { channel, credential }) {
    const { authHeader, host } = channel.address;
    const auth = authValue(authHeader, secret(credential));
    if (channel.proxy !== null) {
      return proxiedExchange(
        request,
        { ...request.headers, ...ownHeaders, ...(auth === null ? undefined : { [authHeader]: auth }) },
        channel.proxy,
      );
    }
    const pathAt = pathStart(request.url);
    const address = request.url.slice(0, pathAt);
    let origin = origins.get(address);
    if (origin === undefined) origins.set(address, (origin = originOf(address)));
    return new HttpExchange({
      origin,
      pool,
      connectMs: channel.timeouts.connectMs,
      head: headText(request, request.url.slice(pathAt), { host, authHeader, auth }),
      body: request.body,
    });
  };
}

/** What every request says of itself. */
const ownHeaders = { "accept-encoding": "identity", "user-agent": "sluice" };
const ownLines = "accept-encoding: identity\r\nuser-agent: sluice\r\n";

function authValue(header: string, secret: string | undefined): string | null {
  if (secret === undefined || secret === "") return null;
  return header === "authorization" ? `Bearer ${secret}` : secret;
}

interface OwnWords {
  readonly host: string;
  readonly authHeader: string;
  readonly auth: string | null;
}

function headText({ method, body, headers }: UpstreamRequest, path: string, { host, authHeader, auth }: OwnWords): string {
  let head = `${method} ${path === "" ? "/" : path} HTTP/1.1\r\nhost: ${host}\r\n${ownLines}`;
  if (auth !== null) head += `${authHeader}: ${oneLine(auth)}\r\n`;
  for (const name in headers) {
    // What was given beside our own word is not said twice: the upstream might believe the other one.
    if (name === "user-agent" || name === "accept-encoding" || (name === authHeader && auth !== null)) continue;
    head += `${name}: ${oneLine(headers[name]!)}\r\n`;
  }
  return body === null ? `${head}\r\n` : `${head}content-length: ${body.length}\r\n\r\n`;
}

/** No value, whoever it comes from, may begin a header of its own. */
function oneLine(value: string): string {
  return unsafe.test(value) ? value.replace(/[^\t\x20-\x7e\x80-\xff]/g, "") : value;
}

const unsafe = /[^\t\x20-\x7e\x80-\xff]/;

function pathStart(url: string): number {
  const at = url.indexOf("/", url.indexOf("://") + 3);
  return at < 0 ? url.length : at;
}

function originOf(address: string): Origin {
  const { protocol, hostname, port } = new URL(address);
  const secure = protocol === "https:";
  return { key: address, hostname: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (secure ? 443 : 80)), secure };
}
