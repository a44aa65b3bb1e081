import { audioFacts } from "../media/length/audio-length.ts";
import type { FormField } from "../media/stored-file.ts";
import { isFailure, type Failure } from "../operations/failure.ts";
import { readTranscriptionRequest } from "../operations/transcription/transcription-request.ts";
import { operationSpecs } from "../operations/operation.ts";
import type { Key } from "../keys/key.ts";
import { maySplit, type RequestContext } from "./request-context.ts";
import type { Endpoint, ParsedRequest } from "./call.ts";
import { rejectNotForm, readForm } from "./forms/form.ts";
import { Uploads } from "./forms/uploads.ts";

/** Shared by both endpoints, because their uploads cost the same. */
const uploads = new Uploads();

/** POST /v1/audio/transcriptions. */
export const transcription: Endpoint = endpoint("transcribe");
/** POST /v1/audio/translations: a transcription translated into English. */
export const translation: Endpoint = endpoint("translate");

function endpoint(task: "transcribe" | "translate"): Endpoint {
  return {
    operation: "transcription",
    surface: null,
    displayName: task === "transcribe" ? operationSpecs.transcription.displayName : "translations",
    rejectEarly: rejectNotForm,
    read: (context, key) => read(context, key, task),
  };
}

async function read(
  { request, snapshot, services, pathModel }: RequestContext,
  key: Key,
  task: "transcribe" | "translate",
): Promise<ParsedRequest | Failure> {
  const { audioBytesMax, longAudioBytesMax, uploadReadMs, uploadsMax } = snapshot.service;
  const fileBytesMax = maySplit(key, snapshot, "transcription") ? longAudioBytesMax : audioBytesMax;
  const { after } = services.gateway.ports;
  const form = await uploads.read({ uploadsMax, keyId: key.id, after }, (slot) =>
    readForm(request, { fileBytesMax, readMs: uploadReadMs, after, slot }),
  );
  if (isFailure(form)) return form;
  const ask = readTranscriptionRequest(named(form.fields, pathModel), form.file, task);
  if (isFailure(ask)) {
    form.dispose();
    return ask;
  }
  const facts = await audioFacts(form.file.content);
  return { ask: { ...ask, ...facts }, stream: ask.stream, bytes: form.bytes, dispose: () => form.dispose() };
}

/** The fields as if the client had named the model there. */
function named(fields: readonly FormField[], model: string | null): readonly FormField[] {
  return model === null ? fields : [{ name: "model", value: model }, ...fields.filter(({ name }) => name !== "model")];
}
