/**
 * Converts American phonemes to southern British ones by rule: `r` is spoken only before a vowel, "lot" is rounded, "bath" is long, and
 * `t` is not flapped. Where the American sounds have merged, the spelling decides.
 */
export function british(phonemes: string, spelling: string): string {
  const word = spelling.toLowerCase();
  const rounded = /o|wa|qua/.test(word) ? roundedLot(phonemes, word) : phonemes;
  const broad = bath.has(word.replace(/(?:'s|s|ed|er|ing)$/, "")) || bath.has(word) ? rounded.replace("æ", "ɑː") : rounded;
  return (
    broad
      .replaceAll("T", "t")
      .replaceAll("ᵻ", "ɪ")
      .replaceAll("O", "Q")
      .replaceAll("æ", "a")
      // Before a consonant and at the end, `r` is silent but has changed the vowel.
      .replaceAll(new RegExp(`ɜɹ(?=${vowelNext})`, "gu"), "ɜːɹ")
      .replaceAll("ɜɹ", "ɜː")
      .replaceAll(new RegExp(`əɹ(?!${vowelNext})`, "gu"), "ə")
      .replaceAll(new RegExp(`ɑɹ(?!${vowelNext})`, "gu"), "ɑː")
      .replaceAll(new RegExp(`ɔɹ(?!${vowelNext})`, "gu"), "ɔː")
      .replaceAll(new RegExp(`[ɛ]ɹ(?!${vowelNext})`, "gu"), "ɛː")
      .replaceAll(new RegExp(`[ɪi]ɹ(?!${vowelNext})`, "gu"), "ɪə")
      .replaceAll(new RegExp(`ʊɹ(?!${vowelNext})`, "gu"), "ɔː")
      .replaceAll(new RegExp(`(?<=[IW])ɹ(?!${vowelNext})`, "gu"), "ə")
      .replaceAll(/ɑ(?!ː)/g, "ɑː")
      .replaceAll(/ɔ(?!ː)/g, "ɔː")
      .replaceAll(/(?<=[ˈˌ])i(?!ː)/g, "iː")
      .replaceAll(/(?<=[ˈˌ])u(?!ː)/g, "uː")
      .replaceAll(/(?<=[tdn]ˈ?)uː/g, (long, at: number, all: string) => (isYod(all, at, word) ? `j${long}` : long))
      .replaceAll(/([ˈˌ])juː/g, "j$1uː")
  );
}

const vowelNext = "[ˈˌ]?[AIQOWYaiuæɑɒɔəɛɜɪʊʌᵊ]";

/** "Lot" and "cloth", which Americans speak with the vowels of "father" and "thought". */
function roundedLot(phonemes: string, word: string): string {
  const lot = /^(?:father|calm|palm|spa|bra|drama|pasta)/.test(word)
    ? phonemes
    : phonemes.replaceAll(/ɑ(?!ɹ(?![ˈˌ]?[AIOWYiuæɑɔəɛɜɪʊʌᵊ]))/g, "ɒ");
  return cloth.test(word) ? lot.replace("ɔ", "ɒ") : lot;
}

const cloth = /off|oss|ost(?!e|s?$)|oth(?:$|s)|oft|ong|dog|gone|on$|cough|trough|moss|wash|want|watch|orr|ori|ora|oro|ore[ns]/;

/** British English has a `y` sound in "new", "tune" and "due", but not in "noon", "two" and "do". */
function isYod(all: string, at: number, word: string): boolean {
  return !all.slice(0, at).includes("j") && /(?:[tdn](?:u|ew|eu)|sui)/.test(word) && !/oo|ou/.test(word);
}

const bath = new Set(
  (
    "after afternoon answer ask aunt bath basket blast branch brass calf half halves can't cast castle chance chant class clasp command craft dance " +
    "demand disaster draft draught example fast fasten flask france francis ghastly giraffe glance glass graft grant graph grasp grass lance last " +
    "laugh laughter mask mast master nasty pass passed past pastor path photograph plant plaster rather raft rascal sample shaft slander slant staff " +
    "task telegraph vast vaster advance advantage castaway broadcast forecast paragraph behalf"
  ).split(" "),
);
