import { grouped, type SpacedWord } from "../../operations/transcription/cues.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { isUnspaced, languageCode } from "../../operations/transcription/languages.ts";
import type { FormField } from "../../media/stored-file.ts";
import type { Transcript } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { Codec, EncodedRequest, Target } from "../dialect.ts";
import { explain, explainInBand } from "../errors/explain.ts";
import { droppedFrom, keywordsIn, standardLanguage, translationUnsupported } from "../transcripts/foreign-transcription.ts";
import { multipartBody } from "../transcripts/multipart-body.ts";
import { renderedTranscript } from "../transcripts/rendered-transcript.ts";
import { speakerLabel, list, seconds, string } from "../transcripts/transcript-fields.ts";
import { isJsonObject } from "../../operations/json.ts";
import { transcriptionHeaders, transcriptionUrl } from "../transcripts/transcription-request-head.ts";
import { parseUntrusted } from "../untrusted.ts";

export const elevenlabsTranscription: Codec<TranscriptionRequest> = { encode, explain };

function encode(ask: TranscriptionRequest, target: Target): EncodedRequest | Failure {
  if (ask.task === "translate") return translationUnsupported();
  const { body, type } = multipartBody(fieldsOf(ask, target.model), ask.file);
  return {
    request: {
      method: "POST",
      url: transcriptionUrl(ask.task, target),
      headers: transcriptionHeaders("application/json", type, target),
      body,
    },
    answer: {
      kind: "whole",
      read: (answer) => {
        const transcript = readElevenLabs(answer, ask.language);
        return isFailure(transcript) ? transcript : renderedTranscript(transcript, ask);
      },
    },
    clampedTo: null,
    voice: null,
    dropped: droppedFrom(ask, ["temperature", "keywords"]),
  };
}

/** Laughter and footsteps are left out, because clients of the OpenAI API do not expect them in a transcript. */
function fieldsOf(ask: TranscriptionRequest, model: string): readonly FormField[] {
  const temperature = ask.fields.findLast(({ name, value }) => name === "temperature" && value !== "");
  const language = standardLanguage(ask);
  return [
    { name: "model_id", value: model },
    { name: "tag_audio_events", value: "false" },
    { name: "timestamps_granularity", value: "word" },
    { name: "diarize", value: String(ask.format === "diarized_json") },
    ...(language === null ? [] : [{ name: "language_code", value: language }]),
    ...(temperature === undefined ? [] : [temperature]),
    ...keywordsIn(ask.fields).map((value) => ({ name: "keyterms", value })),
  ];
}

function readElevenLabs(body: Uint8Array, asked: string | null): Transcript | Failure {
  const answer = parseUntrusted(decoder.decode(body), body);
  if (!isJsonObject(answer)) return failure("bad_response", body.length === 0 ? "the answer is empty" : "the answer is not a JSON object");
  if (answer["detail"] !== undefined || answer["error"] !== undefined) return explainInBand(answer["error"] ?? answer);
  if (typeof answer["text"] !== "string") return failure("bad_response", "the answer has no text");
  const language = languageCode(string(answer["language_code"])) ?? asked;
  const pieces = piecesIn(answer["words"]);
  const duration = seconds(answer["audio_duration_secs"]);
  return {
    text: answer["text"],
    language,
    // The end of the last word would be too short: the whole recording is billed.
    duration: Number.isNaN(duration) ? null : duration,
    // Made here, because only this dialect knows the upstream's own spaces between words.
    segments: pieces === null || !pieces.every(isTimed) ? null : grouped(pieces, !isUnspaced(language)),
    words: pieces?.map(({ word, start, end, speaker }) => ({ word, start, end, speaker })) ?? null,
    usage: null,
  };
}

const decoder = new TextDecoder();

/** The words, each with the spacing that came before it. Punctuation is part of its word. */
function piecesIn(items: unknown): readonly SpacedWord[] | null {
  if (!Array.isArray(items)) return null;
  const pieces: SpacedWord[] = [];
  let glue = "";
  for (const item of list(items)) {
    const text = string(item["text"]);
    if (item["type"] === "spacing") glue += text;
    if (item["type"] !== "word") continue;
    pieces.push({ word: text, glue, start: seconds(item["start"]), end: seconds(item["end"]), speaker: speakerLabel(item["speaker_id"]) });
    glue = "";
  }
  return pieces;
}

function isTimed({ start, end }: SpacedWord): boolean {
  return Number.isFinite(start) && Number.isFinite(end);
}
