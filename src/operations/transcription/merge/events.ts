import { doneFrame, endFrame } from "../transcript-events.ts";
import { usageOf } from "../transcript-render.ts";
import type { Segment, Transcript } from "../transcription.ts";

/** The events of segments, numbered on from those before them. */
export function segmentFrames(segments: readonly Segment[], before: number): readonly Uint8Array[] {
  return segments.map(({ start, end, text, speaker }, index) => {
    const event = { type: "transcript.text.segment", id: `seg_${before + index}`, start, end, text, speaker: speaker ?? "unknown" };
    return encoder.encode(`data: ${JSON.stringify(event)}\n\n`);
  });
}

/** What ends a stream whose text was sent in parts. */
export function lastFrames(transcript: Transcript): readonly Uint8Array[] {
  return [doneFrame(transcript.text, usageOf(transcript).usage ?? null), endFrame];
}

const encoder = new TextEncoder();
