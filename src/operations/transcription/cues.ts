import { isUnspaced } from "./languages.ts";
import type { TranscriptSegment, Transcript, TranscriptWord } from "./transcript.ts";

/** One subtitle. Times are whole milliseconds; cues do not overlap, and each lasts at least one millisecond. */
export interface Cue {
  readonly startMs: number;
  readonly endMs: number;
  readonly text: string;
}

/**
 * Makes subtitles of segments in the order of time. Segments may overlap, subtitles may not: the earlier one ends where the next begins,
 * and one without any time left is moved by a millisecond.
 */
export function cuesOf(segments: readonly TranscriptSegment[]): readonly Cue[] {
  const spoken = segments.map((each) => ({ ...each, text: onOneLine(each.text) })).filter(({ text }) => text !== "");
  const cues: Cue[] = [];
  let freeMs = 0;
  for (const [index, { start, end, text }] of spoken.entries()) {
    const startMs = Math.max(freeMs, Math.round(start * 1000));
    const next = spoken[index + 1];
    const untilMs = Math.min(Math.round(end * 1000), next === undefined ? Infinity : Math.round(next.start * 1000));
    freeMs = Math.max(startMs + 1, untilMs);
    cues.push({ startMs, endMs: freeMs, text });
  }
  return cues;
}

/** The transcript's own segments, or segments made of its words; null if it has no times. */
export function timedSegments({ segments, words, language }: Transcript): readonly TranscriptSegment[] | null {
  if (segments !== null && segments.length > 0) return segments;
  if (words !== null && words.length > 0) return grouped(piecesOf(words, language), !isUnspaced(language));
  return segments ?? (words === null ? null : []);
}

/** A word, and the text between it and the previous one. */
export interface SpacedWord extends TranscriptWord {
  readonly glue: string;
}

export function piecesOf(words: readonly TranscriptWord[], language: string | null): readonly SpacedWord[] {
  const glue = isUnspaced(language) ? "" : " ";
  return words.map((word) => ({ ...word, glue }));
}

/** Groups words into segments of readable length. In a language with spaces, each segment begins with one. */
export function grouped(pieces: readonly SpacedWord[], isSpaced: boolean): readonly TranscriptSegment[] {
  const segments: TranscriptSegment[] = [];
  for (const piece of pieces) {
    const open = segments.at(-1);
    if (open === undefined || isBreak(open, piece)) {
      segments.push({ start: piece.start, end: piece.end, text: piece.word, speaker: piece.speaker, more: nothing });
    } else {
      segments[segments.length - 1] = { ...open, end: Math.max(open.end, piece.end), text: open.text + piece.glue + piece.word };
    }
  }
  return segments.map((segment) => ({ ...segment, text: (isSpaced ? " " : "") + segment.text.trim() }));
}

function isBreak(open: TranscriptSegment, { glue, word, start, end, speaker }: SpacedWord): boolean {
  return (
    start - open.end > pauseSecondsMax ||
    end - open.start > cueSecondsMax ||
    speaker !== open.speaker ||
    open.text.length + glue.length + word.length > cueLengthMax ||
    (open.text.length >= sentenceLengthMin && sentenceEnd.test(open.text.slice(-8)))
  );
}

const pauseSecondsMax = 0.8;
const cueSecondsMax = 7;
const cueLengthMax = 84;
const sentenceLengthMin = 15;
const sentenceEnd = /[.!?…。！？｡؟۔।॥။។][\p{Pe}\p{Pf}"'\s]{0,4}$/u;
const nothing: TranscriptSegment["more"] = {};

/** A cue ends at a blank line, so its text must not contain one. Other control characters are removed too. */
function onOneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ").trim();
}
