import { createRequire } from "node:module";
import { join } from "node:path";

/** Guesses how a word is spoken that is in no dictionary, and which of two ways is meant by its neighbours. */
export interface Guesser {
  /** In the international alphabet, American; `null` when it has no idea. */
  guess(word: string): string | null;
  /** The same for a word that is spoken in two ways, as a verb and otherwise; `null` for any other word. */
  decide(word: string, before: string, after: string): string | null;
}

interface Rules {
  predict(word: string, language?: string, partOfSpeech?: string): string | null;
  tagWord(word: string, context: { readonly prev?: string; readonly next?: string }): { readonly pos: string };
}

/** Loads the rules of the add-on. They are plain functions of their input; their module for `import` does not load, this one does. */
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
