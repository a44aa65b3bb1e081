/** How English words are spoken, by their spelling in capitals. Where there are several ways, the first. */
export type Lexicon = ReadonlyMap<string, string>;

/** Reads the CMU dictionary in Kokoro's letters: a word, and after tabs its pronunciations. Lines with `;;;` are its notice. */
export function readLexicon(source: string): Lexicon {
  const words = new Map<string, string>();
  for (const line of source.split("\n")) {
    if (line.startsWith(";;;")) continue;
    const [word = "", phonemes = ""] = line.split("\t", 2);
    if (word !== "" && phonemes !== "") words.set(word, phonemes.trim());
  }
  return words;
}
