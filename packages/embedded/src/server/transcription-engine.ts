import { join } from "node:path";
import { fileSecondsMax } from "../codecs/decode-file.ts";
import { UndecodableAudio } from "../codecs/codec.ts";
import { loadWhisper } from "../transcription/whisper.ts";
import { findModel, isAdded, type ServedModels } from "./served-models.ts";
import { decodeInWorker } from "./decoding.ts";
import type { Engine, Job } from "./engine.ts";
import { modelCache } from "./model-cache.ts";
import { isRequestError, requestError, type RequestError } from "./request-error.ts";
import { transcriptBody, transcriptEvents, type Transcribe } from "./transcript-answer.ts";
import { readTranscriptionForm } from "./transcription-form.ts";

/** The gateway has a lower limit. This one only protects the memory from errors. */
const requestBytesMax = 1024 * 1024 * 1024;
/** The sample rate of Whisper. */
const sampleRate = 16_000;
const secondsMin = 0.1;

export function makeTranscriptionEngine(models: ServedModels): Engine {
  const loaded = modelCache(
    (model, directory) => loadWhisper(isAdded(model) ? directory : join(directory, "models", "Xenova", model.upstream)),
    (whisper) => whisper.close(),
  );

  const reader =
    (task: "transcribe" | "translate") =>
    async (request: Request): Promise<Job | RequestError> => {
      const form = await readTranscriptionForm(request);
      if (isRequestError(form)) return form;
      const model = findModel(models(), form.model);
      if (isRequestError(model)) return model;
      const secondsMax = secondsLimit(request.headers.get("x-audio-seconds-max"));

      return async (signal, worked) => {
        const whisper = await loaded(model);
        if (isRequestError(whisper)) return whisper;
        signal.throwIfAborted();
        const samples = await samplesOf(form.file, secondsMax, signal);
        if (isRequestError(samples)) return samples;
        const transcribe: Transcribe = (stop, onSegment) =>
          whisper.transcribe(samples, { ...form.options, task, signal: stop, onSegment, onStep: worked });
        if (form.stream) return { type: "text/event-stream", body: transcriptEvents(transcribe, signal) };
        return { type: "application/json", body: transcriptBody(await transcribe(signal, () => {}), task, form) };
      };
    };

  const routes = new Map([
    ["/v1/audio/transcriptions", reader("transcribe")],
    ["/v1/audio/translations", reader("translate")],
  ]);
  return { models, routes, requestBytesMax };
}

/** The longest audio that the gateway allows. It does not trust the duration that the file declares. */
function secondsLimit(header: string | null): number {
  const requested = Number(header ?? fileSecondsMax);
  return requested > 0 ? Math.min(requested, fileSecondsMax) : fileSecondsMax;
}

async function samplesOf(file: Blob, secondsMax: number, signal: AbortSignal): Promise<Float32Array | RequestError> {
  try {
    const samples = await decodeInWorker(await file.arrayBuffer(), { sampleRate, secondsMax, signal });
    if (samples.length / sampleRate >= secondsMin) return samples;
    return requestError(400, `The audio is shorter than ${secondsMin} seconds.`, { param: "file", code: "audio_too_short" });
  } catch (thrown) {
    if (!(thrown instanceof UndecodableAudio)) throw thrown;
    const message = `The file cannot be read as audio: ${thrown.message} Supported formats are aac, aiff, caf, flac, m4a, mkv, mov, mp3, mp4, mpeg, mpga, ogg, opus, wav and webm.`;
    return requestError(400, message, { param: "file", code: "invalid_audio" });
  }
}
