import { british } from "./british.ts";
import type { Guesser } from "./guesser.ts";
import { byNeighbours } from "./homographs.ts";
import type { Lexicon } from "./lexicon.ts";
import { american, beginsWithVowel, fromIpa, stressed, vowels, withS } from "./phonemes.ts";
import type { Accent } from "./voices.ts";
import { alwaysWeak, letterNames, ownWords, weakWords } from "./weak-words.ts";

/** Writes a piece of plain English in Kokoro's phonemes, words apart by blanks and marks behind their words. */
export type Pronounce = (piece: string, accent: Accent) => string;

/** A word of the text, or one mark. */
interface Item {
  readonly text: string;
  readonly isWord: boolean;
  /** Whether a blank stands before it. */
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
    const said: string[] = [];
    // From the end, as some words depend on the sound that follows.
    for (const [index, item] of [...items.entries()].toReversed()) {
      if (!item.isWord) {
        said.unshift(item.text);
        continue;
      }
      const after = items[index + 1];
      const lower = item.text.toLowerCase();
      const isName = /^[A-Z]{2,}$/.test(item.text) && !shouted;
      const isLast = after === undefined || !after.isWord;
      const weak = isName ? undefined : weakWords.get(lower);
      const next = said[0] ?? "";
      const sound =
        weak === undefined
          ? (decided(items, index) ?? asWritten(item.text, shouted))
          : isLast && !alwaysWeak.has(lower)
            ? stressed(weak)
            : beforeVowel(lower, weak, !isLast && beginsWithVowel(next));
      said.unshift(accent === "british" ? (britishWords.get(lower) ?? british(sound, item.text)) : sound);
    }
    return joined(items, said);
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

/** Words that differ by more than their accent. */
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

/** Capitals are spelled when they cannot be a word, or when the word they would be is hardly meant. */
function isInitialism(word: string, shouted: boolean, isKnown: boolean): boolean {
  if (/^[A-Za-z]$/.test(word)) return true;
  if (/^[bcdfghjklmnpqrstvwxz]{2,}$/i.test(word)) return !isKnown;
  if (shouted || !/^[A-Z]{2,5}$/.test(word)) return false;
  return notTheWord.has(word) || (!isKnown && word.length <= 3);
}

const notTheWord: ReadonlySet<string> = new Set("US IT AM PM WHO IP ID OS UN EU UK TV PC AI HR PR".split(" "));

/** The last letter carries the stress. */
function spelledOut(word: string): string {
  const letters = Array.from(word.toLowerCase()).flatMap((letter) => letterNames.get(letter) ?? []);
  return letters
    .map((name, index) => name.replace(new RegExp(`[${vowels}]`, "u"), `${index === letters.length - 1 ? "ˈ" : "ˌ"}$&`))
    .join(letters.length > lettersTogetherMax ? " " : "");
}

/** More of them are better heard one by one. */
const lettersTogetherMax = 4;

function itemsOf(piece: string): readonly Item[] {
  const found: Item[] = [];
  for (const { 0: text, index } of piece.replaceAll("...", "…").matchAll(/[A-Za-z]+(?:['-][A-Za-z]+)*'?|[.,;:!?"()…]/g)) {
    const isWord = /^[A-Za-z]/.test(text);
    // What ends a quotation is no apostrophe.
    const word = isWord && text.endsWith("'") && !/s'$/i.test(text) ? text.slice(0, -1) : text;
    found.push({ text: isWord ? word : mark(text, piece, index), isWord, apart: index > 0 && /\s/.test(piece[index - 1] ?? "") });
  }
  return found;
}

function mark(text: string, piece: string, index: number): string {
  if (text !== '"') return text;
  return index === 0 || /[\s(]/.test(piece[index - 1] ?? "") ? "“" : "”";
}

function joined(items: readonly Item[], said: readonly string[]): string {
  const text = items
    .map(({ isWord, apart }, index) => {
      const opens = /[“(]/.test(said[index] ?? "");
      const afterOpening = /[“(]/.test(said[index - 1] ?? "");
      const blank = index > 0 && !afterOpening && (isWord || opens || (apart && opens));
      return `${blank ? " " : ""}${said[index] ?? ""}`;
    })
    .join("")
    .trim();
  // A voice that does not know where a sentence ends lets it hang.
  return /[.!?…,;:][”)]*$/.test(text) || text === "" ? text : `${text}.`;
}
