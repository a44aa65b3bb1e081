import { tokensOf, withoutFirst, withoutLast } from "./seam.ts";
import type { TranscriptSegment, TranscriptWord } from "../transcript.ts";

type TimedText = TranscriptSegment | TranscriptWord;

/** The position of a part in its recording, and the labels of its speakers there. */
export interface PartPosition {
  readonly start: number;
  readonly end: number;
  readonly speaker: (name: string | null) => string | null;
}

/** Converts times of a part into times of the recording, limited to the part. */
export function placedParts<T extends TimedText>(items: readonly T[], { start, end, speaker }: PartPosition): readonly T[] {
  const within = (time: number): number => Math.min(end, Math.max(start, Math.round((start + time) * 1000) / 1000));
  return items.map((item) => {
    const placed = { ...item, start: within(item.start), end: within(item.end), speaker: speaker(item.speaker) };
    return "more" in placed ? { ...placed, more: sought(placed.more, start) } : placed;
  });
}

/** `seek` is a time too, in hundredths of a second. */
function sought(more: TranscriptSegment["more"], start: number): TranscriptSegment["more"] {
  const { seek } = more;
  return typeof seek === "number" ? { ...more, seek: seek + Math.round(start * 100) } : more;
}

/** Drops the first words, and moves the rest so that nothing begins before a time. */
export function withoutFirstItems<T extends TimedText>(items: readonly T[], words: number, earliest: number): readonly T[] {
  let left = words;
  return items.flatMap((item) => {
    const drops = Math.min(left, tokensOf(textOf(item)).length);
    left -= drops;
    const text = withoutFirst(textOf(item), drops);
    if (drops > 0 && tokensOf(text).length === 0) return [];
    const start = Math.max(earliest, item.start);
    return [{ ...withText(item, text), start, end: Math.max(start, item.end) }];
  });
}

export function withoutLastItems<T extends TimedText>(items: readonly T[], words: number): readonly T[] {
  let kept = items.length;
  for (let left = words; left > 0 && kept > 0;) {
    const last = items[kept - 1]!;
    const tokens = tokensOf(textOf(last)).length;
    if (tokens > left) return [...items.slice(0, kept - 1), withText(last, withoutLast(textOf(last), left))];
    left -= tokens;
    kept -= 1;
  }
  return items.slice(0, kept);
}

function textOf(item: TimedText): string {
  return "text" in item ? item.text : item.word;
}

function withText<T extends TimedText>(item: T, text: string): T {
  return "text" in item ? { ...item, text } : { ...item, word: text };
}
