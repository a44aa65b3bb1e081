/** Converts text to tokens and back with a SentencePiece vocabulary. */
export interface Tokenizer {
  /** The beginning-of-sequence token and the tokens of the text. `null` if there are more than `tokensMax`. */
  encode(text: string, tokensMax: number): readonly number[] | null;
  /** The bytes of a token, which may be a part of a character. */
  decode(token: number): Uint8Array;
}

export const beginMark = 1;
export const endMark = 2;

/** The 256 byte tokens come after `<unk>`, `<s>` and `</s>`. */
const firstByteToken = 3;

/** Reads the `tokenizer.bin` of llama2.c: the length of the longest piece, then the score, length and bytes of each piece. */
export function readTokenizer(bytes: Uint8Array, vocabulary: number): Tokenizer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const longestBytes = view.getInt32(0, true);
  const pieces: Uint8Array[] = [];
  const scores = new Float32Array(vocabulary);
  const tokens = new Map<string, number>();
  // A byte token is spelled <0x41>, but the letter A has a piece of its own. Text must not match the spelling.
  const spellings: (string | null)[] = [];
  const text = new TextDecoder();
  let offset = 4;
  for (let token = 0; token < vocabulary; token++) {
    scores[token] = view.getFloat32(offset, true);
    const length = view.getInt32(offset + 4, true);
    if (length < 0 || length > longestBytes) throw new Error(`piece ${token} of the vocabulary has an impossible length`);
    const piece = bytes.subarray(offset + 8, offset + 8 + length);
    if (piece.length < length) throw new Error("the vocabulary is cut short");
    pieces.push(piece);
    const spelling = token < firstByteToken + 256 ? null : text.decode(piece);
    spellings.push(spelling);
    if (spelling !== null) tokens.set(spelling, token);
    offset += 8 + length;
  }

  return {
    encode(source, tokensMax) {
      // No token has more bytes than the longest piece, so that a text this long cannot fit.
      if (source.length > tokensMax * longestBytes) return null;
      const found = [beginMark, ...merge(symbols(source, tokens), spellings, scores, tokens)];
      return found.length > tokensMax ? null : found;
    },
    decode(token) {
      if (token < firstByteToken) return nothing;
      if (token < firstByteToken + 256) return Uint8Array.of(token - firstByteToken);
      return pieces[token] ?? nothing;
    },
  };
}

const nothing = new Uint8Array(0);

/** One token per character, or one per byte if the character has none. Text begins with a space. */
function symbols(source: string, tokens: ReadonlyMap<string, number>): readonly number[] {
  if (source === "") return [];
  const encoder = new TextEncoder();
  return Array.from(` ${source}`).flatMap((character) => {
    const token = tokens.get(character);
    return token === undefined ? [...encoder.encode(character)].map((byte) => byte + firstByteToken) : [token];
  });
}

/** Merges the adjacent pair with the best score, the leftmost of equals, until no pair forms a piece (BPE). */
function merge(
  start: readonly number[],
  spellings: readonly (string | null)[],
  scores: Float32Array,
  tokens: ReadonlyMap<string, number>,
): readonly number[] {
  const joined = (left: number | undefined, right: number | undefined): number => {
    if (left === undefined || right === undefined) return -1;
    const [before, after] = [spellings[left], spellings[right]];
    return before == null || after == null ? -1 : (tokens.get(before + after) ?? -1);
  };
  const sequence = [...start];
  // The piece that each token forms with the next one, or -1. A merge changes only two of them.
  const pairs = sequence.map((token, index) => joined(token, sequence[index + 1]));
  for (;;) {
    let best = -1;
    let bestScore = -Infinity;
    for (let index = 0; index < pairs.length; index++) {
      const pair = pairs[index]!;
      if (pair < 0 || scores[pair]! <= bestScore) continue;
      best = index;
      bestScore = scores[pair]!;
    }
    if (best < 0) return sequence;
    sequence.splice(best, 2, pairs[best]!);
    pairs.splice(best, 1);
    pairs[best] = joined(sequence[best], sequence[best + 1]);
    if (best > 0) pairs[best - 1] = joined(sequence[best - 1], sequence[best]);
  }
}
