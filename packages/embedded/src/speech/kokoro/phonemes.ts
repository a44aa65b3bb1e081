/**
 * American English in Kokoro's phonemes: diphthongs are single capitals, a stress mark is right before its vowel, the flapped `t` of
 * "water" is `T`, and a reduced vowel is `ᵊ`.
 */
export const vowels = "AIOQWYaiuæɑɒɔəɛɜɪʊʌᵊᵻ";

/** Converts IPA as in dictionaries, with stress marks before the syllable. */
export function fromIpa(ipa: string): string {
  const letters = ipa
    .normalize("NFD")
    .replaceAll(/[͜͡]/g, "")
    .replaceAll(/(\p{L})̩/gu, "ᵊ$1")
    .replaceAll(/[^\p{L}ˈˌᵊ]/gu, "")
    .replaceAll("ː", "")
    .replaceAll("dʒ", "ʤ")
    .replaceAll("tʃ", "ʧ")
    .replaceAll("eɪ", "A")
    .replaceAll("aɪ", "I")
    .replaceAll("oʊ", "O")
    .replaceAll("əʊ", "O")
    .replaceAll("aʊ", "W")
    .replaceAll("ɔɪ", "Y")
    .replaceAll(/[gɡ]/g, "ɡ")
    .replaceAll(/[rɾ]/g, "ɹ")
    .replaceAll(/[ɫɬ]/g, "l")
    .replaceAll("ɝ", "ɜɹ")
    .replaceAll("ɚ", "əɹ")
    .replaceAll("ɐ", "ə")
    .replaceAll("a", "ɑ")
    .replaceAll("e", "A")
    .replaceAll("o", "O")
    .replaceAll("ɒ", "ɑ")
    .replaceAll("x", "k");
  return letters.replaceAll(new RegExp(`([ˈˌ])([^${vowels}ˈˌ]+)(?=[${vowels}])`, "gu"), "$2$1").replaceAll(/[ˈˌ](?=[ˈˌ]|$)/g, "");
}

/**
 * Adds what dictionaries leave out: weak vowels, the flapped `t`, syllabic consonants, and the endings of plurals and past tenses,
 * which are recognised by their spelling.
 */
export function american(phonemes: string, spelling: string): string {
  return ending(phonemes, spelling)
    .replaceAll(/(?<![ˈˌ])ɜɹ/g, "əɹ")
    .replaceAll(/(?<=[bdfkmnpstvzðŋɡʃʒʤʧθ])əl(?=$|[dsz]$)/g, "ᵊl")
    .replaceAll(/(?<=[tdsz])ən(?=$|[dstz]{1,2}$)/g, "ᵊn")
    .replaceAll(new RegExp(`(?<=[${vowels}ɹ])t(?=[${vowels}])(?!ᵊn)`, "gu"), "T");
}

function ending(phonemes: string, spelling: string): string {
  if (/(?:es|'s)$/i.test(spelling)) return phonemes.replace(/(?<=[szʃʒʤʧ])[əɪ]z$/, "ᵻz");
  if (/ed$/i.test(spelling)) return phonemes.replace(/(?<=[td])[əɪ]d$/, "ᵻd");
  return phonemes;
}

/** A content word has a stress: if none is marked, it is on the first vowel. */
export function stressed(phonemes: string): string {
  return /[ˈ]/.test(phonemes) ? phonemes : phonemes.replaceAll("ˌ", "").replace(new RegExp(`[${vowels}]`, "u"), "ˈ$&");
}

/** Whether the pronunciation begins with a vowel. */
export function beginsWithVowel(phonemes: string): boolean {
  return new RegExp(`^[ˈˌ]?[${vowels}]`, "u").test(phonemes);
}

/** Appends the ending `s`, which depends on the last sound. */
export function withS(phonemes: string): string {
  if (/[szʃʒʤʧ]$/.test(phonemes)) return `${phonemes}ᵻz`;
  return `${phonemes}${/[ptkfθ]$/.test(phonemes) ? "s" : "z"}`;
}
