import type { UpstreamRequest } from "../adapters/adapter.ts";
import type { Channel } from "../channels/channel.ts";
import type { Exchange, Send } from "../gateway/ports.ts";
import { failure, isFailure, type Failure, type FailureKind } from "../operations/failure.ts";
import { oneLine } from "../wire/header-value.ts";
import type { Origin } from "./connection.ts";
import { HttpExchange } from "./exchange.ts";
import { Pool } from "./pool.ts";
import { proxiedExchange } from "./proxied.ts";

/**
 * The only place that talks to upstreams. It never throws, never follows a redirect and owns no timer but the one for
 * connecting: whoever waits for an answer aborts the exchange.
 */
export function makeSend(
  secret: (channel: Channel, credential: string) => string | undefined,
  nowMs: () => number,
  engineSocket: EngineSocket = noEngines,
): Send {
  const pool = new Pool(nowMs);
  const heads = new WeakMap<UpstreamRequest["headers"], KnownHead>();
  const places = { any: new Map<string, Place>(), public: new Map<string, Place>() };

  return function send(request, { channel, credential }) {
    const key = secret(channel, credential);
    if (channel.proxy !== null) {
      const { authHeader, authPrefix } = channel.address;
      const auth = authValue(authPrefix, key);
      return proxiedExchange(
        request,
        { ...request.headers, ...ownHeaders, ...(auth === null ? undefined : { [authHeader]: auth }) },
        channel.proxy,
      );
    }
    const { origin, path } = placeOf(request.url, channel.reach);
    if (origin === null) return engineExchange(request, path, channel.timeouts.connectMs);
    const head = withLength(linesOf(request, path, channel, key), request.body);
    return new HttpExchange({ origin, pool, connectMs: channel.timeouts.connectMs, head, body: request.body });
  };

  /** Most requests of a channel have the same headers, and then the same head but for their length. */
  function linesOf(request: UpstreamRequest, path: string, channel: Channel, key: string | undefined): string {
    const known = heads.get(request.headers);
    if (known?.channel === channel && known.path === path && known.key === key && known.method === request.method) return known.lines;
    const { authHeader, authPrefix, host } = channel.address;
    const lines = headLines(request, path, { host, authHeader, auth: authValue(authPrefix, key) });
    heads.set(request.headers, { channel, path, key, method: request.method, lines });
    return lines;
  }

  /** Few addresses are asked over and over; those that hold a model's name may be many. */
  function placeOf(url: string, reach: Origin["reach"]): Place {
    const known = reach === "public" ? places.public : places.any;
    const place = known.get(url);
    if (place !== undefined) return place;
    const pathAt = pathStart(url);
    const address = url.slice(0, pathAt);
    const origin = address.startsWith(engineScheme) ? null : originOf(address, reach === "public" ? `${reach} ${address}` : address, reach);
    const made = { origin, path: url.slice(pathAt) };
    if (known.size >= placesMax) known.clear();
    known.set(url, made);
    return made;
  }

  /**
   * Engines have no credentials: nobody but this process can reach their sockets. One that ended in the moment it was
   * asked, before it said anything, is asked for once more: it goes by itself when it is idle, and nobody is to blame.
   */
  function engineExchange(request: UpstreamRequest, target: string, connectMs: number): Exchange {
    const [path = ""] = target.split("?", 1);
    const head = withLength(headLines(request, target, { host: "local", authHeader: "authorization", auth: null }), request.body);
    let asked: string | null = null;
    let aborted = false;
    const attempt = (lost: string | null): HttpExchange => {
      const origin = async (): Promise<Origin | Failure> => {
        const socket = await engineSocket(path, lost);
        asked = typeof socket === "string" ? socket : null;
        return typeof socket === "string" ? engineOrigin(socket) : socket;
      };
      return new HttpExchange({ origin, pool, connectMs, head, body: request.body });
    };
    let exchange = attempt(null);
    const reply = exchange.reply.then((first) => {
      if (aborted || asked === null || !isFailure(first) || !lostKinds.includes(first.kind)) return first;
      exchange = attempt(asked);
      return exchange.reply;
    });
    const abort = (): void => {
      aborted = true;
      exchange.abort();
    };
    return { reply, abort };
  }
}

/**
 * Gives the unix socket of the engine that serves a path, once it is ready to be asked. Never throws. `lost` is one that
 * it gave before, and where nobody answered.
 */
export type EngineSocket = (path: string, lost: string | null) => Promise<string | Failure>;

/** Nobody was there, or went without a word. */
const lostKinds: readonly FailureKind[] = ["unreachable", "disconnected"];

const engineScheme = "engine:";

function noEngines(): Promise<Failure> {
  return Promise.resolve(failure("misconfigured", "this gateway has no engines of its own"));
}

/** What an address says. */
interface Place {
  /** Null where an engine of this process is meant. */
  readonly origin: Origin | null;
  readonly path: string;
}

const placesMax = 1024;

/** What every request says of itself. */
const ownHeaders = { "accept-encoding": "identity", "user-agent": "sluice" };
const ownLines = "accept-encoding: identity\r\nuser-agent: sluice\r\n";

function authValue(prefix: string, secret: string | undefined): string | null {
  return secret === undefined || secret === "" ? null : prefix + secret;
}

interface OwnWords {
  readonly host: string;
  readonly authHeader: string;
  readonly auth: string | null;
}

/** The beginning of a request, as it was made for the last one with the same headers. */
interface KnownHead {
  readonly channel: Channel;
  readonly path: string;
  readonly key: string | undefined;
  readonly method: string;
  readonly lines: string;
}

function headLines({ method, headers }: UpstreamRequest, path: string, { host, authHeader, auth }: OwnWords): string {
  let head = `${method} ${path === "" ? "/" : path} HTTP/1.1\r\nhost: ${host}\r\n${ownLines}`;
  if (auth !== null) head += `${authHeader}: ${oneLine(auth, "")}\r\n`;
  for (const name in headers) {
    // What was given beside our own word is not said twice: the upstream might believe the other one.
    if (name === "user-agent" || name === "accept-encoding" || (name === authHeader && auth !== null)) continue;
    head += `${name}: ${oneLine(headers[name]!, "")}\r\n`;
  }
  return head;
}

function withLength(lines: string, body: UpstreamRequest["body"]): string {
  return body === null ? `${lines}\r\n` : `${lines}content-length: ${body.length}\r\n\r\n`;
}

function pathStart(url: string): number {
  const at = url.indexOf("/", url.indexOf("://") + 3);
  return at < 0 ? url.length : at;
}

/** A connection that was opened for a channel of one reach never serves one of another. */
function originOf(address: string, key: string, reach: Origin["reach"]): Origin {
  const { protocol, hostname, port } = new URL(address);
  const secure = protocol === "https:";
  return {
    key,
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || (secure ? 443 : 80)),
    secure,
    reach,
    socketPath: null,
  };
}

function engineOrigin(socketPath: string): Origin {
  return { key: engineScheme + socketPath, hostname: "", port: 0, secure: false, reach: "any", socketPath };
}
