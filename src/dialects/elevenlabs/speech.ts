import { isFailure, type Failure } from "../../operations/failure.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { Codec, EncodedRequest, ErrorResponse, Target } from "../dialect.ts";
import { errorBody } from "../errors/error-body.ts";
import { encodedSpeech, foreignSpeech, speechHeaders, speechUrl } from "../speech/foreign-speech.ts";
import { ownFields, speedWithin, withSpeedIn } from "../speech/own-fields.ts";
import { explainSpeech, unknownVoice } from "../speech/speech-errors.ts";

/** https://elevenlabs.io/docs/api-reference/text-to-speech/stream */
export const elevenlabsSpeech: Codec<SpeechRequest> = { encode, explain };

/** WAV is only offered for answers that are not streamed, and samples of a higher rate only with a larger plan. */
const outputs = { mp3: "mp3_44100_128", opus: "opus_48000_128", pcm: "pcm_24000" } as const;
const formats = ["mp3", "opus", "pcm"] as const;
const passedOn = ["language_code", "voice_settings", "seed", "apply_text_normalization"];

function encode(ask: SpeechRequest, target: Target): EncodedRequest | Failure {
  const wanted = foreignSpeech(ask, target, formats);
  if (isFailure(wanted)) return wanted;
  const { voice, format, speed } = wanted;
  const own = ownFields(ask, passedOn);
  const paced = speed === null ? null : speedWithin(speed, 0.7, 1.2);
  const body = { text: ask.input, model_id: target.model, ...withSpeedIn(own, "voice_settings", paced) };
  return encodedSpeech(ask, {
    request: {
      method: "POST",
      url: speechUrl(target, new URLSearchParams({ output_format: outputs[format] }), `/${encodeURIComponent(voice)}/stream`),
      headers: speechHeaders(format, "application/json", target),
      body: encoder.encode(JSON.stringify(body)),
    },
    asked: format,
    voice,
    carried: [...Object.keys(own), ...(paced?.exact === true ? ["speed"] : [])],
  });
}

const encoder = new TextEncoder();

/** A voice that needs a larger plan is refused like an account that has not paid, but the account can serve other requests. */
function explain(refusal: ErrorResponse): Failure {
  const cause = explainSpeech(refusal);
  const { code, status } = errorBody(refusal.body);
  return code === needsPlan || status === needsPlan ? unknownVoice(cause, refusal) : cause;
}

const needsPlan = "paid_plan_required";
