import { audioFormats, type AudioFormat } from "../../media/audio.ts";
import { isFailure, type Failure } from "../../operations/failure.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { Codec, EncodedRequest, ErrorResponse, Target } from "../dialect.ts";
import { characterHeader, encodedSpeech, foreignSpeech, speechHeaders, speechUrl } from "../speech/foreign-speech.ts";
import { speedWithin } from "../speech/own-fields.ts";
import { explainSpeech, unknownVoice } from "../speech/speech-errors.ts";

/** https://developers.deepgram.com/reference/text-to-speech/speak-request */
export const deepgramSpeech: Codec<SpeechRequest> = { encode, explain: explainVoices };

/** The query parameters of each format, by https://developers.deepgram.com/docs/tts-media-output-settings. */
const outputs: { readonly [F in AudioFormat]: Readonly<Record<string, string>> } = {
  mp3: { encoding: "mp3" },
  opus: { encoding: "opus", container: "ogg" },
  aac: { encoding: "aac" },
  flac: { encoding: "flac", sample_rate: "48000" },
  wav: { encoding: "linear16", container: "wav", sample_rate: "24000" },
  pcm: { encoding: "linear16", container: "none", sample_rate: "24000" },
};

function encode(ask: SpeechRequest, target: Target): EncodedRequest | Failure {
  const wanted = foreignSpeech(ask, target, audioFormats);
  if (isFailure(wanted)) return wanted;
  const { format, voice, speed } = wanted;
  const model = voiceModel(target.model, voice);
  const parameters = new URLSearchParams({ model, ...outputs[format] });
  const paced = speed !== null && hasSpeed(model) ? speedWithin(speed, 0.7, 1.5) : null;
  if (paced !== null) parameters.set("speed", String(paced.speed));
  return encodedSpeech(ask, {
    request: {
      method: "POST",
      url: speechUrl(target, parameters),
      headers: speechHeaders(format, "application/json", target),
      body: encoder.encode(JSON.stringify({ text: ask.input })),
    },
    asked: format,
    voice: model,
    carried: paced?.exact === true ? ["speed"] : [],
    billed: characterHeader("dg-char-count"),
  });
}

const encoder = new TextEncoder();

/**
 * A voice is a part of the model's name: `aura-2-thalia-en`. A channel may have the model without its voice, `aura-2`, and clients then
 * choose one: `thalia`, `celeste-es` or the full name. The model stays the one that the key was checked for.
 */
export function voiceModel(model: string, voice: string): string {
  if (!/^aura(?:-\d+)?$/.test(model)) return model;
  const name = voice.replace(/^aura-(?:\d+-)?/, "");
  return /-[a-z]{2}(?:-[a-z]{2})?$/i.test(name) ? `${model}-${name}` : `${model}-${name}-en`;
}

/** https://developers.deepgram.com/docs/tts-voice-controls */
function hasSpeed(model: string): boolean {
  return /^aura-2-.+-(?:en|es)$/.test(model);
}

/** Because voices are models, one that does not exist or is not open to this account may be the client's choice. */
function explainVoices(refusal: ErrorResponse): Failure {
  const cause = explainSpeech(refusal);
  const isVoice = cause.kind === "model_missing" || (refusal.status === 400 && /no such model/i.test(refusal.body.slice(0, 4096)));
  return isVoice ? unknownVoice(cause, refusal) : cause;
}
