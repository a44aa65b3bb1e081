import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { MergedTranscript, type HeardPart } from "../../../src/operations/transcription/merge/merged-transcript.ts";
import { partTranscript } from "../../../src/operations/transcription/merge/part.ts";
import { overlapSeam, tokensOf } from "../../../src/operations/transcription/merge/seam.ts";
import { summedReport, summedUsage } from "../../../src/operations/transcription/merge/usage.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import type { TranscriptSegment, Transcript, TranscriptWord } from "../../../src/operations/transcription/transcript.ts";
import { nothingCounted } from "../../../src/operations/usage.ts";
import { bytesOf } from "../../support/transcription-world.ts";

const silent: Transcript = { text: "", language: null, duration: null, segments: null, words: null, usage: null };

function part(start: number, end: number, transcript: Partial<Transcript>, facts: Partial<HeardPart> = {}): HeardPart {
  return { start, end, overlap: 0, goesOn: false, transcript: { ...silent, ...transcript }, ...facts };
}

function segment(start: number, end: number, text: string, facts: Partial<TranscriptSegment> = {}): TranscriptSegment {
  return { start, end, text, speaker: null, more: {}, ...facts };
}

function merge(
  parts: readonly HeardPart[],
  speakers: readonly string[] = [],
): { readonly whole: Transcript; readonly deltas: readonly string[] } {
  const merged = new MergedTranscript(speakers);
  const deltas = parts.map((each) => merged.add(each));
  return { whole: merged.whole(), deltas };
}

/** Words that all differ, so that only what was really heard twice can be taken for it. */
function phrase(from: number, to: number): readonly string[] {
  return Array.from({ length: to - from }, (_, index) => `word${from + index}`);
}

describe("texts", () => {
  test("are joined with one space", () => {
    const { whole } = merge([part(0, 5, { text: " Hello there. " }), part(5, 9, { text: "How are you?" })]);
    expect(whole.text).toBe("Hello there. How are you?");
  });

  test.each([
    ["今天天气很好。", "我们出去吧。"],
    ["これはペンです", "あれは本です"],
    ["สวัสดี", "ครับ"],
  ])("of scripts without spaces are joined without one: %s", (first, second) => {
    expect(merge([part(0, 5, { text: first }), part(5, 9, { text: second })]).whole.text).toBe(first + second);
  });

  test("of silent parts leave no trace", () => {
    expect(merge([part(0, 5, { text: "One." }), part(5, 9, { text: " " }), part(9, 12, { text: "Two." })]).whole.text).toBe("One. Two.");
  });

  test("are given piece by piece, and the pieces are the whole, however the parts were cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ words: fc.integer({ min: 0, max: 60 }), overlap: fc.integer({ min: 0, max: 8 }) }), {
          minLength: 1,
          maxLength: 8,
        }),
        (cuts) => {
          let at = 0;
          const parts = cuts.map(({ words, overlap }, index) => {
            const from = Math.max(0, index === 0 ? 0 : at - overlap);
            const shared = at - from;
            at += words;
            const next = cuts[index + 1];
            const goesOn = next !== undefined && Math.min(at, next.overlap) > 0;
            return part(index * 10, index * 10 + 10, { text: phrase(from, at).join(" ") }, { overlap: shared > 0 ? 2 : 0, goesOn });
          });
          const { whole, deltas } = merge(parts);
          expect(deltas.join("")).toBe(whole.text);
          // Nothing is lost; and what was heard twice is said once, as long as the part before had it.
          expect(new Set(whole.text.split(" ").filter((word) => word !== ""))).toEqual(new Set(phrase(0, at)));
          if (cuts.every(({ words }) => words > 8)) expect(whole.text).toBe(phrase(0, at).join(" "));
        },
      ),
    );
  });
});

