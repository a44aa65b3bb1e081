import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { StreamReader } from "../../../src/dialects/dialect.ts";
import { EventReader } from "../../../src/dialects/readers/event-reader.ts";
import { OpenAiStream } from "../../../src/dialects/openai/stream.ts";
import { DeltaRun } from "../../../src/operations/chat/delta-run.ts";
import type { Emission } from "../../../src/operations/emission.ts";
import { isFailure } from "../../../src/operations/failure.ts";
import { TokenCount } from "../../../src/usage/token-estimate.ts";
import { anyText, numRuns } from "../../support/properties.ts";

/** Reads as the product does. */
function reader(choices = 1): StreamReader {
  return new EventReader(new OpenAiStream({ hidesUsage: false, choices }));
}

/** The same without ever recognising anything: each event is parsed. */
function carefulReader(choices = 1): StreamReader {
  const decoder = new OpenAiStream({ hidesUsage: false, choices });
  return new EventReader({
    read: (event) => decoder.read(event),
    close: () => decoder.close(),
    get finished() {
      return decoder.finished;
    },
  });
}

interface Seen {
  readonly kind: string;
  readonly frame: string | null;
  readonly output: string | null;
  readonly text: string;
  readonly finishes: boolean;
}

interface Played {
  readonly seen: readonly Seen[];
  /** Events that were recognised. */
  readonly runs: readonly DeltaRun[];
  readonly failure: string | null;
  readonly tokens: number;
}

function play(reading: StreamReader, chunks: readonly Uint8Array[]): Played {
  const seen: Seen[] = [];
  const runs: DeltaRun[] = [];
  const count = new TokenCount();
  for (const chunk of [...chunks, null]) {
    const read = chunk === null ? reading.close() : reading.push(chunk);
    if (read instanceof Promise) throw new Error("a chat stream is read at once");
    if (isFailure(read)) return { seen, runs, failure: read.kind, tokens: count.tokens };
    for (const emission of read) {
      if (emission instanceof DeltaRun) {
        runs.push(emission);
        count.pushRun(emission);
      } else if (emission.kind === "delta") count.push(emission.text + (emission.unsaid ?? ""));
      for (const one of emission instanceof DeltaRun ? emission.split() : [emission]) seen.push(seenOf(one));
    }
    if (reading.pending !== null) return { seen, runs, failure: reading.pending.kind, tokens: count.tokens };
  }
  return { seen, runs, failure: null, tokens: count.tokens };
}

/** All that a stream said, however it was understood. */
function said({ seen, failure, tokens }: Played): Omit<Played, "runs"> {
  return { seen, failure, tokens };
}

function seenOf(emission: Emission): Seen {
  const frame = emission.kind === "skipped" || emission.frame === null ? null : Buffer.from(emission.frame).toString("latin1");
  const isDelta = emission.kind === "delta";
  return {
    kind: emission.kind,
    frame,
    output: isDelta ? emission.output : null,
    text: isDelta ? emission.text : "",
    finishes: isDelta && emission.finishes,
  };
}

function frame(payload: unknown): Uint8Array {
  return Buffer.from(`data: ${typeof payload === "string" ? payload : JSON.stringify(payload)}\n\n`);
}

function delta(words: Readonly<Record<string, unknown>>, more: Readonly<Record<string, unknown>> = {}, index = 0): unknown {
  return { id: "c", created: 1, model: "m", choices: [{ index, delta: words, finish_reason: null }], ...more };
}

const finish = { id: "c", created: 1, model: "m", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
const usage = { id: "c", created: 1, model: "m", choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } };

/** Words and what is not quite words: quotes, escapes, other scripts, nothing, and text that looks like the frame around it. */
const words = fc.oneof(
  { weight: 6, arbitrary: fc.string({ maxLength: 12 }) },
  { weight: 2, arbitrary: anyText({ maxLength: 6 }) },
  fc.constantFrom(
    "",
    " ",
    "\n",
    '"',
    "\\",
    '"}',
    "Grüße",
    "水",
    "\u007f",
    'x","finish_reason":"stop',
    "[DONE]",
    "data: {}",
    "\u2028",
    "\ud800",
  ),
);

/** Events as upstreams send them, and some that they should not. */
const event = fc.oneof(
  { weight: 12, arbitrary: words.map((content) => frame(delta({ content }))) },
  { weight: 3, arbitrary: fc.tuple(words, words).map(([content, obfuscation]) => frame(delta({ content }, { obfuscation }))) },
  { weight: 2, arbitrary: words.map((reasoning_content) => frame(delta({ reasoning_content }))) },
  { weight: 2, arbitrary: words.map((reasoning) => frame(delta({ content: "", reasoning }))) },
  { weight: 2, arbitrary: words.map((content) => frame(delta({ content }, {}, 1))) },
  words.map((content) => frame(delta({ role: "assistant", content }))),
  words.map((content) => frame(delta({ content, reasoning: content }))),
  words.map((content) => frame(`{"choices":[{"index":0,"delta":{"content":"x","content":${JSON.stringify(content)}}}]}`)),
  words.map((content) => frame(delta({ content }, { usage: { prompt_tokens: 3, completion_tokens: 4 } }))),
  words.map((content) => frame(delta({ content }, { error: { message: content } }))),
  words.map((content) => Buffer.from(`event: error\ndata: ${JSON.stringify(delta({ content }))}\n\n`)),
  words.map((content) => Buffer.from(`data: ${JSON.stringify(delta({ content }))}\r\n\r\n`)),
  words.map((content) => frame(delta({ tool_calls: [{ index: 0, function: { name: "f", arguments: content } }] }))),
  fc.constantFrom(finish, usage, "[DONE]", "{", "[]", ": a comment").map((payload) => frame(payload)),
  fc.uint8Array({ maxLength: 8 }),
);

