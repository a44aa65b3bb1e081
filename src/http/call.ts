import type { CallResult, OutputSource } from "../gateway/call-result.ts";
import { Cancellation } from "../gateway/cancellation.ts";
import type { Call, CallFacts } from "../gateway/call.ts";
import type { LimitExceeded, ConcurrencySlot } from "../gateway/admission/limiter.ts";
import type { LiveCalls } from "../gateway/admission/live-calls.ts";
import type { Snapshot } from "../gateway/snapshot.ts";
import { traceOf, type TraceContext } from "../gateway/trace.ts";
import { allowsModel, allowsOperation } from "../keys/allow.ts";
import type { Key } from "../keys/key.ts";
import type { AnswerFormat } from "../operations/conversation/surface.ts";
import type { CallRequest } from "../operations/call-request.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { mistake } from "../operations/mistakes.ts";
import { type Operation, operationSpecs } from "../operations/operation.ts";
import { boundTo, eligible } from "../routing/eligible.ts";
import type { RequestContext } from "./request-context.ts";
import { encodingMistake } from "./decoded-body.ts";
import { errorResponse, refusal, statusOf } from "./errors.ts";
import { headerLine, type ResponseHead, type HttpResponse } from "../net/server/http-response.ts";
import type { RequestObserver, IncomingRequest } from "../net/server/incoming-request.ts";
import { overloadOf } from "./overload/load-shed.ts";
import { ResponseStream, type ResponseStreamOwner } from "./response-stream.ts";
import { forbiddenModel, forbiddenOperation, internalError, tooManyInFlight, unknownModel } from "./request-errors.ts";

/** One operation of the HTTP API: how its requests are read. The rest of a call is the same for all operations. */
export interface Endpoint {
  readonly operation: Operation;
  /** How answers are written for its clients where the upstream speaks another API; null: every upstream speaks the API of this endpoint. */
  readonly surface: AnswerFormat | null;
  /** Its name in error messages. */
  readonly displayName: string;
  /** What is wrong with a request, as far as its headers show. */
  rejectEarly(request: IncomingRequest): Failure | null;
  read(context: RequestContext, key: Key): ParsedRequest | Failure | Promise<ParsedRequest | Failure>;
}

/** A request whose body was read and parsed. */
export interface ParsedRequest {
  readonly ask: CallRequest;
  /** A streamed response is expected. */
  readonly stream: boolean;
  readonly bytes: number;
  /** Frees what the request holds outside memory; null if it holds nothing. */
  readonly dispose: (() => void) | null;
}

/**
 * Handles a call from its headers to the last byte of its response: read, admit, serve, write. Whatever happens, one record of
 * it is made.
 */
export function handleCall(context: RequestContext, endpoint: Endpoint, key: Key | Failure): void {
  void new InboundCall(context, endpoint, key).run();
}

/** One request of one client, until it has a response. */
class InboundCall implements RequestObserver {
  private readonly cancellation = new Cancellation();
  private readonly facts: CallFacts;

  constructor(
    private readonly context: RequestContext,
    private readonly endpoint: Endpoint,
    private readonly key: Key | Failure,
  ) {
    const { cancellation } = this;
    if (!isFailure(key)) cancellation.isOf(key);
    const startedMs = context.services.gateway.ports.nowMs();
    this.facts = {
      id: context.head.requestId,
      keyId: cancellation.keyId,
      operation: endpoint.operation,
      model: null,
      stream: false,
      bytesIn: 0,
      startedMs,
      waitedMs: 0,
      trace: this.tracing(startedMs),
      admission: null,
    };
    cancellation.facts = this.facts;
  }

