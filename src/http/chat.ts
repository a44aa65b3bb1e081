import { readChatRequest } from "../operations/chat-request.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import type { CallContext, Door, Entry } from "./call.ts";
import { barsNotJson, readJsonBody } from "./json-body.ts";

/** POST /v1/chat/completions. */
export const chat: Door = { operation: "chat", called: "chat completions", bars: barsNotJson, read };

async function read(request: Request, context: CallContext): Promise<Entry | Failure> {
  const body = await readJsonBody(request, context);
  if (isFailure(body)) return body;
  const ask = readChatRequest(body);
  return isFailure(ask) ? ask : { ask, stream: ask.stream, bytes: body.length, dispose: null };
}
