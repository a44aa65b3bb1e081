import { failure, type Failure } from "../../failure.ts";
import { isJsonObject, type JsonObject } from "../../json.ts";
import { languageCode } from "../languages.ts";
import type { TranscriptSegment, Transcript, TranscriptWord } from "../transcript.ts";

/** Parses the answer for a part: JSON in a format of the OpenAI API, which the dialect has validated. */
export function partTranscript(body: Uint8Array): Transcript | Failure {
  const answer = parsed(body);
  if (answer === null || typeof answer["text"] !== "string") return failure("bad_response", "the transcript of a part cannot be read back");
  const { language, duration, usage } = answer;
  return {
    text: answer["text"],
    language: typeof language === "string" ? languageCode(language) : null,
    duration: typeof duration === "number" ? duration : null,
    segments: listOf(answer["segments"])?.map(segmentIn) ?? null,
    words: listOf(answer["words"])?.map(wordIn) ?? null,
    usage: isJsonObject(usage) ? usage : null,
  };
}

const decoder = new TextDecoder();

function parsed(body: Uint8Array): JsonObject | null {
  try {
    const value: unknown = JSON.parse(decoder.decode(body));
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

function segmentIn(segment: JsonObject): TranscriptSegment {
  const { id: _id, type: _type, start, end, text, speaker, words: _words, ...more } = segment;
  return { start: time(start), end: time(end), text: string(text), speaker: typeof speaker === "string" ? speaker : null, more };
}

function wordIn(word: JsonObject): TranscriptWord {
  return { word: string(word["word"]), start: time(word["start"]), end: time(word["end"]), speaker: null };
}

function listOf(value: unknown): readonly JsonObject[] | null {
  return Array.isArray(value) ? value.map((each) => (isJsonObject(each) ? each : {})) : null;
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Some upstreams write times as strings. A value that is no time becomes NaN, for which the list is dropped later. */
function time(value: unknown): number {
  return typeof value === "number" || (typeof value === "string" && value.trim() !== "") ? Number(value) : Number.NaN;
}
