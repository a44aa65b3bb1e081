import { withoutSpaces } from "./languages.ts";
import type { Vocabulary } from "./vocabulary.ts";

export interface WhisperWord {
  /** With its punctuation, without spaces around it. */
  readonly word: string;
  readonly start: number;
  readonly end: number;
}

/** The tokens of a word, and its text with the space before it. */
export interface WordTokens {
  readonly text: string;
  readonly count: number;
}

/**
 * Words begin with a space in languages that use spaces. Punctuation is not a word: opening punctuation belongs to the next word, all
 * other to the previous one.
 */
export function wordTokens(tokens: readonly number[], language: string, vocabulary: Vocabulary): readonly WordTokens[] {
  const words: { text: string; count: number }[] = [];
  for (const piece of wholeCharacters(tokens, vocabulary)) {
    const last = words.at(-1);
    const begins = withoutSpaces.has(language) || piece.text.startsWith(" ");
    if (last === undefined || (begins && isSpoken(last.text) && (isSpoken(piece.text) || opening.test(piece.text)))) {
      words.push({ ...piece });
    } else {
      last.text += piece.text;
      last.count += piece.count;
    }
  }
  return words;
}

const isSpoken = (text: string): boolean => /[\p{L}\p{N}]/u.test(text);
const opening = /^\s*[\p{Ps}\p{Pi}"'¿¡]+$/u;

/** Joins tokens that contain the bytes of one character. */
function wholeCharacters(tokens: readonly number[], vocabulary: Vocabulary): readonly WordTokens[] {
  const pieces: WordTokens[] = [];
  const decoder = new TextDecoder();
  let count = 0;
  let text = "";
  for (const token of tokens) {
    text += decoder.decode(vocabulary.bytes(token), { stream: true });
    count++;
    if (text === "") continue;
    pieces.push({ text, count });
    [text, count] = ["", 0];
  }
  return pieces;
}

/** A word at the edge of a sentence that is longer than twice the usual contains the pause beside it. Very long words do anywhere. */
const usualSecondsMax = 0.7;
const wordSecondsMax = 1;
const sentenceEnd = /[.!?。！？]$/u;

/** Keeps the words of a segment in order and within it, and removes pauses between sentences from them. */
export function timedWords(words: readonly WhisperWord[], start: number, end: number): readonly WhisperWord[] {
  const lengths = words
    .map((word) => word.end - word.start)
    .filter((length) => length > 0)
    .sort((a, b) => a - b);
  const longest = 2 * Math.min(usualSecondsMax, lengths[Math.floor(lengths.length / 2)] ?? usualSecondsMax);
  let earliest = start;
  return words.map((word, at) => {
    const opens = at === 0 || sentenceEnd.test(words[at - 1]!.word);
    const closes = at === words.length - 1 || sentenceEnd.test(word.word);
    const seconds = word.end - word.start;
    const swallowsAfter = seconds > longest && closes && !opens;
    const swallowsBefore = seconds > (opens ? longest : Math.max(longest, wordSecondsMax)) && !swallowsAfter;
    const from = swallowsBefore ? word.end - longest : word.start;
    const to = swallowsAfter ? word.start + longest : word.end;
    const begin = hundredths(Math.min(end, Math.max(earliest, from)));
    const finish = hundredths(Math.min(end, Math.max(begin, to)));
    earliest = finish;
    return { word: word.word, start: begin, end: finish };
  });
}

const hundredths = (seconds: number): number => Math.round(seconds * 100) / 100;