describe("where parts overlap", () => {
  const overlapping = (first: string, second: string): string =>
    merge([part(0, 10, { text: first }, { goesOn: true }), part(8, 20, { text: second }, { overlap: 2 })]).whole.text;

  test.each([
    ["I saw the quick brown", "the quick brown fox run", "I saw the quick brown fox run"],
    ["I saw the Quick, brown.", "quick brown fox", "I saw the Quick, brown. fox"],
    ["I saw the quick bro", "the quick brown fox", "I saw the quick brown fox"],
    ["I saw the quick brown fox", "ick brown fox runs", "I saw the quick brown fox runs"],
    ["we walked slowly to", "slowly too far", "we walked slowly too far"],
    ["we met in the park", "nothing in common", "we met in the park nothing in common"],
    ["今天天气很", "天气很好。", "今天天气很好。"],
    ["", "alone", "alone"],
    ["alone", "", "alone"],
    ["it was it was", "it was late", "it was it was late"],
  ])("%j and %j are %j", (first, second, both) => {
    expect(overlapping(first, second)).toBe(both);
  });

  test("what is left out is never more than the two seconds can hold", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 60 }),
        fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 60 }),
        (left, right) => {
          const { leftDrops, rightDrops } = overlapSeam(left.join(" "), right.join(" "));
          expect(leftDrops).toBeLessThanOrEqual(2);
          expect(rightDrops).toBeLessThanOrEqual(24);
        },
      ),
    );
  });

  test("segments and words lose what the text loses, and stay in order", () => {
    const words = (list: readonly string[], at: number): readonly TranscriptWord[] =>
      list.map((word, index) => ({ word, start: at + index, end: at + index + 1, speaker: null }));
    const { whole } = merge([
      part(
        0,
        10,
        {
          text: "one two three fo",
          segments: [segment(0, 5, " one two"), segment(5, 10, " three fo")],
          words: words(["one", "two", "three", "fo"], 6),
        },
        { goesOn: true },
      ),
      part(
        8,
        18,
        {
          text: "two three four five",
          segments: [segment(0, 2.5, " two three four"), segment(2.5, 4, " five")],
          words: words(["two", "three", "four", "five"], 0),
        },
        { overlap: 2 },
      ),
    ]);
    expect(whole.text).toBe("one two three four five");
    expect(whole.segments?.map(({ text }) => text)).toEqual([" one two", " three", " four", " five"]);
    expect(whole.words?.map(({ word }) => word)).toEqual(["one", "two", "three", "four", "five"]);
    for (const list of [whole.segments!, whole.words!]) {
      expect(list.every(({ start, end }, index) => end >= start && start >= (list[index - 1]?.start ?? 0))).toBe(true);
    }
  });
});

describe("times", () => {
  test("are those of the recording, inside of the part, whatever the upstream said", () => {
    const time = fc.double({ min: -100, max: 400, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.array(fc.tuple(time, time), { maxLength: 6 }), { minLength: 1, maxLength: 6 }), (lists) => {
        const { whole } = merge(
          lists.map((times, index) =>
            part(index * 60, index * 60 + 60, { text: "x", segments: times.map(([a, b]) => segment(Math.min(a, b), Math.max(a, b), "x")) }),
          ),
        );
        const expected = lists.flatMap((times, index) => times.map(() => index));
        expect(whole.segments).toHaveLength(expected.length);
        whole.segments!.forEach(({ start, end }, index) => {
          const from = expected[index]! * 60;
          expect(start).toBeGreaterThanOrEqual(from);
          expect(end).toBeGreaterThanOrEqual(start);
          expect(end).toBeLessThanOrEqual(from + 60);
        });
      }),
    );
  });

  test("are shifted by the part's start, `seek` with them", () => {
    const { whole } = merge([
      part(0, 30.5, { text: "a", segments: [segment(1, 2, " a", { more: { seek: 0 } })] }),
      part(30.5, 60, { text: "b", segments: [segment(1.25, 2, " b", { more: { seek: 100 } })] }),
    ]);
    expect(whole.segments).toEqual([segment(1, 2, " a", { more: { seek: 0 } }), segment(31.75, 32.5, " b", { more: { seek: 3150 } })]);
  });

  test("are unknown in the whole where a part that speaks has none, and known where only a silent one has none", () => {
    const timed = part(0, 10, { text: "a", segments: [segment(0, 1, " a")] });
    expect(merge([timed, part(10, 20, { text: "b" })]).whole.segments).toBeNull();
    expect(merge([timed, part(10, 20, {})]).whole.segments).toHaveLength(1);
  });
});

