import type { Key } from "../keys/key.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";
import { chatSurface, generateAnswers, listedAnswers, messagesSurface, readGenerateRequest, responsesSurface } from "../surfaces/index.ts";
import type { AnswerFormat, Surface } from "../operations/conversation/surface.ts";
import { failure, isFailure, type Failure } from "../operations/failure.ts";
import { type JsonLimits, jsonLimits, scanJson } from "../operations/json.ts";
import { readPassthroughRequest } from "../operations/passthrough/passthrough-request.ts";
import { setEvery, splice } from "../operations/splice.ts";
import { readSpeechRequest } from "../operations/speech/speech-request.ts";
import { operationSpecs, type PassthroughOperation } from "../operations/operation.ts";
import type { Endpoint, ParsedRequest } from "./call.ts";
import { decodedBody, type RequestBody } from "./decoded-body.ts";
import { maySplit, type RequestContext } from "./request-context.ts";
import { withReferredItems } from "./item-references.ts";
import { bodyTooLarge, noRoomForBody, notJson } from "./request-errors.ts";

/** POST /v1/chat/completions. */
export const chat: Endpoint = surfaceEndpoint(chatSurface);
/** POST /v1/audio/speech. */
export const speech: Endpoint = {
  operation: "speech",
  surface: null,
  displayName: operationSpecs.speech.displayName,
  rejectEarly: rejectNotJson,
  read: readSpeech,
};

/** The operations whose requests and answers are passed on as they are, such as POST /v1/embeddings. */
export const passthrough: { readonly [O in PassthroughOperation]: Endpoint } = {
  embedding: passthroughEndpoint("embedding"),
  completion: passthroughEndpoint("completion"),
  moderation: passthroughEndpoint("moderation"),
  image: passthroughEndpoint("image"),
  rerank: passthroughEndpoint("rerank"),
};

/** POST /v1/messages. */
export const messages: Endpoint = surfaceEndpoint(messagesSurface);
/** POST /v1/responses. */
export const responses: Endpoint = surfaceEndpoint(responsesSurface);

/** POST /v1beta/models/{model}:generateContent. */
export const generate: Endpoint = generateEndpoint(generateAnswers, { stream: false, listed: false });
/** POST /v1beta/models/{model}:streamGenerateContent, whose answer is a list of responses unless events are asked for. */
export const generateStream: Endpoint = generateEndpoint(generateAnswers, { stream: true, listed: false });
export const generateList: Endpoint = generateEndpoint(listedAnswers, { stream: true, listed: true });

/** The model stands in the path, and so does whether the answer is streamed. */
function generateEndpoint(surface: AnswerFormat, how: { readonly stream: boolean; readonly listed: boolean }): Endpoint {
  return {
    operation: "chat",
    surface,
    displayName: operationSpecs.chat.displayName,
    rejectEarly: rejectNotJson,
    read: (context) => {
      const model = context.pathModel ?? "";
      const parse = (body: Uint8Array | Failure): ParsedRequest | Failure => {
        if (isFailure(body)) return body;
        const ask = readGenerateRequest(body, { model, ...how });
        return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
      };
      const body = readSentBody(context);
      return body instanceof Promise ? body.then(parse) : parse(body);
    },
  };
}

function surfaceEndpoint(surface: Surface): Endpoint {
  const parse = (body: Uint8Array | Failure): ParsedRequest | Failure => parseSurface(surface, body);
  return {
    operation: "chat",
    surface,
    displayName: operationSpecs.chat.displayName,
    rejectEarly: rejectNotJson,
    read: (context, key) => {
      const body = readJsonBody(context);
      const parsed = body instanceof Promise ? body.then(parse) : parse(body);
      return surface.references === undefined ? parsed : readReferredItems(parsed, surface, context, key);
    },
  };
}

function readReferredItems(
  parsed: ParsedRequest | Failure | Promise<ParsedRequest | Failure>,
  surface: Surface,
  context: RequestContext,
  key: Key,
): ReturnType<Endpoint["read"]> {
  return parsed instanceof Promise
    ? parsed.then((request) => withReferredItems(request, surface, context, key))
    : withReferredItems(parsed, surface, context, key);
}

function parseSurface(surface: Surface, body: Uint8Array | Failure): ParsedRequest | Failure {
  if (isFailure(body)) return body;
  const facts = surface.parse(body);
  if (isFailure(facts)) return facts;
  return { ask: facts, stream: facts.stream, bytes: body.length, dispose: null };
}

function passthroughEndpoint(operation: PassthroughOperation): Endpoint {
  const parse = (body: Uint8Array | Failure): ParsedRequest | Failure => {
    if (isFailure(body)) return body;
    const ask = readPassthroughRequest(operation, body);
    return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
  };
  return {
    operation,
    surface: null,
    displayName: operationSpecs[operation].displayName,
    rejectEarly: rejectNotJson,
    read: (context) => {
      const body = readJsonBody(context);
      return body instanceof Promise ? body.then(parse) : parse(body);
    },
  };
}