describe("what is recognised is what would have been read", () => {
  test("in any stream, however it is cut", () => {
    let recognised = 0;
    fc.assert(
      fc.property(fc.array(event, { maxLength: 24 }), fc.array(fc.nat({ max: 2000 }), { maxLength: 6 }), (events, cuts) => {
        const bytes = Buffer.concat(events);
        const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((one, other) => one - other), bytes.length];
        const chunks = places.slice(1).flatMap((to, at) => (to > places[at]! ? [bytes.subarray(places[at], to)] : []));
        const quick = play(reader(2), chunks);
        const careful = play(carefulReader(2), chunks);
        expect(careful.runs).toEqual([]);
        recognised += quick.runs.length;
        expect(said(quick)).toEqual(said(careful));
      }),
      { numRuns: numRuns(750) },
    );
    expect(recognised).toBeGreaterThan(numRuns(50));
  });

  test("in a stream of one shape with a byte changed anywhere", () => {
    const plain = [delta({ content: "a" }), delta({ content: "bc" }), delta({ content: "def" }, {}), finish, "[DONE]"].map(frame);
    const target = plain[2]!;
    for (let at = 0; at < target.length; at += 1) {
      for (const byte of [0, 10, 13, 0x20, 0x22, 0x2c, 0x31, 0x5c, 0x61, 0x7d, 0x7f, 0x80, 0xc3, 0xff]) {
        const changed = Buffer.from(target);
        changed[at] = byte;
        const bytes = Buffer.concat([plain[0]!, plain[1]!, changed, plain[3]!, plain[4]!]);
        const quick = play(reader(), [bytes]);
        expect(said(quick)).toEqual(said(play(carefulReader(), [bytes])));
      }
    }
  });
});

test("from the third delta on, plain words are not read, and those that come together are one", () => {
  const spoken = Array.from({ length: 50 }, (_, at) => `word${at} `);
  const frames = spoken.map((content, at) => frame(delta({ content }, { obfuscation: "x".repeat(at % 7) })));
  const whole = Buffer.concat([...frames, frame(finish), frame("[DONE]")]);
  const { seen, runs } = play(reader(), [whole]);
  expect(runs.map(({ count }) => count)).toEqual([48]);
  expect(runs[0]!.text).toBe(spoken.slice(2).join(""));
  expect(seen.map((one) => one.frame).join("")).toBe(whole.toString("latin1"));
  const oneByOne = play(reader(), [...frames, frame(finish), frame("[DONE]")]);
  expect(oneByOne.runs.length).toBe(48);
  expect(oneByOne.seen).toEqual(seen);
});

test.each([": a comment\n\n", "retry: 1\n\n", "id: 7\nevent: x\n\n", "\0data: {}\n\n", "\n", "nonsense\n"])(
  "what is no event does not leave with those around it that are recognised: %j",
  (between) => {
    const frames = ["a", "b", "c", "d", "e"].map((content) => frame(delta({ content })));
    const whole = Buffer.concat([...frames.slice(0, 4), Buffer.from(between), frames[4]!, frame(finish), frame("[DONE]")]);
    const { seen, runs } = play(reader(), [whole]);
    expect(runs.map(({ count }) => count)).toEqual([2, 1]);
    expect(seen.map((one) => one.frame).join("")).toBe(Buffer.concat([...frames, frame(finish), frame("[DONE]")]).toString("latin1"));
  },
);

test("reasoning is recognised too, and is not part of the content", () => {
  const frames = ["hm ", "so ", "then "].map((reasoning_content) => frame(delta({ content: null, reasoning_content })));
  const { runs, seen } = play(reader(), [Buffer.concat(frames)]);
  expect(runs.map(({ count, output, text }) => [count, output, text])).toEqual([[1, "reasoning", ""]]);
  expect(seen.map(({ output }) => output)).toEqual(["reasoning", "reasoning", "reasoning"]);
});

test("an event with a duplicate key is never recognised: parsers do not agree on which one counts", () => {
  const twice = (first: string, last: string): Uint8Array =>
    frame(`{"choices":[{"index":0,"delta":{"content":"${first}","content":"${last}"}}]}`);
  const frames = ["a", "b", "c", "d"].map((words) => twice(words, "same"));
  const { seen, runs } = play(reader(), [Buffer.concat(frames)]);
  expect(runs).toEqual([]);
  expect(seen.map(({ text }) => text)).toEqual(["same", "same", "same", "same"]);
});

test("where choices take turns, learning stops after a few", () => {
  const frames = Array.from({ length: 40 }, (_, at) => frame(delta({ content: `w${at}` }, {}, at % 2)));
  const { seen, runs } = play(reader(2), [Buffer.concat(frames)]);
  expect(seen.length).toBe(40);
  expect(runs.length).toBeGreaterThan(0);
});

test("nothing is recognised after the end of a stream", () => {
  const frames = [delta({ content: "a" }), delta({ content: "b" }), finish, "[DONE]", delta({ content: "c" })].map(frame);
  const { seen } = play(reader(), [Buffer.concat(frames)]);
  expect(seen.at(-1)?.kind).toBe("end");
  expect(seen.map(({ text }) => text).join("")).toBe("ab");
});
