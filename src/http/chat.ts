import { readChatRequest } from "../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { Arrival } from "./arrival.ts";
import type { Door, Entry } from "./call.ts";
import { barsNotJson, readJsonBody } from "./json-body.ts";

/** POST /v1/chat/completions. */
export const chat: Door = { operation: "chat", called: "chat completions", bars: barsNotJson, read };

function read(arrival: Arrival): Entry | Failure | Promise<Entry | Failure> {
  const body = readJsonBody(arrival);
  return body instanceof Promise ? body.then(entry) : entry(body);
}

function entry(body: Uint8Array | Failure): Entry | Failure {
  if (isFailure(body)) return body;
  const ask = readChatRequest(body);
  return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
}
