import { Cancellation } from "../gateway/cancellation.ts";
import { countTokens } from "../gateway/token-count.ts";
import { allowsModel, allowsOperation } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import type { HttpResponse } from "../net/server/http-response.ts";
import type { ChatRequest } from "../operations/chat/chat-request.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { boundTo, eligible } from "../routing/eligible.ts";
import { countTokensBody, readCountTokensRequest, readTokenCount, tokenCountBody } from "../surfaces/index.ts";
import { encodingMistake } from "./decoded-body.ts";
import { refusal } from "./errors.ts";
import { readJsonBody, readSentBody, rejectNotJson } from "./json-endpoints.ts";
import { overloadOf } from "./overload/load-shed.ts";
import type { RequestContext } from "./request-context.ts";
import { tooManyInFlight } from "./request-errors.ts";

/** POST /v1/messages/count_tokens. */
export function countMessagesTokens(context: RequestContext, key: Key): Promise<HttpResponse> {
  return counted(context, key, { read: readCountTokensRequest, body: readJsonBody, write: countTokensBody });
}

/** POST /v1beta/models/{model}:countTokens. */
export function countGenerateTokens(context: RequestContext, key: Key): Promise<HttpResponse> {
  const read = (body: Uint8Array): ChatRequest | Failure => readTokenCount(body, context.pathModel ?? "");
  return counted(context, key, { read, body: readSentBody, write: tokenCountBody });
}

interface CountFormat {
  readonly body: (context: RequestContext) => Uint8Array | Failure | Promise<Uint8Array | Failure>;
  readonly read: (body: Uint8Array) => ChatRequest | Failure;
  readonly write: (tokens: number) => Uint8Array;
}

/**
 * Only the provider of a model knows its tokens, and it is asked where it answers such a question. Elsewhere the answer is an estimate:
 * clients shorten their conversation by it, and are better off with one than with an error. A header tells which it is.
 */
async function counted(context: RequestContext, key: Key, { body: readBody, read, write }: CountFormat): Promise<HttpResponse> {
  const { head, errors } = context;
  const rejected = rejectEarly(context);
  const body = rejected ?? (await whileInFlight(context, cancellationOf(key), () => readBody(context)));
  const ask = isFailure(body) ? body : read(body);
  if (isFailure(ask)) return refusal(ask, head, errors);
  const tokens = await upstreamCount(context, key, ask);
  head.add("x-sluice-token-count", tokens === null ? "estimated" : "upstream");
  head.type = "application/json";
  return { status: 200, head, body: write(tokens ?? ask.promptTokensEstimate) };
}

/** Why a request is rejected before its body is read. */
function rejectEarly(context: RequestContext): Failure | null {
  const { request, head, snapshot } = context;
  const { calls, ports } = context.services.gateway;
  const overload = overloadOf(context, "call", ports.nowMs());
  if (overload !== null) return overload;
  if (calls.size >= snapshot.service.inFlightMax) return tooManyInFlight;
  return rejectNotJson(request) ?? encodingMistake(request, head);
}

/** The request counts as a running call: a shutdown waits for it, and it makes the gateway no less full. */
async function whileInFlight<T>({ services }: RequestContext, cancellation: Cancellation, work: () => T | Promise<T>): Promise<T> {
  const { calls } = services.gateway;
  calls.begin(cancellation);
  try {
    return await work();
  } finally {
    calls.end(cancellation);
  }
}

function cancellationOf(key: Key): Cancellation {
  const cancellation = new Cancellation();
  cancellation.isOf(key);
  return cancellation;
}

/** The count of an upstream; null where the key may ask none, or none may be asked now: no limit is exceeded only to count. */
async function upstreamCount(context: RequestContext, key: Key, ask: ChatRequest): Promise<number | null> {
  const { request, snapshot, services } = context;
  const { gateway } = services;
  if (!allowsModel(key, ask.model) || !allowsOperation(key, ask.operation)) return null;
  const known = snapshot.routes.get(ask.model) ?? snapshot.wildcard?.(ask.model) ?? null;
  const bound = known === null ? null : boundTo(known, key.channels);
  const able = bound === null ? null : eligible(bound, ask, key.splits, snapshot.service);
  if (able === null || isFailure(able)) return null;
  if (gateway.ledger.precheck(key) !== null || gateway.calls.size >= snapshot.service.inFlightMax) return null;
  const cancellation = cancellationOf(key);
  request.observer = { clientGone: () => cancellation.cancel(clientGone) };
  if (request.isGone) return null;
  return whileInFlight(context, cancellation, () =>
    countTokens({ ask, route: able.route, keyId: key.id, headers: request, cancellation }, gateway),
  );
}

const clientGone = failure("client_gone", "the client left");
