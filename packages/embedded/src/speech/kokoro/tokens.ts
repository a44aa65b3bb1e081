/** The token ids of phonemes. */
export type Vocabulary = ReadonlyMap<string, number>;

/** Reads the vocabulary from the tokenizer file. */
export function readVocabulary(source: string): Vocabulary {
  const { model } = JSON.parse(source) as { readonly model: { readonly vocab: Readonly<Record<string, number>> } };
  return new Map(Object.entries(model.vocab));
}

/** Without the boundary tokens. Phonemes that are not in the vocabulary are left out. */
export function tokensOf(phonemes: string, vocabulary: Vocabulary): readonly number[] {
  return Array.from(phonemes).flatMap((phoneme) => vocabulary.get(phoneme) ?? []);
}

/**
 * The longest piece that is spoken at once. The model accepts 510, but its memory use grows with the audio: this many phonemes are about
 * fifteen seconds and need half a gigabyte.
 */
export const phonemesMax = 240;

/** Splits phonemes that are too long for the model where a pause is least noticeable: after punctuation, otherwise between words. */
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
