import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import { languageCode } from "../../operations/transcription/languages.ts";
import { needsTimes, type Transcript, type TranscriptSegment, type TranscriptWord } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { explain, explainInBand } from "../errors/explain.ts";
import { droppedFrom, keywordsIn, languageTag, standardLanguage, translationUnsupported } from "../transcripts/foreign-transcription.ts";
import { multipartBody } from "../transcripts/multipart-body.ts";
import { renderedTranscript } from "../transcripts/rendered-transcript.ts";
import { list, seconds, speakerLabel, string } from "../transcripts/transcript-fields.ts";
import { transcriptionHeaders, transcriptionUrl } from "../transcripts/transcription-request-head.ts";
import { objectOf, parseUntrusted } from "../untrusted.ts";
import { localeOf } from "./locales.ts";

/** Fast transcription: one form, answered at once (https://learn.microsoft.com/rest/api/speechtotext/transcriptions/transcribe). */
export const azureTranscription: Codec<TranscriptionRequest> = { encode, explain };

/** The one that has lists of phrases and the enhanced models. */
const version = "2025-10-15";

function encode(ask: TranscriptionRequest, target: Target): EncodedRequest | Failure {
  const family = familyOf(target.model);
  if (ask.task === "translate" && family !== "enhanced") return translationUnsupported();
  const definition = JSON.stringify(definitionOf(ask, target.model));
  const { body, type } = multipartBody([{ name: "definition", value: definition }], ask.file, "audio");
  return {
    request: {
      method: "POST",
      url: transcriptionUrl(ask.task, target, new URLSearchParams({ "api-version": version })),
      headers: transcriptionHeaders("application/json", type, target),
      body,
    },
    answer: {
      kind: "whole",
      read: (answer) => {
        const transcript = readAzure(answer, ask);
        return isFailure(transcript) ? transcript : renderedTranscript(transcript, ask);
      },
    },
    clampedTo: null,
    voice: null,
    dropped: droppedFrom(ask, family === "enhanced" ? ["prompt"] : ["keywords"]),
  };
}

/** `enhanced`: the multimodal model, which takes a prompt and translates. `mai`: the MAI models. `usual`: any other name, the default model. */
type Family = "usual" | "enhanced" | "mai";

function familyOf(model: string): Family {
  if (/^mai-/i.test(model)) return "mai";
  return /^llm-speech/i.test(model) ? "enhanced" : "usual";
}

function definitionOf(ask: TranscriptionRequest, model: string): JsonObject {
  const keywords = keywordsIn(ask.fields);
  const family = familyOf(model);
  return {
    // Clients of the OpenAI API expect what was said, without asterisks.
    profanityFilterMode: "None",
    ...localesFor(ask, family),
    ...(family !== "enhanced" && keywords.length > 0 && { phraseList: { phrases: keywords } }),
    ...(ask.format === "diarized_json" && { diarization: { enabled: true } }),
    ...enhancedFor(ask, model, family),
  };
}

/** The multimodal model finds the language out by itself; the MAI models take a language without a country. */
function localesFor(ask: TranscriptionRequest, family: Family): JsonObject {
  if (family === "enhanced") return {};
  const language = standardLanguage(ask);
  if (language === null) return {};
  if (family === "mai") return { locales: [language] };
  const tag = languageTag(ask) ?? language;
  // `zh-Hant` names a script, and the service wants a country.
  return { locales: [/-(?:[a-z]{2}|\d{3})$/i.test(tag) ? tag : localeOf(tag)] };
}

function enhancedFor(ask: TranscriptionRequest, model: string, family: Family): JsonObject {
  if (family === "usual") return {};
  // Only these take the option, and without it they report no times.
  const timed = /^mai-transcribe-[2-9]/i.test(model) && needsTimes(ask.format) ? { modelOptions: { timestamps: "word" } } : {};
  if (family === "mai") return { enhancedMode: { enabled: true, model, ...timed } };
  const prompt = ask.fields.findLast(({ name, value }) => name === "prompt" && value.trim() !== "")?.value;
  const task = ask.task === "translate" ? { task: "translate", targetLanguage: "en" } : { task: "transcribe" };
  return { enhancedMode: { enabled: true, ...task, ...(prompt !== undefined && { prompt: [prompt] }) } };
}

function readAzure(body: Uint8Array, ask: TranscriptionRequest): Transcript | Failure {
  const answer = objectOf(parseUntrusted(decoder.decode(body), body));
  if (answer === null) return failure("bad_response", body.length === 0 ? "the answer is empty" : "the answer is not a JSON object");
  if (answer["error"] !== undefined || typeof answer["code"] === "string") return explainInBand(answer["error"] ?? answer);
  if (!Array.isArray(answer["combinedPhrases"])) return failure("bad_response", "the answer has no transcript");
  const phrases = list(answer["phrases"]);
  const labels = speakerLabels(phrases);
  const words = phrases.flatMap((phrase) => list(phrase["words"]).map((word) => wordOf(word, labels(phrase))));
  const duration = seconds(answer["durationMilliseconds"]) / 1000;
  return {
    text: list(answer["combinedPhrases"])
      .map((phrase) => string(phrase["text"]))
      .join("\n"),
    language: languageCode(string(phrases[0]?.["locale"])) ?? ask.language,
    duration: Number.isNaN(duration) ? null : duration,
    segments: isTimed(phrases) ? phrases.map((phrase) => segmentOf(phrase, labels(phrase))) : null,
    words: words.length > 0 || phrases.length === 0 ? words : null,
    usage: null,
  };
}

const decoder = new TextDecoder();

/** Some models report no times at all. */
function isTimed(phrases: readonly JsonObject[]): boolean {
  return phrases.length === 0 || phrases.some((phrase) => phrase["offsetMilliseconds"] !== undefined);
}

/** Speakers are numbered from 0 by some models and from 1 by others, so they are labelled in the order in which they speak. */
function speakerLabels(phrases: readonly JsonObject[]): (phrase: JsonObject) => string | null {
  const known = new Map<unknown, number>();
  for (const { speaker } of phrases) {
    if ((typeof speaker === "number" || typeof speaker === "string") && !known.has(speaker)) known.set(speaker, known.size);
  }
  return ({ speaker }) => speakerLabel(known.get(speaker));
}

function segmentOf(phrase: JsonObject, speaker: string | null): TranscriptSegment {
  const confidence = phrase["confidence"];
  // Some models report none, as zero.
  const isShare = typeof confidence === "number" && confidence > 0 && confidence <= 1;
  return {
    ...timesOf(phrase),
    text: ` ${string(phrase["text"]).trim()}`,
    speaker,
    more: isShare ? { avg_logprob: Math.log(confidence) } : {},
  };
}

function wordOf(word: JsonObject, speaker: string | null): TranscriptWord {
  return { word: string(word["text"]), ...timesOf(word), speaker };
}

function timesOf(part: JsonObject): { readonly start: number; readonly end: number } {
  const start = seconds(part["offsetMilliseconds"]);
  return { start: start / 1000, end: (start + seconds(part["durationMilliseconds"])) / 1000 };
}
