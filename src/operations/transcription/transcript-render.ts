import { cuesOf, timedSegments, type Cue } from "./cues.ts";
import { languageName } from "./languages.ts";
import { sound } from "./sound-times.ts";
import type { TranscriptSegment, Transcript, TranscriptFormat, TranscriptUsage, TranscriptWord } from "./transcript.ts";
import type { TranscriptionRequest } from "./transcription-request.ts";

export interface Rendered {
  readonly body: Uint8Array;
  readonly type: string;
}

/** The part of a request that determines the format of a transcript. */
export type Rendering = Pick<TranscriptionRequest, "format" | "task" | "wantsWords" | "wantsSegments">;

const plain = "text/plain; charset=utf-8";

/** Subtitles are plain text too, as in the OpenAI API. */
export const transcriptTypes: { readonly [F in TranscriptFormat]: string } = {
  json: "application/json",
  text: plain,
  srt: plain,
  vtt: plain,
  verbose_json: "application/json",
  diarized_json: "application/json",
};

/** Renders a transcript in a format of the OpenAI API; null if it lacks the times or speakers that the format needs. */
export function render(transcript: Transcript, rendering: Rendering): Rendered | null {
  const text = renderers[rendering.format](sound(transcript), rendering);
  return text === null ? null : { body: encoder.encode(text), type: transcriptTypes[rendering.format] };
}

const renderers: { readonly [F in TranscriptFormat]: (transcript: Transcript, rendering: Rendering) => string | null } = {
  json: (transcript) => JSON.stringify({ text: transcript.text, ...usageOf(transcript) }),
  text: ({ text }) => `${text}\n`,
  srt: (transcript) => subtitles(transcript, "", srtCue),
  vtt: (transcript) => subtitles(transcript, "WEBVTT\n\n", vttCue),
  verbose_json: verbose,
  diarized_json: diarized,
};

const encoder = new TextEncoder();

/** An empty transcript needs no times; text without times has no segments. */
function segmentsOf(transcript: Transcript): readonly TranscriptSegment[] | null {
  const segments = timedSegments(transcript);
  if (transcript.text.trim() === "") return segments ?? [];
  return segments === null || segments.length === 0 ? null : segments;
}

function subtitles(transcript: Transcript, header: string, cueText: (cue: Cue, index: number) => string): string | null {
  const segments = segmentsOf(transcript);
  return segments === null ? null : header + cuesOf(segments).map(cueText).join("");
}

function srtCue({ startMs, endMs, text }: Cue, index: number): string {
  return `${index + 1}\n${clock(startMs, ",")} --> ${clock(endMs, ",")}\n${text.replaceAll("-->", "-- >")}\n\n`;
}

function vttCue({ startMs, endMs, text }: Cue): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `${clock(startMs, ".")} --> ${clock(endMs, ".")}\n${escaped}\n\n`;
}

function clock(ms: number, point: "," | "."): string {
  const [hours, minutes, seconds] = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60].map((part) => digits(Math.floor(part), 2));
  return `${hours}:${minutes}:${seconds}${point}${digits(ms % 1000, 3)}`;
}

function digits(value: number, length: number): string {
  return String(value).padStart(length, "0");
}

function verbose(transcript: Transcript, { task, wantsWords, wantsSegments }: Rendering): string | null {
  const segments = wantsSegments ? segmentsOf(transcript) : undefined;
  const words = wantsWords ? wordsOf(transcript) : undefined;
  if (segments === null || words === null) return null;
  return JSON.stringify({
    task,
    language: languageOf(transcript, task),
    duration: durationOf(transcript),
    text: transcript.text,
    ...(segments !== undefined && { segments: segments.map(verboseSegment) }),
    ...(words !== undefined && { words: words.map(({ word, start, end }) => ({ word, start, end })) }),
    ...usageOf(transcript),
  });
}

function wordsOf({ text, words }: Transcript): readonly TranscriptWord[] | null {
  return text.trim() !== "" && words?.length === 0 ? null : (words ?? (text.trim() === "" ? [] : null));
}

/** Clients expect a string. A translation is always English. */
function languageOf({ language }: Transcript, task: Rendering["task"]): string {
  if (task === "translate") return "english";
  return language === null ? "unknown" : languageName(language);
}

function durationOf({ duration, segments, words }: Transcript): number {
  return duration ?? [...(segments ?? []), ...(words ?? [])].reduce((latest, { end }) => Math.max(latest, end), 0);
}

function verboseSegment({ start, end, text, more }: TranscriptSegment, id: number): object {
  return { id, ...unknownScores, ...more, start, end, text };
}

/** Fields that clients expect, with neutral values for what the upstream does not report. */
const unknownScores = {
  seek: 0,
  start: 0,
  end: 0,
  text: "",
  tokens: [],
  temperature: 0,
  avg_logprob: 0,
  compression_ratio: 1,
  no_speech_prob: 0,
};

/** Null if the upstream did not label speakers. */
function diarized(transcript: Transcript): string | null {
  const segments = speakingSegments(transcript);
  if (segments === null) return null;
  return JSON.stringify({
    text: transcript.text,
    task: "transcribe",
    duration: durationOf(transcript),
    segments: segments.map(({ start, end, text, speaker }, index) => ({
      type: "transcript.text.segment",
      id: `seg_${index}`,
      start,
      end,
      text,
      speaker: speaker ?? "unknown",
    })),
    ...usageOf(transcript),
  });
}

/** The segments of a transcript with speaker labels; null if it has none. */
export function speakingSegments(transcript: Transcript): readonly TranscriptSegment[] | null {
  const candidates = [segmentsOf(transcript), segmentsOf({ ...transcript, segments: null })];
  const found = candidates.find((segments) => segments?.some(({ speaker }) => speaker !== null));
  return found ?? (transcript.text.trim() === "" ? [] : null);
}

/** The usage that the upstream reported, or else the duration of the audio in whole seconds, as it is billed. */
export function usageOf({ usage, duration }: Transcript): { readonly usage?: TranscriptUsage } {
  if (usage !== null) return { usage };
  return duration === null ? {} : { usage: { type: "duration", seconds: Math.ceil(duration) } };
}
