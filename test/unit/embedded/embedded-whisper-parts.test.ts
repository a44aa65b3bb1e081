import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { floats } from "../../../packages/embedded/src/onnx/tensor.ts";
import { decode } from "../../../packages/embedded/src/transcription/decode.ts";
import { languageCode, languages } from "../../../packages/embedded/src/transcription/languages.ts";
import { hopSamples, mel, melBins, windowFrames, nextAudible } from "../../../packages/embedded/src/transcription/mel.ts";
import { type Network, defaultWeights } from "../../../packages/embedded/src/transcription/network.ts";
import { passages } from "../../../packages/embedded/src/transcription/passages.ts";
import { maximum, suppressTokens } from "../../../packages/embedded/src/transcription/rules.ts";
import { loadVocabulary } from "../../../packages/embedded/src/transcription/vocabulary.ts";
import { timedWords, wordTokens } from "../../../packages/embedded/src/transcription/words.ts";
import { slowed } from "../../support/slowed.ts";

setDefaultTimeout(60_000);

const vocabulary = await loadVocabulary(defaultWeights());
const recording = Buffer.from(await Bun.file(new URL("../../fixtures/audio/jfk.wav", import.meta.url)).arrayBuffer());
const sound = recording.subarray(recording.indexOf("data") + 8);
const jfk = Float32Array.from({ length: sound.length / 2 }, (_, at) => sound.readInt16LE(at * 2) / 32_768);

/** Around the circle once, in as many steps as a frame has samples. */
const cosines = Array.from({ length: 400 }, (_, at) => Math.cos((2 * Math.PI * at) / 400));
const sines = Array.from({ length: 400 }, (_, at) => Math.sin((2 * Math.PI * at) / 400));
const windowed = Array.from({ length: 400 }, (_, at) => Math.sin((Math.PI * at) / 400) ** 2);

/** The definition, term by term: the log10 of the mel energy of one frame, before the floor and the scaling. */
function slowLogMel(samples: Float32Array, frame: number): readonly number[] {
  const power = Array.from({ length: 201 }, (_, bin) => {
    let real = 0;
    let imaginary = 0;
    for (let at = 0; at < 400; at++) {
      const position = frame * 160 + at - 200;
      const value = (samples[position < 0 ? -position : position] ?? 0) * windowed[at]!;
      real += value * cosines[(bin * at) % 400]!;
      imaginary += value * sines[(bin * at) % 400]!;
    }
    return real * real + imaginary * imaginary;
  });
  return Array.from({ length: 80 }, (_, bin) => {
    const [low, peak, high] = [slaneyHertz(bin), slaneyHertz(bin + 1), slaneyHertz(bin + 2)];
    let energy = 0;
    for (const [at, value] of power.entries()) {
      const hertz = at * 40;
      if (hertz > low && hertz < high)
        energy += (value * (hertz <= peak ? (hertz - low) / (peak - low) : (high - hertz) / (high - peak)) * 2) / (high - low);
    }
    return Math.log10(Math.max(1e-10, energy));
  });
}

/** The edge of band `index`: 82 edges from 0 to 8 kHz, linear below 1 kHz (15 mel) and logarithmic above. */
function slaneyHertz(index: number): number {
  const octave = Math.log(6.4) / 27;
  const mels = (index * (15 + Math.log(8) / octave)) / 81;
  return mels <= 15 ? (mels / 15) * 1000 : 1000 * Math.exp((mels - 15) * octave);
}

function expectFeatures(samples: Float32Array, firstFrame: number, frames: readonly number[]): void {
  const { features, loudest } = mel().window(samples, firstFrame, -Infinity);
  let furthest = 0;
  for (const frame of frames) {
    const expected = slowLogMel(samples, firstFrame + frame);
    for (let bin = 0; bin < melBins; bin++) {
      const whole = (Math.max(expected[bin]!, loudest - 8) + 4) / 4;
      furthest = Math.max(furthest, Math.abs(features[bin * windowFrames + frame]! - whole));
    }
  }
  expect(furthest).toBeLessThan(1e-5);
}

