import { foreignLanguage } from "./foreign-words.ts";

/** A text in letters that an English voice can speak, or why there is none. */
export type SpokenText =
  | { readonly kind: "speakable"; readonly text: string }
  | { readonly kind: "foreign"; readonly what: string }
  | { readonly kind: "empty" };

/**
 * Converts a text into the letters that an English voice knows. Accents are removed, symbols with a name become words, and emoji are
 * skipped. Letters of other scripts and sentences in other languages are rejected: read by English rules, they would only be
 * noise.
 */
export function spokenText(source: string): SpokenText {
  const composed = source.normalize("NFKC");
  const language = foreignLanguage(composed);
  if (language !== null) return { kind: "foreign", what: language };
  const plain = named(composed)
    .normalize("NFD")
    .replaceAll(/(?<=[A-Za-z])\p{M}+/gu, "")
    .replaceAll(/[^\p{ASCII}]/gu, (character) => letters[character] ?? character);
  const foreignLetter = /[^\p{ASCII}\P{L}]|[^\p{ASCII}\P{N}]/u.exec(plain)?.[0];
  if (foreignLetter !== undefined) return { kind: "foreign", what: `${scriptOf(foreignLetter)} letters` };
  const text = plain
    .replaceAll(/[^\p{ASCII}]+/gu, " ")
    .replaceAll(/[^\P{Cc}\n]/gu, " ")
    .trim();
  return /[A-Za-z0-9]/.test(text) ? { kind: "speakable", text } : { kind: "empty" };
}

function named(text: string): string {
  return (
    text
      .replaceAll(/[‘’‚‛′]/g, "'")
      .replaceAll(/[“”„‟″«»]/g, '"')
      .replaceAll(/[‐‑‒]/g, "-")
      .replaceAll(/\s*[–—―]\s*/g, ", ")
      .replaceAll(/([€£¥])\s?(\d[\d.,]*\d|\d)/g, (_, sign: string, amount: string) => `${amount} ${signs[sign] ?? ""}`)
      .replaceAll(/[&@+=×÷°€£¥µ]/g, (sign) => ` ${signs[sign] ?? ""} `)
      // A single Greek letter is a symbol; two are a word.
      .replaceAll(/(?<!\p{L})\p{Script=Greek}(?!\p{L})/gu, (letter) => greek[letter.toLowerCase()] ?? letter)
  );
}

const signs: Readonly<Record<string, string>> = {
  "&": "and",
  "@": "at",
  "+": "plus",
  "=": "equals",
  "×": "times",
  "÷": "divided by",
  "°": "degrees",
  "€": "euros",
  "£": "pounds",
  "¥": "yen",
  µ: "micro",
};

const greekNames =
  "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega".split(" ");
const greek: Readonly<Record<string, string>> = Object.fromEntries(
  Array.from("αβγδεζηθικλμνξοπρστυφχψω").map((letter, index) => [letter, greekNames[index] ?? ""]),
);

/** Latin letters that do not decompose into an English letter and an accent. */
const letters: Readonly<Record<string, string>> = {
  ß: "ss",
  ẞ: "SS",
  æ: "ae",
  Æ: "Ae",
  œ: "oe",
  Œ: "Oe",
  ø: "o",
  Ø: "O",
  đ: "d",
  Đ: "D",
  ð: "th",
  Ð: "Th",
  þ: "th",
  Þ: "Th",
  ł: "l",
  Ł: "L",
  ı: "i",
};

const scripts =
  "Latin Greek Cyrillic Armenian Hebrew Arabic Devanagari Bengali Gurmukhi Gujarati Tamil Telugu Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Khmer Mongolian Hiragana Katakana Han".split(
    " ",
  );

function scriptOf(letter: string): string {
  return scripts.find((script) => new RegExp(`\\p{Script=${script}}`, "u").test(letter)) ?? "foreign";
}
