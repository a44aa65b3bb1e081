import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { audioOf } from "../../operations/speech/speech-events.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { JsonAudioReader, type JsonAudio } from "../readers/json-audio-reader.ts";
import { encodedSpeech, foreignSpeech, jsonInsteadOfAudio, speechUrl } from "../speech/foreign-speech.ts";
import { speedWithin } from "../speech/own-fields.ts";
import { explainSpeech } from "../speech/speech-errors.ts";
import { objectOf, textOf } from "../untrusted.ts";
import { cloudVoice } from "./cloud-voice.ts";

/** https://cloud.google.com/text-to-speech/docs/reference/rest/v1/text/synthesize */
export const synthesis: Codec<SpeechRequest> = { encode, explain: explainSpeech };

function encode(ask: SpeechRequest, target: Target): EncodedRequest | Failure {
  const text = encoder.encode(ask.input);
  if (text.length > inputBytesMax) return inputTooLong(text.length);
  const speech = foreignSpeech(ask, target, formats);
  if (isFailure(speech)) return speech;
  const voice = cloudVoice(speech.voice, target.model);
  if (isFailure(voice)) return voice;
  const rate = speech.speed === null ? null : speedWithin(speech.speed, 0.25, 2);
  const body = {
    input: { text: ask.input },
    voice,
    audioConfig: {
      audioEncoding: encodings[speech.format],
      ...(speech.format === "wav" ? { sampleRateHertz: 24_000 } : undefined),
      ...(rate === null ? undefined : { speakingRate: rate.speed }),
    },
  };
  const { forwarded, channel } = target;
  return encodedSpeech(ask, {
    request: {
      method: "POST",
      url: speechUrl(target),
      headers: { accept: "application/json", ...forwarded, ...channel.headers, "content-type": "application/json" },
      body: encoder.encode(JSON.stringify(body)),
    },
    asked: speech.format,
    voice: voice.name,
    carried: rate?.exact === true ? ["speed"] : [],
    answer: (conversion) => ({
      kind: "stream",
      isJson: true,
      reader: (_head, tools) => new JsonAudioReader(conversion, tools, audioIn),
      instead: jsonInsteadOfAudio,
    }),
  });
}

const encoder = new TextEncoder();

/** `LINEAR16` comes with the head of a WAV. */
const encodings = { wav: "LINEAR16", mp3: "MP3", opus: "OGG_OPUS" } as const;
const formats = ["wav", "mp3", "opus"] as const;

/** https://cloud.google.com/text-to-speech/quotas */
const inputBytesMax = 5000;

/** Another channel may take it. The limit is one of bytes, which the gateway's own check of characters cannot see. */
function inputTooLong(bytes: number): Failure {
  return failure("unsupported", `the input has ${bytes} bytes`, {
    message: `'input' has ${bytes} bytes, and at most ${inputBytesMax} are allowed.`,
    status: 400,
    type: "invalid_request_error",
    code: "string_above_max_length",
    param: "input",
  });
}

function audioIn(document: unknown): JsonAudio | Failure {
  const answer = objectOf(document);
  if (answer === null) return failure("bad_response", "the answer is not a JSON object");
  if (answer["error"] != null) return explainInBand(answer["error"]);
  const audio = audioOf(textOf(answer["audioContent"]));
  return audio === null || audio.length === 0 ? failure("bad_response", "the answer has no audio") : { audio, usage: null };
}
