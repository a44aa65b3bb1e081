import { readChatRequest } from "../operations/chat/chat-request.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { RequestContext } from "./request-context.ts";
import type { Endpoint, ParsedRequest } from "./call.ts";
import { rejectNotJson, readJsonBody } from "./json-body.ts";

/** POST /v1/chat/completions. */
export const chat: Endpoint = { operation: "chat", displayName: "chat completions", rejectEarly: rejectNotJson, read };

function read(context: RequestContext): ParsedRequest | Failure | Promise<ParsedRequest | Failure> {
  const body = readJsonBody(context);
  return body instanceof Promise ? body.then(parsed) : parsed(body);
}

function parsed(body: Uint8Array | Failure): ParsedRequest | Failure {
  if (isFailure(body)) return body;
  const ask = readChatRequest(body);
  return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
}
