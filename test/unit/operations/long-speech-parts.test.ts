import { describe, expect, test } from "bun:test";
import { characterCount } from "../../../src/operations/speech/sentences.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { edgeSamplesMax, heldSamplesMax } from "../../../src/operations/speech/join/edges.ts";
import { fadeSamples, jumpMax } from "../../../src/operations/speech/join/joint.ts";
import { JoinedSpeech } from "../../../src/operations/speech/join/joined-speech.ts";
import { speechPart, tooMuchToRepeat } from "../../../src/operations/speech/speech-part.ts";
import { speechParts } from "../../../src/operations/speech/speech-parts.ts";
import { readSpeechRequest, type SpeechRequest } from "../../../src/operations/speech/speech-request.ts";
import fc from "fast-check";
import { anyText } from "../../support/properties.ts";

function askOf(body: string): SpeechRequest {
  const ask = readSpeechRequest(Buffer.from(body), { charactersMax: 1e6 });
  if (isFailure(ask)) throw new Error(ask.publicMessage);
  return ask;
}

function parts(text: string, max: number): readonly string[] {
  return [...speechParts(text, max)];
}

const prose = Array.from({ length: 400 }, (_, at) => `This is sentence number ${at}, and it says little.`).join(" ");

describe("the parts of a long text", () => {
  test("are the text again, none is too long, and each has something to say", () => {
    const words = fc.array(fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("Yes. ", "No! ", "。", "\n\n", "  ", "…", "a, b; ")), {
      minLength: 1,
      maxLength: 120,
    });
    fc.assert(
      fc.property(words, fc.integer({ min: 1, max: 900 }), (pieces, max) => {
        const text = pieces.join("");
        fc.pre(text !== "");
        const found = parts(text, max);
        expect(found.length).toBeGreaterThan(0);
        let at = 0;
        for (const part of found) {
          expect(characterCount(part)).toBeLessThanOrEqual(max);
          const start = text.indexOf(part, at);
          expect(start).toBeGreaterThanOrEqual(at);
          // What was left out has no words.
          if (found.length > 1) expect(text.slice(at, start)).not.toMatch(/[\p{L}\p{N}\p{S}]/u);
          at = start + part.length;
        }
        if (found.length > 1) expect(text.slice(at)).not.toMatch(/[\p{L}\p{N}\p{S}]/u);
      }),
    );
  });

  test("begin with a short one and grow to what is allowed, and all end with a sentence", () => {
    const found = parts(prose, 4096);
    expect(found.join("")).toBe(prose);
    expect(found[0]!.length).toBeLessThanOrEqual(300);
    expect(found[0]!.length).toBeGreaterThan(200);
    expect(found[1]!.length).toBeWithin(700, 901);
    expect(found[2]!.length).toBeWithin(2400, 2701);
    for (const part of found.slice(3, -1)) expect(part.length).toBeWithin(3900, 4097);
    for (const part of found) expect(part.trimEnd()).toEndWith(".");
  });

  test("do not begin with half a sentence where a whole one is allowed", () => {
    const long = `A ${"word ".repeat(100)}end. `;
    expect(parts(long.repeat(20), 4096)[0]).toBe(long);
    // Where no sentence ends at all, the first is short all the same.
    expect(parts("word ".repeat(2000), 4096)[0]!.length).toBe(300);
  });

  test("are never of marks and white space alone, unless there is nothing else", () => {
    expect(parts(`One.${" ".repeat(500)}`, 100)).toEqual([`One.${" ".repeat(96)}`]);
    expect(parts(`One.\n${"* * *\n".repeat(50)}Two.`, 60).map((part) => part.trim())).toSatisfy(
      (found) => found.length === 2 && found[0]!.startsWith("One.") && found[1]!.endsWith("Two."),
    );
    expect(parts(" ".repeat(250), 100)).toEqual([" ".repeat(100)]);
  });
});

