/**
 * Estimates the number of tokens of a text from its characters. It is used only if the upstream reported no count. Compared with
 * the o200k vocabulary, the error is about a tenth for prose and code in most languages and a fifth for dense JSON; hashes and
 * other noise are underestimated by a third. Older vocabularies have up to twice as many tokens in non-Latin scripts.
 */
export function estimateTokens(text: string): number {
  return tokensOf(weightOf(text));
}

/** The same for a text that arrives in pieces. */
export class TokenCount {
  private weight = 0;

  push(text: string): void {
    this.weight += weightOf(text);
  }

  get tokens(): number {
    return tokensOf(this.weight);
  }
}

/** Weights are hundredths of a token, so that their sums are exact. */
const tokenWeight = 100;

function tokensOf(weight: number): number {
  return Math.ceil(weight / tokenWeight);
}

/** Each half of a surrogate pair is counted, so a cut between them makes no difference. */
function weightOf(text: string): number {
  let weight = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    weight += code < ascii.length ? ascii[code]! : byRow[code >> 4]!;
  }
  return weight;
}

const letterWeight = 25;
const digitWeight = 40;
const markWeight = 60;
/** Most spaces are part of the token of the following word. */
const spaceWeight = 2;
const breakWeight = 20;

const ascii: Uint8Array = Uint8Array.from({ length: 128 }, (_, code) => asciiWeight(String.fromCharCode(code)));

function asciiWeight(character: string): number {
  if (/[a-z]/i.test(character)) return letterWeight;
  if (/\d/.test(character)) return digitWeight;
  if (character === " ") return spaceWeight;
  return /\s/.test(character) ? breakWeight : markWeight;
}

const ideographWeight = 80;

/** Weights of the code units up to `end`, measured on prose. */
const scripts: readonly { readonly end: number; readonly weight: number }[] = [
  // Latin with marks.
  { end: 0x0370, weight: 50 },
  // Greek.
  { end: 0x0400, weight: 42 },
  // Cyrillic.
  { end: 0x0530, weight: 28 },
  // Armenian to Mongolian: alphabets and syllables of a few bytes each, such as Arabic, Devanagari and Thai.
  { end: 0x1e00, weight: 38 },
  // Latin and Greek with rarer marks.
  { end: 0x2000, weight: 50 },
  // Dashes, quotes, arrows, symbols.
  { end: 0x2e80, weight: 80 },
  // Kana, ideographs.
  { end: 0xac00, weight: ideographWeight },
  // Hangul.
  { end: 0xd7b0, weight: 70 },
  // Surrogates, mostly of emoji.
  { end: 0xe000, weight: 75 },
];

/** The same weights by rows of sixteen code units, for a fast lookup. Each script begins at a row. */
const byRow: Uint8Array = new Uint8Array(0x1_0000 >> 4).fill(ideographWeight);
for (const { end, weight } of scripts.toReversed()) byRow.fill(weight, 0, end >> 4);

/**
 * How many tokens of an answer have arrived, if its upstream has not reported a count. Most upstreams send one token in each
 * delta, so deltas are counted. If the first deltas show that they hold several tokens, the number is estimated from the text.
 */
export class OutputCount {
  private deltas = 0;
  private sampled = 0;
  private withSeveral = 0;
  private weight = 0;

  push(text: string): void {
    this.deltas += 1;
    this.weight += weightOf(text);
    if (this.sampled < samplesMax) this.sample(text);
  }

  get tokens(): number {
    if (this.withSeveral <= this.sampled * severalShareMax) return this.deltas;
    return Math.max(this.deltas, tokensOf(this.weight));
  }

  private sample(text: string): void {
    this.sampled += 1;
    if (text.length > tokenCharactersMax || severalTokens.test(text)) this.withSeveral += 1;
  }
}

/** A space belongs to the word behind it; of ideographs, Hangul and kana hardly more than two make a token. */
const severalTokens = /\S\s+\S|[\u2e80-\ud7af\uf900-\uffef]{4}/;
const tokenCharactersMax = 24;
const severalShareMax = 0.2;
const samplesMax = 64;
