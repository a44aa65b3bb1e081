import type { UpstreamRequest } from "../../dialects/dialect.ts";
import type { Channel } from "../../channels/channel.ts";
import type { Exchange, Reply, Send, TraceHeaders } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure, type FailureKind } from "../../operations/failure.ts";
import type { Origin } from "./connection.ts";
import { startExchange, type SendClock, type UpstreamTarget } from "./exchange.ts";
import { Pool } from "./pool.ts";
import { destinationOf, makeHead, pathStart, traceLines, type Destination } from "./request-head.ts";

/**
 * The only place that talks to upstreams. It never throws, never follows a redirect, and has no timer but the one for
 * connecting: the caller aborts an exchange that takes too long.
 */
export function makeSend(
  secret: (channel: Channel, credential: string) => string | undefined,
  nowMs: () => number,
  engineSocket: EngineSocket = noEngines,
  standstillMs: SendClock["standstillMs"] = () => 0,
): Send {
  const pool = new Pool(nowMs);
  const engineWaiters = new EngineWaiters();
  const clock: SendClock = { nowMs, standstillMs };
  const prepared = new WeakMap<UpstreamRequest["headers"], PreparedRequest>();
  const parsedUrls = { any: new Map<string, Destination>(), public: new Map<string, Destination>() };

  return function send(request, channel, credential, trace = null) {
    const key = secret(channel, credential);
    // Most requests of a channel have the same headers, and then the same target and the same head but for the Content-Length.
    const last = prepared.get(request.headers);
    if (last !== undefined && isFor(last, request, channel, key))
      return startExchange(last.target, last.head, request.body, traceLines(trace));
    return prepare(request, channel, key, trace);
  };

  function prepare(request: UpstreamRequest, channel: Channel, key: string | undefined, trace: TraceHeaders | null): Exchange {
    const { url, method } = request;
    const { connectMs } = channel.timeouts;
    if (url.startsWith(engineScheme)) return engineExchange(request, url.slice(pathStart(url)), connectMs, traceLines(trace));
    const { origin, host, path } = channel.proxy === null ? parseUrl(url, channel.reach) : destinationOf(url, channel.reach, channel.proxy);
    const { authHeader, authPrefix } = channel.address;
    const head = makeHead(request, path, { host, authHeader, auth: authValue(authPrefix, key) });
    const target = { origin, pool, connectMs, clock };
    prepared.set(request.headers, { channel, url, key, method, target, head });
    return startExchange(target, head, request.body, traceLines(trace));
  }

  /** Few URLs are requested over and over; those that contain a model's name may be many. */
  function parseUrl(url: string, reach: Origin["reach"]): Destination {
    const cache = reach === "public" ? parsedUrls.public : parsedUrls.any;
    const cached = cache.get(url);
    if (cached !== undefined) return cached;
    const parsed = destinationOf(url, reach);
    if (cache.size >= parsedUrlsMax) cache.clear();
    cache.set(url, parsed);
    return parsed;
  }

  /**
   * Engines have no credentials: only this process can reach their sockets. An idle engine exits by itself, so one that
   * disappears before it answers is started once more, without blame.
   */
  function engineExchange(request: UpstreamRequest, target: string, connectMs: number, lines: string): Exchange {
    const [path = ""] = target.split("?", 1);
    const head = makeHead(request, target, { host: "local", authHeader: "authorization", auth: null });
    let waitingAt: string | null = null;
    let isAborted = false;
    const start = (lost: string | null, wasAlone: boolean): Exchange => {
      const origin = async (): Promise<Origin | Failure> => {
        const socket = await engineSocket(path, lost, wasAlone);
        // Nobody would count it as gone from there.
        if (isAborted) return failure("client_gone", "the exchange was aborted");
        if (waitingAt !== null) engineWaiters.leave(waitingAt, false);
        waitingAt = typeof socket === "string" ? socket : null;
        if (waitingAt !== null) engineWaiters.enter(waitingAt);
        return typeof socket === "string" ? engineOrigin(socket) : socket;
      };
      return startExchange({ origin, pool, connectMs, clock }, head, request.body, lines);
    };
    let exchange = start(null, false);
    /** Returns whether no other request was waiting there. */
    const leave = (reply: Reply | Failure): boolean => {
      const isLost = isFailure(reply) && lostKinds.includes(reply.kind);
      return waitingAt !== null && engineWaiters.leave(waitingAt, isLost);
    };
    const run = async (): Promise<Reply | Failure> => {
      const first = await exchange.reply;
      const wasAlone = leave(first);
      if (isAborted || waitingAt === null || !isFailure(first) || !lostKinds.includes(first.kind)) return first;
      exchange = start(waitingAt, wasAlone);
      waitingAt = null;
      const second = await exchange.reply;
      leave(second);
      return second;
    };
    const abort = (): void => {
      isAborted = true;
      exchange.abort();
    };
    return {
      reply: run(),
      abort,
      get isUnsent() {
        return exchange.isUnsent === true;
      },
    };
  }
}

/**
 * Resolves to the unix socket of the engine that serves a path, once it is ready. Never throws. `lost` is a socket that it gave
 * before, and where nobody answered; `wasAlone`: no other request was waiting there.
 */
export type EngineSocket = (path: string, lost: string | null, wasAlone: boolean) => Promise<string | Failure>;

/**
 * Counts the requests that wait at each engine: if several waited when an engine exited, it is not known which of them caused
 * it.
 */
class EngineWaiters {
  private readonly sockets = new Map<string, { count: number; lostTogether: boolean }>();

  enter(socket: string): void {
    const at = this.sockets.get(socket);
    if (at === undefined) this.sockets.set(socket, { count: 1, lostTogether: false });
    else at.count++;
  }

  /** Returns whether it was the only one. */
  leave(socket: string, isLost: boolean): boolean {
    const at = this.sockets.get(socket);
    if (at === undefined) return false;
    const wasAlone = at.count === 1 && !at.lostTogether;
    at.count--;
    if (isLost) at.lostTogether = true;
    if (at.count === 0) this.sockets.delete(socket);
    return wasAlone;
  }
}

/** Nobody listened, or the connection was closed without a response. */
const lostKinds: readonly FailureKind[] = ["unreachable", "disconnected"];

const engineScheme = "engine:";

function noEngines(): Promise<Failure> {
  return Promise.resolve(failure("misconfigured", "this gateway has no engines of its own"));
}

const parsedUrlsMax = 1024;

function authValue(prefix: string, secret: string | undefined): string | null {
  return secret === undefined || secret === "" ? null : prefix + secret;
}

/** The last request with the same headers, and what was prepared for it. */
interface PreparedRequest {
  readonly channel: Channel;
  readonly url: string;
  readonly key: string | undefined;
  readonly method: string;
  readonly target: UpstreamTarget;
  readonly head: Uint8Array;
}

function isFor(last: PreparedRequest, { url, method }: UpstreamRequest, channel: Channel, key: string | undefined): boolean {
  return last.channel === channel && last.url === url && last.key === key && last.method === method;
}

function engineOrigin(socketPath: string): Origin {
  return { key: engineScheme + socketPath, hostname: "", port: 0, secure: false, reach: "any", socketPath };
}
