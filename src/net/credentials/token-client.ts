import type { Channel } from "../../channels/channel.ts";
import { externalAccountOf, type ChannelAuth } from "../../channels/channel-auth.ts";
import { isMetadata } from "../../channels/network.ts";
import type { Exchange } from "../../gateway/ports.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { startExchange } from "../client/exchange.ts";
import { Pool } from "../client/pool.ts";
import { destinationOf, makeHead } from "../client/request-head.ts";
import { awsIdentity } from "./aws-identity.ts";
import { entraIdentity } from "./entra-identity.ts";
import { federatedToken } from "./google-federation.ts";
import { unusable, type IdentityPorts, type MachineFacts, type TokenAnswer } from "./identity-ports.ts";
import { googleMachineRequest, readToken, tokenRequest, type AccessToken, type TokenAuth, type TokenRequest } from "./token-request.ts";
import { readWithin } from "../client/read-within.ts";

/** Requests an access token for a channel, or the access keys of this machine. Never throws. */
export type ObtainToken = (auth: ChannelAuth, secret: string | undefined, channel: Channel) => Promise<AccessToken | Failure>;

export interface TokenClientOptions {
  /** The time of day, which requests state. */
  readonly wallMs: () => number;
  readonly nowMs: () => number;
  /** For all requests that a token takes, together. */
  readonly timeoutMs?: number;
  readonly machine?: MachineFacts;
}

export function makeObtainToken({ wallMs, nowMs, timeoutMs = tokenTimeoutMs, machine = nothingKnown }: TokenClientOptions): ObtainToken {
  const pool = new Pool(nowMs);
  const late = failure("timed_out", `the token service did not answer within ${timeoutMs} ms`, { scope: "credential" });

  return async function obtain(auth, secret, channel) {
    const untilMs = nowMs() + timeoutMs;
    const ports: IdentityPorts = { ...machine, wallMs, ask: (request) => ask(request, channel, untilMs) };
    if (secret !== undefined)
      return auth.kind === "aws" ? unusable("access keys are not requested") : withSecret(auth, secret, channel, ports);
    switch (auth.kind) {
      case "aws":
        return awsIdentity(auth.region, ports);
      case "entra":
        return entraIdentity(auth.scope, ports);
      case "google":
        return token(googleMachineRequest(), ports);
    }
  };

  async function ask(request: TokenRequest, channel: Channel, untilMs: number): Promise<TokenAnswer | Failure> {
    const leftMs = untilMs - nowMs();
    if (leftMs <= 0) return late;
    if (!URL.canParse(request.url)) return unusable("the address of the token service is no URL");
    const read = await readWithin(start(request, channel), leftMs, answerBytesMax);
    if (read === "late") return late;
    if (isFailure(read)) return unreachable(read);
    const { reply, body } = read;
    if (isFailure(body)) return unreachable(body);
    return { status: reply.status, body: new TextDecoder().decode(body) };
  }

  /** The same way as the channel's own requests: through its proxy, and for a channel of the admin API to public addresses only. */
  function start({ method, url, headers, body, metadata, machine: isMachine }: TokenRequest, channel: Channel): Exchange {
    const content = body === null ? null : new TextEncoder().encode(body);
    const isNear = metadata || isMachine === true;
    const reach = metadata || (isNear && isMetadata(new URL(url).hostname)) ? "metadata" : isNear ? "any" : channel.reach;
    const { origin, host, path } = destinationOf(url, reach, isNear ? null : channel.proxy);
    const head = makeHead({ method, headers }, path, { host, authHeader: "authorization", auth: null });
    return startExchange({ origin, pool, connectMs: channel.timeouts.connectMs }, head, content);
  }
}

async function withSecret(auth: TokenAuth, secret: string, { reach }: Channel, ports: IdentityPorts): Promise<AccessToken | Failure> {
  const external = auth.kind === "google" ? externalAccountOf(secret) : null;
  if (external === null) {
    const request = tokenRequest(auth, secret, ports.wallMs());
    return isFailure(request) ? request : token(request, ports);
  }
  // Who may add channels may still not act as the machine, nor read its files.
  return reach === "public" ? unusable("an external account can be used in the file only") : federatedToken(external, auth.scope, ports);
}

async function token(request: TokenRequest, ports: IdentityPorts): Promise<AccessToken | Failure> {
  const answer = await ports.ask(request);
  return isFailure(answer) ? answer : readToken(answer.status, answer.body, ports.wallMs());
}

const nothingKnown: MachineFacts = { env: {}, readFile: () => Promise.resolve(null) };
const tokenTimeoutMs = 10_000;
const answerBytesMax = 64 * 1024;

/** Charged to the credential: the upstream itself was not asked. */
function unreachable({ kind, detail }: Failure): Failure {
  return failure(kind === "client_gone" ? "unreachable" : kind, `the token service: ${detail}`, { scope: "credential" });
}