describe("the mel features", () => {
  const frames = Array.from({ length: 32 }, (_, at) => (at * 97) % windowFrames);

  test("of a recording are those of a slow Fourier transform", () => {
    expectFeatures(jfk, 0, [0, 1, 2, 3, 1099, 1100, 2998, 2999, ...frames]);
  });

  test("of a recording that begins loudly see its start mirrored", () => {
    expectFeatures(
      Float32Array.from({ length: 4000 }, (_, at) => Math.cos(at * 0.05 + 1) * 0.5),
      0,
      [0, 1, 2, 23, 24, 25],
    );
  });

  test("of a window in the middle know the sound on both sides of it", () => {
    const long = Float32Array.from({ length: 16_000 * 32 }, (_, at) => Math.sin(at * at * 1e-6) * 0.3);
    expectFeatures(long, 77, [0, 1, 2999, ...frames]);
  });

  test("are those another implementation gives for the same recording", () => {
    const { features } = mel().window(jfk, 0, -Infinity);
    for (const [bin, frame, value] of [
      [0, 0, -0.538741946],
      [10, 100, 0.428438127],
      [20, 37, 0.983658373],
      [40, 500, -0.044361949],
      [79, 1000, -0.538741946],
    ] as const) {
      expect(features[bin * windowFrames + frame]).toBeCloseTo(value, 6);
    }
  });

  test("take the loudest sound so far as the measure", () => {
    const quiet = jfk.map((sample) => sample * 1e-3);
    const alone = mel().window(quiet, 0, -Infinity);
    const after = mel().window(quiet, 0, mel().window(jfk, 0, -Infinity).loudest);
    // What is quiet beside the speech before it is cut off, so the lowest value is a higher one.
    const lowest = (features: Float32Array): number => features.reduce((least, one) => Math.min(least, one), Infinity);
    expect(lowest(after.features)).toBeCloseTo((after.loudest - 4) / 4, 5);
    expect(lowest(after.features)).toBeGreaterThan(lowest(alone.features) + 0.5);
  });

  test("stay numbers when samples are not", () => {
    const broken = jfk.map((sample, at) => (at === 5000 ? NaN : at === 9000 ? Infinity : sample));
    expect(mel().window(broken, 0, -Infinity).features.every(Number.isFinite)).toBe(true);
  });
});

describe("the vocabulary", () => {
  test("has the languages that we say it has", () => {
    expect([...vocabulary.languages.keys()].toSorted()).toEqual([...languages.keys()].toSorted());
    expect(languages.size).toBe(99);
  });

  test("gives any text back from its tokens", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), (text) => {
        expect(vocabulary.text(vocabulary.tokens(text))).toBe(text);
      }),
    );
  });

  test.each([
    [" And so my fellow Americans", [400, 370, 452, 7177, 6280]],
    [" Hello world", [2425, 1002]],
  ] as const)("merges %p as the model's own tokenizer does", (text, expected) => {
    expect(vocabulary.tokens(text)).toEqual(expected);
  });

  test("joins a character whose bytes are in several tokens, and leaves out one that is cut off", () => {
    const tokens = vocabulary.tokens(" 𝄞 😀");
    expect(tokens.length).toBeGreaterThan(3);
    expect(vocabulary.text(tokens)).toBe(" 𝄞 😀");
    expect(vocabulary.text(tokens.slice(0, -1))).toBe(" 𝄞 ");
  });

  test("reads a word without end in bounded time", () => {
    const startMs = performance.now();
    expect(vocabulary.text(vocabulary.tokens("ä".repeat(4000)))).toBe("ä".repeat(4000));
    expect(performance.now() - startMs).toBeLessThan(slowed(5000));
  });
});

describe("a language", () => {
  test.each([
    ["en", "en"],
    ["English", "en"],
    [" pt-BR ", "pt"],
    ["jv", "jw"],
    ["haitian creole", "ht"],
    ["Mandarin", "zh"],
    ["tlh", null],
    ["", null],
  ])("%p is %p to Whisper", (asked, code) => {
    expect(languageCode(asked)).toBe(code);
  });
});

