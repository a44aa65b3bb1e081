import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cuesOf } from "../../../src/operations/transcription/cues.ts";
import { transcriptEvents } from "../../../src/operations/transcription/transcript-events.ts";
import { render, type Rendering } from "../../../src/operations/transcription/transcript-render.ts";
import type { TranscriptSegment, Transcript, TranscriptFormat, TranscriptWord } from "../../../src/operations/transcription/transcript.ts";
import { anyText } from "../../support/properties.ts";
import { cuesIn, eventsIn, textOf } from "../../support/transcription-world.ts";

function segment(start: number, end: number, text: string, speaker: string | null = null): TranscriptSegment {
  return { start, end, text, speaker, more: {} };
}

function word(text: string, start: number, end: number, speaker: string | null = null): TranscriptWord {
  return { word: text, start, end, speaker };
}

const nothing: Transcript = { text: "", language: null, duration: null, segments: null, words: null, usage: null };

const greeting: Transcript = {
  text: "Hello there. How are you?",
  language: "en",
  duration: 3.2,
  segments: [segment(0, 1.5, " Hello there."), segment(1.5, 3.2, " How are you?")],
  words: [word("Hello", 0, 0.5), word("there.", 0.5, 1.5), word("How", 1.5, 2), word("are", 2, 2.5), word("you?", 2.5, 3.2)],
  usage: null,
};

function rendering(format: TranscriptFormat, facts: Partial<Rendering> = {}): Rendering {
  return { format, task: "transcribe", wantsWords: false, wantsSegments: true, ...facts };
}

function rendered(transcript: Transcript, format: TranscriptFormat, facts: Partial<Rendering> = {}): string {
  const made = render(transcript, rendering(format, facts));
  if (made === null) throw new Error("it cannot be rendered");
  return textOf(made.body);
}

