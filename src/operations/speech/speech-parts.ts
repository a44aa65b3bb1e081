import { pastCharacters, sentences } from "./sentences.ts";

/**
 * Splits a long text into parts, one by one as they are needed: splitting a whole book at once would block the event loop. The first is
 * short, so that audio starts soon; each may be longer than the one before, and is ready when that one has been played. Parts without
 * words are left out, unless there is no other.
 */
export function* speechParts(text: string, charactersMax: number): Generator<string, void, undefined> {
  let start = 0;
  let wanted = Math.min(firstCharacters, charactersMax);
  let spoke = false;
  while (start < text.length) {
    const part = partAt(text, start, wanted, charactersMax);
    start += part.length;
    if (!hasWords.test(part)) continue;
    yield part;
    spoke = true;
    wanted = Math.min(wanted * growth, charactersMax);
  }
  if (!spoke) yield partAt(text, 0, charactersMax, charactersMax);
}

const firstCharacters = 300;
/** With this factor there is no gap even if a voice sends nothing before a part is complete, at three times the speed of playback. */
const growth = 3;

/** Punctuation alone makes no sound, and some voices reject it. */
const hasWords = /[\p{L}\p{N}\p{S}]/u;

/** A part of about the wanted length. It may be longer, so that a sentence is not split. */
function partAt(text: string, start: number, wanted: number, charactersMax: number): string {
  const first = cutAt(text, start, wanted);
  let part = first;
  for (let size = wanted; !isWhole(text, start, part); part = cutAt(text, start, size)) {
    if (size >= charactersMax) return first;
    size = Math.min(size * 2, charactersMax);
  }
  return part;
}

function cutAt(text: string, start: number, charactersMax: number): string {
  // Only the next characters are needed to decide whether a sentence ends.
  const end = pastCharacters(text, start, charactersMax + lookedAt);
  return sentences(text.slice(start, end), charactersMax)[0]!;
}

const lookedAt = 128;

function isWhole(text: string, start: number, part: string): boolean {
  return start + part.length === text.length || sentenceEnd.test(part);
}

const sentenceEnd = /(?:[.!?…‼⁇⁈⁉。！？｡．؟۔।॥።፧։။។᠃]["'”’»›)\]}」』】〉》）］｝]*\s*|[\n\r]\s*)$/u;
