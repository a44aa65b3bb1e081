import { secondsMax } from "../../media/audio.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { isUnspaced, languageCode } from "../../operations/transcription/languages.ts";
import { needsTimes, type Transcript, type TranscriptWord } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { explain, explainInBand } from "../errors/explain.ts";
import { droppedFrom, keywordsIn, languageTag, translationUnsupported } from "../transcripts/foreign-transcription.ts";
import { jsonFileBody } from "../transcripts/json-file-body.ts";
import { renderedTranscript } from "../transcripts/rendered-transcript.ts";
import { fields, list, seconds, speakerLabel, string } from "../transcripts/transcript-fields.ts";
import { transcriptionHeaders, transcriptionUrl } from "../transcripts/transcription-request-head.ts";
import { parseUntrusted } from "../untrusted.ts";
import { regionalTag } from "./regional-tag.ts";

/**
 * Synchronous recognition of version 2, which decodes every usual format by itself:
 * https://cloud.google.com/speech-to-text/docs/reference/rest/v2/projects.locations.recognizers/recognize
 */
export const recognition: Codec<TranscriptionRequest> = { encode, explain };

function encode(ask: TranscriptionRequest, target: Target): EncodedRequest | Failure {
  if (ask.task === "translate") return translationUnsupported();
  const tag = languageTag(ask);
  if (tag === null && !detectsLanguages(target.model)) return languageMissing;
  const timed = needsTimes(ask.format);
  const keywords = keywordsIn(ask.fields);
  const document = {
    config: {
      autoDecodingConfig: {},
      model: target.model,
      languageCodes: [tag === null ? "auto" : regionalTag(tag)],
      features: {
        enableAutomaticPunctuation: true,
        // Not every model has times, and one that has none refuses the field.
        ...(timed ? { enableWordTimeOffsets: true } : undefined),
        ...(ask.format === "diarized_json" ? { diarizationConfig: { minSpeakerCount: 1, maxSpeakerCount: speakersMax } } : undefined),
      },
      ...(keywords.length === 0 ? undefined : { adaptation: adaptationOf(keywords) }),
    },
    content: "",
  };
  return {
    request: {
      method: "POST",
      url: transcriptionUrl(ask.task, target),
      headers: transcriptionHeaders("application/json", "application/json", target),
      body: jsonFileBody(document, "content", ask.file.content),
    },
    answer: {
      kind: "whole",
      read: (body) => {
        const transcript = readResults(body, ask, timed);
        return isFailure(transcript) ? transcript : renderedTranscript(transcript, ask);
      },
    },
    clampedTo: null,
    voice: null,
    dropped: droppedFrom(ask, ["keywords"]),
  };
}

/** Of the other models, each request needs to name the language. */
function detectsLanguages(model: string): boolean {
  return /^chirp_[2-9]/.test(model);
}

/** Another channel may detect it. */
const languageMissing = failure("unsupported", "the model does not detect languages", {
  message: "This model does not detect the language of a recording. Name it in 'language'.",
  status: 400,
  type: "invalid_request_error",
  code: "missing_required_parameter",
  param: "language",
});

const speakersMax = 6;

function adaptationOf(keywords: readonly string[]): JsonObject {
  const phrases = keywords.slice(0, phrasesMax).map((value) => ({ value: value.slice(0, phraseLengthMax) }));
  return { phraseSets: [{ inlinePhraseSet: { phrases } }] };
}

/** https://cloud.google.com/speech-to-text/quotas */
const phrasesMax = 1200;
const phraseLengthMax = 100;

function readResults(body: Uint8Array, ask: TranscriptionRequest, timed: boolean): Transcript | Failure {
  const answer = parseUntrusted(decoder.decode(body), body);
  if (!isJsonObject(answer)) return failure("bad_response", body.length === 0 ? "the answer is empty" : "the answer is not a JSON object");
  if (answer["error"] != null) return explainInBand(answer["error"]);
  // Without speech there are no results, and perhaps not even an empty list of them.
  const results = list(answer["results"]);
  const best = results.flatMap((result) => list(result["alternatives"]).slice(0, 1));
  const language = languageCode(string(results[0]?.["languageCode"])) ?? ask.language;
  const texts = best.map((alternative) => string(alternative["transcript"]).trim()).filter((text) => text !== "");
  const billed = duration(fields(answer["metadata"])["totalBilledDuration"]);
  const isBilled = billed >= 0 && billed <= secondsMax;
  const words = timed ? wordsIn(best) : null;
  return {
    text: texts.join(isUnspaced(language) ? "" : " "),
    language,
    // The billed time is rounded up. Without it, the length of the file is an estimate, which is made elsewhere.
    duration: isBilled ? (ask.seconds ?? billed) : null,
    // Only words have times; segments are made of them.
    segments: null,
    words: words !== null && words.length === 0 && texts.length > 0 ? null : words,
    usage: isBilled ? { type: "duration", seconds: billed } : null,
  };
}

const decoder = new TextDecoder();

function wordsIn(alternatives: readonly JsonObject[]): readonly TranscriptWord[] {
  const words = alternatives.flatMap((alternative) => list(alternative["words"]));
  return words.map((word, index) => ({
    word: string(word["word"]).trim(),
    // A time of zero is left out.
    start: word["startOffset"] === undefined && index === 0 ? 0 : duration(word["startOffset"]),
    end: duration(word["endOffset"]),
    speaker: speakerOf(word["speakerLabel"]),
  }));
}

/** A duration such as `1.500s`; NaN if it is none. */
function duration(value: unknown): number {
  return typeof value === "string" && value.endsWith("s") ? seconds(value.slice(0, -1)) : Number.NaN;
}

/** Speakers are numbered from one. */
function speakerOf(label: unknown): string | null {
  const text = string(label);
  return /^[1-9]\d{0,3}$/.test(text) ? speakerLabel(Number(text) - 1) : speakerLabel(text);
}
