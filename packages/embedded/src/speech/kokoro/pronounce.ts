import { british } from "./british.ts";
import type { Guesser } from "./guesser.ts";
import { byNeighbours } from "./homographs.ts";
import { american, beginsWithVowel, fromIpa, stressed, vowels, withS } from "./phonemes.ts";
import type { Accent } from "./kokoro-addon.ts";
import { alwaysWeak, letterNames, ownWords, weakWords } from "./weak-words.ts";

/** Converts English text to Kokoro's phonemes, with spaces between words and punctuation after them. */
export type Pronounce = (piece: string, accent: Accent) => string;

/** A word, or one punctuation mark. */
interface Item {
  readonly text: string;
  readonly isWord: boolean;
  /** Whether a space is before it. */
  readonly apart: boolean;
}

export function makePronounce(lexicon: Lexicon, guesser: Guesser): Pronounce {
  const known = (word: string): string | null => ownWords.get(word) ?? entry(word) ?? null;
  const entry = (word: string): string | undefined => {
    const found = lexicon.get(word.toUpperCase());
    return found === undefined ? undefined : american(found, word);
  };

  function wordAlone(word: string): string {
    const lower = word.toLowerCase();
    const found = known(lower);
    if (found !== null) return found;
    const owner = /^(.+)'s?$/.exec(lower)?.[1];
    if (owner !== undefined) return lower.endsWith("'") && lower.endsWith("s'") ? wordAlone(owner) : withS(wordAlone(owner));
    if (lower.includes("'")) return wordAlone(lower.replaceAll("'", ""));
    const unspelled = american(fromIpa(guesser.guess(lower) ?? ""), lower);
    return new RegExp(`[${vowels}]`, "u").test(unspelled) ? stressed(unspelled) : spelledOut(lower);
  }

  function asWritten(word: string, shouted: boolean): string {
    if (isInitialism(word, shouted, known(word.toLowerCase()) !== null)) return spelledOut(word);
    const parts = word.split("-").filter((part) => part !== "");
    if (parts.length < 2 || known(word.toLowerCase()) !== null) return wordAlone(word);
    return parts.map((part) => asWritten(part, shouted)).join(" ");
  }

  return (piece, accent) => {
    const items = itemsOf(piece);
    const shouted = !/[a-z]/.test(piece);
    const spoken: string[] = [];
    // From the end, because some words depend on the sound that follows.
    for (const [index, item] of [...items.entries()].toReversed()) {
      if (!item.isWord) {
        spoken.unshift(item.text);
        continue;
      }
      const after = items[index + 1];
      const lower = item.text.toLowerCase();
      const isName = /^[A-Z]{2,}$/.test(item.text) && !shouted;
      const isLast = after === undefined || !after.isWord;
      const weak = isName ? undefined : weakWords.get(lower);
      const next = spoken[0] ?? "";
      const sound =
        weak === undefined
          ? (decided(items, index) ?? asWritten(item.text, shouted))
          : isLast && !alwaysWeak.has(lower)
            ? stressed(weak)
            : beforeVowel(lower, weak, !isLast && beginsWithVowel(next));
      spoken.unshift(accent === "british" ? (britishWords.get(lower) ?? british(sound, item.text)) : sound);
    }
    return joined(items, spoken);
  };

  function decided(items: readonly Item[], index: number): string | null {
    const text = items[index]?.text ?? "";
    const [before, after] = [items[index - 1]?.text ?? "", items[index + 1]?.text ?? ""].map((word) => word.toLowerCase()) as [
      string,
      string,
    ];
    const plain = byNeighbours(text.toLowerCase(), before, after);
    if (plain !== null || ownWords.has(text.toLowerCase())) return plain;
    const choice = guesser.decide(text, before, after);
    return choice === null ? null : stressed(american(fromIpa(choice), text));
  }
}

function beforeVowel(word: string, weak: string, isBefore: boolean): string {
  if (!isBefore) return weak;
  return word === "the" ? "ði" : word === "to" ? "tʊ" : weak;
}

