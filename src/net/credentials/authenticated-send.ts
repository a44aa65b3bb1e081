import type { UpstreamRequest } from "../../dialects/dialect.ts";
import type { Channel } from "../../channels/channel.ts";
import { awsKeysOf, type ChannelAuth } from "../../channels/channel-auth.ts";
import type { Exchange, Reply, Send } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { signatureHeaders } from "./aws-signature.ts";
import { TokenCache } from "./token-cache.ts";
import type { ObtainToken } from "./token-client.ts";
import type { TokenAuth } from "./token-request.ts";

export interface CredentialSources {
  readonly secret: (channel: Channel, credential: string) => string | undefined;
  readonly wallMs: () => number;
  readonly tokens: TokenCache;
  readonly obtain: ObtainToken;
}

/** Sends each request with the proof that its channel needs: a signature or an access token. A plain key is added by `send` itself. */
export function withCredentials(send: Send, { secret, wallMs, tokens, obtain }: CredentialSources): Send {
  return function sendAuthenticated(request, channel, credential, trace) {
    const { auth } = channel;
    return auth === undefined ? send(request, channel, credential, trace) : sendWithProof(auth, request, channel, credential, trace);
  };

  function sendWithProof(auth: ChannelAuth, ...[request, channel, credential, trace]: Parameters<Send>): Exchange {
    const known = secret(channel, credential);
    const sendProven = (headers: UpstreamRequest["headers"]): Exchange => send({ ...request, headers }, channel, credential, trace);
    return auth.kind === "aws" ? signed(request, channel, auth, known, sendProven) : bearer(request, channel, auth, known, sendProven);
  }

  function signed(
    request: UpstreamRequest,
    channel: Channel,
    auth: ChannelAuth & { readonly kind: "aws" },
    known: string | undefined,
    sendProven: (headers: UpstreamRequest["headers"]) => Exchange,
  ): Exchange {
    const { method, url, headers, body } = request;
    if (body !== null && !(body instanceof Uint8Array)) return failed(failure("misconfigured", "an upload cannot be signed"));
    const type = headers["content-type"];
    const own = { host: new URL(url).host, ...(type === undefined ? undefined : { "content-type": type }) };
    const sendWith = (text: string): Exchange => {
      const keys = awsKeysOf(text);
      if (keys === null) return failed(failure("misconfigured", "the channel has no access keys to sign with", { scope: "credential" }));
      const signature = signatureHeaders({ method, url, headers: own, body }, keys, auth, wallMs());
      return sendProven({ ...headers, ...signature });
    };
    if (known !== undefined) return sendWith(known);
    const keys = tokens.token(JSON.stringify([auth.kind, auth.region]), () => obtain(auth, undefined, channel));
    return typeof keys === "string" ? sendWith(keys) : later(keys, sendWith);
  }

  function bearer(
    request: UpstreamRequest,
    channel: Channel,
    auth: TokenAuth,
    known: string | undefined,
    sendProven: (headers: UpstreamRequest["headers"]) => Exchange,
  ): Exchange {
    const identity = JSON.stringify([auth.kind, auth.tokenUrl, auth.scope, known ?? null]);
    const sendWith = (token: string): Exchange => {
      const exchange = sendProven({ ...request.headers, authorization: `Bearer ${token}` });
      const reply = exchange.reply.then((answer) => {
        if (!isFailure(answer) && answer.status === refused) tokens.forget(identity, token);
        return answer;
      });
      return {
        reply,
        abort: () => exchange.abort(),
        get isUnsent() {
          return exchange.isUnsent === true;
        },
      };
    };
    const token = tokens.token(identity, () => obtain(auth, known, channel));
    return typeof token === "string" ? sendWith(token) : later(token, sendWith);
  }
}

const refused = 401;

/** An exchange that begins when its token is there. It can be aborted before that. */
function later(token: Promise<string | Failure>, start: (token: string) => Exchange): Exchange {
  const { promise, resolve } = Promise.withResolvers<Reply | Failure>();
  let exchange: Exchange | null = null;
  let isAborted = false;
  void token.then((value) => {
    if (isAborted) return;
    if (typeof value !== "string") return resolve(value);
    exchange = start(value);
    void exchange.reply.then(resolve);
  });
  const abort = (): void => {
    isAborted = true;
    exchange?.abort();
    resolve(failure("client_gone", "the exchange was aborted"));
  };
  return {
    reply: promise,
    abort,
    get isUnsent() {
      return exchange === null || exchange.isUnsent === true;
    },
  };
}

function failed(cause: Failure): Exchange {
  return { reply: Promise.resolve(cause), abort: () => {} };
}
