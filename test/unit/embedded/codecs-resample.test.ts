import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { makeResampler, resample } from "../../../packages/embedded/src/codecs/resample.ts";
import { joinedSamples, likeness, loudness, speechLike } from "../../support/signal.ts";

const pairs: readonly (readonly [from: number, to: number])[] = [
  [24_000, 48_000],
  [48_000, 24_000],
  [44_100, 48_000],
  [48_000, 16_000],
  [22_050, 24_000],
  [16_000, 24_000],
  [8000, 48_000],
  [44_101, 47_999],
  [96_000, 8000],
];

describe("a signal at another rate", () => {
  test.each(pairs)("is the same signal, at the same time (%i to %i)", (from, to) => {
    const resampled = resample(speechLike(from, 2), from, to);
    const expected = speechLike(to, 2);
    expect(Math.abs(resampled.length - expected.length)).toBeLessThanOrEqual(1);
    const { correlation, lag } = likeness(expected, resampled, 50);
    expect(lag).toBe(0);
    expect(correlation).toBeGreaterThan(0.99999);
    expect(loudness(resampled) / loudness(expected)).toBeCloseTo(1, 2);
  });

  test("does not hold what its rate cannot hold", () => {
    const tone = Float32Array.from({ length: 48_000 }, (_, index) => Math.sin((2 * Math.PI * 10_000 * index) / 48_000));
    const resampled = resample(tone, 48_000, 16_000).subarray(200, -200);
    expect(loudness(resampled)).toBeLessThan(1e-4);
  });

  test("keeps a constant constant, from the first to the last but the edges", () => {
    const resampled = resample(new Float32Array(10_000).fill(0.5), 44_100, 48_000).subarray(100, -100);
    expect(Math.max(...resampled) - 0.5).toBeLessThan(1e-5);
    expect(0.5 - Math.min(...resampled)).toBeLessThan(1e-5);
  });

  test.each([0, 999, 384_001, 44_100.5, Number.NaN])("is refused at the rate %p", (rate) => {
    expect(() => makeResampler(rate, 24_000)).toThrow(RangeError);
    expect(() => makeResampler(24_000, rate)).toThrow(RangeError);
  });
});

test("what comes out does not depend on how the input was cut", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...pairs),
      fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 40 }),
      fc.integer({ min: 0, max: 3000 }),
      ([from, to], sizes, length) => {
        const samples = speechLike(from, 1).subarray(0, length);
        const resampler = makeResampler(from, to);
        const pieces: Float32Array[] = [];
        let at = 0;
        for (const size of [...sizes, length]) {
          pieces.push(resampler.push(samples.subarray(at, at + size)));
          at += size;
        }
        pieces.push(resampler.end());
        expect(joinedSamples(pieces)).toEqual(resample(samples, from, to));
      },
    ),
    { numRuns: 60 },
  );
});
