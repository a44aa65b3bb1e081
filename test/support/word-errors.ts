/** How many words differ between what was said and what was heard, and how many were said. */
export interface WordErrors {
  readonly errors: number;
  readonly words: number;
}

/** The fewest words to add, drop or change; case, punctuation and the way numbers are written do not count. */
export function wordErrors(said: string, heard: string): WordErrors {
  const expected = spelled(said);
  const found = spelled(heard);
  let costs = Array.from({ length: found.length + 1 }, (_, at) => at);
  for (const word of expected) {
    const next = [costs[0]! + 1];
    for (const [at, other] of found.entries()) {
      next.push(Math.min(costs[at]! + (word === other ? 0 : 1), costs[at + 1]! + 1, next[at]! + 1));
    }
    costs = next;
  }
  return { errors: costs.at(-1)!, words: expected.length };
}

/** Of several recordings together: a short one does not count for more than its words. */
export function totalErrors(all: readonly WordErrors[]): WordErrors {
  return all.reduce((sum, one) => ({ errors: sum.errors + one.errors, words: sum.words + one.words }), { errors: 0, words: 0 });
}

export function errorRate({ errors, words }: WordErrors): number {
  return words === 0 ? (errors === 0 ? 0 : 1) : errors / words;
}

/** Such as `5.9 % (2 of 34)`. */
export function shownRate(found: WordErrors): string {
  return `${(errorRate(found) * 100).toFixed(1)} % (${found.errors} of ${found.words})`;
}

function spelled(text: string): readonly string[] {
  const words: readonly string[] = text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];
  return words.map((word) => digits.get(word) ?? word);
}

const digits: ReadonlyMap<string, string> = new Map(
  ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"].map((word, value) => [String(value), word]),
);