  /**
   * Reads the request, admits the call, serves it and answers. Most bodies arrive with the head, and then nothing is awaited before the
   * call is admitted. If anything throws, the call is ended and the client gets an error.
   */
  async run(): Promise<void> {
    const { context, endpoint, cancellation, facts } = this;
    const { request, head, receiptId, services, snapshot } = context;
    const { ledger } = services.gateway;
    let slot: ConcurrencySlot | null = null;
    try {
      const key = this.precheck();
      if (key === null) return;
      let parsed = endpoint.read(context, key);
      if (parsed instanceof Promise) {
        const reading = parsed;
        // The await below handles a rejection; this keeps it from being reported as unhandled in the meantime.
        reading.catch(() => {});
        // A request that is still being read counts as a concurrent call of its key: it costs as much, at a pace that the client sets.
        const reserving = ledger.reserveSlot(key, receiptId);
        const reserved = reserving instanceof Promise ? await reserving : reserving;
        if (reserved.kind === "limit_exceeded") return this.rejectUnread(reading, reserved);
        slot = reserved;
        parsed = await unlessCancelled(reading, cancellation);
        // What a client takes to send its request is not the gateway's time.
        const { completedMs } = request.body;
        if (completedMs !== null) facts.waitedMs = completedMs - facts.startedMs;
        // Given up in the turn in which the limits of the call are asked, so that no other call can take it in between.
        slot.release();
        slot = null;
      }
      const call = this.enter(parsed, key);
      if (call === null) return;
      const admitting = ledger.admit(receiptId, facts, key, call.ask, call.route);
      const admission = admitting instanceof Promise ? await admitting : admitting;
      if ("kind" in admission) return void this.rejectOverLimit(admission);
      if (admission.onRecord !== null && !(await admission.onRecord)) return void this.rejectOverLimit(ledger.lost(admission));
      facts.admission = admission;
      head.rateLimitStatus = admission.grant.rateLimitStatus;
      const serving = services.serve(call);
      const result = this.mayBeginEarly(call)
        ? await withTimeout(serving, snapshot.service.earlyHeadersMs, services.gateway.ports.after)
        : await serving;
      if (result === null) return request.respond(earlyResponse(serving, call, context));
      if (result.kind === "failed") await result.recorded(statusOf(result.failure, context.errors));
      request.respond(toHttpResponse(result, cancellation, context));
    } catch (error) {
      slot?.release();
      this.broke(error);
    }
  }

  private tracing(nowMs: number): TraceContext | undefined {
    const { request, receiptName, services, path } = this.context;
    const rules = services.traces();
    if (rules === null) return undefined;
    const parent = request.header("traceparent");
    const state = parent === null ? null : request.header("tracestate");
    return traceOf(receiptName, { parent, state, path }, nowMs, rules);
  }

  clientGone(): void {
    this.cancellation.cancel(clientGone);
  }

  /** Checks what the headers show. Returns the key, or null if the request was rejected. */
  private precheck(): Key | null {
    const { context, endpoint, key, cancellation } = this;
    const { request } = context;
    const { gateway } = context.services;
    request.observer = this;
    if (request.isGone) cancellation.cancel(clientGone);
    gateway.calls.begin(cancellation);

    if (isFailure(key)) return this.reject(key);
    const work = operationSpecs[endpoint.operation].uploads ? "upload" : "call";
    const rejected = overloadOf(context, work, this.facts.startedMs) ?? rejectEarly(context, key, endpoint, gateway.calls.size);
    if (rejected !== null) return this.reject(rejected);
    const overLimit = gateway.ledger.precheck(key);
    return overLimit === null ? key : this.rejectOverLimit(overLimit);
  }

  /** The key has too many concurrent calls: the result of the reading is disposed of. */
  private rejectUnread(reading: Promise<ParsedRequest | Failure>, why: LimitExceeded): void {
    reading.then(disposeParsed, () => {});
    this.context.request.body.discard();
    this.rejectOverLimit(why);
  }

  private broke(error: unknown): void {
    const { context, cancellation, facts } = this;
    const { gateway, onBug } = context.services;
    onBug(error);
    cancellation.cancel(internalError);
    // Returns the reservation, so that nothing stays open in the accounts.
    if (facts.admission !== null) void gateway.refused(facts, internalError, statusOf(internalError, context.errors));
    gateway.calls.end(cancellation);
    context.request.respond(errorResponse(internalError, context.head, null, context.errors));
  }

  /** Answers with an error. Returns null, in place of what the request would have become. */
  private reject(why: Failure, waitMs: number | null = why.retryAfterMs): null {
    const { request, head, services } = this.context;
    void services.gateway.refused(this.facts, why, statusOf(why, this.context.errors));
    services.gateway.calls.end(this.cancellation);
    request.respond(refusal(why, head, this.context.errors, waitMs));
    return null;
  }

  /** Reports the state of the key's limits, and when a retry may succeed. */
  private rejectOverLimit({ failure: why, rateLimitStatus, retryAfterMs }: LimitExceeded): null {
    this.context.head.rateLimitStatus = rateLimitStatus;
    return this.reject(why, retryAfterMs);
  }

