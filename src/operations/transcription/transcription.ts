import type { FormField, FormFile } from "../../media/stored-file.ts";

export type TranscriptFormat = "json" | "text" | "srt" | "vtt" | "verbose_json" | "diarized_json";

export const transcriptFormats: readonly TranscriptFormat[] = ["json", "text", "srt", "vtt", "verbose_json", "diarized_json"];

/** Whether a format cannot be made without knowing when things were said. */
export function needsTimes(format: TranscriptFormat): boolean {
  return format !== "json" && format !== "text";
}

/** A transcription request as the client sent it, and the few facts the gateway decides on. All other fields travel on. */
export interface TranscriptionRequest {
  readonly operation: "transcription";
  /** `translate`: into English, at an address of its own. */
  readonly task: "transcribe" | "translate";
  readonly model: string;
  readonly stream: boolean;
  readonly format: TranscriptFormat;
  /** A Whisper code such as `en`, from whatever the client wrote; null: to be detected. */
  readonly language: string | null;
  readonly wantsWords: boolean;
  readonly wantsSegments: boolean;
  /** Every field but the file, in the order and the words of the client. */
  readonly fields: readonly FormField[];
  readonly file: FormFile;
  /** How long the file plays, as far as its own bytes tell; null where they do not, or where what they tell cannot be. */
  readonly seconds: number | null;
  /** The file ends before what it says is in it. */
  readonly isCut: boolean;
}

/** What was said, and when. Times are seconds from the beginning of the file. */
export interface Transcript {
  readonly text: string;
  /** A Whisper code, or null where the upstream did not say. */
  readonly language: string | null;
  /** Of the audio, in seconds. */
  readonly duration: number | null;
  /** Null where the upstream has no times: they are never invented. */
  readonly segments: readonly Segment[] | null;
  readonly words: readonly Word[] | null;
  readonly usage: TranscriptUsage | null;
}

export interface Segment {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly speaker: string | null;
  /** What the upstream said of it beyond that (`tokens`, `avg_logprob`, …), passed on in verbose_json. */
  readonly more: Readonly<Record<string, unknown>>;
}

export interface Word {
  readonly word: string;
  readonly start: number;
  readonly end: number;
  readonly speaker: string | null;
}

/** The usage object as the upstream sent it, to be passed on. */
export type TranscriptUsage = Readonly<Record<string, unknown>>;
