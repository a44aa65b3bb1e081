import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { SpeechRequest } from "../../operations/speech/speech-request.ts";
import type { Codec, EncodedRequest, ErrorResponse, Target } from "../dialect.ts";
import { encodedSpeech, foreignSpeech, speechHeaders } from "../speech/foreign-speech.ts";
import { speedWithin } from "../speech/own-fields.ts";
import { explainSpeech } from "../speech/speech-errors.ts";
import { speechAddress } from "./hosts.ts";
import { billedCharacters, spokenSeconds, ssmlOf, type SpokenText } from "./ssml.ts";

/** Text to speech (https://learn.microsoft.com/azure/ai-services/speech-service/rest-text-to-speech). */
export const azureTextToSpeech: Codec<SpeechRequest> = { encode, explain: explainVoices };

/** The formats of the service that are formats of the OpenAI API as well. The others are made of samples. */
const outputFormats = {
  mp3: "audio-24khz-160kbitrate-mono-mp3",
  opus: "ogg-24khz-16bit-mono-opus",
  wav: "riff-24khz-16bit-mono-pcm",
  pcm: "raw-24khz-16bit-mono-pcm",
} as const;
const formats = ["mp3", "opus", "wav", "pcm"] as const;

function encode(ask: SpeechRequest, target: Target): EncodedRequest | Failure {
  const speech = foreignSpeech(ask, target, formats);
  if (isFailure(speech)) return speech;
  if (!isVoiceName(speech.voice)) return noSuchVoice(speech.voice);
  const within = speech.speed === null ? null : speedWithin(speech.speed, rateMin, rateMax);
  const spoken: SpokenText = { text: ask.input, voice: voiceOf(speech.voice, target.model), rate: within?.speed ?? null };
  if (spokenSeconds(spoken, ask.characters) > secondsMax) return tooLong();
  return encodedSpeech(ask, {
    request: {
      method: "POST",
      url: speechAddress(target.channel.address),
      headers: {
        ...speechHeaders(speech.format, "application/ssml+xml", target),
        "x-microsoft-outputformat": outputFormats[speech.format],
      },
      body: encoder.encode(ssmlOf(spoken)),
    },
    asked: speech.format,
    voice: speech.voice,
    carried: within?.exact === true ? ["speed"] : [],
    billed: () => billedCharacters(spoken, ask.characters),
  });
}

const rateMin = 0.5;
const rateMax = 2;
/** Longer audio is cut off after this without a word about it. */
const secondsMax = 600;
const encoder = new TextEncoder();

/** `en-US-AvaMultilingualNeural`, `en-US-Ava:DragonHDLatestNeural`, or the long form of such a name. */
function isVoiceName(voice: string): boolean {
  return /^(?:[a-z]{2,3}-[A-Za-z]{2,8}-|Microsoft Server Speech )[\p{L}\p{N}() ,:._-]{1,150}$/u.test(voice);
}

/** Some models are a part of the name of their voices. */
function voiceOf(voice: string, model: string): string {
  return /^mai-voice-/i.test(model) && !voice.includes(":") ? `${voice}:${model}` : voice;
}

/** Not `invalid_request`, because another channel may have the voice. */
function noSuchVoice(voice: string): Failure {
  const shown = voice.length > shownMax ? `${voice.slice(0, shownMax)}…` : voice;
  return failure("unsupported", "the voice is not one of this service", {
    message: `Invalid value for 'voice': '${shown}' is not a voice of this channel. Its voices have names such as 'en-US-AvaMultilingualNeural'.`,
    ...voiceFault,
  });
}

const shownMax = 64;
const voiceFault = { status: 400, type: "invalid_request_error", code: "invalid_value", param: "voice" } as const;

function tooLong(): Failure {
  return failure("too_large", "the text would take longer than ten minutes to speak", {
    message: "'input' takes longer than ten minutes to speak at this speed, which is the limit of this channel.",
    status: 400,
    type: "invalid_request_error",
    code: "string_above_max_length",
    param: "input",
  });
}

/**
 * An unknown voice is answered with 400 and an empty body, or breaks the service's own connection, which its proxy reports as 502 with
 * these words. Neither says what was wrong; the format and the markup are the gateway's.
 */
function explainVoices(refusal: ErrorResponse): Failure {
  const { status, body } = refusal;
  const isRefused = (status === 400 && body.trim() === "") || (status === 502 && body.includes("reset reason: protocol error"));
  if (!isRefused && !/\bunsupported voice\b/i.test(body)) return explainSpeech(refusal);
  return failure("unsupported", `${status}: the voice was refused`, {
    message: "The upstream does not have this voice in its region, or the voice cannot speak this text.",
    ...voiceFault,
  });
}
