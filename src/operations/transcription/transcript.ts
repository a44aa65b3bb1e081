export type TranscriptFormat = "json" | "text" | "srt" | "vtt" | "verbose_json" | "diarized_json";

export const transcriptFormats: readonly TranscriptFormat[] = ["json", "text", "srt", "vtt", "verbose_json", "diarized_json"];

/** Whether a format needs timestamps. */
export function needsTimes(format: TranscriptFormat): boolean {
  return format !== "json" && format !== "text";
}

/** A transcript. Times are seconds from the beginning of the file. */
export interface Transcript {
  readonly text: string;
  /** A Whisper code; null if it is unknown. */
  readonly language: string | null;
  /** Of the audio, in seconds. */
  readonly duration: number | null;
  /** Null if the upstream reported no times: they are never invented. */
  readonly segments: readonly TranscriptSegment[] | null;
  readonly words: readonly TranscriptWord[] | null;
  readonly usage: TranscriptUsage | null;
}

export interface TranscriptSegment {
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly speaker: string | null;
  /** Further fields of the upstream (`tokens`, `avg_logprob`, …), passed on in verbose_json. */
  readonly more: Readonly<Record<string, unknown>>;
}

export interface TranscriptWord {
  readonly word: string;
  readonly start: number;
  readonly end: number;
  readonly speaker: string | null;
}

/** The usage object as the upstream sent it, to be passed on. */
export type TranscriptUsage = Readonly<Record<string, unknown>>;