describe("the request for a part", () => {
  test("is the client's own with another text and bare samples", () => {
    const body =
      '{ "model":"m", "x": [1.50], "input":"All of it, to its end.", "voice":{"id":"v"}, "response_format" : "opus","speed":1.5}';
    const part = speechPart(askOf(body), 'He said "hi" \u2028\ud800.') as SpeechRequest;
    expect(Buffer.from(part.body).toString()).toBe(
      body.replace('"All of it, to its end."', JSON.stringify('He said "hi" \u2028\ud800.')).replace('"opus"', '"pcm"'),
    );
    expect(part).toMatchObject({ operation: "speech", model: "m", voice: null, format: "pcm", events: false, characters: 16 });
    expect(part.input).toBe('He said "hi" \u2028\ud800.');
  });

  test("names the format where the client did not, and has no other text anywhere", () => {
    const part = speechPart(
      askOf('{"input":"first","model":"m","input":"second","voice":"v","stream_format":"sse"}'),
      "part",
    ) as SpeechRequest;
    expect(Buffer.from(part.body).toString()).toBe(
      '{"response_format":"pcm","input":"part","model":"m","input":"part","voice":"v","stream_format":"sse"}',
    );
    expect(part.events).toBe(false);
  });

  test("reads back whatever text it was given", () => {
    const ask = askOf(`{"model":"m","input":"${"x".repeat(50)}","voice":"v"}`);
    fc.assert(
      fc.property(anyText({ minLength: 1, maxLength: 50 }), (text) => {
        expect((speechPart(ask, text) as SpeechRequest).input).toBe(text);
      }),
    );
  });

  test("is refused where much more than the text would be repeated", () => {
    expect(tooMuchToRepeat(askOf(`{"model":"m","input":"${"a".repeat(900_000)}","voice":"v"}`))).toBeNull();
    const heavy = askOf(`{"model":"m","input":"a","voice":"v","reference":"${"a".repeat(5_000_000)}"}`);
    expect(tooMuchToRepeat(heavy)).toMatchObject({ kind: "invalid_request", status: 400 });
  });
});

function bytesOf(samples: readonly number[] | Int16Array): Uint8Array {
  const bytes = new Uint8Array(samples.length * 2);
  const view = new DataView(bytes.buffer);
  samples.forEach((sample, at) => view.setInt16(at * 2, sample, true));
  return bytes;
}

function samplesOf(chunks: readonly Uint8Array[]): number[] {
  const bytes = Buffer.concat(chunks);
  return Array.from({ length: bytes.length / 2 }, (_, at) => bytes.readInt16LE(at * 2));
}

/** Plays the parts through, each in chunks of these sizes. */
function join(given: readonly (readonly number[])[], sizes: readonly number[] = [1e9]): number[] {
  const speech = new JoinedSpeech();
  const out: Uint8Array[] = [];
  let turn = 0;
  for (const part of given) {
    const bytes = bytesOf(part);
    for (let at = 0; at < bytes.length;) {
      const size = sizes[turn++ % sizes.length]!;
      out.push(speech.push(bytes.subarray(at, at + size)));
      at += size;
    }
    const rest = speech.partEnds();
    if (isFailure(rest)) throw new Error(rest.detail);
    out.push(rest);
  }
  out.push(speech.end());
  return samplesOf(out);
}

function tone(length: number, level = 8000): number[] {
  return Array.from({ length }, (_, at) => Math.round(level * Math.cos(at / 7)));
}

function quiet(length: number, level = 0): number[] {
  return Array.from({ length }, (_, at) => (at % 2 === 0 ? level : -level));
}

/** Says where they differ, instead of printing a hundred thousand samples. */
function expectSamples(actual: readonly number[], expected: readonly number[]): void {
  const differsAt = expected.findIndex((sample, at) => sample !== actual[at]);
  expect({ length: actual.length, differsAt }).toEqual({ length: expected.length, differsAt: -1 });
}

/** The same, written down the simple way: all of it at hand. */
function reference(given: readonly (readonly number[])[]): number[] {
  let whole: number[] = [];
  for (const part of given) {
    const isLoud = (sample: number): boolean => Math.abs(sample) > 32;
    const first = part.findIndex(isLoud);
    const last = part.findLastIndex(isLoud);
    let kept = first < 0 ? part.slice(-edgeSamplesMax) : part.slice(Math.max(0, first - edgeSamplesMax));
    const after = part.length - 1 - last;
    const left = first < 0 ? 0 : after > heldSamplesMax ? heldSamplesMax : Math.max(0, after - edgeSamplesMax);
    kept = kept.slice(0, kept.length - left);
    const jumps = whole.length > 0 && Math.abs(whole.at(-1)! - kept[0]!) > jumpMax;
    const before = Math.min(fadeSamples, whole.length);
    if (jumps) {
      whole = whole.map((sample, at) =>
        at < whole.length - before ? sample : Math.round(sample * ((whole.length - at - 0.5) / fadeSamples)),
      );
      kept = kept.map((sample, at) => (at < fadeSamples ? Math.round(sample * ((at + 0.5) / fadeSamples)) : sample));
    }
    whole = [...whole, ...kept];
  }
  return whole;
}

