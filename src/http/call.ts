import type { Answer, Gateway } from "../gateway/gateway.ts";
import { Cancellation } from "../gateway/cancellation.ts";
import type { Call, CallFacts } from "../gateway/call.ts";
import type { Overrun, Standing } from "../gateway/limiter.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { allowsModel, allowsOperation } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import type { Ask } from "../operations/ask.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { mistake } from "../operations/mistakes.ts";
import type { Operation } from "../operations/operation.ts";
import { boundTo } from "../routing/bound.ts";
import { eligible } from "../routing/eligible.ts";
import { errorResponse, statusOf } from "./errors.ts";
import { shed, shedRetryMs, type Pressure } from "./load-shed.ts";
import { rateLimitHeaders } from "./rate-limit-headers.ts";
import { encodedBody, forbiddenModel, forbiddenOperation, internalError, unknownModel } from "./refusals.ts";
import { streamResponse, type ByteSource } from "./stream-response.ts";

export interface CallContext {
  /** Of its receipt, should it get one. */
  readonly receiptId: string;
  readonly requestId: string;
  /** What every answer to this request carries. */
  readonly headers: Headers;
  readonly key: Key | Failure;
  readonly snapshot: Snapshot;
  readonly gateway: Gateway;
  readonly pressure: () => Pressure;
  /** Sets after how many idle seconds the server drops this connection; 0 is never. */
  readonly timeout: (seconds: number) => void;
  readonly onBug: (error: unknown) => void;
}

/** One operation at the edge: what its requests look like. The rest of a call is the same for all. */
export interface Door {
  readonly operation: Operation;
  /** For a sentence. */
  readonly called: string;
  /** What is wrong with a request, as far as its headers tell. */
  bars(request: Request): Failure | null;
  read(request: Request, context: CallContext): Promise<Entry | Failure>;
}

/** A request that was read. */
export interface Entry {
  readonly ask: Ask;
  /** The answer is expected to stream. */
  readonly stream: boolean;
  readonly bytes: number;
  /** Lets go of what the request holds outside memory; null where it holds nothing. */
  readonly dispose: (() => void) | null;
}

/** A call from its first header to its last byte: admit, read, serve, write. Whatever happens, one line about it is recorded. */
export function handleCall(request: Request, door: Door, context: CallContext): Promise<Response> {
  const cancellation = new Cancellation();
  cancellation.keyId = isFailure(context.key) ? null : context.key.id;
  const facts: Facts = {
    id: context.requestId,
    keyId: cancellation.keyId,
    operation: door.operation,
    model: null,
    stream: false,
    bytesIn: 0,
    startedMs: context.gateway.ports.nowMs(),
    admission: null,
  };
  return handle(request, door, context, cancellation, facts).catch((error: unknown) => {
    context.onBug(error);
    cancellation.cancel(internalError);
    // What was taken for it is given back, and nothing is left open in the books.
    if (facts.admission !== null) void context.gateway.refused(facts, internalError, statusOf(internalError));
    context.gateway.calls.end(cancellation);
    return errorResponse(internalError, context);
  });
}

/** What is known of a call, as it becomes known. */
type Facts = { -readonly [Name in keyof CallFacts]: CallFacts[Name] };

