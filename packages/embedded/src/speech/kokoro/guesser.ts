import { createRequire } from "node:module";
import { join } from "node:path";

/** Guesses the pronunciation of words that are not in the dictionary, and of homographs by their context. */
export interface Guesser {
  /** In IPA, American English; `null` if there is no guess. */
  guess(word: string): string | null;
  /** For a word with two pronunciations, as a verb and otherwise; `null` for other words. */
  decide(word: string, before: string, after: string): string | null;
}

interface Rules {
  predict(word: string, language?: string, partOfSpeech?: string): string | null;
  tagWord(word: string, context: { readonly prev?: string; readonly next?: string }): { readonly pos: string };
}

/** Loads the rules of the add-on. It uses `require`, because the package's ES module does not load. */
export function loadGuesser(directory: string): Guesser {
  const load = createRequire(join(directory, "phonemize", "en-g2p.cjs"));
  const { EnglishG2P } = load("./en-g2p.cjs") as { readonly EnglishG2P: new () => Rules };
  const homographs = new Set(Object.keys(load("./en/homographs.json") as object));
  const rules = new EnglishG2P();
  return {
    guess: (word) => rules.predict(word.toLowerCase()),
    decide(word, before, after) {
      const lower = word.toLowerCase();
      if (!homographs.has(lower)) return null;
      const { pos } = rules.tagWord(lower, { prev: before.toLowerCase(), next: after.toLowerCase() });
      return rules.predict(lower, "en-US", pos);
    },
  };
}
