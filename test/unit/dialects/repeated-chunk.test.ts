import { describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import fc from "fast-check";
import type { StreamReader } from "../../../src/dialects/dialect.ts";
import { OpenAiStream } from "../../../src/dialects/openai/stream.ts";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { cutAtFractions, fractions } from "../../support/cuts.ts";
import { anyText, numRuns } from "../../support/properties.ts";

// Properties over many streams; no clock is judged here.
setDefaultTimeout(120_000);

function reader(choices = 1): StreamReader {
  return new EventReader(new OpenAiStream({ hidesUsage: false, choices }));
}

/** The same, but every event is parsed: none is compared with those before it. */
function parsingReader(choices = 1): StreamReader {
  const decoder = new OpenAiStream({ hidesUsage: false, choices });
  return new EventReader({
    read: (event) => {
      decoder.batchRead();
      return decoder.read(event);
    },
    close: () => decoder.close(),
    get finished() {
      return decoder.finished;
    },
  });
}

/** All that a reader makes of the chunks, with the frames byte for byte, as Latin-1. */
function read(reading: StreamReader, chunks: readonly Uint8Array[]): readonly Readonly<Record<string, unknown>>[] {
  const seen: Readonly<Record<string, unknown>>[] = [];
  for (const chunk of [...chunks, null]) {
    const emissions = chunk === null ? reading.close() : reading.push(chunk);
    if (emissions instanceof Promise) throw new Error("a chat stream is read at once");
    if (isFailure(emissions)) return [...seen, { ...emissions }];
    for (const emission of emissions) {
      const frame = "frame" in emission && emission.frame !== null ? Buffer.from(emission.frame).toString("latin1") : null;
      seen.push({ ...emission, frame, finished: reading.finished });
    }
    if (reading.pending !== null) return [...seen, { ...reading.pending }];
  }
  return seen;
}

/** How many texts were parsed meanwhile. */
function parsed(work: () => void): number {
  using parse = spyOn(JSON, "parse");
  work();
  return parse.mock.calls.length;
}

function frame(payload: unknown): Uint8Array {
  return Buffer.from(`data: ${typeof payload === "string" ? payload : JSON.stringify(payload)}\n\n`);
}

function delta(words: Readonly<Record<string, unknown>>, more: object = {}, index = 0): unknown {
  return { id: "c", created: 1, model: "m", choices: [{ index, delta: words, finish_reason: null }], ...more };
}

const finish = { id: "c", created: 1, model: "m", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
const usage = { id: "c", created: 1, model: "m", choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } };

/** Words and what is not quite words: quotes, escapes, other scripts, nothing, and text that looks like the chunk around it. */
const words = fc.oneof(
  { weight: 6, arbitrary: fc.string({ maxLength: 12 }) },
  { weight: 2, arbitrary: anyText({ maxLength: 6 }) },
  fc.constantFrom("", " ", "\n", '"', "\\", '"}', ":", ",", "c", "m", "Grüße", "水", "\u007f", "\u2028", "\ud800"),
  fc.constantFrom('x","finish_reason":"stop', "[DONE]", "data: {}", "content", "delta", '"obfuscation":"'),
);

/** Events as upstreams send them, and some that they should not. */
const event = fc.oneof(
  words.map((content) => frame(delta({ content }, {}, 1))),
  words.map((content) => frame(delta({ content: "", reasoning: content }))),
  words.map((content) => frame(delta({ role: "assistant", content }))),
  words.map((content) => frame(delta({ content, reasoning: content }))),
  words.map((content) => frame(`{"choices":[{"index":0,"delta":{"content":"x","content":${JSON.stringify(content)}}}]}`)),
  words.map((content) => frame(`{"choices":[{"index":0,"delta":{"content":${JSON.stringify(content)},"content":"x"}}]}`)),
  words.map((content) => frame(delta({ content }, { usage: { prompt_tokens: 3, completion_tokens: 4 } }))),
  words.map((content) => frame(delta({ content }, { error: { message: content } }))),
  words.map((content) => Buffer.from(`event: error\ndata: ${JSON.stringify(delta({ content }))}\n\n`)),
  words.map((content) => Buffer.from(`data: ${JSON.stringify(delta({ content }))}\r\n\r\n`)),
  words.map((content) => frame(delta({ tool_calls: [{ index: 0, function: { name: "f", arguments: content } }] }))),
  words.map((refusal) => frame(delta({ refusal }))),
  fc.constantFrom(finish, usage, "[DONE]", "{", "[]", ": a comment").map((payload) => frame(payload)),
  fc.uint8Array({ maxLength: 8 }),
);

/** Deltas that are alike, so that the ones behind them are compared. */
const run = fc
  .tuple(fc.constantFrom("content", "reasoning_content", "reasoning"), fc.boolean(), fc.array(fc.tuple(words, words), { maxLength: 9 }))
  .map(([key, isPadded, all]) =>
    Buffer.concat(all.map(([word, obfuscation]) => frame(delta({ [key]: word }, isPadded ? { obfuscation } : {})))),
  );

describe("a chunk that is compared says what it would have said if it were parsed", () => {
  test("in any stream, however it is cut", () => {
    const parts = fc.array(fc.oneof({ weight: 2, arbitrary: run }, event), { maxLength: 12 });
    fc.assert(
      fc.property(parts, fractions(4), (all, cuts) => {
        const chunks = cutAtFractions(Buffer.concat(all), cuts);
        expect(read(reader(2), chunks)).toEqual(read(parsingReader(2), chunks));
      }),
      { numRuns: numRuns(400) },
    );
  });

  test.each([{}, { obfuscation: "Zx81" }])("with a byte changed anywhere, besides %j", (more) => {
    const before = ["a", "bc", "def", "gh", "i"].map((content) => frame(delta({ content }, more)));
    const after = [finish, "[DONE]"].map(frame);
    const target = frame(delta({ content: "word" }, more));
    for (let at = 0; at < target.length; at++) {
      for (const byte of [0, 10, 13, 0x20, 0x22, 0x2c, 0x31, 0x5c, 0x61, 0x7d, 0x7f, 0x80, 0xc3, 0xff]) {
        const changed = Buffer.from(target);
        changed[at] = byte;
        const bytes = Buffer.concat([...before, changed, ...after]);
        expect(read(reader(), [bytes])).toEqual(read(parsingReader(), [bytes]));
      }
    }
  });
});

test("words are not mistaken for the same text in another field, nor for what lies between two strings", () => {
  const same = Array.from({ length: 5 }, () => delta({ role: "same", content: "same" }));
  const colons = Array.from({ length: 5 }, () => delta({ content: ":" }));
  const bytes = Buffer.concat([...same, delta({ role: "other", content: "same" }), ...colons, delta({ content: "x" })].map(frame));
  expect(read(reader(), [bytes])).toEqual(read(parsingReader(), [bytes]));
});

describe("of the chunks that arrive together, only the first few are parsed", () => {
  const alike = (words: (at: number) => Readonly<Record<string, unknown>>, more: (at: number) => object = () => ({})): Uint8Array =>
    Buffer.concat(Array.from({ length: 50 }, (_, at) => frame(delta(words(at), more(at)))));

  test.each([
    ["text", alike((at) => ({ content: `word${at} ` }))],
    ["text in any script", alike((at) => ({ content: `слово ${at} 水` }))],
    [
      "text with a padding",
      alike(
        (at) => ({ content: `word${at} ` }),
        (at) => ({ usage: null, obfuscation: "x".repeat(at % 7) }),
      ),
    ],
    ["reasoning", alike((at) => ({ content: null, reasoning_content: `hm ${at} ` }))],
    ["reasoning by another name", alike((at) => ({ content: "", reasoning: `hm ${at} ` }))],
  ])("%s", (_, bytes) => {
    expect(parsed(() => read(parsingReader(), [bytes]))).toBe(50);
    expect(parsed(() => read(reader(), [bytes]))).toBeLessThan(10);
    expect(read(reader(), [bytes])).toEqual(read(parsingReader(), [bytes]));
  });

  test("but where the deltas of several choices take turns, or a name is there twice, that is not tried for long", () => {
    const turns = Array.from({ length: 40 }, (_, at) => frame(delta({ content: `w${at}` }, {}, at % 2)));
    const twice = Array.from({ length: 40 }, (_, at) => frame(`{"choices":[{"index":0,"delta":{"content":"${at}","content":"${at}"}}]}`));
    for (const frames of [turns, twice]) {
      expect(parsed(() => read(reader(2), [Buffer.concat(frames)]))).toBeLessThan(50);
    }
  });

  test("and a stream that waits keeps nothing of them", () => {
    const decoder = new OpenAiStream({ hidesUsage: false, choices: 1 });
    const reading = new EventReader(decoder);
    reading.push(alike((at) => ({ content: `word${at} ` })));
    expect(decoder).toHaveProperty("repeated", null);
  });
});