  /** Turns a parsed request into a call. Returns null if the key, the model or the route rules it out, and the request was rejected. */
  private enter(parsed: ParsedRequest | Failure, key: Key): Call | null {
    const { context, cancellation, facts } = this;
    const { request, snapshot } = context;
    if (isFailure(parsed)) {
      // The rest of the body may still be arriving.
      if (parsed === cancellation.failure) context.head.closesConnection = true;
      return this.reject(parsed);
    }
    const { ask } = parsed;
    if (parsed.dispose !== null) cancellation.onceOver(parsed.dispose);
    facts.model = ask.model;
    facts.stream = parsed.stream;
    facts.bytesIn = parsed.bytes;
    if (ask.operation === "chat" && ask.choices > choicesMax) return this.reject(tooManyChoices);
    if (!allowsModel(key, ask.model)) return this.reject(forbiddenModel(ask.model));
    const route = snapshot.routes.get(ask.model) ?? snapshot.wildcard?.(ask.model) ?? null;
    if (route === null) return this.reject(unknownModel(ask.model, context.services.gateway.ports.asTyped));
    // The same text, but one for all calls: what counts them later need not read a text of each.
    facts.model = route.model;
    const bound = boundTo(route, key.channels);
    if (bound === null) return this.reject(forbiddenModel(ask.model));
    const able = eligible(bound, ask, key.splits, snapshot.service);
    if (isFailure(able)) return this.reject(able);
    return {
      facts,
      key,
      ask,
      route: able.route,
      split: able.split,
      snapshot,
      headers: request.headers,
      cancellation,
      surface: this.endpoint.surface,
    };
  }

  /** A stream whose content takes long gets its head early (`earlyHeadersMs`). */
  private mayBeginEarly({ facts, ask, snapshot }: Call): boolean {
    return facts.stream && operationSpecs[ask.operation].earlyHeaders && snapshot.service.earlyHeadersMs !== 0;
  }
}

function disposeParsed(late: ParsedRequest | Failure): void {
  if (!isFailure(late)) late.dispose?.();
}

/** A cancelled call does not wait for a client that takes its time to send the request. */
function unlessCancelled(reading: Promise<ParsedRequest | Failure>, cancellation: Cancellation): Promise<ParsedRequest | Failure> {
  return new Promise((resolve, reject) => {
    const unlisten = cancellation.listen((reason) => {
      resolve(reason);
      reading.then(disposeParsed, () => {});
    });
    reading.then((parsed) => {
      unlisten();
      resolve(parsed);
    }, reject);
  });
}

/** Why a request with a valid key is rejected before its body is read. */
function rejectEarly({ request, head, snapshot }: RequestContext, key: Key, endpoint: Endpoint, inFlight: number): Failure | null {
  if (!allowsOperation(key, endpoint.operation)) return forbiddenOperation(endpoint.displayName);
  if (inFlight > snapshot.service.inFlightMax) return tooManyInFlight;
  const rejected = endpoint.rejectEarly(request);
  if (rejected !== null) return rejected;
  return encodingMistake(request, head);
}

function toHttpResponse(answer: CallResult, cancellation: Cancellation, context: RequestContext): HttpResponse {
  const { head, snapshot, services } = context;
  addResultHeaders(head, answer, snapshot);
  switch (answer.kind) {
    case "whole":
      services.gateway.calls.end(cancellation);
      head.type = answer.type;
      return { status: 200, head, body: answer.body };
    case "failed":
      services.gateway.calls.end(cancellation);
      return errorResponse(answer.failure, head, answer.retryAfterMs, context.errors);
    case "stream":
      return streamResponse(answer.source, { type: answer.type, shape: answer.shape, early: false }, cancellation, context);
  }
}

/** The wait for content took too long: the head is sent now, and the result of the call follows in the stream. */
function earlyResponse(answering: Promise<CallResult>, call: Call, context: RequestContext): HttpResponse {
  const { cancellation } = call;
  const { gateway, onBug } = context.services;
  let source: OutputSource | null = null;
  // Recorded here and not when it is read, because the client may leave before anything is read.
  const recorded = answering.then(async (answer) => {
    if (answer.kind === "failed") await answer.recorded(200);
    return answer;
  });
  // Even if nobody is left to read the result, the reservation is returned.
  recorded.catch((error: unknown) => {
    onBug(error);
    void gateway.refused(call.facts, internalError, 200);
  });
  const later: OutputSource = {
    async next() {
      if (source !== null) return source.next();
      const answer = await recorded;
      if (answer.kind === "failed") return answer.failure;
      source = answer.kind === "whole" ? singleChunk(answer.body) : answer.source;
      source.unsentBytes = later.unsentBytes;
      return source.next();
    },
    cancel: (reason) => {
      cancellation.cancel(reason);
      // A call that the gateway has cancelled already does not hear of that, and its stream would never be settled.
      const cancelStream = (answer: CallResult): void => void (answer.kind === "stream" && answer.source.cancel(reason));
      recorded.then(cancelStream, () => {});
    },
    unsentBytes: null,
    get place() {
      return source?.place ?? null;
    },
  };
  return streamResponse(later, { type: "text/event-stream; charset=utf-8", shape: "events", early: true }, cancellation, context);
}

