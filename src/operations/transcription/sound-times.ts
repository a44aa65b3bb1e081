import { secondsMax } from "../../media/audio.ts";
import type { Transcript } from "./transcript.ts";

/**
 * The transcript with times that can be used. What is merely untidy is put right: times before the beginning, ends before
 * their starts, a wrong order. Times that mean nothing (not a number, beyond any recording) take the whole list with them,
 * because a list with holes would show words at the wrong moment.
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

/** Whether there is nothing to put right in a transcript's times but their order, which is the upstream's own. */
export function isSound({ segments, words }: Transcript): boolean {
  return [...(segments ?? []), ...(words ?? [])].every(({ start, end }) => start >= 0 && end >= start && end <= secondsMax);
}
