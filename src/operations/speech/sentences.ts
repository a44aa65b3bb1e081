/**
 * Splits a long text into parts of at most `charactersMax` characters. Each is as long as possible and ends with a sentence; if that is
 * not possible, with a clause, or else with a word. A grapheme is not split unless it alone is too long. The joined parts are the text.
 */
export function sentences(text: string, charactersMax: number): readonly string[] {
  const max = Math.max(1, Math.floor(charactersMax));
  const parts: string[] = [];
  let start = 0;
  while (start < text.length) {
    const limit = pastCharacters(text, start, max);
    const end = limit === text.length ? limit : start + lastCut(text.slice(start, limit + beyond), limit - start);
    parts.push(text.slice(start, end));
    start = end;
  }
  return parts;
}

/** How many characters after the limit are examined, to see what kind of end there is. */
const beyond = 64;

/** Where to cut at or before the limit, which lies within the text. */
function lastCut(text: string, limit: number): number {
  segmenter ??= new Intl.Segmenter("und", { granularity: "grapheme" });
  const graphemes = segmenter.segment(text);
  const best: Record<Rank, number> = { sentence: 0, clause: 0, word: 0 };
  // A part must not consist of white space only.
  let at = pastSpaces(text, 0);
  while (at < limit) {
    const found = endAt(text, at);
    if (found === null) {
      at++;
      continue;
    }
    // White space belongs to the text before it, if there is room.
    const cut = Math.min(found.past, limit);
    if (found.rank !== null && found.end <= limit && graphemes.containing(cut)?.index === cut) best[found.rank] = cut;
    at = found.past;
  }
  return best.sentence || best.clause || best.word || (graphemes.containing(limit)?.index ?? 0) || limit;
}

/** Made by the first text that is split: its tables take 3 ms to load. */
let segmenter: Intl.Segmenter | null = null;

type Rank = "sentence" | "clause" | "word";

interface End {
  readonly end: number;
  /** The offset after the white space that follows. */
  readonly past: number;
  /** Null if nothing ends here. */
  readonly rank: Rank | null;
}

/** What ends at this offset: the punctuation marks here, with closing quotes and brackets. */
function endAt(text: string, at: number): End | null {
  if (isSpace(text[at])) {
    const past = pastSpaces(text, at);
    return { end: at + 1, past, rank: hasBreak(text, at, past) ? "sentence" : "word" };
  }
  if (!marks.has(text[at]!)) return null;
  let end = at;
  let isFull = false;
  let isStop = false;
  for (let next = text[end]; next !== undefined && (marks.has(next) || closers.has(next)); next = text[++end]) {
    isFull ||= fullStops.has(next) || fullPauses.has(next);
    isStop ||= stops.has(next) || fullStops.has(next);
  }
  // In scripts with spaces a space follows; otherwise the mark is part of a number or an address.
  if (!isFull && !isSpace(text[end])) return { end, past: end, rank: null };
  const past = pastSpaces(text, end);
  if (hasBreak(text, end, past)) return { end, past, rank: "sentence" };
  if (isStop && !isFull && text[at] === "." && isWithin(text, at, past)) return { end, past, rank: "word" };
  return { end, past, rank: isStop ? "sentence" : "clause" };
}

/** A full stop that does not end a sentence: of an abbreviation, of initials, of a number at the beginning of a line. */
function isWithin(text: string, at: number, past: number): boolean {
  const next = text[past] ?? "";
  if (next !== next.toUpperCase()) return true;
  const word = wordBefore(text, at);
  if (word.includes(".") || (word.length === 1 && word !== word.toLowerCase())) return true;
  const isNumber = /^\d+$/.test(word);
  if (isNumber) return lineStarts(text, at - word.length);
  return abbreviations.has(word.toLowerCase()) || (/^\d/.test(next) && numbered.has(word.toLowerCase()));
}

function wordBefore(text: string, at: number): string {
  let start = at;
  while (start > 0 && at - start < wordLengthMax && !isSpace(text[start - 1]) && !openers.has(text[start - 1]!)) start--;
  return text.slice(start, at);
}

const wordLengthMax = 16;

function lineStarts(text: string, at: number): boolean {
  let start = at;
  while (start > 0 && (text[start - 1] === " " || text[start - 1] === "\t")) start--;
  return start === 0 || text[start - 1] === "\n" || text[start - 1] === "\r";
}

function pastSpaces(text: string, from: number): number {
  let at = from;
  while (isSpace(text[at])) at++;
  return at;
}

/** White space that a line may be broken at. */
function isSpace(character: string | undefined): boolean {
  return character !== undefined && spaces.has(character);
}

/** A line break ends a sentence, with or without a mark. */
function hasBreak(text: string, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (breaks.has(text[at]!)) return true;
  return false;
}

const spaces = new Set(" \t\n\v\f\r\u0085\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029\u205f\u3000");
const breaks = new Set("\n\r\v\f\u0085\u2028\u2029");
/** Marks that need a space after them, and those of scripts without spaces. */
const stops = new Set(".!?…‼⁇⁈⁉");
const fullStops = new Set("。！？｡．؟۔।॥።፧։။។᠃");
const pauses = new Set(",;:–—");
const fullPauses = new Set("、，；：､،؛၊፣");
const marks = stops.union(fullStops).union(pauses).union(fullPauses);
const closers = new Set("\"'”’»›)]}」』】〉》）］｝");
const openers = new Set("\"'“‘«‹([{「『【〈《（［｛—–");
const numbered = new Set(["no", "nr", "art", "fig", "vol", "p", "pp", "ch", "sec"]);
const abbreviations = new Set(
  (
    "mr mrs ms dr prof rev gen col sgt capt lt hon sr jr st mt vs cf al ca approx dept est inc ltd co corp bros ave blvd rd " +
    "e.g i.e etc z.b bzw usw ca sra sres mme mlle jan feb mar apr jun jul aug sep sept oct nov dec"
  ).split(" "),
);

/** The number of Unicode characters. An unpaired surrogate counts as one. */
export function characterCount(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at = pastCharacter(text, at)) count++;
  return count;
}

/** The offset after a number of characters, or the end of the text. */
export function pastCharacters(text: string, from: number, characters: number): number {
  let at = from;
  for (let passed = 0; passed < characters && at < text.length; passed++) at = pastCharacter(text, at);
  return at;
}

function pastCharacter(text: string, at: number): number {
  return at + (text.codePointAt(at)! > 0xffff ? 2 : 1);
}