async function readSpeech(context: RequestContext, key: Key): Promise<ParsedRequest | Failure> {
  const body = await readJsonBody(context);
  if (isFailure(body)) return body;
  const { speechCharactersMax, longSpeechCharactersMax } = context.snapshot.service;
  const charactersMax = maySplit(key, context.snapshot, "speech") ? longSpeechCharactersMax : speechCharactersMax;
  const ask = readSpeechRequest(body, { charactersMax });
  return isFailure(ask) ? ask : { ask, stream: true, bytes: body.length, dispose: null };
}

/** Rejects a request whose Content-Type is not JSON. */
export function rejectNotJson(request: IncomingRequest): Failure | null {
  const type = request.header("content-type");
  return type === null || isJson(type) ? null : notJson;
}

function isJson(type: string): boolean {
  return type === "application/json" || /^application\/json\s*(;|$)/i.test(type);
}

/** The body of a request, as if it named the model that the path names. */
export function readJsonBody(context: RequestContext): Uint8Array | Failure | Promise<Uint8Array | Failure> {
  const body = readSentBody(context);
  const { pathModel } = context;
  return pathModel === null ? body : readWithModel(body, pathModel);
}

function readWithModel(body: ReturnType<typeof readSentBody>, model: string): ReturnType<typeof readSentBody> {
  return body instanceof Promise ? body.then((sent) => withModel(sent, model)) : withModel(body, model);
}

/** The body as if the client had named the model there. What is no JSON object stays as it is, for its reader to reject. */
function withModel(body: Uint8Array | Failure, model: string): Uint8Array | Failure {
  if (isFailure(body)) return body;
  const document = scanJson(body, anyLength);
  if (!document.ok || document.kind !== "object") return body;
  return splice(body, setEvery({ body, document, members: document.members }, "model", model));
}

/** Its reader limits the rest. */
const anyLength: JsonLimits = { ...jsonLimits, membersMax: Infinity, tokensMax: Infinity };

/** The body of a request as it was sent, but without its content coding. */
export function readSentBody({ request, snapshot, services }: RequestContext): Uint8Array | Failure | Promise<Uint8Array | Failure> {
  const { bodyBytesMax, bodyReadMs } = snapshot.service;
  const encoding = request.header("content-encoding");
  const whole = wholeBody(request, bodyBytesMax, encoding !== null);
  if (whole !== null) return whole;
  const { gateway, hasRoom } = services;
  const body = encoding === null ? request.body : decodedBody(request.body, encoding);
  return readBody(body, { bytesMax: bodyBytesMax, readMs: bodyReadMs, after: gateway.ports.after, hasRoom });
}

/**
 * The whole body if it arrived with the head, as most do; null if there is more to come, or it has to be decoded. A body that is
 * declared too large is rejected before it is read.
 */
function wholeBody({ body }: IncomingRequest, bytesMax: number, isEncoded: boolean): Uint8Array | Failure | null {
  if (body.declaredBytes !== null && body.declaredBytes > bytesMax) return bodyTooLarge(bytesMax);
  if (isEncoded) return null;
  const whole = body.whole();
  return whole !== null && whole.length > bytesMax ? bodyTooLarge(bytesMax) : whole;
}

/** Reads the rest of a request body, with limits on size and time. */
function readBody(body: RequestBody, limits: BodyLimits): Promise<Uint8Array | Failure> {
  const { promise: late, resolve } = Promise.withResolvers<Failure>();
  const disarm = limits.after(limits.readMs, () => resolve(tooSlow(limits.readMs)));
  return Promise.race([collect(body, limits), late]).finally(disarm);
}

interface BodyLimits {
  readonly bytesMax: number;
  readonly readMs: number;
  readonly after: (ms: number, then: () => void) => () => void;
  /** Whether there is memory for so many more bytes. */
  readonly hasRoom: (bytes: number) => boolean;
}

async function collect(body: RequestBody, { bytesMax, hasRoom }: BodyLimits): Promise<Uint8Array | Failure> {
  // The buffer grows with the bytes that arrive, not with the declared length, or a header alone could allocate it.
  let room: Uint8Array = nothing;
  let length = 0;
  for (;;) {
    const part = await body.next();
    if (part === "gone") return failure("client_gone", "the client left while it sent its request");
    if (part === null) return room.length === length ? room : room.subarray(0, length);
    if (!(part instanceof Uint8Array)) return part;
    if (length + part.length > bytesMax) return bodyTooLarge(bytesMax);
    if (length + part.length > room.length) {
      const wished = Math.max(2 * (length + part.length), firstBytes);
      const bytes = body.declaredBytes === null ? wished : Math.min(wished, body.declaredBytes);
      if (bytes > smallBytes && !hasRoom(bytes)) return noRoomForBody;
      const grown = new Uint8Array(bytes);
      grown.set(length === room.length ? room : room.subarray(0, length));
      room = grown;
    }
    room.set(part, length);
    length += part.length;
  }
}

function tooSlow(readMs: number): Failure {
  return failure("invalid_request", "the request body came too slowly", {
    message: `The request body was not complete within ${Math.round(readMs / 1000)} seconds.`,
    status: 408,
  });
}

const nothing = new Uint8Array(0);
const firstBytes = 64 * 1024;
/** Bodies up to this size are always accepted. */
const smallBytes = 1024 * 1024;
