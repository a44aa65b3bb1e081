/** One section of a page, as the search knows it. */
export interface SearchEntry {
  /** Relative to the search page, with the anchor of the section. */
  readonly address: string;
  readonly page: string;
  /** Empty for what stands before the first section. */
  readonly section: string;
  readonly text: string;
}

export interface SearchHit {
  readonly entry: SearchEntry;
  /** The part of the text in which a word was found. */
  readonly excerpt: string;
}

const hitsMax = 40;
const wordsMax = 10;
const excerptLength = 160;

/** The sections that hold every word, or a longer one that begins with it; those with a word in a title come first. */
export function searchFor(query: string, entries: readonly SearchEntry[]): readonly SearchHit[] {
  const words = wordsOf(query);
  if (words.length === 0) return [];
  return entries
    .map((entry) => ({ entry, score: scoreOf(entry, words) }))
    .filter(({ score }) => score > 0)
    .toSorted((one, other) => other.score - one.score)
    .slice(0, hitsMax)
    .map(({ entry }) => ({ entry, excerpt: excerptOf(entry.text, words) }));
}

/** Names of settings, paths and models are words. */
function wordsOf(query: string): readonly string[] {
  return (query.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}_./:-]*/gu) ?? [])
    .slice(0, wordsMax)
    .map((word) => word.replace(/[./:-]+$/, ""));
}

function scoreOf({ page, section, text }: SearchEntry, words: readonly string[]): number {
  let score = 0;
  for (const word of words) {
    const found = 12 * begins(section, word) + 8 * begins(page, word) + Math.min(5, begins(text, word));
    if (found === 0) return 0;
    score += found;
  }
  return score;
}

/** How often a word of the text begins so. */
function begins(text: string, word: string): number {
  const lower = text.toLowerCase();
  let count = 0;
  for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) {
    if (at === 0 || !/[\p{L}\p{N}]/u.test(lower[at - 1] ?? "")) count++;
  }
  return count;
}

function excerptOf(text: string, words: readonly string[]): string {
  const lower = text.toLowerCase();
  const found = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0);
  const first = found.length === 0 ? 0 : Math.min(...found);
  const from = first < excerptLength / 2 ? 0 : text.indexOf(" ", first - excerptLength / 2) + 1;
  const part = text.slice(from, from + excerptLength);
  return `${from === 0 ? "" : "… "}${part}${from + excerptLength < text.length ? " …" : ""}`;
}
