import { pastCharacters, sentences } from "./sentences.ts";

/**
 * A long text in the parts it is spoken in, one by one as they are needed: cutting all of a book at once would hold up
 * everybody else. The first is short, so that sound starts soon, and each may be longer than the one before, so that it
 * is ready by the time that one was heard. A part without anything to say is left out, unless there is no other.
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
/** A voice that gives nothing before it has spoken all of a part, three times as fast as it is heard, still makes no gap. */
const growth = 3;

/** Marks alone make no sound, and some voices take offence at them. */
const hasWords = /[\p{L}\p{N}\p{S}]/u;

/** A part of about the wanted length. A sentence is rather spoken whole than cut in order to be short. */
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
  // What follows tells whether an end is one, but only what follows at once.
  const end = pastCharacters(text, start, charactersMax + lookedAt);
  return sentences(text.slice(start, end), charactersMax)[0]!;
}

const lookedAt = 128;

function isWhole(text: string, start: number, part: string): boolean {
  return start + part.length === text.length || sentenceEnd.test(part);
}

const sentenceEnd = /(?:[.!?…‼⁇⁈⁉。！？｡．؟۔।॥።፧։။។᠃]["'”’»›)\]}」』】〉》）］｝]*\s*|[\n\r]\s*)$/u;
