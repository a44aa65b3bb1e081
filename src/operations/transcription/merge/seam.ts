/** How two texts are joined: the number of words to drop at the end of the first and at the beginning of the second. */
export interface TranscriptSeam {
  readonly leftDrops: number;
  readonly rightDrops: number;
}

export const plainSeam: TranscriptSeam = { leftDrops: 0, rightDrops: 0 };

/** A word, or a character of a script without spaces, and its position. */
export interface ComparableWord {
  /** For comparisons: without case and punctuation. */
  readonly key: string;
  readonly to: number;
}

/** The words of a text, without punctuation that stands alone. */
export function tokensOf(text: string): readonly ComparableWord[] {
  return [...text.matchAll(tokenPattern)].flatMap(({ 0: found, index }) => {
    const key = found
      .normalize("NFKC")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M}]/gu, "");
    return key === "" ? [] : [{ key, to: index + found.length }];
  });
}

/**
 * Joins two texts whose recordings overlap by two seconds: finds the longest sequence of words at the end of the first and the beginning of
 * the second. The recording may be split inside a word, so what one text has beyond the sequence is dropped. Without such a sequence,
 * nothing is dropped.
 */
export function overlapSeam(left: string, right: string): TranscriptSeam {
  const before = tokensOf(left).slice(-seamTokensMax);
  const after = tokensOf(right).slice(0, seamTokensMax);
  let best: TranscriptSeam & { readonly length: number } = { ...plainSeam, length: 0 };
  for (let end = before.length; end > 0 && before.length - end <= brokenTokensMax; end--) {
    for (let begin = 0; begin < after.length && begin <= brokenTokensMax; begin++) {
      const length = runBetween(before, end, after, begin, best.length);
      const exact = end === before.length && begin === 0;
      if (length > best.length && (exact || length > 1 || after[begin]!.key.length >= tellingLengthMin)) {
        best = { length, leftDrops: before.length - end, rightDrops: begin + length };
      }
    }
  }
  return { leftDrops: best.leftDrops, rightDrops: best.rightDrops };
}

/** The longest common sequence that ends before `end` in one and begins at `begin` in the other, if it is longer than `known`. */
function runBetween(
  before: readonly ComparableWord[],
  end: number,
  after: readonly ComparableWord[],
  begin: number,
  known: number,
): number {
  for (let length = Math.min(end, after.length - begin); length > known; length--) {
    let same = 0;
    while (same < length && before[end - length + same]!.key === after[begin + same]!.key) same++;
    if (same === length) return length;
  }
  return 0;
}

/** The text without its first words. */
export function withoutFirst(text: string, count: number): string {
  if (count <= 0) return text;
  const last = tokensOf(text)[count - 1];
  return last === undefined ? "" : text.slice(last.to);
}

export function withoutLast(text: string, count: number): string {
  if (count <= 0) return text;
  const last = tokensOf(text).at(-count - 1);
  return last === undefined ? "" : text.slice(0, last.to);
}

/** A space, or nothing in scripts without spaces. */
export function glueBetween(left: string, right: string): string {
  if (left === "" || right === "") return "";
  return unspacedEnd.test(left) || unspacedStart.test(right) ? "" : " ";
}

/** More words than anybody speaks in two seconds. */
export const seamTokensMax = 24;
/** How many words at the border may be wrong. */
const brokenTokensMax = 2;
/** A single short word near the border may be the same by chance. */
const tellingLengthMin = 5;

const unspaced = String.raw`\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}`;
/** The punctuation of those scripts, which brings its own space. */
const wide = String.raw`\u3000-\u303f\uff00-\uff65`;
const tokenPattern = new RegExp(String.raw`[${unspaced}]\p{M}*|[^\s${unspaced}]+`, "gu");
const unspacedEnd = new RegExp(`[${unspaced}${wide}]$`, "u");
const unspacedStart = new RegExp(`^[${unspaced}${wide}]`, "u");
