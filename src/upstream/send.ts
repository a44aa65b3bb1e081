import type { UpstreamRequest } from "../adapters/adapter.ts";
import type { Reply, Send, SendOptions } from "../gateway/ports.ts";
import { failure, type Failure } from "../operations/failure.ts";
import { connectionFailure } from "./connection-failure.ts";
import { replyOf } from "./reply.ts";

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
    let reply = await exchange(request, options, secret(options.credential));
    if ("blame" in reply && isStale(reply, nowMs() - begunMs, answeredMs.get(host)) && !options.signal.aborted) {
      reply = await exchange(request, { ...options, fresh: true }, secret(options.credential));
    }
    if (!("blame" in reply)) answeredMs.set(host, nowMs());
    return reply;
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

async function exchange(request: UpstreamRequest, options: SendOptions, secret: string | undefined): Promise<Reply | Failure> {
  const { channel } = options;
  const { authHeader } = channel.address;
  const headers: Record<string, string> = { ...request.headers, "accept-encoding": "identity", "user-agent": userAgent };
  if (secret !== undefined && secret !== "") headers[authHeader] = authHeader === "authorization" ? `Bearer ${secret}` : secret;
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers,
      body: request.body,
      signal: options.signal,
      redirect: "manual",
      decompress: false,
      timeout: false,
      keepalive: !options.fresh,
      ...(channel.proxy === null ? undefined : { proxy: channel.proxy }),
      // Bun keeps its idle connections per TLS context; naming the server gives each channel's host its own.
      ...(request.url.startsWith("https:") ? { tls: { serverName: serverName(channel.address.host) } } : undefined),
    } as RequestInit);
    if (response.headers.has("transfer-encoding") && response.headers.has("content-length")) {
      response.body?.cancel().catch(ignore);
      return failure("bad_response", "the answer has both a length and a transfer encoding", { status: response.status });
    }
    return replyOf(response);
  } catch (error) {
    return connectionFailure(error);
  }
}

const userAgent = "sluice";

function serverName(host: string): string {
  return host.replace(/:\d+$/, "").replace(/^\[|\]$/g, "");
}

function ignore(): void {}