describe("what may be said next", () => {
  const { firstTimestamp, endOfText } = vocabulary;
  const size = 51_865;

  /** A model that raves: every token is as likely as any other. */
  function raving(seed: number, length: number): readonly number[] {
    let state = seed;
    const said: number[] = [];
    while (said.length < length) {
      const scores = new Float32Array(size);
      for (let token = 0; token < size; token += 1) {
        state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
        scores[token] = state / 0x4000_0000;
      }
      // Without this the many words would never let a time through, or the many times never a word.
      scores.fill(said.length % 4 === 0 ? 9 : -9, firstTimestamp);
      suppressTokens(scores, said, vocabulary);
      const next = scores.indexOf(maximum(scores, 0, size));
      if (next === endOfText) break;
      said.push(next);
    }
    return said;
  }

  test("begins with a time in the first second, has times in pairs that never go back, and no forbidden token", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e9 }), (seed) => {
        const said = raving(seed, 24);
        const times = said.filter((token) => token >= firstTimestamp);
        expect(said[0]).toBeGreaterThanOrEqual(firstTimestamp);
        expect(said[0]).toBeLessThanOrEqual(firstTimestamp + 50);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        expect(said.some((token) => vocabulary.suppressed.includes(token))).toBe(false);
        for (const [at, token] of said.entries()) {
          const three = [token, said[at + 1], said[at + 2]];
          expect(three.every((one) => one !== undefined && one >= firstTimestamp)).toBe(false);
        }
      }),
      { numRuns: 20 },
    );
  });

  test("after a word is no time up to the last one; after a segment's end only a start, the same time included, or the end", () => {
    const [word] = vocabulary.tokens(" la");
    const left = (said: readonly number[], timeScore: number) => {
      const scores = new Float32Array(size).fill(timeScore, firstTimestamp);
      suppressTokens(scores, said, vocabulary);
      return (token: number): boolean => scores[token]! > -Infinity;
    };
    const inside = left([firstTimestamp + 10, word!], -20);
    expect([word!, endOfText, firstTimestamp + 10, firstTimestamp + 11].map(inside)).toEqual([true, true, false, true]);
    const closed = left([firstTimestamp + 10, word!, firstTimestamp + 20], -20);
    expect([word!, endOfText, firstTimestamp + 19, firstTimestamp + 20].map(closed)).toEqual([false, true, false, true]);
    const opened = left([firstTimestamp + 10, word!, firstTimestamp + 20, firstTimestamp + 20], -20);
    expect([word!, firstTimestamp + 30].map(opened)).toEqual([true, false]);
    // All times together outweigh the likeliest word.
    const together = left([firstTimestamp + 10, word!], -1);
    expect([word!, firstTimestamp + 11].map(together)).toEqual([false, true]);
  });

  test("is cut into passages that are in order, inside the window, and let it move on", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1e9 }),
        fc.integer({ min: 1, max: 24 }),
        fc.integer({ min: 10, max: 3000 }),
        (seed, length, frames) => {
          const cut = passages(raving(seed, length), frames, vocabulary);
          const times = cut.passages.flatMap(({ startFrame, endFrame }) => [startFrame, endFrame]);
          expect(times).toEqual(times.toSorted((a, b) => a - b));
          expect(Math.max(0, ...times)).toBeLessThanOrEqual(frames);
          expect(cut.advanceFrames).toBeGreaterThanOrEqual(Math.min(50, frames));
          expect(cut.advanceFrames).toBeLessThanOrEqual(Math.max(50, frames));
        },
      ),
      { numRuns: 20 },
    );
  });

  const time = (seconds: number): number => firstTimestamp + seconds * 50;

  test("moves the window to the last pair of times, and past it when the end was reached", () => {
    const [a, b] = [400, 370];
    expect(passages([time(0), a, time(2), time(2), b], 3000, vocabulary)).toEqual({
      passages: [{ startFrame: 0, endFrame: 200, tokens: [time(0), a, time(2)] }],
      advanceFrames: 200,
    });
    expect(passages([time(0), a, time(2), time(3), b, time(5)], 1000, vocabulary)).toEqual({
      passages: [
        { startFrame: 0, endFrame: 200, tokens: [time(0), a, time(2)] },
        { startFrame: 300, endFrame: 500, tokens: [time(3), b, time(5)] },
      ],
      advanceFrames: 1000,
    });
    expect(passages([time(1), a, b, time(4)], 700, vocabulary).passages).toMatchObject([{ startFrame: 100, endFrame: 400 }]);
    expect(passages([], 700, vocabulary)).toEqual({ passages: [], advanceFrames: 700 });
  });
});

