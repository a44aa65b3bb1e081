import { meteredLength, transcriptionUsage } from "../../operations/transcription/transcription-usage.ts";
import { failure, isFailure, type Failure } from "../../operations/failure.ts";
import { languageCode } from "../../operations/transcription/languages.ts";
import { isSound } from "../../operations/transcription/sound-times.ts";
import { transcriptTypes } from "../../operations/transcription/transcript-render.ts";
import type { TranscriptSegment, Transcript, TranscriptFormat, TranscriptWord } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../operations/emission.ts";
import type { UpstreamHead } from "../dialect.ts";
import { explainInBand } from "../errors/explain.ts";
import { formatUnsupported, isWordless, renderedTranscript, wordsUnsupported } from "../transcripts/rendered-transcript.ts";
import { isJsonObject, type JsonObject } from "../../operations/json.ts";
import { list, seconds } from "../transcripts/transcript-fields.ts";
import { parseUntrusted } from "../untrusted.ts";

/**
 * Reads a transcription with status 200 that was requested in `format`. A valid one in the client's format keeps its bytes; any other is
 * parsed and rendered. What cannot be read is a failure of the channel.
 */
export function readTranscription(
  body: Uint8Array,
  head: UpstreamHead,
  ask: TranscriptionRequest,
  format: TranscriptFormat,
): WholeAnswer | Failure {
  const read = readUnmetered(body, head, ask, format);
  return isFailure(read) ? read : { ...read, usage: meteredLength(read.usage, ask.seconds) };
}

function readUnmetered(body: Uint8Array, head: UpstreamHead, ask: TranscriptionRequest, format: TranscriptFormat): WholeAnswer | Failure {
  const text = decoder.decode(body);
  const start = text.slice(0, 64).trimStart().toLowerCase();
  if (/^<(?:!doctype|html|head|body|\?xml)/.test(start)) return failure("bad_response", "the answer is a page of markup");
  const isText = format === "text" || format === "srt" || format === "vtt";
  if (!isText || start.startsWith("{")) return readObject(body, text, ask, format);
  const fault = textFault(text, format, head);
  if (fault !== null) return failure("bad_response", fault);
  if (format === ask.format && !ask.stream) return { kind: "whole", body, type: transcriptTypes[format], usage: null, finish: null };
  return renderedTranscript({ ...nothing, text: text.trim(), language: ask.language }, ask);
}

const decoder = new TextDecoder();

const nothing: Transcript = { text: "", language: null, duration: null, segments: null, words: null, usage: null };

/** An upstream that ignores the format answers a request for text with JSON, which can be used as well. */
function readObject(body: Uint8Array, text: string, ask: TranscriptionRequest, format: TranscriptFormat): WholeAnswer | Failure {
  const answer = answerIn(body, text);
  if (isFailure(answer)) return answer;
  const transcript = transcriptIn(answer, ask);
  if (ask.format === "verbose_json" && ask.wantsWords && isWordless(transcript)) return { ...wordsUnsupported(), served: true };
  if (ask.format === "diarized_json" && isSpeakerless(transcript)) return { ...formatUnsupported(ask.format), served: true };
  const lacksWords = ask.wantsWords && transcript.words !== null && !Array.isArray(answer["words"]);
  if (format !== ask.format || ask.stream || lacksWords || !isPassable(answer, transcript, format)) {
    return renderedTranscript(transcript, ask);
  }
  return {
    kind: "whole",
    body,
    type: transcriptTypes[format],
    usage: transcriptionUsage(answer["usage"], answer["duration"]),
    finish: null,
  };
}

/** Segments without a speaker are the answer of an upstream that does not know the format. */
function isSpeakerless({ text, segments }: Transcript): boolean {
  return text !== "" && (segments ?? []).every(({ speaker }) => speaker === null);
}

/** The object with its text, or the error that it contains. */
function answerIn(body: Uint8Array, text: string): TranscriptionAnswer | Failure {
  if (body.length === 0) return failure("bad_response", "the answer is empty");
  const answer = parseUntrusted(text, body);
  if (answer === undefined) return failure("bad_response", "the answer is not JSON");
  if (!isJsonObject(answer)) return failure("bad_response", "the answer is JSON, but not an object");
  if (answer["error"] !== undefined && answer["error"] !== null) return explainInBand(answer["error"]);
  if (typeof answer["text"] === "string") return answer as TranscriptionAnswer;
  const isError = ["detail", "message", "err_msg", "errors"].some((key) => answer[key] !== undefined);
  return isError ? explainInBand(answer) : failure("bad_response", "the answer has no text");
}