function singleChunk(bytes: Uint8Array): OutputSource {
  let left: Uint8Array | null = bytes;
  return {
    next: () => {
      const part = left;
      left = null;
      return Promise.resolve(part);
    },
    cancel: () => {},
    unsentBytes: null,
  };
}

interface StreamFormat {
  readonly type: string;
  readonly shape: "events" | "bytes";
  /** The head is sent before there is content. */
  readonly early: boolean;
}

/** Does not take the call: a long stream must not keep its request in memory. */
function streamResponse(
  source: OutputSource,
  { type, shape, early }: StreamFormat,
  cancellation: Cancellation,
  { head, snapshot, errors, services: { gateway } }: RequestContext,
): HttpResponse {
  const { keepAliveMs, writeStallMs } = snapshot.service;
  head.type = shape === "events" ? (errors.streamType ?? type) : type;
  head.addLines(unbuffered);
  if (shape === "events") head.cacheControl = "no-cache, no-store";
  const body = new ResponseStream(source, new StreamedCall(cancellation, gateway.calls), {
    requestId: head.requestId,
    errors,
    shape,
    // Nothing can be inserted between bytes of audio.
    keepAliveMs: shape === "events" ? keepAliveMs : 0,
    writeStallMs,
    early,
    ports: gateway.ports,
  });
  return { status: 200, head, body };
}

const unbuffered = headerLine("x-accel-buffering", "no");

/** A call whose response is being streamed: what is left of it. */
class StreamedCall implements ResponseStreamOwner {
  constructor(
    private readonly cancellation: Cancellation,
    private readonly calls: LiveCalls,
  ) {}

  cancelled(reason: Failure): void {
    this.cancellation.cancel(reason);
  }

  ended(): void {
    this.calls.end(this.cancellation);
  }
}

/** Adds the headers that describe the result. */
function addResultHeaders(head: ResponseHead, answer: CallResult, { service }: Snapshot): void {
  if (answer.clampedTo !== null) head.add("x-sluice-max-tokens", String(answer.clampedTo));
  if (answer.dropped !== undefined && answer.dropped.length > 0) head.add("x-sluice-dropped-params", headerSafe(answer.dropped.join(", ")));
  if (answer.voice !== null) head.add("x-sluice-voice", headerSafe(answer.voice));
  if (!service.exposeChannels) return;
  if (answer.channel !== null && answer.attempts === 1) return head.addLines(firstAttemptLines(answer.channel));
  if (answer.channel !== null) head.add("x-sluice-channel", answer.channel);
  if (answer.attempts > 0) head.add("x-sluice-attempts", String(answer.attempts));
}

/** Nearly all responses come from one of a few channels, at the first attempt. */
function firstAttemptLines(channel: string): string {
  let lines = firstAttempt.get(channel);
  if (lines === undefined) {
    if (firstAttempt.size >= firstAttemptMax) firstAttempt.clear();
    firstAttempt.set(channel, (lines = `${headerLine("x-sluice-channel", channel)}${headerLine("x-sluice-attempts", "1")}`));
  }
  return lines;
}

const firstAttempt = new Map<string, string>();
const firstAttemptMax = 10_000;

function headerSafe(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?");
}

function withTimeout<T>(promise: Promise<T>, ms: number, after: (ms: number, then: () => void) => () => void): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const disarm = after(ms, () => resolve(null));
    promise.then(
      (value) => {
        disarm();
        resolve(value);
      },
      (error: Error) => {
        disarm();
        reject(error);
      },
    );
  });
}

const clientGone = failure("client_gone", "the client left");

/** The limit of the OpenAI API. Every choice multiplies the cost of a call. */
const choicesMax = 128;
const tooManyChoices = mistake(`'n' must be at most ${choicesMax}.`, "integer_above_max_value", "n");
