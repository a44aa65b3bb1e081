import { failure, type Failure } from "../../operations/failure.ts";
import { meteredLength, transcriptionUsage } from "../../operations/transcription/transcription-usage.ts";
import { eventsType, transcriptEvents } from "../../operations/transcription/transcript-events.ts";
import { render } from "../../operations/transcription/transcript-render.ts";
import { secondsMax } from "../../media/audio.ts";
import type { Transcript, TranscriptFormat } from "../../operations/transcription/transcript.ts";
import type { TranscriptionRequest } from "../../operations/transcription/transcription-request.ts";
import type { WholeAnswer } from "../../operations/emission.ts";

/** A transcript in the form the client asked for, as events where it asked for a stream; or why it cannot have that form. */
export function renderedTranscript(transcript: Transcript, ask: TranscriptionRequest): WholeAnswer | Failure {
  const rendered = ask.stream ? streamed(transcript, ask.format) : render(transcript, ask);
  if (rendered === null) {
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

/** As long as the file says it is, and not shorter than what was heard in it; null where neither tells. */
function heardLength({ segments, words }: Transcript, seconds: number | null): number | null {
  const ends = [...(segments ?? []), ...(words ?? [])].map(({ end }) => end).filter((end) => end > 0 && end <= secondsMax);
  const last = ends.reduce((latest, end) => Math.max(latest, end), 0);
  return seconds === null ? (last > 0 ? last : null) : Math.max(seconds, last);
}

function streamed(transcript: Transcript, format: TranscriptFormat): { readonly body: Uint8Array; readonly type: string } | null {
  const body = transcriptEvents(transcript, format);
  return body === null ? null : { body, type: eventsType };
}

/** The refusal of a format that this upstream has no way to. Another channel may have one. */
export function formatUnsupported(format: TranscriptFormat): Failure {
  const lacking = format === "diarized_json" ? "tells speakers apart" : "has timestamps";
  const message = `The response format '${format}' cannot be served: no channel for this model ${lacking}.`;
  return failure("unsupported", `the channel cannot answer in ${format}`, {
    message,
    status: 400,
    type: "invalid_request_error",
    code: "unsupported_value",
    param: "response_format",
  });
}
