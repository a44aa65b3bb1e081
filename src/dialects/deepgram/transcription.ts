import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { languageCode } from "../../operations/transcription/languages.ts";
import type { TranscriptSegment, Transcript, TranscriptWord } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { explain, explainInBand } from "../errors/explain.ts";
import { fileBody, typeOf, unknownType } from "../transcripts/file-body.ts";
import { renderedTranscript } from "../transcripts/rendered-transcript.ts";
import { droppedFrom, keywordsIn, languageTag, translationUnsupported } from "../transcripts/foreign-transcription.ts";
import { speakerLabel, fields, list, seconds, string } from "../transcripts/transcript-fields.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { transcriptionHeaders, transcriptionUrl } from "../transcripts/transcription-request-head.ts";
import { parseUntrusted } from "../untrusted.ts";

export const deepgramTranscription: Codec<TranscriptionRequest> = { encode, explain };

function encode(ask: TranscriptionRequest, target: Target): EncodedRequest | Failure {
  if (ask.task === "translate") return translationUnsupported();
  return {
    request: {
      method: "POST",
      url: transcriptionUrl(ask.task, target, parametersOf(ask, target.model)),
      headers: transcriptionHeaders("application/json", audioType(ask), target),
      body: fileBody(ask.file.content),
    },
    answer: {
      kind: "whole",
      read: (body) => {
        const transcript = readDeepgram(body, ask.language);
        return isFailure(transcript) ? transcript : renderedTranscript(transcript, ask);
      },
    },
    clampedTo: null,
    voice: null,
    dropped: droppedFrom(ask, hasKeyterms(target.model) ? ["keywords"] : []),
  };
}

/** The client's type is used for audio only: a JSON body could name a URL, which the upstream would fetch. */
function audioType({ file }: TranscriptionRequest): string {
  const type = typeOf(file);
  return /^(?:audio|video)\//i.test(type) ? type : unknownType;
}

function parametersOf(ask: TranscriptionRequest, model: string): URLSearchParams {
  const parameters = new URLSearchParams({ model, punctuate: "true", smart_format: "true" });
  const language = languageTag(ask);
  if (language === null) parameters.set("detect_language", "true");
  else parameters.set("language", language);
  if (ask.format !== "json" && ask.format !== "text") parameters.set("utterances", "true");
  if (ask.format === "diarized_json") parameters.set("diarize_model", "latest");
  if (hasKeyterms(model)) for (const word of keywordsIn(ask.fields)) parameters.append("keyterm", word);
  return parameters;
}

function hasKeyterms(model: string): boolean {
  return model.startsWith("nova-3");
}

function readDeepgram(body: Uint8Array, asked: string | null): Transcript | Failure {
  const answer = parseUntrusted(decoder.decode(body), body);
  if (!isJsonObject(answer)) return failure("bad_response", body.length === 0 ? "the answer is empty" : "the answer is not a JSON object");
  if (answer["err_code"] !== undefined || answer["error"] !== undefined) return explainInBand(answer["error"] ?? answer);
  const results = fields(answer["results"]);
  const [channel] = list(results["channels"]);
  const [best] = list(channel?.["alternatives"]);
  if (channel === undefined || typeof best?.["transcript"] !== "string") return failure("bad_response", "the answer has no transcript");
  const duration = seconds(fields(answer["metadata"])["duration"]);
  return {
    text: best["transcript"],
    language: languageCode(string(channel["detected_language"])) ?? asked,
    duration: Number.isNaN(duration) ? null : duration,
    segments: utterances(results) ?? sentences(best),
    words: Array.isArray(best["words"]) ? list(best["words"]).map(wordIn) : null,
    usage: null,
  };
}

const decoder = new TextDecoder();

function utterances(results: JsonObject): readonly TranscriptSegment[] | null {
  const parts = list(results["utterances"]);
  return parts.length === 0 ? null : parts.map((each) => segmentOf(each, string(each["transcript"]), each["speaker"]));
}

function sentences(best: JsonObject): readonly TranscriptSegment[] | null {
  const paragraphs = list(fields(best["paragraphs"])["paragraphs"]);
  const parts = paragraphs.flatMap((paragraph) =>
    list(paragraph["sentences"]).map((each) => segmentOf(each, string(each["text"]), paragraph["speaker"])),
  );
  return parts.length === 0 ? null : parts;
}

function segmentOf(part: JsonObject, text: string, speaker: unknown): TranscriptSegment {
  const confidence = part["confidence"];
  const isShare = typeof confidence === "number" && confidence > 0 && confidence <= 1;
  return {
    start: seconds(part["start"]),
    end: seconds(part["end"]),
    text: ` ${text.trim()}`,
    speaker: speakerLabel(speaker),
    more: isShare ? { avg_logprob: Math.log(confidence) } : {},
  };
}

function wordIn(word: JsonObject): TranscriptWord {
  return {
    word: string(word["punctuated_word"]) || string(word["word"]),
    start: seconds(word["start"]),
    end: seconds(word["end"]),
    speaker: speakerLabel(word["speaker"]),
  };
}
