import { isFailure, type Failure } from "../operations/failure.ts";
import { readSpeechRequest } from "../operations/speech/speech-request.ts";
import type { Key } from "../keys/key.ts";
import type { Arrival } from "./arrival.ts";
import type { Door, Entry } from "./call.ts";
import { barsNotJson, readJsonBody } from "./json-body.ts";
import { splits } from "./splits.ts";

/** POST /v1/audio/speech. */
export const speech: Door = { operation: "speech", called: "speech", bars: barsNotJson, read };

async function read(arrival: Arrival, key: Key): Promise<Entry | Failure> {
  const body = await readJsonBody(arrival);
  if (isFailure(body)) return body;
  const { speechCharactersMax, longSpeechCharactersMax } = arrival.snapshot.service;
  const charactersMax = splits(key, arrival.snapshot, "input") ? longSpeechCharactersMax : speechCharactersMax;
  const ask = readSpeechRequest(body, { charactersMax });
  return isFailure(ask) ? ask : { ask, stream: true, bytes: body.length, dispose: null };
}
