import { isFailure, type Failure } from "../operations/failure.ts";
import { readSpeechRequest } from "../operations/speech-request.ts";
import type { CallContext, Door, Entry } from "./call.ts";
import type { Incoming } from "./incoming.ts";
import { barsNotJson, readJsonBody } from "./json-body.ts";
import { splits } from "./splits.ts";

/** POST /v1/audio/speech. */
export const speech: Door = { operation: "speech", called: "speech", bars: barsNotJson, read };

async function read(request: Incoming, context: CallContext): Promise<Entry | Failure> {
  const body = await readJsonBody(request, context);
  if (isFailure(body)) return body;
  const { speechCharactersMax, longSpeechCharactersMax } = context.snapshot.service;
  const charactersMax = splits(context.key, context.snapshot, "input") ? longSpeechCharactersMax : speechCharactersMax;
  const ask = readSpeechRequest(body, { charactersMax });
  return isFailure(ask) ? ask : { ask, stream: true, bytes: body.length, dispose: null };
}
