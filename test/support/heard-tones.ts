/** A language of tones, which tests can speak and hear: word n is a tone of its own pitch, so a transcript can be held against what was said. */

export const toneRate = 16_000;
const frameSamples = 800;

export interface Heard {
  readonly word: string;
  readonly start: number;
  readonly end: number;
}

export interface Speech {
  readonly words: number;
  readonly toneSeconds: number;
  /** Silence behind each word. */
  readonly gapSeconds: number;
}

export function spokenTones({ words, toneSeconds, gapSeconds }: Speech): Float32Array {
  const each = Math.round((toneSeconds + gapSeconds) * toneRate);
  const tone = Math.round(toneSeconds * toneRate);
  const samples = new Float32Array(words * each);
  for (let word = 0; word < words; word++) {
    for (let index = 0; index < tone; index++)
      samples[word * each + index] = 0.5 * Math.sin((2 * Math.PI * pitchOf(word) * index) / toneRate);
  }
  return samples;
}

export function saidTones(words: number): string {
  return Array.from({ length: words }, (_, index) => `tone${index}`).join(" ");
}

function pitchOf(word: number): number {
  return 300 + 20 * word;
}

/** The words in it, with their times. A word that was cut short is misheard, as such words are. */
export function heardTones(samples: Float32Array, toneSeconds: number): readonly Heard[] {
  const heard: { word: number; start: number; end: number }[] = [];
  for (let at = 0; at + frameSamples <= samples.length; at += frameSamples / 4) {
    const word = wordIn(samples.subarray(at, at + frameSamples));
    if (word === null) continue;
    const [start, end] = [at / toneRate, (at + frameSamples) / toneRate];
    const last = heard.at(-1);
    if (last?.word === word && start <= last.end) last.end = end;
    else heard.push({ word, start, end });
  }
  return heard.map(({ word, start, end }) => ({
    word: end - start < toneSeconds * 0.7 ? (start === 0 ? "ending" : "begin") : `tone${word}`,
    start,
    end,
  }));
}

/** Null for silence, and where one tone goes over into another. */
function wordIn(frame: Float32Array): number | null {
  const crossings: number[] = [];
  for (let index = 1; index < frame.length; index++) {
    const [before, after] = [frame[index - 1]!, frame[index]!];
    if (before < 0 && after >= 0) crossings.push(index - 1 + before / (before - after));
  }
  const periods = crossings.slice(1).map((place, index) => place - crossings[index]!);
  if (periods.length < 10 || Math.max(...periods) - Math.min(...periods) > 0.5) return null;
  const pitch = (toneRate * periods.length) / (crossings.at(-1)! - crossings[0]!);
  const word = Math.round((pitch - 300) / 20);
  return Math.abs(pitchOf(word) - pitch) < 3 ? word : null;
}

/** The samples of a complete WAV file of 16 bit at our rate; strict, so that a wrong header is an error. */
export function samplesOf(wav: Uint8Array): Float32Array {
  const view = new DataView(wav.buffer, wav.byteOffset, wav.byteLength);
  const text = (at: number): string => String.fromCharCode(...wav.subarray(at, at + 4));
  if (text(0) !== "RIFF" || text(8) !== "WAVE" || text(36) !== "data") throw new Error("not a WAV file");
  if (view.getUint32(4, true) !== wav.length - 8 || view.getUint32(40, true) !== wav.length - 44) throw new Error("a wrong length");
  if (view.getUint16(22, true) !== 1 || view.getUint32(24, true) !== toneRate || view.getUint16(34, true) !== 16)
    throw new Error("a wrong format");
  return Float32Array.from({ length: (wav.length - 44) / 2 }, (_, index) => view.getInt16(44 + index * 2, true) / 32_768);
}
