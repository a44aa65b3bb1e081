import type { Answer, Gateway } from "../gateway/gateway.ts";
import { Cancellation } from "../gateway/cancellation.ts";
import type { Call, CallFacts } from "../gateway/call.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { allowsModel, allowsOperation } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import { readChatRequest } from "../operations/chat-request.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { readBody } from "./body.ts";
import { errorResponse, statusOf } from "./errors.ts";
import { encodedBody, forbiddenModel, forbiddenOperation, internalError, notJson, unknownModel } from "./refusals.ts";
import { streamResponse, type ByteSource } from "./stream-response.ts";

export interface ChatContext {
  readonly requestId: string;
  /** What every answer to this request carries. */
  readonly headers: Headers;
  readonly key: Key | Failure;
  readonly snapshot: Snapshot;
  readonly gateway: Gateway;
  /** Sets after how many idle seconds the server drops this connection; 0 is never. */
  readonly timeout: (seconds: number) => void;
  readonly onBug: (error: unknown) => void;
}

/** POST /v1/chat/completions: admit, read, serve, write. Whatever happens, one line about it is recorded. */
export function chat(request: Request, context: ChatContext): Promise<Response> {
  const cancellation = new Cancellation();
  return handle(request, context, cancellation).catch((error: unknown) => {
    context.onBug(error);
    cancellation.cancel(internalError);
    context.gateway.calls.end(cancellation);
    return errorResponse(internalError, context);
  });
}

async function handle(request: Request, context: ChatContext, cancellation: Cancellation): Promise<Response> {
  const { gateway, snapshot } = context;
  request.signal.addEventListener("abort", () => cancellation.cancel(clientGone), { once: true });
  gateway.calls.begin(cancellation);
  const startedMs = gateway.ports.nowMs();
  let facts: CallFacts = {
    id: context.requestId,
    keyId: isFailure(context.key) ? null : context.key.id,
    operation: "chat",
    model: null,
    stream: false,
    bytesIn: 0,
    startedMs,
  };
  const refuse = (why: Failure): Response => {
    gateway.refused(facts, why, statusOf(why));
    gateway.calls.end(cancellation);
    // Whoever is too slow to send a body would otherwise hold its connection for as long as it likes.
    if (why.status === 408) context.headers.set("connection", "close");
    return errorResponse(why, { ...context, retryAfterMs: why.kind === "saturated" ? 1000 : null });
  };

  const { key } = context;
  const barred = isFailure(key) ? key : bars(request, key, gateway.calls.size, snapshot);
  if (barred !== null) return refuse(barred);
  const { bodyBytesMax, bodyReadMs } = snapshot.service;
  const body = await readBody(request, { bytesMax: bodyBytesMax, readMs: bodyReadMs, after: gateway.ports.after });
  if (isFailure(body)) return refuse(body);
  const ask = readChatRequest(body);
  if (isFailure(ask)) return refuse({ ...ask });
  facts = { id: facts.id, keyId: facts.keyId, operation: "chat", model: ask.model, stream: ask.stream, bytesIn: body.length, startedMs };
  if (!allowsModel(key as Key, ask.model)) return refuse(forbiddenModel(ask.model));
  const route = snapshot.routes.get(ask.model) ?? snapshot.wildcard?.(ask.model) ?? null;
  if (route === null) return refuse(unknownModel(ask.model));

  const call: Call = { facts, key: key as Key, ask, route, snapshot, header: (name) => request.headers.get(name), cancellation };
  const answering = gateway.serve(call);
  const { earlyHeadersMs } = snapshot.service;
  if (!ask.stream || earlyHeadersMs === 0) return respond(await answering, call, context);
  const answer = await within(answering, earlyHeadersMs, gateway.ports.after);
  return answer === null ? respondEarly(answering, call, context) : respond(answer, call, context);
}

