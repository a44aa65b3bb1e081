import type { Candidate, Route } from "../channels/channel.ts";
import { encode } from "../dialects/dialect.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import { isFailure } from "../operations/failure.ts";
import { forwardedHeaders } from "./attempt/attempt.ts";
import type { Call } from "./call.ts";
import type { Cancellation } from "./cancellation.ts";
import type { Gateway } from "./gateway.ts";

export interface CountedPrompt extends Pick<Call, "headers"> {
  readonly ask: ChatRequest;
  readonly route: Route;
  readonly keyId: string;
  readonly cancellation: Cancellation;
}

/**
 * Asks one upstream how many tokens a prompt has: one that counts them, of the tier that would be asked for the answer now. Null where
 * there is none, or where it does not answer in time. Counting costs nothing and says nothing about how chats go, so that neither a receipt nor the health
 * of the channel knows of it; it does take one of the channel's places.
 */
export async function countTokens({ ask, route, keyId, headers, cancellation }: CountedPrompt, gateway: Gateway): Promise<number | null> {
  const { ports, upstreams, dialects } = gateway;
  const counts = ({ deployment: { channel } }: Candidate): boolean => dialects.get(channel.dialect)?.tokenCount !== undefined;
  const admitted = route.tiers.map((tier) => tier.filter((each) => upstreams.admits(each))).find((tier) => tier.length > 0);
  const candidate = admitted?.find(counts);
  if (candidate === undefined || cancellation.failure !== null) return null;
  const { channel, model } = candidate.deployment;
  const dialect = dialects.get(channel.dialect);
  const target = {
    channel,
    model,
    ceiling: null,
    meterStream: false,
    forwarded: forwardedHeaders({ headers }, channel.forwardHeaders),
    betas: upstreams.lessonOf(candidate).betas ?? null,
    seal: ports.seal ?? null,
    keyId,
  };
  const chat = encode(dialect, ask, target);
  const request = isFailure(chat) ? null : (dialect?.tokenCount?.request(chat.request, target) ?? null);
  if (request === null) return null;

  const place = upstreams.begin({ candidate, probe: false }, route.model, ports.nowMs(), false);
  const exchange = ports.send(request, channel, candidate.credential);
  const abort = (): void => exchange.abort();
  const disarm = ports.after(countMaxMs, abort);
  const unlisten = cancellation.listen(abort);
  const reply = await exchange.reply;
  const body = isFailure(reply) ? reply : await reply.bytes(answerBytesMax);
  disarm();
  unlisten();
  place.abandoned();
  if (isFailure(reply) || isFailure(body) || reply.status !== 200) return null;
  return dialect?.tokenCount?.read(new TextDecoder().decode(body)) ?? null;
}

/** Clients count before they send: an estimate at once is worth more to them than a number too late. */
const countMaxMs = 5_000;
const answerBytesMax = 64 * 1024;
