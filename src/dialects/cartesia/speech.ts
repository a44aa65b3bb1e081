import { isFailure, type Failure } from "../../operations/failure.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { encodedSpeech, foreignSpeech, speechHeaders, speechUrl } from "../speech/foreign-speech.ts";
import { ownFields, speedWithin, withSpeedIn } from "../speech/own-fields.ts";
import { explainSpeech } from "../speech/speech-errors.ts";

/** https://docs.cartesia.ai/api-reference/tts/bytes */
export const cartesiaSpeech: Codec<SpeechRequest> = { encode, explain: explainSpeech };

/** The version of the API from which on errors are JSON. A channel may set another one with `headers`. */
const version = { "cartesia-version": "2026-03-01" };

const outputs = {
  mp3: { container: "mp3", sample_rate: 44_100, bit_rate: 128_000 },
  wav: { container: "wav", encoding: "pcm_s16le", sample_rate: 24_000 },
  pcm: { container: "raw", encoding: "pcm_s16le", sample_rate: 24_000 },
} as const;
const formats = ["mp3", "wav", "pcm"] as const;
const passedOn = ["language", "generation_config", "pronunciation_dict_id"];

function encode(ask: SpeechRequest, target: Target): EncodedRequest | Failure {
  const wanted = foreignSpeech(ask, target, formats);
  if (isFailure(wanted)) return wanted;
  const { voice, format, speed } = wanted;
  const own = ownFields(ask, passedOn);
  const paced = speed === null || !hasSpeed(target.model) ? null : speedWithin(speed, 0.6, 1.5);
  const body = {
    model_id: target.model,
    transcript: ask.input,
    voice: { mode: "id", id: voice },
    output_format: outputs[format],
    ...withSpeedIn(own, "generation_config", paced),
  };
  return encodedSpeech(ask, {
    request: {
      method: "POST",
      url: speechUrl(target),
      headers: { ...version, ...speechHeaders(format, "application/json", target) },
      body: encoder.encode(JSON.stringify(body)),
    },
    asked: format,
    voice,
    carried: [...Object.keys(own), ...(paced?.exact === true ? ["speed"] : [])],
  });
}

const encoder = new TextEncoder();

/** Models before the third generation ignore it. */
function hasSpeed(model: string): boolean {
  return !/^sonic(?:$|-(?:2|turbo|english|multilingual))/.test(model);
}
