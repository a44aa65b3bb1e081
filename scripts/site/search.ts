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

/**
 * The sections that hold every word, or another one that begins like it. Those with a word in a title come first; among equals the order
 * of the entries counts.
 */
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

/** Names of settings, paths and models are words. Those that every section has say nothing, unless there are no others. */
function wordsOf(query: string): readonly string[] {
  const all = query.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}_./:-]*/gu) ?? [];
  const telling = all.filter((word) => !common.has(word));
  return (telling.length === 0 ? all : telling).slice(0, wordsMax).map(rootOf);
}

const common: ReadonlySet<string> = new Set(
  "a an and are can do does for how i in is it my of on or the to use what when where with".split(" "),
);

/** "streaming" finds "streamed", and "budgets" finds "budget". */
function rootOf(word: string): string {
  const bare = word.replace(/[./:-]+$/, "");
  const root = bare.replace(/(?:ing|ed|s)$/, "");
  return root.length >= 4 ? root : bare;
}

function scoreOf({ page, section, text }: SearchEntry, words: readonly string[]): number {
  let score = 0;
  for (const word of words) {
    const found = 12 * begins(section, word) + 8 * begins(page, word) + density(begins(text, word), text.length);
    if (found === 0) return 0;
    score += found;
  }
  return score;
}

/** From 1 to 5: a short section that is about a word says more of it than a long one that mentions it as often. */
function density(times: number, length: number): number {
  return times === 0 ? 0 : 1 + Math.min(4, (400 * times) / (200 + length));
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
  const end = from + excerptLength < text.length ? text.lastIndexOf(" ", from + excerptLength) : text.length;
  return `${from === 0 ? "" : "… "}${text.slice(from, Math.max(end, first))}${end < text.length ? " …" : ""}`;
}
