import { secondsMax } from "../../media/audio.ts";
import type { Transcript } from "./transcript.ts";

/**
 * Repairs the times of a transcript: times before the beginning, ends before starts, a wrong order. If a time is invalid (not a number, or
 * longer than any recording), the whole list is dropped, because the rest would be shown at wrong times.
 */
export function sound(transcript: Transcript): Transcript {
  const { duration, segments, words } = transcript;
  return {
    ...transcript,
    duration: duration !== null && isTime(duration) && duration >= 0 ? duration : null,
    segments: tidy(segments),
    words: tidy(words),
  };
}

interface Timed {
  readonly start: number;
  readonly end: number;
}

function tidy<T extends Timed>(items: readonly T[] | null): readonly T[] | null {
  if (items === null || !items.every(({ start, end }) => isTime(start) && isTime(end))) return null;
  return items.map(inOrder).toSorted((a, b) => a.start - b.start);
}

function inOrder<T extends Timed>(item: T): T {
  const start = Math.max(0, item.start);
  const end = Math.max(start, item.end);
  return start === item.start && end === item.end ? item : { ...item, start, end };
}

function isTime(value: number): boolean {
  return Math.abs(value) <= secondsMax;
}

/** Whether the times of a transcript need no repair, except for their order. */
export function isSound({ segments, words }: Transcript): boolean {
  return [...(segments ?? []), ...(words ?? [])].every(({ start, end }) => start >= 0 && end >= start && end <= secondsMax);
}