async function handle(request: Request, door: Door, context: CallContext, cancellation: Cancellation, facts: Facts): Promise<Response> {
  const { gateway, snapshot } = context;
  request.signal.addEventListener("abort", () => cancellation.cancel(clientGone), { once: true });
  if (request.signal.aborted) cancellation.cancel(clientGone);
  gateway.calls.begin(cancellation);
  const { operation } = door;
  const refuse = (why: Failure, waitMs: number | null = null): Response => {
    void gateway.refused(facts, why, statusOf(why));
    gateway.calls.end(cancellation);
    // Whoever is too slow to send a body would otherwise hold its connection for as long as it likes.
    if (why.status === 408) context.headers.set("connection", "close");
    return errorResponse(why, {
      ...context,
      retryAfterMs: waitMs ?? (why.kind === "saturated" || why.kind === "store_unavailable" ? 1000 : null),
    });
  };

  const { key } = context;
  if (isFailure(key)) return refuse(key, key.retryAfterMs);
  const strained = shed(context.pressure(), door.operation === "transcription" ? "upload" : "call", gateway.ports.dice);
  if (strained !== null) {
    if (strained === "memory_out") context.headers.set("connection", "close");
    return refuse(failure("saturated", `too much to do: ${strained}`), shedRetryMs(gateway.ports.dice));
  }
  const barred = bars(request, key, door, gateway.calls.size, snapshot);
  if (barred !== null) return refuse(barred);
  const spent = gateway.ledger.bars(key);
  if (spent !== null) return refuse(spent.failure, overrun(spent, context.headers));
  const entry = await unlessCancelled(door.read(request, context), cancellation);
  if (isFailure(entry)) {
    // The rest of the body may still be on its way.
    if (entry === cancellation.failure) context.headers.set("connection", "close");
    return refuse(entry);
  }
  const { ask, stream } = entry;
  if (entry.dispose !== null) cancellation.onceOver(entry.dispose);
  facts.model = ask.model;
  facts.stream = stream;
  facts.bytesIn = entry.bytes;
  if (ask.operation === "chat" && ask.choices > choicesMax) return refuse(tooManyChoices);
  if (!allowsModel(key, ask.model)) return refuse(forbiddenModel(ask.model));
  const route = snapshot.routes.get(ask.model) ?? snapshot.wildcard?.(ask.model) ?? null;
  if (route === null) return refuse(unknownModel(ask.model));
  const bound = boundTo(route, key.channels);
  if (bound === null) return refuse(forbiddenModel(ask.model));
  const able = eligible(bound, ask, key.splits, snapshot.service);
  if (isFailure(able)) return refuse(able);
  const admitting = gateway.ledger.admit(context.receiptId, facts, key, ask, able.route);
  const admission = admitting instanceof Promise ? await admitting : admitting;
  if ("kind" in admission) return refuse(admission.failure, overrun(admission, context.headers));
  facts.admission = admission;
  addStanding(context.headers, admission.grant.standing);

  const header = (name: string): string | null => request.headers.get(name);
  const call: Call = { facts, key, ask, route: able.route, split: able.split, snapshot, header, cancellation };
  const answering = gateway.serve(call);
  const { earlyHeadersMs } = snapshot.service;
  if (!stream || operation === "speech" || earlyHeadersMs === 0) return respond(await answering, call, context);
  const answer = await within(answering, earlyHeadersMs, gateway.ports.after);
  return answer === null ? respondEarly(answering, call, context) : respond(answer, call, context);
}

/** A call that is ended does not wait for a client that takes its time to send the request. */
function unlessCancelled(reading: Promise<Entry | Failure>, cancellation: Cancellation): Promise<Entry | Failure> {
  return new Promise((resolve, reject) => {
    const unlisten = cancellation.listen(() => {
      resolve(cancellation.failure!);
      void reading.then(
        (late) => (isFailure(late) ? undefined : late.dispose?.()),
        () => {},
      );
    });
    reading.then((entry) => {
      unlisten();
      resolve(entry);
    }, reject);
  });
}

/** What keeps a known caller out, before its body is read. */
function bars(request: Request, key: Key, door: Door, inFlight: number, snapshot: Snapshot): Failure | null {
  if (!allowsOperation(key, door.operation)) return forbiddenOperation(door.called);
  if (inFlight > snapshot.service.inFlightMax) return failure("saturated", "too many calls in flight");
  const barred = door.bars(request);
  if (barred !== null) return barred;
  const encoding = request.headers.get("content-encoding");
  return encoding === null || encoding === "identity" ? null : encodedBody;
}

async function respond(answer: Answer, call: Call, context: CallContext): Promise<Response> {
  const { gateway, requestId, headers } = context;
  tell(headers, answer, call.snapshot);
  switch (answer.kind) {
    case "whole":
      gateway.calls.end(call.cancellation);
      headers.set("content-type", answer.type);
      return new Response(answer.body as Uint8Array<ArrayBuffer>, { headers });
    case "failed":
      await answer.recorded(statusOf(answer.failure));
      gateway.calls.end(call.cancellation);
      return errorResponse(answer.failure, { requestId, headers, retryAfterMs: answer.retryAfterMs });
    case "stream":
      return stream(answer.source, { type: answer.type, shape: answer.shape, early: false }, call.cancellation, context);
  }
}

