import { isFailure, type Failure } from "../operations/failure.ts";
import { readSpeechRequest } from "../operations/speech/speech-request.ts";
import type { Key } from "../keys/key.ts";
import type { RequestContext } from "./request-context.ts";
import type { Endpoint, ParsedRequest } from "./call.ts";
import { rejectNotJson, readJsonBody } from "./json-body.ts";
import { splits } from "./splits.ts";

/** POST /v1/audio/speech. */
export const speech: Endpoint = { operation: "speech", displayName: "speech", rejectEarly: rejectNotJson, read };

async function read(context: RequestContext, key: Key): Promise<ParsedRequest | Failure> {
  const body = await readJsonBody(context);
  if (isFailure(body)) return body;
  const { speechCharactersMax, longSpeechCharactersMax } = context.snapshot.service;
  const charactersMax = splits(key, context.snapshot, "input") ? longSpeechCharactersMax : speechCharactersMax;
  const ask = readSpeechRequest(body, { charactersMax });
  return isFailure(ask) ? ask : { ask, stream: true, bytes: body.length, dispose: null };
}
