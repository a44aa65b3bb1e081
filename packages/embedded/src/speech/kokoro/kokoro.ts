import { availableParallelism } from "node:os";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { pcmRate } from "../../codecs/pcm.ts";
import type { Sound } from "../flite.ts";
import { sentences } from "../sentences.ts";
import type { SpeechOptions } from "../speak.ts";
import { loadGuesser } from "./guesser.ts";
import { readLexicon, makePronounce } from "./pronounce.ts";
import { loadKokoroNetwork } from "./network.ts";
import { withShortPauses } from "./pauses.ts";
import { spokenEnglish } from "./spoken-english.ts";
import { cutPhonemes, phonemesMax, readVocabulary, tokensOf } from "./tokens.ts";
import { accentOf, voicesFolder } from "./kokoro-addon.ts";

export interface Kokoro {
  /** Splits a text into pieces of phonemes that are spoken at once. */
  pieces(text: string, options: SpeechOptions): readonly string[];
  /** Speaks one of these pieces. It takes about as long as listening to it, or longer. */
  speak(phonemes: string, voice: string, speed: number): Promise<Sound>;
  close(): Promise<void>;
}

const styleWidth = 256;
/** Leaves CPUs for other work. */
const threadsMax = 4;

/** Loads the model from the add-on's folder, whose files must have been verified. */
export async function loadKokoro(directory: string, options: { readonly threads?: number } = {}): Promise<Kokoro> {
  const text = (path: string): Promise<string> => readFile(join(directory, path), "utf8");
  const vocabulary = readVocabulary(await text("tokenizer.json"));
  const pronounce = makePronounce(readLexicon(await text("headtts/en-us.txt")), loadGuesser(directory));
  const threads = options.threads ?? Math.min(availableParallelism(), threadsMax);
  const network = await loadKokoroNetwork(join(directory, "model.onnx"), threads);
  const styles = await readStyles(join(directory, voicesFolder));

  return {
    pieces: (source, { voice, speed }) =>
      quickStart(sentences(spokenEnglish(source, accentOf(voice))))
        .flatMap((sentence) => cutPhonemes(pronounce(sentence, accentOf(voice)), lengthMax(speed)))
        .filter((phonemes) => tokensOf(phonemes, vocabulary).length > 0),
    async speak(phonemes, voice, speed) {
      const style = styles.get(voice);
      if (style === undefined) throw new Error(`Kokoro has no voice ${voice}.`);
      const tokens = tokensOf(phonemes, vocabulary);
      // The style of a voice depends on the length of the sentence.
      const row = (tokens.length - 1) * styleWidth;
      const samples = await network.speak(tokens, style.slice(row, row + styleWidth), speed);
      return { samples: withShortPauses(samples, /[.!?…][”)]*$/.test(phonemes)), sampleRate: pcmRate };
    },
    close: async () => network.close(),
  };
}

/** Loads all voices at once, because they are small. */
async function readStyles(folder: string): Promise<ReadonlyMap<string, Float32Array>> {
  const styles = new Map<string, Float32Array>();
  for (const name of await readdir(folder)) {
    const bytes = await readFile(join(folder, name));
    styles.set(name.replace(/\.bin$/, ""), new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)));
  }
  return styles;
}

/** At a slow speed the same phonemes give longer audio. */
function lengthMax(speed: number): number {
  return Math.round(phonemesMax * Math.min(1, Math.max(speed, speedMin)));
}

const speedMin = 0.25;

/** The listener waits for the whole first piece, so that a long one is split at its first pause. */
function quickStart([first = "", ...rest]: readonly string[]): readonly string[] {
  const pause = first.length > firstCharactersMax ? first.slice(firstCharactersMin).search(/[,;:] /) : -1;
  const cut = firstCharactersMin + pause + 1;
  const pieces = pause < 0 ? [first] : [first.slice(0, cut), first.slice(cut).trim()];
  return [...pieces, ...rest].filter((piece) => piece !== "");
}

const firstCharactersMin = 30;
const firstCharactersMax = 120;