/** British pronunciations that no rule derives. */
const britishWords: ReadonlyMap<string, string> = new Map([
  ["z", "zˈɛd"],
  ["schedule", "ʃˈɛdjuːl"],
  ["tomato", "təmˈɑːtQ"],
  ["tomatoes", "təmˈɑːtQz"],
  ["vase", "vˈɑːz"],
  ["privacy", "pɹˈɪvəsi"],
  ["leisure", "lˈɛʒə"],
  ["lieutenant", "lɛftˈɛnənt"],
  ["garage", "ɡˈaɹɑːʒ"],
  ["herb", "hˈɜːb"],
  ["what", "wˈɒt"],
  ["was", "wɒz"],
  ["of", "ɒv"],
  ["from", "fɹɒm"],
  ["on", "ɒn"],
  ["because", "bɪkˈɒz"],
  ["been", "biːn"],
]);

/** Upper-case words are spelled if they cannot be pronounced, or if the word of that spelling is rarely meant. */
function isInitialism(word: string, shouted: boolean, isKnown: boolean): boolean {
  if (/^[A-Za-z]$/.test(word)) return true;
  if (/^[bcdfghjklmnpqrstvwxz]{2,}$/i.test(word)) return !isKnown;
  if (shouted || !/^[A-Z]{2,5}$/.test(word)) return false;
  return notTheWord.has(word) || (!isKnown && word.length <= 3);
}

const notTheWord: ReadonlySet<string> = new Set("US IT AM PM WHO IP ID OS UN EU UK TV PC AI HR PR".split(" "));

/** The last letter is stressed. */
function spelledOut(word: string): string {
  const letters = Array.from(word.toLowerCase()).flatMap((letter) => letterNames.get(letter) ?? []);
  return letters
    .map((name, index) => name.replace(new RegExp(`[${vowels}]`, "u"), `${index === letters.length - 1 ? "ˈ" : "ˌ"}$&`))
    .join(letters.length > lettersTogetherMax ? " " : "");
}

/** More letters than this are spoken separately. */
const lettersTogetherMax = 4;

function itemsOf(piece: string): readonly Item[] {
  const found: Item[] = [];
  for (const { 0: text, index } of piece.replaceAll("...", "…").matchAll(/[A-Za-z]+(?:['-][A-Za-z]+)*'?|[.,;:!?"()…]/g)) {
    const isWord = /^[A-Za-z]/.test(text);
    // A closing quote is not an apostrophe.
    const word = isWord && text.endsWith("'") && !/s'$/i.test(text) ? text.slice(0, -1) : text;
    found.push({ text: isWord ? word : mark(text, piece, index), isWord, apart: index > 0 && /\s/.test(piece[index - 1] ?? "") });
  }
  return found;
}

function mark(text: string, piece: string, index: number): string {
  if (text !== '"') return text;
  return index === 0 || /[\s(]/.test(piece[index - 1] ?? "") ? "“" : "”";
}

function joined(items: readonly Item[], spoken: readonly string[]): string {
  const text = items
    .map(({ isWord, apart }, index) => {
      const opens = /[“(]/.test(spoken[index] ?? "");
      const afterOpening = /[“(]/.test(spoken[index - 1] ?? "");
      const blank = index > 0 && !afterOpening && (isWord || opens || (apart && opens));
      return `${blank ? " " : ""}${spoken[index] ?? ""}`;
    })
    .join("")
    .trim();
  // Without a final mark, the voice does not lower its pitch at the end.
  return /[.!?…,;:][”)]*$/.test(text) || text === "" ? text : `${text}.`;
}

/** The pronunciations of English words, by their spelling in upper case. If there are several, the first. */
export type Lexicon = ReadonlyMap<string, string>;

/** Reads the CMU dictionary in Kokoro's phonemes: a word, and after a tab its pronunciations. Lines with `;;;` are comments. */
export function readLexicon(source: string): Lexicon {
  const words = new Map<string, string>();
  for (const line of source.split("\n")) {
    if (line.startsWith(";;;")) continue;
    const [word = "", phonemes = ""] = line.split("\t", 2);
    if (word !== "" && phonemes !== "") words.set(word, phonemes.trim());
  }
  return words;
}
