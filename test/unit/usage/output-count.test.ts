import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { OutputCount, estimateTokens } from "../../../src/usage/token-estimate.ts";

function counted(deltas: readonly string[]): number {
  const count = new OutputCount();
  for (const delta of deltas) count.push(delta);
  return count.tokens;
}

const prose =
  "The quick brown fox jumps over the lazy dog, and nobody in the village has ever asked it why. It would not answer anyway: " +
  "foxes keep their reasons to themselves, as do most of those who jump over things for a living.";

describe("the tokens of a stream whose upstream did not count them", () => {
  test("are as many as its deltas where each is one, whatever the words are", () => {
    const words = fc.stringMatching(/^ ?[a-z0-9:._-]{1,12}$/);
    fc.assert(fc.property(fc.array(words, { minLength: 1, maxLength: 300 }), (deltas) => counted(deltas) === deltas.length));
    const code = ["def", " f", "(x", "):", "\n    ", "return", " x", " *", " ", "2", "\n\n", "print", "(f", "(", "21", "))"];
    expect(counted(code)).toBe(code.length);
    expect(counted([..."今日は良い天気です。"])).toBe(10);
  });

  test("are told by the characters where deltas hold several", () => {
    for (const size of [3, 8, 30]) {
      const words = prose.split(/(?= )/);
      const deltas = Array.from({ length: Math.ceil(words.length / size) }, (_, at) => words.slice(at * size, (at + 1) * size).join(""));
      expect(counted(deltas)).toBe(estimateTokens(prose));
    }
    expect(counted(["今日は良い天気ですね", "明日も晴れるでしょう"])).toBeGreaterThan(8);
    const json = '{"city":"Paris","country":"France","population":2100000}';
    expect(counted([json])).toBe(estimateTokens(json));
  });

  test("are not misjudged for a few deltas of another kind", () => {
    const words = prose.split(/(?= )/);
    expect(counted([...words, "two words", ...words])).toBe(2 * words.length + 1);
  });
});
