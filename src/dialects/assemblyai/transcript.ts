import { failure, type Failure } from "../../operations/failure.ts";
import type { JsonObject } from "../../operations/json.ts";
import { languageCode } from "../../operations/transcription/languages.ts";
import type { Transcript, TranscriptSegment, TranscriptWord } from "../../operations/transcription/transcript.ts";
import { explain } from "../errors/explain.ts";
import { list, seconds, speakerLabel, string } from "../transcripts/transcript-fields.ts";

/** Why a job failed; null if there is a transcript, be it an empty one. Its text is the only thing that tells. */
export function jobFailure(job: JsonObject): Failure | null {
  if (job["status"] !== "error") return null;
  const text = string(job["error"]).slice(0, errorLengthMax);
  // Other upstreams answer this with an empty transcript, which is what was said.
  if (silent.test(text)) return null;
  const status = clientsFault.test(text) ? 400 : 500;
  return explain({ status, header: () => null, body: JSON.stringify({ error: text }) });
}

const silent = /no spoken audio/i;
/** About the recording. The upload is the gateway's own, so that a file which cannot be downloaded is not the client's fault. */
const clientsFault =
  /transcoding failed|not appear to contain (?:any )?audio|contains no audio|too short|too long|unsupported|could not be decoded|corrupt/i;
const errorLengthMax = 4096;

export function readTranscript(job: JsonObject, asked: string | null): Transcript | Failure {
  const isSilent = job["status"] === "error";
  const text = isSilent || job["text"] === null ? "" : job["text"];
  if (typeof text !== "string") return failure("bad_response", "the job has no text");
  const duration = seconds(job["audio_duration"]);
  const utterances = list(job["utterances"]);
  return {
    text,
    language: languageCode(string(job["language_code"])) ?? asked,
    duration: Number.isNaN(duration) ? null : duration,
    segments: isSilent ? [] : utterances.length === 0 ? null : utterances.map(segmentOf),
    words: isSilent ? [] : Array.isArray(job["words"]) ? list(job["words"]).map(wordOf) : null,
    usage: null,
  };
}

function segmentOf(utterance: JsonObject): TranscriptSegment {
  const confidence = utterance["confidence"];
  const isShare = typeof confidence === "number" && confidence > 0 && confidence <= 1;
  return {
    start: fromMs(utterance["start"]),
    end: fromMs(utterance["end"]),
    text: ` ${string(utterance["text"]).trim()}`,
    speaker: speakerLabel(utterance["speaker"]),
    more: isShare ? { avg_logprob: Math.log(confidence) } : {},
  };
}

function wordOf(word: JsonObject): TranscriptWord {
  return { word: string(word["text"]), start: fromMs(word["start"]), end: fromMs(word["end"]), speaker: speakerLabel(word["speaker"]) };
}

function fromMs(value: unknown): number {
  return seconds(value) / 1000;
}
