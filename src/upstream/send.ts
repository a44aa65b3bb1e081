import type { UpstreamRequest } from "../adapters/adapter.ts";
import type { Reply, Send, SendOptions } from "../gateway/ports.ts";
import { failure, type Failure } from "../operations/failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { UpstreamReply } from "./reply.ts";

/**
 * The only place that talks to upstreams. It never throws, never follows a redirect, never decompresses behind our
 * back and owns no timer: whoever calls it aborts it.
 */
export function makeSend(secret: (credential: string) => string | undefined, nowMs: () => number): Send {
  /** When each host last answered: a pooled connection to it may still be open, or just gone stale. */
  const answeredMs = new Map<string, number>();

  return async function send(request, options) {
    const { host } = options.channel.address;
    const begunMs = nowMs();
    for (let fresh = options.fresh; ; fresh = true) {
      try {
        const response = await fetch(request.url, requestInit(request, options, secret(options.credential), fresh));
        answeredMs.set(host, nowMs());
        return soundReply(response);
      } catch (error) {
        const cause = connectionFailure(error);
        // Closed on a fresh connection, too: the kept one was not to blame, and the next request is sent but once.
        if (fresh && cause.kind === "disconnected") answeredMs.delete(host);
        if (fresh || options.signal.aborted || !isStale(cause, nowMs() - begunMs, answeredMs.get(host))) return cause;
      }
    }
  };
}

/**
 * A request on a pooled connection that the upstream had just closed fails at once and was never processed: it is
 * sent once more on a fresh connection, without blame. An upstream that closes after thinking for a while is not that.
 */
function isStale(reply: Failure, tookMs: number, answeredMs: number | undefined): boolean {
  return reply.kind === "disconnected" && answeredMs !== undefined && tookMs < staleWithinMs;
}

const staleWithinMs = 1000;

function requestInit(request: UpstreamRequest, { channel, signal }: SendOptions, secret: string | undefined, fresh: boolean): RequestInit {
  const { authHeader } = channel.address;
  const headers: Record<string, string> = { ...request.headers, "accept-encoding": "identity", "user-agent": userAgent };
  if (secret !== undefined && secret !== "") headers[authHeader] = authHeader === "authorization" ? `Bearer ${secret}` : secret;
  const init = {
    method: request.method,
    headers,
    body: request.body,
    signal,
    redirect: "manual",
    decompress: false,
    timeout: false,
    keepalive: !fresh,
  };
  if (channel.proxy !== null) Object.assign(init, { proxy: channel.proxy });
  // Bun keeps its idle connections per TLS context; naming the server gives each channel's host its own.
  if (request.url.startsWith("https:")) Object.assign(init, { tls: { serverName: serverName(channel.address.host) } });
  return init as RequestInit;
}

/** A head that could be read in two ways is no head. */
function soundReply(response: Response): Reply | Failure {
  if (!response.headers.has("transfer-encoding") || !response.headers.has("content-length")) return new UpstreamReply(response);
  response.body?.cancel().catch(ignore);
  return failure("bad_response", "the answer has both a length and a transfer encoding", { status: response.status });
}

const userAgent = "sluice";

function serverName(host: string): string {
  return host.replace(/:\d+$/, "").replace(/^\[|\]$/g, "");
}

function ignore(): void {}
