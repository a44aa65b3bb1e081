import { makeWavEncoder } from "../codecs/wav/wav-encode.ts";
import type { EmbeddedModel } from "../catalog.ts";
import { loadFlite, type Sound } from "../speech/flite.ts";
import { voicesIn } from "../speech/kokoro/kokoro-addon.ts";
import { sentences } from "../speech/sentences.ts";
import { speak, type SpeechOptions } from "../speech/speak.ts";
import { spokenText } from "../speech/spoken-text.ts";
import { toPcm } from "../codecs/pcm.ts";
import { findModel, type ServedModels } from "./served-models.ts";
import type { Engine, Job } from "./engine.ts";
import { checkNumber, firstError, readFields, requireText, unsupported, type Fields } from "./fields.ts";
import { modelCache } from "./model-cache.ts";
import { isRequestError, requestError, type RequestError } from "./request-error.ts";

/** A loaded speech model. */
export interface Speaker {
  /** Splits a text into the pieces that are spoken one by one. */
  pieces(text: string, options: SpeechOptions): readonly string[];
  speak(piece: string, voice: string, speed: number): Promise<Sound>;
  close(): Promise<void>;
}

export function makeSpeechEngine(models: ServedModels, load: typeof loadSpeaker = loadSpeaker): Engine {
  const loaded = modelCache(load, (speaker) => speaker.close());

  async function read(request: Request): Promise<Job | RequestError> {
    const fields = await readFields(request);
    if (isRequestError(fields)) return fields;
    const model = findModel(models(), fields["model"]);
    if (isRequestError(model)) return model;
    const error = firstError([
      requireText(fields, "input"),
      checkVoice(fields, model.voices ?? voicesIn(model.files)),
      checkNumber(fields, "speed", 0.25, 4),
      checkFormat(fields),
      checkStyle(fields),
    ]);
    if (error !== null) return error;
    const text = spokenText(String(fields["input"]));
    if (text.kind !== "speakable") return unspeakable(text);
    const options = { voice: String(fields["voice"]), speed: Number(fields["speed"] ?? 1) };
    const wav = fields["response_format"] === "wav";

    return async (signal) => {
      const speaker = await loaded(model);
      if (isRequestError(speaker)) return speaker;
      signal.throwIfAborted();
      const samples = speak(speaker, speaker.pieces(text.text, options), options, signal);
      if (!wav) return { type: "audio/pcm", body: encoded(samples, toPcm) };
      const encoder = makeWavEncoder();
      return { type: "audio/wav", body: encoded(samples, (piece) => encoder.push(piece)) };
    };
  }

  return { models, routes: new Map([["/v1/audio/speech", read]]), requestBytesMax: 16 * 1024 * 1024 };
}

/** The dependencies of Kokoro are loaded only if it is used. */
async function loadSpeaker(model: EmbeddedModel, directory: string): Promise<Speaker> {
  if (model.upstream === "kokoro") return (await import("../speech/kokoro/kokoro.ts")).loadKokoro(directory);
  const flite = await loadFlite(directory);
  // The garbage collector frees the model.
  return { pieces: sentences, speak: (piece, voice, speed) => flite.speak(piece, voice, speed), close: async () => {} };
}

async function* encoded(
  samples: AsyncGenerator<Float32Array, void>,
  encode: (samples: Float32Array) => Uint8Array,
): AsyncGenerator<Uint8Array, void> {
  for await (const piece of samples) yield encode(piece);
}

function checkVoice(fields: Fields, voices: readonly string[]): RequestError | null {
  const voice = fields["voice"];
  if (typeof voice === "string" && voices.includes(voice)) return null;
  if (voice == null) return requestError(400, "`voice` is missing.", { param: "voice", code: "missing_required_parameter" });
  return requestError(400, `This voice is not known. The voices are ${voices.join(", ")}.`, { param: "voice", code: "invalid_value" });
}

function checkFormat(fields: Fields): RequestError | null {
  const format = fields["response_format"];
  if (format === "pcm" || format === "wav") return null;
  return requestError(400, "`response_format` must be pcm or wav.", { param: "response_format", code: "unsupported_value" });
}

function checkStyle(fields: Fields): RequestError | null {
  if (fields["instructions"] != null && fields["instructions"] !== "") {
    return unsupported("instructions", "This voice cannot follow instructions.");
  }
  const stream = fields["stream_format"];
  return stream == null || stream === "audio" ? null : unsupported("stream_format", "The engine sends audio only, not events.");
}

function unspeakable(text: Exclude<ReturnType<typeof spokenText>, { kind: "speakable" }>): RequestError {
  if (text.kind === "empty")
    return requestError(400, "`input` contains nothing that can be spoken.", { param: "input", code: "invalid_value" });
  return requestError(400, `This voice speaks English only, and \`input\` contains ${text.what}.`, {
    param: "input",
    code: "unsupported_language",
  });
}