describe("decoding a window", () => {
  const { firstTimestamp, endOfText, startOfTranscript, tasks } = vocabulary;
  const prompt = [startOfTranscript, vocabulary.languages.get("en")!, tasks.transcribe];
  const [word] = vocabulary.tokens(" la");
  const encoded = floats(new Float32Array(1), [1]);

  /** A model that says the same word for ever unless chance makes it stop. */
  function stuck(proceed: () => void) {
    const read: (readonly number[])[] = [];
    const said: number[] = [];
    const scores = (): Float32Array => {
      const all = new Float32Array(51_865).fill(-30);
      all[word!] = 5;
      all[endOfText] = 4.9;
      all[firstTimestamp] = 10;
      return all;
    };
    const cache = { length: prompt.length, text: {}, sound: {} };
    const unused = (): never => {
      throw new Error("decoding has no use for this");
    };
    const network: Network = {
      read: async (_, tokens) => {
        read.push(tokens);
        return { scores, cache };
      },
      step: async (_, before, token) => {
        said.push(token);
        return { scores: scores(), cache: { ...before, length: before.length + 1 } };
      },
      encode: unused,
      attend: unused,
      buffers: unused,
      close: unused,
    };
    const buffers = { sides: [new Map(), new Map()], scores: encoded } as const;
    return { context: { network, vocabulary, buffers, dice: () => 0.999, throwIfStopped: proceed }, read, said };
  }

  test("is over with the token at which nobody wants it any more", async () => {
    let left = 5;
    const { context, said } = stuck(() => {
      if (--left === 0) throw new Error("gone");
    });
    await expect(decode(context, encoded, prompt, 0)).rejects.toThrow("gone");
    expect(said).toHaveLength(4);
  });

  test("tries a text that repeats itself again with chance, and does not hear the sound again for it", async () => {
    const { context, read, said } = stuck(() => {});
    const utterance = await decode(context, encoded, prompt, 0);
    expect(utterance.temperature).toBeGreaterThan(0);
    expect(utterance.compressionRatio).toBeLessThanOrEqual(2.4);
    expect(utterance.tokens.length).toBeLessThan(10);
    expect(read).toEqual([prompt]);
    // Once it is clear that the text goes round and round, the rest of it is spared.
    expect(said.length).toBeGreaterThan(30);
    expect(said.length).toBeLessThan(100);
  });

  test("ends when the decoder has no room left", async () => {
    const { context } = stuck(() => {});
    const long = [...Array.from({ length: 400 }, () => word!), ...prompt];
    const utterance = await decode({ ...context, dice: () => 0 }, encoded, long, 0);
    expect(utterance.tokens.length).toBeLessThanOrEqual(448 - long.length);
  });
});

describe("words", () => {
  test("are cut at spaces, with their signs", () => {
    const tokens = vocabulary.tokens(` "Well," she said (twice) - don't`);
    expect(wordTokens(tokens, "en", vocabulary).map(({ text }) => text.trim())).toEqual(['"Well,"', "she", "said", "(twice) -", "don't"]);
  });

  test("use up all tokens of a text in any language", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), fc.constantFrom("en", "ja"), (text, language) => {
        const tokens = vocabulary.tokens(text);
        const words = wordTokens(tokens, language, vocabulary);
        expect(words.reduce((sum, { count }) => sum + count, 0)).toBe(tokens.length);
        expect(words.map((word) => word.text).join("")).toBe(text);
      }),
    );
  });

  test("are in order and inside their segment whatever times they were given", () => {
    const time = fc.double({ min: -5, max: 40, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.record({ word: fc.constantFrom("a", "b.", "c,"), start: time, end: time })), (words) => {
        const times = timedWords(words, 2, 9).flatMap(({ start, end }) => [start, end]);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        expect(times.every((one) => one >= 2 && one <= 9)).toBe(true);
      }),
    );
  });
});

test("silence ends where the first sound is", () => {
  const samples = new Float32Array(16_000);
  expect(nextAudible(samples, 0)).toBeNull();
  samples.fill(0.01, 50 * hopSamples);
  expect(nextAudible(samples, 0)).toBe(50);
  expect(nextAudible(samples, 70)).toBe(70);
  expect(nextAudible(new Float32Array(0), 0)).toBeNull();
});