/** What keeps a known caller out, before its body is read. */
function bars(request: Request, key: Key, inFlight: number, snapshot: Snapshot): Failure | null {
  if (!allowsOperation(key, "chat")) return forbiddenOperation("chat completions");
  if (inFlight > snapshot.service.inFlightMax) return failure("saturated", "too many calls in flight");
  const type = request.headers.get("content-type");
  if (type !== null && !isJson(type)) return notJson;
  const encoding = request.headers.get("content-encoding");
  return encoding === null || encoding === "identity" ? null : encodedBody;
}

function isJson(type: string): boolean {
  return type === "application/json" || /^application\/json\s*(;|$)/i.test(type);
}

function respond(answer: Answer, call: Call, context: ChatContext): Response {
  const { gateway, requestId } = context;
  const { headers } = context;
  tell(headers, answer, call.snapshot);
  switch (answer.kind) {
    case "whole":
      gateway.calls.end(call.cancellation);
      headers.set("content-type", "application/json");
      return new Response(answer.body as Uint8Array<ArrayBuffer>, { headers });
    case "failed":
      gateway.calls.end(call.cancellation);
      answer.recorded(statusOf(answer.failure));
      return errorResponse(answer.failure, { requestId, headers, retryAfterMs: answer.retryAfterMs });
    case "stream":
      return stream(answer.source, call.facts.id, call.cancellation, context, false);
  }
}

/** The wait for content grew long: the head leaves now, and whatever comes of the call follows in the stream. */
function respondEarly(answering: Promise<Answer>, call: Call, context: ChatContext): Response {
  const { cancellation } = call;
  let source: ByteSource | null = null;
  // Recorded here and not when it is read: a client may leave before anything is read for it.
  const recorded = answering.then((answer) => {
    if (answer.kind === "failed") answer.recorded(200);
    return answer;
  });
  const later: ByteSource = {
    async next() {
      if (source !== null) return source.next();
      const answer = await recorded;
      if (answer.kind === "failed") return answer.failure;
      if (answer.kind === "whole") throw new Error("a stream was asked for, and a whole answer came through");
      source = answer.source;
      return source.next();
    },
    cancel: (reason) => cancellation.cancel(reason),
  };
  return stream(later, call.facts.id, cancellation, context, true);
}

function stream(source: ByteSource, requestId: string, cancellation: Cancellation, context: ChatContext, early: boolean): Response {
  const { gateway, timeout, snapshot, headers } = context;
  const { keepAliveMs, writeStallMs } = snapshot.service;
  const cancel = (reason: Failure): void => {
    source.cancel(reason);
    cancellation.cancel(reason);
  };
  headers.set("content-type", "text/event-stream; charset=utf-8");
  headers.set("cache-control", "no-cache, no-store");
  headers.set("x-accel-buffering", "no");
  return streamResponse(
    { next: () => source.next(), cancel },
    {
      requestId,
      headers,
      keepAliveMs,
      writeStallMs,
      early,
      nowMs: gateway.ports.nowMs,
      after: gateway.ports.after,
      connection: (use) => {
        if (use !== "live") gateway.calls.end(cancellation);
        timeout(use === "live" ? 0 : use === "idle" ? idleSeconds : 1);
      },
    },
  );
}

/** Longer than the pools of common clients and load balancers keep an idle connection. */
export const idleSeconds = 120;

/** Adds to the headers of this one request what the answer has to tell. */
function tell(headers: Headers, answer: Answer, { service }: Snapshot): void {
  if (answer.clampedTo !== null) headers.set("x-sluice-max-tokens", String(answer.clampedTo));
  if (!service.exposeChannels) return;
  if (answer.channel !== null) headers.set("x-sluice-channel", answer.channel);
  if (answer.attempts > 0) headers.set("x-sluice-attempts", String(answer.attempts));
}

function within<T>(promise: Promise<T>, ms: number, after: (ms: number, then: () => void) => () => void): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const disarm = after(ms, () => resolve(null));
    promise.then(resolve, reject).finally(disarm);
  });
}

const clientGone = failure("client_gone", "the client left");
