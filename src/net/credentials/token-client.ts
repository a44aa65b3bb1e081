import type { Channel } from "../../channels/channel.ts";
import type { Exchange } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { startExchange } from "../client/exchange.ts";
import { Pool } from "../client/pool.ts";
import { startProxiedExchange } from "../client/proxied-exchange.ts";
import { makeHead, originOf, pathStart } from "../client/request-head.ts";
import { readToken, tokenRequest, type AccessToken, type TokenAuth, type TokenRequest } from "./token-request.ts";

/** Requests an access token for a channel. Never throws. */
export type ObtainToken = (auth: TokenAuth, secret: string | undefined, channel: Channel) => Promise<AccessToken | Failure>;

export interface TokenClientClock {
  /** The time of day, which requests state. */
  readonly wallMs: () => number;
  readonly nowMs: () => number;
  readonly timeoutMs?: number;
}

export function makeObtainToken({ wallMs, nowMs, timeoutMs = tokenTimeoutMs }: TokenClientClock): ObtainToken {
  const pool = new Pool(nowMs);

  return async function obtain(auth, secret, channel) {
    const request = tokenRequest(auth, secret, wallMs());
    if (isFailure(request)) return request;
    const exchange = start(request, channel);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      exchange.abort();
    }, timeoutMs);
    const reply = await exchange.reply;
    const body = isFailure(reply) ? reply : await reply.bytes(answerBytesMax);
    clearTimeout(timer);
    if (isLate) return failure("timed_out", `the token service did not answer within ${timeoutMs} ms`, { scope: "credential" });
    if (isFailure(reply)) return unreachable(reply);
    if (isFailure(body)) return unreachable(body);
    return readToken(reply.status, new TextDecoder().decode(body));
  };

  /** The same way as the channel's own requests: through its proxy, and for a channel of the admin API to public addresses only. */
  function start({ method, url, headers, body, metadata }: TokenRequest, channel: Channel): Exchange {
    const content = body === null ? null : new TextEncoder().encode(body);
    if (channel.proxy !== null && !metadata) return startProxiedExchange({ method, url, headers, body: content }, headers, channel.proxy);
    const reach = metadata ? "metadata" : channel.reach;
    const pathAt = pathStart(url);
    const address = url.slice(0, pathAt);
    const origin = originOf(address, `${reach} ${address}`, reach);
    const head = makeHead({ method, headers }, url.slice(pathAt), { host: origin.host, authHeader: "authorization", auth: null });
    return startExchange({ origin: origin.origin, pool, connectMs: channel.timeouts.connectMs }, head, content);
  }
}

const tokenTimeoutMs = 10_000;
const answerBytesMax = 64 * 1024;

/** Charged to the credential: the upstream itself was not asked. */
function unreachable({ kind, detail }: Failure): Failure {
  return failure(kind === "client_gone" ? "unreachable" : kind, `the token service: ${detail}`, { scope: "credential" });
}
