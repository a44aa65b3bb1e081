import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** The tokens of the model, from its files. */
export interface Vocabulary {
  readonly endOfText: number;
  readonly startOfTranscript: number;
  readonly startOfPrevious: number;
  readonly noSpeech: number;
  readonly noTimestamps: number;
  readonly tasks: Readonly<Record<"transcribe" | "translate", number>>;
  /** The first of 1501 timestamp tokens, one per 20 ms. They have no text and follow the last special token. */
  readonly firstTimestamp: number;
  readonly languages: ReadonlyMap<string, number>;
  /** Tokens that are not speech (music symbols, brackets, special tokens) and are never chosen. */
  readonly suppressed: readonly number[];
  /** Tokens that cannot begin a transcript. */
  readonly suppressedFirst: readonly number[];
  /** Layer and head of the cross-attention heads that follow the audio in time. */
  readonly alignmentHeads: readonly (readonly [layer: number, head: number])[];
  bytes(token: number): Uint8Array;
  /** Decodes tokens together, because a character's bytes may be spread over several. An incomplete last character is left out. */
  text(tokens: readonly number[]): string;
  tokens(text: string): readonly number[];
}

interface TokenizerFile {
  readonly added_tokens: readonly { readonly id: number; readonly content: string }[];
  readonly model: { readonly vocab: Readonly<Record<string, number>>; readonly merges: readonly (string | readonly [string, string])[] };
}

interface GenerationFile {
  readonly suppress_tokens?: readonly number[];
  readonly begin_suppress_tokens?: readonly number[];
  readonly alignment_heads?: readonly (readonly [number, number])[];
}

export async function loadVocabulary(directory: string): Promise<Vocabulary> {
  const tokenizer = JSON.parse(await readFile(join(directory, "tokenizer.json"), "utf8")) as TokenizerFile;
  const generation = JSON.parse(await readFile(join(directory, "generation_config.json"), "utf8")) as GenerationFile;
  return vocabulary(tokenizer, generation);
}

function vocabulary(tokenizer: TokenizerFile, generation: GenerationFile): Vocabulary {
  const special = new Map(tokenizer.added_tokens.map(({ content, id }) => [content, id]));
  const ranks = new Map(tokenizer.model.merges.map((merge, rank) => [typeof merge === "string" ? merge : merge.join(" "), rank]));
  const ids = new Map(Object.entries(tokenizer.model.vocab));
  const { byteOf, letterOf } = byteAlphabet();
  const spelled = new Map([...ids].map(([letters, id]) => [id, Uint8Array.from(letters, (letter) => byteOf.get(letter) ?? 0x3f)]));
  const nothing = new Uint8Array(0);

  function named(content: string): number {
    const id = special.get(content) ?? ids.get(content);
    if (id === undefined) throw new Error(`The tokenizer has no ${content}: these are not the weights of a multilingual Whisper.`);
    return id;
  }

  const endOfText = named("<|endoftext|>");
  const noTimestamps = named("<|notimestamps|>");

  function bytes(token: number): Uint8Array {
    return token < endOfText ? (spelled.get(token) ?? nothing) : nothing;
  }

  function text(tokens: readonly number[]): string {
    return new TextDecoder().decode(Buffer.concat(tokens.map(bytes)), { stream: true });
  }

  function tokens(written: string): readonly number[] {
    return (
      written.match(pieces)?.flatMap((piece) =>
        merged(
          Array.from(Buffer.from(piece), (byte) => letterOf[byte]!),
          ranks,
        ).flatMap((letters) => ids.get(letters) ?? []),
      ) ?? []
    );
  }

  return {
    endOfText,
    startOfTranscript: named("<|startoftranscript|>"),
    startOfPrevious: named("<|startofprev|>"),
    noSpeech: special.get("<|nospeech|>") ?? named("<|nocaptions|>"),
    noTimestamps,
    tasks: { transcribe: named("<|transcribe|>"), translate: named("<|translate|>") },
    firstTimestamp: noTimestamps + 1,
    languages: new Map(
      [...special].flatMap(([content, id]) => {
        const code = /^<\|([a-z]{2,3})\|>$/.exec(content)?.[1];
        return code === undefined ? [] : [[code, id]];
      }),
    ),
    suppressed: [...(generation.suppress_tokens ?? []), noTimestamps],
    suppressedFirst: generation.begin_suppress_tokens ?? [],
    alignmentHeads: generation.alignment_heads ?? [],
    bytes,
    text,
    tokens,
  };
}

/**
 * Text is split into words (with the space before them), numbers and symbols before byte pairs are merged, as in the original tokenizer.
 * Very long words are split as well, because merging is quadratic in their length.
 */
const pieces = /'(?:[stmd]|re|ve|ll)| ?\p{L}{1,64}| ?\p{N}{1,64}| ?[^\s\p{L}\p{N}]{1,64}|\s{1,64}(?!\S)|\s{1,64}/gu;

/** Merges adjacent pairs in the order of their ranks (BPE). */
function merged(letters: readonly string[], ranks: ReadonlyMap<string, number>): readonly string[] {
  const parts = [...letters];
  for (;;) {
    let best = -1;
    let bestRank = Infinity;
    for (let at = 0; at + 1 < parts.length; at++) {
      const rank = ranks.get(`${parts[at]} ${parts[at + 1]}`) ?? Infinity;
      if (rank < bestRank) [best, bestRank] = [at, rank];
    }
    if (best < 0) return parts;
    parts.splice(best, 2, `${parts[best]}${parts[best + 1]}`);
  }
}

/** Byte-level vocabularies map each byte to a printable character: itself if it is one, otherwise the next one from U+0100 on. */
function byteAlphabet(): { readonly byteOf: ReadonlyMap<string, number>; readonly letterOf: readonly string[] } {
  let next = 0x100;
  const letterOf = Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    return String.fromCharCode(printable ? byte : next++);
  });
  return { byteOf: new Map(letterOf.map((letter, byte) => [letter, byte])), letterOf };
}
