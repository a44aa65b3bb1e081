import { describe, expect, test } from "bun:test";
import { characterCount, sentences } from "../../../src/operations/speech/sentences.ts";
import { anyText } from "../../support/properties.ts";
import { slowed } from "../../support/slowed.ts";
import fc from "fast-check";

describe("a long text", () => {
  test("that fits is one part, and none has none", () => {
    expect(sentences("One. Two. Three.", 16)).toEqual(["One. Two. Three."]);
    expect(sentences("", 10)).toEqual([]);
  });

  test("is cut behind the last sentence that fits, and the space stays in front of the cut", () => {
    expect(sentences("One is here. Two is there! Is three? Yes.", 30)).toEqual(["One is here. Two is there! ", "Is three? Yes."]);
    expect(sentences("He said “no.” Then he left, and so on.", 20)).toEqual(["He said “no.” ", "Then he left, ", "and so on."]);
  });

  test.each([
    ["Chinese", "今天天气很好。我们去公园吧！你来吗？", 10, ["今天天气很好。", "我们去公园吧！", "你来吗？"]],
    ["Arabic", "كيف حالك؟أنا بخير", 11, ["كيف حالك؟", "أنا بخير"]],
    ["Hindi", "यह एक वाक्य है। यह दूसरा है।", 18, ["यह एक वाक्य है। ", "यह दूसरा है।"]],
  ])("in %s is cut where its own marks are", (_, text, max, parts) => {
    expect(sentences(text, max)).toEqual(parts);
  });

  test.each([
    ["an abbreviation", "We ate. Fruit, e.g. Pears from home", 22, "We ate. "],
    ["a title", "So it is. Ask Dr. Watson about that", 20, "So it is. "],
    ["initials", "It is so. By J. Smith and by others", 18, "It is so. "],
    ["a decimal", "It is pi. It is 3.14159265358979323", 21, "It is pi. "],
    ["a word that goes on in small letters", "All good. Some stuff. and more of it", 24, "All good. "],
    ["a number at the head of a line", "Begin now.\n12. Second point of all of them", 18, "Begin now.\n"],
  ])("is not cut behind the point of %s", (_, text, max, first) => {
    expect(sentences(text, max)[0]).toBe(first);
  });

  test("without a sentence in reach is cut behind a clause, then behind a word, then anywhere", () => {
    expect(sentences("first this, then that and more", 20)[0]).toBe("first this, ");
    expect(sentences("first this then that and more", 20)[0]).toBe("first this then ");
    expect(sentences("firstthisthenthatandmore", 20)[0]).toBe("firstthisthenthatand");
  });

  test("ends a part at a new line, which needs no mark", () => {
    expect(sentences("A headline\n\nand then, a text, of many words", 30)[0]).toBe("A headline\n\n");
  });

  test("never has a character of several code points cut, unless it alone is too long", () => {
    const family = "👨‍👩‍👧‍👦";
    expect(sentences(family + family, 10)).toEqual([family, family]);
    expect(sentences("ab" + family, 8)).toEqual(["ab", family]);
    expect(sentences(family, 3).join("")).toBe(family);
    // A space that carries an accent is no place to cut at.
    expect(sentences("abc \u0301def", 4)).toEqual(["abc", " \u0301de", "f"]);
  });

  const pieces = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 12 }),
    anyText({ maxLength: 6 }),
    fc.constantFrom("One. ", "e.g. ", "3.14", "。", "？", "؟", "।", ", ", "\r\n", "\n\n", "   ", "👩‍🔧", "e\u0301", "\ud800", "...", '."'),
  );
  const texts = fc.array(pieces, { maxLength: 40 }).map((parts) => parts.join(""));

  test("is the same text again when its parts are joined, and no part is too long or empty", () => {
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 60 }), (text, max) => {
        const parts = sentences(text, max);
        expect(parts.join("")).toBe(text);
        for (const part of parts) {
          expect(part).not.toBe("");
          expect(characterCount(part)).toBeLessThanOrEqual(max);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("is cut between graphemes only, wherever each of them fits", () => {
    const segmenter = new Intl.Segmenter("und", { granularity: "grapheme" });
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 60 }), (text, max) => {
        const graphemes = [...segmenter.segment(text)];
        fc.pre(graphemes.every(({ segment }) => characterCount(segment) <= max));
        const borders = new Set(graphemes.map(({ index }) => index));
        let at = 0;
        for (const part of sentences(text, max)) {
          expect(borders.has(at)).toBe(true);
          at += part.length;
        }
      }),
      { numRuns: 500 },
    );
  });

  test("costs no more than its length, however it is built", () => {
    for (const unit of [".", " ", '"', "\n", "a", "。", ", ", "e\u0301", "\u0301"]) {
      const text = unit.repeat(100_000 / unit.length);
      const startedMs = performance.now();
      expect(sentences(text, 50_000).join("")).toBe(text);
      expect(performance.now() - startedMs).toBeLessThan(slowed(2_000));
    }
  });
});