describe("a transcript", () => {
  test("as json is its text and what it cost", () => {
    expect(rendered(greeting, "json")).toBe(`{"text":"Hello there. How are you?","usage":{"type":"duration","seconds":4}}`);
    expect(rendered({ ...nothing, text: "a" }, "json")).toBe(`{"text":"a"}`);
    const usage = { type: "tokens", input_tokens: 1 };
    expect(JSON.parse(rendered({ ...greeting, usage }, "json"))).toEqual({ text: greeting.text, usage });
  });

  test("as text is its text on a line", () => {
    expect(rendered(greeting, "text")).toBe("Hello there. How are you?\n");
    expect(rendered(nothing, "text")).toBe("\n");
  });

  test("as srt has numbered cues", () => {
    expect(rendered(greeting, "srt")).toBe(
      "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n2\n00:00:01,500 --> 00:00:03,200\nHow are you?\n\n",
    );
  });

  test("as vtt has a header, cues without numbers, and hours", () => {
    expect(rendered(greeting, "vtt")).toBe(
      "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n\n00:00:01.500 --> 00:00:03.200\nHow are you?\n\n",
    );
  });

  test("as verbose_json has the language by name, and segments with every member that clients read", () => {
    expect(JSON.parse(rendered(greeting, "verbose_json"))).toEqual({
      task: "transcribe",
      language: "english",
      duration: 3.2,
      text: greeting.text,
      segments: greeting.segments!.map(({ start, end, text }, id) => ({
        id,
        seek: 0,
        start,
        end,
        text,
        tokens: [],
        temperature: 0,
        avg_logprob: 0,
        compression_ratio: 1,
        no_speech_prob: 0,
      })),
      usage: { type: "duration", seconds: 4 },
    });
  });

  test("as verbose_json passes on what the upstream said of a segment", () => {
    const more = { seek: 300, tokens: [1, 2], avg_logprob: -0.25, vendor: "x" };
    const { segments } = JSON.parse(rendered({ ...greeting, segments: [{ ...greeting.segments![0]!, more }] }, "verbose_json")) as {
      segments: object[];
    };
    expect(segments).toEqual([
      { id: 0, ...more, start: 0, end: 1.5, text: " Hello there.", temperature: 0, compression_ratio: 1, no_speech_prob: 0 },
    ]);
  });

  test("as verbose_json has words, segments or both, as they were asked for", () => {
    const keys = (facts: Partial<Rendering>): string[] => Object.keys(JSON.parse(rendered(greeting, "verbose_json", facts)) as object);
    expect(keys({ wantsWords: true, wantsSegments: false })).toEqual(["task", "language", "duration", "text", "words", "usage"]);
    expect(keys({ wantsWords: true })).toEqual(["task", "language", "duration", "text", "segments", "words", "usage"]);
    const { words } = JSON.parse(rendered(greeting, "verbose_json", { wantsWords: true })) as { words: unknown };
    expect(words).toEqual(greeting.words!.map((each) => ({ word: each.word, start: each.start, end: each.end })));
    expect(render({ ...greeting, words: null }, rendering("verbose_json", { wantsWords: true }))).toBeNull();
  });

  test("as verbose_json without a known language or duration says what can be said", () => {
    expect(JSON.parse(rendered({ ...greeting, language: null, duration: null }, "verbose_json"))).toMatchObject({
      language: "unknown",
      duration: 3.2,
    });
    expect(JSON.parse(rendered({ ...greeting, language: "fr" }, "verbose_json", { task: "translate" }))).toMatchObject({
      task: "translate",
      language: "english",
    });
  });

  test("as diarized_json names the speaker of each segment", () => {
    const talk = { ...greeting, segments: [segment(0, 1, " Hi.", "A"), segment(1, 2, " Hello.", "B")] };
    expect(JSON.parse(rendered(talk, "diarized_json"))).toEqual({
      text: greeting.text,
      task: "transcribe",
      duration: 3.2,
      segments: [
        { type: "transcript.text.segment", id: "seg_0", start: 0, end: 1, text: " Hi.", speaker: "A" },
        { type: "transcript.text.segment", id: "seg_1", start: 1, end: 2, text: " Hello.", speaker: "B" },
      ],
      usage: { type: "duration", seconds: 4 },
    });
  });

  test("as diarized_json is made of words where only they have speakers, and not at all where nobody has", () => {
    const words = [word("Hi", 0, 1, "A"), word("you.", 1, 2, "A"), word("Hello.", 2, 3, "B")];
    expect(JSON.parse(rendered({ ...greeting, words }, "diarized_json"))).toMatchObject({
      segments: [
        { text: " Hi you.", speaker: "A" },
        { text: " Hello.", speaker: "B" },
      ],
    });
    expect(render(greeting, rendering("diarized_json"))).toBeNull();
  });
});

describe("times", () => {
  const timed: readonly TranscriptFormat[] = ["srt", "vtt", "verbose_json"];

  test("are never invented", () => {
    for (const format of [...timed, "diarized_json"] as const) {
      expect(render({ ...nothing, text: "words" }, rendering(format))).toBeNull();
      expect(render({ ...nothing, text: "words", segments: [], words: [] }, rendering(format))).toBeNull();
    }
  });

  test("are not needed where nothing was said", () => {
    expect(rendered(nothing, "srt")).toBe("");
    expect(rendered(nothing, "vtt")).toBe("WEBVTT\n\n");
    expect(JSON.parse(rendered(nothing, "verbose_json", { wantsWords: true }))).toMatchObject({ duration: 0, segments: [], words: [] });
    expect(JSON.parse(rendered(nothing, "diarized_json"))).toMatchObject({ segments: [] });
  });

  test("of words serve where segments have none", () => {
    expect(cuesIn(render({ ...greeting, segments: null }, rendering("srt"))!.body, "srt")).toEqual([
      { start: 0, end: 3200, text: "Hello there. How are you?" },
    ]);
  });

  test("beyond a hundred hours have three digits", () => {
    const long = { ...nothing, text: "a", segments: [segment(359_999.9994, 360_000.5, "a")] };
    expect(rendered(long, "srt")).toBe("1\n99:59:59,999 --> 100:00:00,500\na\n\n");
    expect(rendered({ ...long, segments: [segment(3_600_000, 3_600_001, "a")] }, "vtt")).toContain("1000:00:00.000 --> 1000:00:01.000\n");
  });

  test("that are untidy are put right", () => {
    const segments = [segment(5, 4, " third"), segment(-3, 1, " first"), segment(0.5, -2, " second")];
    expect(cuesIn(render({ ...nothing, text: "x", segments }, rendering("srt"))!.body, "srt")).toEqual([
      { start: 0, end: 500, text: "first" },
      { start: 500, end: 501, text: "second" },
      { start: 5000, end: 5001, text: "third" },
    ]);
  });

  test.each([Number.NaN, Infinity, -Infinity, 1e300, -1e300])("that mean nothing (%p) are refused, or others are used", (wrong) => {
    const segments = [segment(0, 1, "a"), segment(wrong, 2, "b")];
    for (const format of timed) expect(render({ ...nothing, text: "a b", segments }, rendering(format))).toBeNull();
    const words = [word("a", 0, 1), word("b", 1, 2)];
    expect(cuesIn(render({ ...nothing, text: "a b", segments, words }, rendering("vtt"))!.body, "vtt")).toEqual([
      { start: 0, end: 2000, text: "a b" },
    ]);
    expect(JSON.parse(rendered({ ...greeting, duration: wrong }, "verbose_json"))).toMatchObject({ duration: 3.2 });
  });
});

