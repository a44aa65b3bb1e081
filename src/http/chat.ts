import { readChatRequest } from "../operations/chat-request.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { CallContext, Door, Entry } from "./call.ts";
import type { Incoming } from "./incoming.ts";
import { barsNotJson, readJsonBody } from "./json-body.ts";

/** POST /v1/chat/completions. */
export const chat: Door = { operation: "chat", called: "chat completions", bars: barsNotJson, read };

function read(request: Incoming, context: CallContext): Entry | Failure | Promise<Entry | Failure> {
  const body = readJsonBody(request, context);
  return body instanceof Promise ? body.then(entry) : entry(body);
}

function entry(body: Uint8Array | Failure): Entry | Failure {
  if (isFailure(body)) return body;
  const ask = readChatRequest(body);
  return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
}
