import type { Key } from "../keys/key.ts";
import type { IncomingRequest } from "../net/server/incoming-request.ts";
import { readChatRequest } from "../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { readSpeechRequest } from "../operations/speech/speech-request.ts";
import { operationSpecs } from "../operations/operation.ts";
import { readBody, wholeBody } from "./body.ts";
import type { Endpoint, ParsedRequest } from "./call.ts";
import { maySplit, type RequestContext } from "./request-context.ts";
import { notJson } from "./request-errors.ts";

/** POST /v1/chat/completions. */
export const chat: Endpoint = {
  operation: "chat",
  displayName: operationSpecs.chat.displayName,
  rejectEarly: rejectNotJson,
  read: readChat,
};
/** POST /v1/audio/speech. */
export const speech: Endpoint = {
  operation: "speech",
  displayName: operationSpecs.speech.displayName,
  rejectEarly: rejectNotJson,
  read: readSpeech,
};

function readChat(context: RequestContext): ParsedRequest | Failure | Promise<ParsedRequest | Failure> {
  const body = readJsonBody(context);
  return body instanceof Promise ? body.then(parseChat) : parseChat(body);
}

function parseChat(body: Uint8Array | Failure): ParsedRequest | Failure {
  if (isFailure(body)) return body;
  const ask = readChatRequest(body);
  return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
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
function rejectNotJson(request: IncomingRequest): Failure | null {
  const type = request.header("content-type");
  return type === null || isJson(type) ? null : notJson;
}

function isJson(type: string): boolean {
  return type === "application/json" || /^application\/json\s*(;|$)/i.test(type);
}

function readJsonBody({ request, snapshot, services }: RequestContext): Uint8Array | Failure | Promise<Uint8Array | Failure> {
  const { bodyBytesMax, bodyReadMs } = snapshot.service;
  const whole = wholeBody(request, bodyBytesMax);
  if (whole !== null) return whole;
  const { gateway, hasRoom } = services;
  return readBody(request, { bytesMax: bodyBytesMax, readMs: bodyReadMs, after: gateway.ports.after, hasRoom });
}
