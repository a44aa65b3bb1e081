/** The model's numbers for phonemes. */
export type Vocabulary = ReadonlyMap<string, number>;

/** Reads the vocabulary out of the tokenizer's file. */
export function readVocabulary(source: string): Vocabulary {
  const { model } = JSON.parse(source) as { readonly model: { readonly vocab: Readonly<Record<string, number>> } };
  return new Map(Object.entries(model.vocab));
}

/** Without its beginning and its end, which are the same token. What the vocabulary lacks is left out. */
export function tokensOf(phonemes: string, vocabulary: Vocabulary): readonly number[] {
  return Array.from(phonemes).flatMap((phoneme) => vocabulary.get(phoneme) ?? []);
}

/**
 * What is spoken at once. The model would read 510, but the memory it needs grows with the sound: so many are some fifteen
 * seconds of it and half a gigabyte.
 */
export const phonemesMax = 240;

/** Cuts what is too long for the model where a pause is least heard: behind a mark, else between words. */
export function cutPhonemes(phonemes: string, most: number): readonly string[] {
  const pieces: string[] = [];
  let rest = phonemes.trim();
  while (rest.length > most) {
    const window = rest.slice(0, most);
    const pause = Math.max(...[", ", "; ", ": ", ". ", "! ", "? ", "… "].map((mark) => window.lastIndexOf(mark))) + 1;
    const blank = window.lastIndexOf(" ");
    const cut = pause > most / 4 ? pause : blank > 0 ? blank : most;
    pieces.push(rest.slice(0, cut).trim());
    rest = rest.slice(cut).trim();
  }
  if (rest !== "") pieces.push(rest);
  return pieces;
}
