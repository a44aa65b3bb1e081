import { makeWavEncoder } from "../codecs/wav/wav-encode.ts";
import type { EmbeddedModel } from "../catalog.ts";
import { loadFlite, type Sound } from "../speech/flite.ts";
import { voicesIn } from "../speech/kokoro/voices.ts";
import { sentences } from "../speech/sentences.ts";
import { speak, type SpeakingWishes } from "../speech/speak.ts";
import { spokenText } from "../speech/spoken-text.ts";
import { toPcm } from "../codecs/pcm.ts";
import { chosenModel } from "./chosen-model.ts";
import type { Engine, Order } from "./engine.ts";
import { checkNumber, firstRefusal, readFields, requireText, unsupported, type Fields } from "./fields.ts";
import { oneLoaded } from "./one-loaded.ts";
import { isRefusal, refusal, type Refusal } from "./refusal.ts";
import type { ServedModels } from "./served-models.ts";

/** The convention's own bound. */

/** A speech model in memory. */
export interface Speaker {
  /** Cuts a text into what is spoken at once. */
  pieces(text: string, wishes: SpeakingWishes): readonly string[];
  speak(piece: string, voice: string, speed: number): Promise<Sound>;
  close(): Promise<void>;
}

export function makeSpeechEngine(models: ServedModels, load: typeof loadSpeaker = loadSpeaker): Engine {
  const loaded = oneLoaded(load, (speaker) => speaker.close());

  async function read(request: Request): Promise<Order | Refusal> {
    const fields = await readFields(request);
    if (isRefusal(fields)) return fields;
    const model = chosenModel(models(), fields["model"]);
    if (isRefusal(model)) return model;
    const refused = firstRefusal([
      requireText(fields, "input"),
      checkVoice(fields, model.voices ?? voicesIn(model.files)),
      checkNumber(fields, "speed", 0.25, 4),
      checkFormat(fields),
      checkManner(fields),
    ]);
    if (refused !== null) return refused;
    const text = spokenText(String(fields["input"]));
    if (text.kind !== "speakable") return unspeakable(text);
    const wishes = { voice: String(fields["voice"]), speed: Number(fields["speed"] ?? 1) };
    const wav = fields["response_format"] === "wav";

    return async (signal) => {
      const speaker = await loaded(model);
      if (isRefusal(speaker)) return speaker;
      signal.throwIfAborted();
      const samples = speak(speaker, speaker.pieces(text.text, wishes), wishes, signal);
      if (!wav) return { type: "audio/pcm", body: encoded(samples, toPcm) };
      const encoder = makeWavEncoder();
      return { type: "audio/wav", body: encoded(samples, (piece) => encoder.push(piece)) };
    };
  }

  return { models, routes: new Map([["/v1/audio/speech", read]]), requestBytesMax: 16 * 1024 * 1024 };
}

/** What Kokoro needs is loaded with it only: Flite runs without. */
async function loadSpeaker(model: EmbeddedModel, directory: string): Promise<Speaker> {
  if (model.upstream === "kokoro") return (await import("../speech/kokoro/kokoro.ts")).loadKokoro(directory);
  const flite = await loadFlite(directory);
  // There is nothing to free that the collector would not find.
  return { pieces: sentences, speak: (piece, voice, speed) => flite.speak(piece, voice, speed), close: async () => {} };
}

async function* encoded(
  samples: AsyncGenerator<Float32Array, void>,
  encode: (samples: Float32Array) => Uint8Array,
): AsyncGenerator<Uint8Array, void> {
  for await (const piece of samples) yield encode(piece);
}

function checkVoice(fields: Fields, voices: readonly string[]): Refusal | null {
  const voice = fields["voice"];
  if (typeof voice === "string" && voices.includes(voice)) return null;
  if (voice == null) return refusal(400, "`voice` is missing.", { param: "voice", code: "missing_required_parameter" });
  return refusal(400, `This voice is not known. There are ${voices.join(", ")}.`, { param: "voice", code: "invalid_value" });
}

function checkFormat(fields: Fields): Refusal | null {
  const format = fields["response_format"];
  if (format === "pcm" || format === "wav") return null;
  return refusal(400, "`response_format` must be pcm or wav.", { param: "response_format", code: "unsupported_value" });
}

function checkManner(fields: Fields): Refusal | null {
  if (fields["instructions"] != null && fields["instructions"] !== "") {
    return unsupported("instructions", "This voice cannot follow instructions.");
  }
  const stream = fields["stream_format"];
  return stream == null || stream === "audio" ? null : unsupported("stream_format", "The engine sends bare audio only.");
}

function unspeakable(text: Exclude<ReturnType<typeof spokenText>, { kind: "speakable" }>): Refusal {
  if (text.kind === "empty")
    return refusal(400, "There is nothing in `input` that can be spoken.", { param: "input", code: "invalid_value" });
  return refusal(400, `This voice speaks English only, and \`input\` has ${text.what} in it.`, {
    param: "input",
    code: "unsupported_language",
  });
}