test("the duration is where the last part ends, and the language that of most of the time", () => {
  const { whole } = merge([
    part(0, 100, { text: "a", language: "de" }),
    part(100, 180, { text: "b", language: "en" }),
    part(180, 270, { text: "c", language: "en" }),
    part(270, 300, {}),
  ]);
  expect(whole).toMatchObject({ duration: 300, language: "en" });
});

test("a speaker is the same in two parts only where the client named him", () => {
  const said = (speaker: string, start: number): TranscriptSegment => segment(start, start + 1, speaker, { speaker });
  const { whole } = merge(
    [
      part(0, 10, { text: "x", segments: [said("A", 0), said("Ann", 2)] }),
      part(10, 20, { text: "y", segments: [said("A", 0), said("Ann", 2)] }),
    ],
    ["Ann"],
  );
  expect(whole.segments?.map(({ speaker }) => speaker)).toEqual(["A1", "Ann", "A2", "Ann"]);
});

describe("segments for a stream", () => {
  test("are each given once, and none that a later part may still change", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.integer({ min: 1, max: 40 }), fc.boolean()), { minLength: 1, maxLength: 6 }), (shape) => {
        const merged = new MergedTranscript();
        const given: TranscriptSegment[] = [];
        let at = 0;
        shape.forEach(([words, wants], index) => {
          const overlaps = index > 0 && shape[index - 1]![1];
          const said = phrase(overlaps ? Math.max(0, at - 3) : at, at + words);
          at += words;
          const segments = said.map((word, place) => segment(place / 10, place / 10 + 0.1, ` ${word}`, { speaker: "A" }));
          merged.add(
            part(
              index * 10,
              index * 10 + 10,
              { text: said.join(" "), segments },
              { overlap: overlaps ? 2 : 0, goesOn: wants && index < shape.length - 1 },
            ),
          );
          given.push(...merged.takeSegments()!);
        });
        expect(given).toEqual([...merged.whole().segments!]);
      }),
    );
  });
});

describe("usage", () => {
  test("is summed as far as it is told", () => {
    expect(summedUsage([null, { ...nothingCounted, promptTokens: 3, audioSeconds: 10 }, { ...nothingCounted, audioSeconds: 5.5 }])).toEqual(
      {
        ...nothingCounted,
        promptTokens: 3,
        audioSeconds: 15.5,
      },
    );
    expect(summedUsage([null, null])).toBeNull();
  });

  test("of one kind is reported as one, of several kinds not at all", () => {
    const tokens = (count: number): Readonly<Record<string, unknown>> => ({
      type: "tokens",
      input_tokens: count,
      details: { audio_tokens: count },
    });
    expect(summedReport([tokens(1), tokens(2), tokens(3)])).toEqual({ type: "tokens", input_tokens: 6, details: { audio_tokens: 6 } });
    expect(summedReport([tokens(1), { type: "duration", seconds: 3 }])).toBeNull();
    expect(summedReport([tokens(1), null])).toBeNull();
    expect(summedReport([])).toBeNull();
  });
});

describe("the answer for a part", () => {
  test("is read back with all that it says", () => {
    const answer = {
      text: "Hi",
      language: "english",
      duration: 2,
      segments: [{ id: 4, start: 0, end: "1.5", text: " Hi", avg_logprob: -1 }],
      words: [{ word: "Hi", start: 0, end: 1 }],
    };
    expect(partTranscript(bytesOf(JSON.stringify(answer)))).toEqual({
      text: "Hi",
      language: "en",
      duration: 2,
      segments: [segment(0, 1.5, " Hi", { more: { avg_logprob: -1 } })],
      words: [{ word: "Hi", start: 0, end: 1, speaker: null }],
      usage: null,
    });
  });

  test.each(["", "[]", "{}", '{"text":1}', "null"])("%j is a bad one", (body) => {
    const read = partTranscript(bytesOf(body));
    expect(isFailure(read) && read.kind).toBe("bad_response");
  });
});

test("tokens are words, or characters where the script has no spaces, without case and punctuation", () => {
  const keys = (text: string): readonly string[] => tokensOf(text).map(({ key }) => key);
  expect(keys("Don't — STOP, now!")).toEqual(["dont", "stop", "now"]);
  expect(keys("今天，OK吗？")).toEqual(["今", "天", "ok", "吗"]);
});
