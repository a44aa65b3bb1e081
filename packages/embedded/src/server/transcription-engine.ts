import { join } from "node:path";
import { fileSecondsMax } from "../codecs/decode-file.ts";
import { UndecodableAudio } from "../codecs/codec.ts";
import { loadWhisper } from "../transcription/whisper.ts";
import { chosenModel } from "./chosen-model.ts";
import { decodeApart } from "./decoding.ts";
import type { Engine, Order } from "./engine.ts";
import { oneLoaded } from "./one-loaded.ts";
import { isRefusal, refusal, type Refusal } from "./refusal.ts";
import { isAdded, type ServedModels } from "./served-models.ts";
import { transcriptBody, transcriptEvents, type Hear } from "./transcript-answer.ts";
import { readTranscriptionForm } from "./transcription-form.ts";

/** The gateway's own bound is lower; this one only keeps a mistake from filling the memory. */
const requestBytesMax = 1024 * 1024 * 1024;
/** What Whisper listens at. */
const sampleRate = 16_000;
const secondsMin = 0.1;

export function makeTranscriptionEngine(models: ServedModels): Engine {
  const loaded = oneLoaded(
    (model, directory) => loadWhisper(isAdded(model) ? directory : join(directory, "models", "Xenova", model.upstream)),
    (whisper) => whisper.close(),
  );

  const reader =
    (task: "transcribe" | "translate") =>
    async (request: Request): Promise<Order | Refusal> => {
      const form = await readTranscriptionForm(request);
      if (isRefusal(form)) return form;
      const model = chosenModel(models(), form.model);
      if (isRefusal(model)) return model;
      const secondsMax = askedSeconds(request.headers.get("x-audio-seconds-max"));

      return async (signal, worked) => {
        const whisper = await loaded(model);
        if (isRefusal(whisper)) return whisper;
        signal.throwIfAborted();
        const samples = await samplesOf(form.file, secondsMax, signal);
        if (isRefusal(samples)) return samples;
        const hear: Hear = (hearing, onSegment) =>
          whisper.transcribe(samples, { ...form.wishes, task, signal: hearing, onSegment, onStep: worked });
        if (form.stream) return { type: "text/event-stream", body: transcriptEvents(hear, signal) };
        return { type: "application/json", body: transcriptBody(await hear(signal, () => {}), task, form) };
      };
    };

  const routes = new Map([
    ["/v1/audio/transcriptions", reader("transcribe")],
    ["/v1/audio/translations", reader("translate")],
  ]);
  return { models, routes, requestBytesMax };
}

/** How long the audio may last, as the gateway says: what it was told of the length, it has from the file and does not believe. */
function askedSeconds(header: string | null): number {
  const asked = Number(header ?? fileSecondsMax);
  return asked > 0 ? Math.min(asked, fileSecondsMax) : fileSecondsMax;
}

async function samplesOf(file: Blob, secondsMax: number, signal: AbortSignal): Promise<Float32Array | Refusal> {
  try {
    const samples = await decodeApart(await file.arrayBuffer(), { sampleRate, secondsMax, signal });
    if (samples.length / sampleRate >= secondsMin) return samples;
    return refusal(400, `The audio is shorter than ${secondsMin} seconds.`, { param: "file", code: "audio_too_short" });
  } catch (thrown) {
    if (!(thrown instanceof UndecodableAudio)) throw thrown;
    const message = `The file cannot be read as audio: ${thrown.message} Known are aac, aiff, caf, flac, m4a, mkv, mov, mp3, mp4, mpeg, mpga, ogg, opus, wav and webm.`;
    return refusal(400, message, { param: "file", code: "invalid_audio" });
  }
}