describe("joined parts", () => {
  test("of speech that is quiet at its edges are every sample of it", () => {
    const one = [...quiet(2000, 20), ...tone(5000), ...quiet(900, 30), ...tone(3000), ...quiet(4000, 5)];
    expectSamples(join([one, one, one], [333]), [...one, ...one, ...one]);
  });

  test("do not depend on how they arrive, and are what the rule says", () => {
    const run = fc.oneof(
      fc.integer({ min: 1, max: 12_000 }).map((length) => quiet(length, 11)),
      fc.integer({ min: 1, max: 3_000 }).map((length) => tone(length)),
    );
    // A part is long against its fades, as every spoken one is.
    const part = fc.array(run, { minLength: 1, maxLength: 4 }).map((runs) => [...tone(200), ...runs.flat(), ...tone(200)]);
    const bare = fc.tuple(run, part, run).map(([before, middle, after]) => [...before, ...middle, ...after]);
    fc.assert(
      fc.property(
        fc.array(bare, { minLength: 1, maxLength: 3 }),
        fc.array(fc.integer({ min: 1, max: 9_999 }), { minLength: 1 }),
        (given, sizes) => {
          const slow = sizes.reduce((sum, size) => sum + size, 0) / sizes.length < 50;
          expectSamples(join(given, slow ? [777] : sizes), reference(given));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("keep a pause of four tenths of a second at each edge, and longer ones within", () => {
    const long = [...quiet(30_000), ...tone(1000), ...quiet(60_000), ...tone(1000), ...quiet(30_000)];
    const joined = join([long, long], [4096]);
    const once = [...quiet(9600), ...tone(1000), ...quiet(60_000), ...tone(1000), ...quiet(9600)];
    expectSamples(joined, [...once, ...once]);
    expect(join([quiet(30_000, 3), tone(500)]).length).toBe(9600 + 500);
  });

  test("hold back silence only for a while", () => {
    const speech = new JoinedSpeech();
    let given = speech.push(bytesOf(tone(1000))).length;
    for (let second = 0; second < 60; second++) given += speech.push(bytesOf(quiet(24_000))).length;
    expect(given / 2).toBe(1000 + 60 * 24_000 - heldSamplesMax - fadeSamples);
  });

  test("have no step where they meet", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: -30_000, max: 30_000 }), fc.integer({ min: 1, max: 900 })), { minLength: 2, maxLength: 5 }),
        (levels) => {
          const joined = join(levels.map(([level, length]) => Array.from({ length: length + fadeSamples }, () => level)));
          const steps = joined.slice(1).map((sample, at) => Math.abs(sample - joined[at]!));
          // The steepest fade there can be, from full scale within five milliseconds.
          expect(Math.max(...steps)).toBeLessThanOrEqual(Math.ceil(30_000 / fadeSamples) + 1);
        },
      ),
    );
  });

  test("leave the samples alone where they meet without a jump", () => {
    const rising = Array.from({ length: 3000 }, (_, at) => 1000 + at * 3);
    expectSamples(join([rising.slice(0, 1000), rising.slice(1000, 1100), rising.slice(1100)], [501]), rising);
  });

  test("are not made of half a sample, or of nothing", () => {
    const speech = new JoinedSpeech();
    speech.push(new Uint8Array(3));
    expect(speech.partEnds()).toMatchObject({ kind: "bad_response" });
    const empty = new JoinedSpeech();
    empty.push(bytesOf(tone(10)));
    expect(isFailure(empty.partEnds())).toBe(false);
    expect(empty.partEnds()).toMatchObject({ kind: "bad_response" });
    empty.push(new Uint8Array(0));
    expect(empty.partEnds()).toMatchObject({ kind: "bad_response" });
  });
});
