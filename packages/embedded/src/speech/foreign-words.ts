import { englishWords, foreignWords, nameWords, loanWords } from "./common-words.ts";

/**
 * The language of a text in Latin letters, if it is not English; otherwise `null`. Common words of a language count for it, and words
 * that cannot be English count against English. A text is rejected only if these are more than its English words and at least one of
 * them is unambiguous: a quotation or a name in an English text is not enough, and a text without evidence passes.
 */
export function foreignLanguage(text: string): string | null {
  const found = evidenceOf(text);
  const best = found.languages.reduce((most, next) => (next.words > most.words ? next : most));
  const foreign = best.words + found.strange - best.strange;
  if (foreign <= found.english) return null;
  if (best.clear > 0) return best.language;
  return found.strange > 0 ? "a language other than English" : null;
}

interface Count {
  readonly language: string;
  words: number;
  /** Words that do not occur in English texts, not even in names. */
  clear: number;
  /** Words that were also counted for their spelling. */
  strange: number;
}

interface Evidence {
  readonly languages: readonly Count[];
  readonly english: number;
  readonly strange: number;
}

function evidenceOf(text: string): Evidence {
  const languages: readonly Count[] = foreignWords.map(({ language }) => ({ language, words: 0, clear: 0, strange: 0 }));
  const words = wordsOf(text);
  let english = 0;
  let strange = 0;
  for (const [at, item] of words.entries()) {
    const { word } = item;
    const isEnglish = contraction.test(word) || englishWords.has(word);
    if (isEnglish) english++;
    if (isName(item, words[at + 1])) continue;
    const isStrange = !isEnglish && !item.isCapital && isSpelledStrangely(word);
    if (isStrange) strange++;
    const isClear = !isEnglish && isTelling(word, words[at + 1]);
    for (const index of languagesOf.get(word) ?? []) {
      const count = languages[index];
      if (count === undefined) continue;
      count.words++;
      if (isClear) count.clear++;
      if (isStrange) count.strange++;
    }
  }
  return { languages, english, strange };
}

interface Word {
  /** In lower case. */
  readonly word: string;
  readonly isCapital: boolean;
  /** The word begins a sentence. */
  readonly begins: boolean;
  /** Only a space is before it. */
  readonly follows: boolean;
}

const wordPattern = /[\p{Script=Latin}\p{M}]+(?:['’][\p{Script=Latin}\p{M}]+)*/gu;
const contraction = /n't$|'(?:s|re|ve|ll|d|m)$/;

function wordsOf(text: string): readonly Word[] {
  const isShouted = !/\p{Ll}/u.test(text);
  const words: Word[] = [];
  let end = 0;
  for (const match of text.matchAll(wordPattern)) {
    const gap = text.slice(end, Math.min(match.index, end + gapMax));
    // Two capitals are an abbreviation, wherever they stand.
    const begins = (words.length === 0 || /[.!?:;¡¿\n"“„«…]/.test(gap)) && !/^\p{Lu}{2}/u.test(match[0]);
    end = match.index + match[0].length;
    const isCapital = !isShouted && /^\p{Lu}/u.test(match[0]);
    const whole = match[0].toLowerCase().replaceAll("’", "'");
    // English contracts after the apostrophe, other languages before it: there it separates two words.
    for (const word of contraction.test(whole) ? [whole] : whole.split("'")) words.push({ word, isCapital, begins, follows: gap === " " });
  }
  return words;
}

/** Punctuation between two words is rarely longer. */
const gapMax = 16;

/**
 * A capital inside a sentence makes a name. At the beginning of a sentence every word has one: there it is a name unless the word is
 * common in some language, and a short word must be followed by lower case ("Che Guevara", "Nina, Pinta").
 */
function isName({ word, isCapital, begins }: Word, next: Word | undefined): boolean {
  if (!isCapital) return false;
  if (!begins || !languagesOf.has(word)) return true;
  return word.length <= shortMax && next !== undefined && (next.isCapital || !next.follows);
}

const shortMax = 4;

/** An article or a similarly short word proves nothing before a name. Before a lower-case word it does, unless that word is English. */
function isTelling(word: string, next: Word | undefined): boolean {
  if (!nameWords.has(word) && (word.length >= tellingMin || /[^a-z]/.test(word))) return true;
  if (word.length === 1 || next === undefined || next.isCapital || !next.follows || next.word.length < tellingMin) return false;
  return !englishWords.has(next.word) && !nameWords.has(next.word) && !loanWords.has(next.word);
}

const tellingMin = 3;

const languagesOf: ReadonlyMap<string, readonly number[]> = foreignWords.reduce((map, { words }, index) => {
  for (const word of new Set(words)) map.set(word, [...(map.get(word) ?? []), index]);
  return map;
}, new Map<string, readonly number[]>());

/** Letters or letter combinations that English does not have. */
function isSpelledStrangely(word: string): boolean {
  if (/[^a-z']/.test(word)) return !loanWords.has(word) && !loanWords.has(word.replace(/'s$|e?s$|e?d$|ing$/, ""));
  return strangeSpelling.test(word);
}

const strangeSpelling = /sz|zs|rzy|prz|krz|lj|vj|jk|jn|^(?:kj|hj|gj|tj|hv|vl|mw)|(?:zione|mente|heit|keit|lich|schaft|isch|aat)$/;