/** The wait for content grew long: the head leaves now, and whatever comes of the call follows in the stream. */
function respondEarly(answering: Promise<Answer>, call: Call, context: CallContext): Response {
  const { cancellation } = call;
  let source: ByteSource | null = null;
  // Recorded here and not when it is read: a client may leave before anything is read for it.
  const recorded = answering.then(async (answer) => {
    if (answer.kind === "failed") await answer.recorded(200);
    return answer;
  });
  // Nobody may be left to read it: what was taken for the call is given back all the same.
  recorded.catch((error: unknown) => {
    context.onBug(error);
    void context.gateway.refused(call.facts, internalError, 200);
  });
  const later: ByteSource = {
    async next() {
      if (source !== null) return source.next();
      const answer = await recorded;
      if (answer.kind === "failed") return answer.failure;
      source = answer.kind === "whole" ? once(answer.body) : answer.source;
      return source.next();
    },
    cancel: (reason) => cancellation.cancel(reason),
  };
  return stream(later, { type: "text/event-stream; charset=utf-8", shape: "events", early: true }, cancellation, context);
}

function once(bytes: Uint8Array): ByteSource {
  let left: Uint8Array | null = bytes;
  return {
    next: () => {
      const part = left;
      left = null;
      return Promise.resolve(part);
    },
    cancel: () => {},
  };
}

interface Look {
  readonly type: string;
  readonly shape: "events" | "bytes";
  /** The head leaves before there is content. */
  readonly early: boolean;
}

/** Takes no call: a long stream must not hold its request in memory. */
function stream(source: ByteSource, { type, shape, early }: Look, cancellation: Cancellation, context: CallContext): Response {
  const { gateway, timeout, snapshot, headers, requestId } = context;
  const { keepAliveMs, writeStallMs } = snapshot.service;
  const cancel = (reason: Failure): void => {
    source.cancel(reason);
    cancellation.cancel(reason);
  };
  headers.set("content-type", type);
  headers.set("x-accel-buffering", "no");
  if (shape === "events") headers.set("cache-control", "no-cache, no-store");
  return streamResponse(
    { next: () => source.next(), cancel },
    {
      requestId,
      headers,
      shape,
      // Nothing may be slipped in between bytes.
      keepAliveMs: shape === "events" ? keepAliveMs : 0,
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
  if (answer.dropped !== undefined && answer.dropped.length > 0)
    headers.set("x-sluice-dropped-params", headerSafe(answer.dropped.join(", ")));
  if (answer.voice !== null) headers.set("x-sluice-voice", headerSafe(answer.voice));
  if (!service.exposeChannels) return;
  if (answer.channel !== null) headers.set("x-sluice-channel", answer.channel);
  if (answer.attempts > 0) headers.set("x-sluice-attempts", String(answer.attempts));
}

function headerSafe(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?");
}

function within<T>(promise: Promise<T>, ms: number, after: (ms: number, then: () => void) => () => void): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const disarm = after(ms, () => resolve(null));
    promise.then(resolve, reject).finally(disarm);
  });
}

/** Says how the key stands, and when asking again has a chance. */
function overrun({ standing, retryAfterMs }: Overrun, headers: Headers): number | null {
  addStanding(headers, standing);
  if (retryAfterMs === null) headers.set("x-should-retry", "false");
  return retryAfterMs;
}

function addStanding(headers: Headers, standing: Standing | null): void {
  if (standing !== null) for (const [name, value] of rateLimitHeaders(standing)) headers.set(name, value);
}

const clientGone = failure("client_gone", "the client left");

/** The convention's own bound. It multiplies what a call costs. */
const choicesMax = 128;
const tooManyChoices = mistake(`'n' must be at most ${choicesMax}.`, "integer_above_max_value", "n");
