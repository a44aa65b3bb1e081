import { audioFacts } from "../media/length/audio-length.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { readTranscriptionRequest } from "../operations/transcription/transcription-request.ts";
import type { Key } from "../keys/key.ts";
import type { Arrival } from "./arrival.ts";
import type { Door, Entry } from "./call.ts";
import { barsNotForm, readForm } from "./forms/form.ts";
import { splits } from "./splits.ts";
import { Uploads } from "./forms/uploads.ts";

/** Both share one bound: they cost the same. */
const uploads = new Uploads();

/** POST /v1/audio/transcriptions. */
export const transcription: Door = door("transcribe");
/** POST /v1/audio/translations: the same, into English. */
export const translation: Door = door("translate");

function door(task: "transcribe" | "translate"): Door {
  return {
    operation: "transcription",
    called: task === "transcribe" ? "transcriptions" : "translations",
    bars: barsNotForm,
    read: (arrival, key) => read(arrival, key, task),
  };
}

async function read({ request, snapshot, edge }: Arrival, key: Key, task: "transcribe" | "translate"): Promise<Entry | Failure> {
  const { audioBytesMax, longAudioBytesMax, uploadReadMs, uploadsMax } = snapshot.service;
  const fileBytesMax = splits(key, snapshot, "audio") ? longAudioBytesMax : audioBytesMax;
  const { after } = edge.gateway.ports;
  const form = await uploads.read({ uploadsMax, keyId: key.id, after }, (place) =>
    readForm(request, { fileBytesMax, readMs: uploadReadMs, after, place }),
  );
  if (isFailure(form)) return form;
  const ask = readTranscriptionRequest(form.fields, form.file, task);
  if (isFailure(ask)) {
    form.dispose();
    return ask;
  }
  const facts = await audioFacts(form.file.content);
  return { ask: { ...ask, ...facts }, stream: ask.stream, bytes: form.bytes, dispose: () => form.dispose() };
}