type TranscriptionAnswer = JsonObject & { readonly text: string };

/** Whether an answer has the requested format and values that clients can use. */
function isPassable(answer: TranscriptionAnswer, transcript: Transcript, format: TranscriptFormat): boolean {
  switch (format) {
    case "json":
      return true;
    case "verbose_json":
      return isSound(transcript) && (transcript.segments !== null || transcript.words !== null || answer.text.trim() === "");
    case "diarized_json":
      return isSound(transcript) && transcript.segments !== null;
    default:
      return false;
  }
}

/** A missing time is NaN, which the renderer handles. */
function transcriptIn(answer: TranscriptionAnswer, ask: TranscriptionRequest): Transcript {
  const language = typeof answer["language"] === "string" ? languageCode(answer["language"]) : null;
  const duration = seconds(answer["duration"]);
  return {
    text: onOneLine(answer.text),
    language: language ?? ask.language,
    duration: Number.isNaN(duration) ? null : duration,
    segments: Array.isArray(answer["segments"]) ? list(answer["segments"]).map(segmentIn) : null,
    words: wordsIn(answer),
    usage: isJsonObject(answer["usage"]) ? answer["usage"] : null,
  };
}

/** Line breaks become spaces. Every run of white space is matched once: a pattern with two would take a minute for a hundred thousand blanks. */
function onOneLine(text: string): string {
  return text.trim().replaceAll(/\s+/g, (run) => (run.includes("\n") ? " " : run));
}

/** Some servers put the words into the segments. */
function wordsIn(answer: TranscriptionAnswer): readonly TranscriptWord[] | null {
  if (Array.isArray(answer["words"])) return list(answer["words"]).map(wordIn);
  const segments = Array.isArray(answer["segments"]) ? list(answer["segments"]) : [];
  const words = segments.flatMap((segment) => (Array.isArray(segment["words"]) ? list(segment["words"]) : []));
  return words.length === 0 ? null : words.map(wordIn);
}

function segmentIn(segment: JsonObject): TranscriptSegment {
  return {
    start: seconds(segment["start"]),
    end: seconds(segment["end"]),
    text: typeof segment["text"] === "string" ? segment["text"] : "",
    speaker: typeof segment["speaker"] === "string" ? segment["speaker"] : null,
    more: Object.fromEntries(Object.entries(segment).filter(([key, value]) => !own.has(key) && isUsable(key, value))),
  };
}

function wordIn(word: JsonObject): TranscriptWord {
  return {
    word: typeof word["word"] === "string" ? word["word"] : "",
    start: seconds(word["start"]),
    end: seconds(word["end"]),
    speaker: null,
  };
}

const own: ReadonlySet<string> = new Set(["id", "type", "start", "end", "text", "speaker", "words"]);
const scores: ReadonlySet<string> = new Set(["seek", "temperature", "avg_logprob", "compression_ratio", "no_speech_prob"]);

/** Clients calculate with these values without checking them. */
function isUsable(key: string, value: unknown): boolean {
  if (scores.has(key) || typeof value === "number") return typeof value === "number" && Number.isFinite(value);
  return key !== "tokens" || Array.isArray(value);
}

/** Why an answer is not text in this format. An empty transcript is valid only with a text content type. */
function textFault(text: string, format: TranscriptFormat, head: UpstreamHead): string | null {
  const type = head.header("content-type") ?? "";
  // Some servers send plain text as HTML, so the content decides.
  if (/^text\/html/i.test(type) && /<\/?[a-z][^>]*>/i.test(text.slice(0, 1024))) return "the answer is a page of markup";
  if (text === "" && !/^(?:text\/|application\/x-subrip)/i.test(type)) return "the answer is empty";
  if (format === "vtt" && !text.startsWith("WEBVTT")) return "the answer is not a WebVTT file";
  if (format === "srt" && text.trim() !== "" && !text.includes("-->")) return "the answer is not an SRT file";
  return null;
}
