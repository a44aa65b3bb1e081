import { sound } from "./sound-times.ts";
import { speakingSegments, usageOf } from "./transcript-render.ts";
import type { Transcript, TranscriptFormat, TranscriptUsage, TranscriptSegment } from "./transcript.ts";

export const eventsType = "text/event-stream; charset=utf-8";

/**
 * A whole transcript as a stream, for a client that asked for one: its text in one delta (or its segments with speakers), and the end.
 * Null if speakers were requested and the transcript has none.
 */
export function transcriptEvents(transcript: Transcript, format: TranscriptFormat): Uint8Array | null {
  const sane = sound(transcript);
  const { text } = sane;
  const segments = format === "diarized_json" ? speakingSegments(sane) : [];
  if (segments === null) return null;
  const spoken =
    format === "diarized_json"
      ? segments.map((segment, index) => ({
          type: "transcript.text.segment",
          id: `seg_${index}`,
          start: segment.start,
          end: segment.end,
          text: segment.text,
          speaker: segment.speaker ?? "unknown",
        }))
      : text === ""
        ? []
        : [{ type: "transcript.text.delta", delta: text }];
  const events = [...spoken, { type: "transcript.text.done", text, ...usageOf(sane) }].map((event) => JSON.stringify(event));
  return encoder.encode([...events, "[DONE]"].map((data) => `data: ${data}\n\n`).join(""));
}

export function deltaFrame(delta: string): Uint8Array {
  return frameOf({ type: "transcript.text.delta", delta });
}

export function doneFrame(text: string, usage: TranscriptUsage | null): Uint8Array {
  return frameOf({ type: "transcript.text.done", text, ...(usage !== null && { usage }) });
}

const encoder = new TextEncoder();

export const endFrame = encoder.encode("data: [DONE]\n\n");

function frameOf(event: object): Uint8Array {
  return encoder.encode(`data: ${JSON.stringify(event)}\n\n`);
}

/** The events of segments, numbered after the previous ones. */
export function segmentFrames(segments: readonly TranscriptSegment[], before: number): readonly Uint8Array[] {
  return segments.map(({ start, end, text, speaker }, index) => {
    return frameOf({ type: "transcript.text.segment", id: `seg_${before + index}`, start, end, text, speaker: speaker ?? "unknown" });
  });
}

/** The last frames of a stream whose text was sent in parts. */
export function lastFrames(transcript: Transcript): readonly Uint8Array[] {
  return [doneFrame(transcript.text, usageOf(transcript).usage ?? null), endFrame];
}
