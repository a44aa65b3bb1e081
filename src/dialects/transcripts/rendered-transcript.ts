import { failure, type Failure } from "../../operations/failure.ts";
import { meteredLength, transcriptionUsage } from "../../operations/transcription/transcription-usage.ts";
import { eventsType, transcriptEvents } from "../../operations/transcription/transcript-events.ts";
import { render } from "../../operations/transcription/transcript-render.ts";
import { secondsMax } from "../../media/audio.ts";
import type { Transcript, TranscriptFormat } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../operations/emission.ts";

/** Renders a transcript in the client's format, as events if it asked for a stream; a failure if the transcript lacks what that needs. */
export function renderedTranscript(transcript: Transcript, ask: TranscriptionRequest): WholeAnswer | Failure {
  const rendered = ask.stream ? streamed(transcript, ask.format) : render(transcript, ask);
  if (rendered === null) {
    if (ask.format === "verbose_json" && ask.wantsWords && isWordless(transcript)) return { ...wordsUnsupported(), served: true };
    const isSilent = transcript.segments === null && transcript.words === null;
    return isSilent
      ? { ...formatUnsupported(ask.format), served: true }
      : failure("bad_response", `the transcript has no usable times for ${ask.format}`);
  }
  return {
    kind: "whole",
    ...rendered,
    usage: meteredLength(transcriptionUsage(transcript.usage, transcript.duration), heardLength(transcript, ask.seconds)),
    finish: null,
  };
}

/** The length of the file, and at least the end of the last word; null if neither is known. */
function heardLength({ segments, words }: Transcript, seconds: number | null): number | null {
  const ends = [...(segments ?? []), ...(words ?? [])].map(({ end }) => end).filter((end) => end > 0 && end <= secondsMax);
  const last = ends.reduce((latest, end) => Math.max(latest, end), 0);
  return seconds === null ? (last > 0 ? last : null) : Math.max(seconds, last);
}

function streamed(transcript: Transcript, format: TranscriptFormat): { readonly body: Uint8Array; readonly type: string } | null {
  const body = transcriptEvents(transcript, format);
  return body === null ? null : { body, type: eventsType };
}

/** Whether there is text but no word with a time. Punctuation and symbols are not words. */
export function isWordless({ text, words }: Transcript): boolean {
  return (words === null || words.length === 0) && /[\p{L}\p{N}]/u.test(text);
}

/** Another channel may have them. */
export function wordsUnsupported(): Failure {
  return failure("unsupported", "the answer has no times of words", {
    message: "No channel for this model supports word timestamps.",
    status: 400,
    type: "invalid_request_error",
    code: "unsupported_value",
    param: "timestamp_granularities",
  });
}

/** The upstream does not support this format. Another channel may. */
export function formatUnsupported(format: TranscriptFormat): Failure {
  const lacking = format === "diarized_json" ? "speaker labels" : "timestamps";
  const message = `The response format '${format}' is not available: no channel for this model supports ${lacking}.`;
  return failure("unsupported", `the channel cannot answer in ${format}`, {
    message,
    status: 400,
    type: "invalid_request_error",
    code: "unsupported_value",
    param: "response_format",
  });
}