describe("cues", () => {
  test("have their line breaks and markup defused", () => {
    const segments = [segment(0, 1, "\r\n a\n\n2\r00:00 --> <b>&amp;\u2028x\u0000\u0085 ")];
    const text = { ...nothing, text: "a", segments };
    expect(cuesIn(render(text, rendering("vtt"))!.body, "vtt")[0]?.text).toBe("a 2 00:00 --&gt; &lt;b&gt;&amp;amp; x");
    expect(cuesIn(render(text, rendering("srt"))!.body, "srt")[0]?.text).toBe("a 2 00:00 -- > <b>&amp; x");
  });

  test("of segments with nothing in them do not exist", () => {
    expect(cuesOf([segment(0, 1, " \n"), segment(1, 2, "a")])).toEqual([{ startMs: 1000, endMs: 2000, text: "a" }]);
  });

  function cuesOfWords(words: readonly TranscriptWord[], language: string | null = "en"): readonly string[] {
    const made = render({ ...nothing, text: "x", language, words }, rendering("srt"));
    return cuesIn(made!.body, "srt").map(({ text }) => text);
  }

  test("begin anew after a pause, a sentence, 84 characters, 7 seconds, or with another speaker", () => {
    expect(cuesOfWords([word("a", 0, 1), word("b", 1.8, 2), word("c", 2.81, 3)])).toEqual(["a b", "c"]);
    expect(cuesOfWords([word("Short.", 0, 1), word("A long sentence.", 1, 2), word("Next", 2, 3)])).toEqual([
      "Short. A long sentence.",
      "Next",
    ]);
    expect(cuesOfWords([word("He said “enough now!”", 0, 1), word("Next", 1, 2)])).toEqual(["He said “enough now!”", "Next"]);
    expect(cuesOfWords([word("a".repeat(41), 0, 1), word("b".repeat(42), 1, 2), word("c", 2, 3)]).map((text) => text.length)).toEqual([
      84, 1,
    ]);
    expect(cuesOfWords([word("a", 0, 3), word("b", 3, 7), word("c", 7, 8)])).toEqual(["a b", "c"]);
    expect(cuesOfWords([word("a", 0, 1, "A"), word("b", 1, 2, "B"), word("c", 2, 3, "B")])).toEqual(["a", "b c"]);
  });

  test("of languages without spaces have none", () => {
    for (const language of ["zh", "ja", "th", "lo", "my", "km", "yue"])
      expect(cuesOfWords([word("你", 0, 1), word("好", 1, 2)], language)).toEqual(["你好"]);
    expect(cuesOfWords([word("a", 0, 1), word("b", 1, 2)], null)).toEqual(["a b"]);
  });

  const time = fc.oneof(
    fc.double({ min: -10, max: 400_000, noNaN: true }),
    fc.double({ min: 0, max: 0.01, noNaN: true }),
    fc.constantFrom(0, 1, 1, 359_999.9996),
  );
  const wild = fc.oneof({ arbitrary: time, weight: 20 }, { arbitrary: fc.double(), weight: 1 });
  const text = fc.oneof(anyText(), fc.constantFrom("-->", "\n\n", "1\n00:00:00,000 --> 00:00:01,000", "WEBVTT", "NOTE", "<v A>"));
  const segments = (times: fc.Arbitrary<number>): fc.Arbitrary<TranscriptSegment[]> =>
    fc.array(fc.record({ start: times, end: times, text, speaker: fc.constantFrom(null, "A"), more: fc.constant({}) }));

  test.each(["srt", "vtt"] as const)("as %s can be read back in order and without overlap, whatever an upstream sends", (format) => {
    fc.assert(
      fc.property(segments(wild), segments(time), text, (first, second, said) => {
        const words = second.map((each) => ({ ...each, word: each.text }));
        const made = render({ ...nothing, text: said, segments: first, words }, rendering(format));
        if (made === null) return;
        let free = 0;
        for (const cue of cuesIn(made.body, format)) {
          expect(cue.start).toBeGreaterThanOrEqual(free);
          expect(cue.end).toBeGreaterThan(cue.start);
          expect(cue.text).not.toMatch(/-->|^\s|\s$/);
          if (format === "vtt") expect(cue.text).not.toMatch(/[<>]|&(?!amp;|lt;|gt;)/);
          free = cue.end;
        }
      }),
    );
  });

  test("keep every segment's text, and its times to the millisecond where nothing stands in the way", () => {
    const plain = fc.array(
      fc.tuple(fc.integer({ min: 1, max: 10_000_000 }), fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 0, max: 1 })),
    );
    fc.assert(
      fc.property(plain, (gaps) => {
        let at = 0;
        const cues = gaps.map(([gap, length], index) => {
          const start = at + gap;
          at = start + length;
          return { start, end: at, text: `cue ${index}` };
        });
        const said = cues.map(({ start, end, text }) => segment(start / 1000, end / 1000, ` ${text}`));
        if (at > 36_000_000_000) return;
        expect(cuesIn(render({ ...nothing, text: "x", segments: said }, rendering("srt"))?.body ?? new Uint8Array(), "srt")).toEqual(cues);
      }),
    );
  });

  test("and JSON never carry a time that is not one", () => {
    fc.assert(
      fc.property(
        segments(wild),
        fc.constantFrom<TranscriptFormat>("verbose_json", "diarized_json"),
        fc.double(),
        (said, format, duration) => {
          const made = render({ ...nothing, text: "x", duration, segments: said }, rendering(format));
          if (made === null) return;
          const answer = JSON.parse(textOf(made.body)) as { duration: number; segments: { start: number; end: number }[] };
          expect(answer.duration).toBeGreaterThanOrEqual(0);
          for (const { start, end } of answer.segments) {
            expect(start).toBeGreaterThanOrEqual(0);
            expect(end).toBeGreaterThanOrEqual(start);
          }
        },
      ),
    );
  });
});

describe("a whole transcript as events", () => {
  test("is one delta, its end and the end mark", () => {
    expect(eventsIn(transcriptEvents(greeting, "json")!)).toEqual([
      `{"type":"transcript.text.delta","delta":"Hello there. How are you?"}`,
      `{"type":"transcript.text.done","text":"Hello there. How are you?","usage":{"type":"duration","seconds":4}}`,
      "[DONE]",
    ]);
  });

  test("has no delta where nothing was said", () => {
    expect(eventsIn(transcriptEvents(nothing, "text")!)).toEqual([`{"type":"transcript.text.done","text":""}`, "[DONE]"]);
  });

  test("is its segments where speakers were asked for, and nothing where there are none", () => {
    const talk = { ...greeting, segments: [segment(0, 1, " Hi.", "A")] };
    expect(eventsIn(transcriptEvents(talk, "diarized_json")!)[0]).toBe(
      `{"type":"transcript.text.segment","id":"seg_0","start":0,"end":1,"text":" Hi.","speaker":"A"}`,
    );
    expect(transcriptEvents(greeting, "diarized_json")).toBeNull();
  });
});
