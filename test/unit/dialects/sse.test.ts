import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { SseEvent } from "../../../src/dialects/dialect.ts";
import { SseReader } from "../../../src/dialects/readers/sse.ts";
import { bytewise, cutAtFractions, fractions } from "../../support/cuts.ts";
import { numRuns } from "../../support/properties.ts";

// Properties over many streams; no clock is judged here.
setDefaultTimeout(120_000);

const encoder = new TextEncoder();
const encode = (text: string): Uint8Array => encoder.encode(text);

interface Read {
  readonly name: string;
  readonly data: string;
  readonly frame: string;
}

/** Everything a reader makes of the chunks, or the events before the one that was too large. */
function read(chunks: readonly Uint8Array[], reader = new SseReader()): { readonly events: readonly Read[]; readonly tooLarge: boolean } {
  const events: Read[] = [];
  for (const chunk of chunks) {
    const found = reader.push(chunk);
    if (found === "too_large") return { events, tooLarge: true };
    events.push(...found.map(plain));
  }
  events.push(...reader.close().map(plain));
  return { events, tooLarge: false };
}

/** With its frame byte for byte, as Latin-1. */
function plain({ name, data, frame }: SseEvent): Read {
  return { name, data, frame: Buffer.from(frame).toString("latin1") };
}

/**
 * The format as its specification tells it, for a body that is here as a whole, with the three liberties we take: the
 * last event needs no blank line, several data lines become one, and an event without data is none.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
 */
function expected(bytes: Uint8Array): readonly Read[] {
  const text = new TextDecoder("utf-8").decode(bytes);
  const events: Read[] = [];
  let name = "";
  let data: string[] = [];
  const dispatch = (): void => {
    const joined = data.join(" ");
    if (joined !== "") events.push({ name, data: joined, frame: Buffer.from(`data: ${joined}\n\n`).toString("latin1") });
    name = "";
    data = [];
  };
  for (const line of text.split(/\r\n|\r|\n/)) {
    if (line === "") dispatch();
    const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? [];
    if (field === "data") data.push(value);
    if (field === "event") name = value;
  }
  dispatch();
  return events;
}

const endOfLine = fc.constantFrom("\n", "\n", "\r\n", "\r");
const words = fc.string({ unit: "grapheme", maxLength: 12 }).map((text) => text.replaceAll(/[\r\n]/g, ""));
const payload = fc.oneof(
  words,
  fc.json({ maxDepth: 2 }),
  fc.constantFrom("[DONE]", "{}", " ", "  two", "a: b", "é漢🚰👩‍🔧", "\u2028", "\u0085", "\uFEFF", "\0", "data: data: x"),
);
const line = fc.oneof(
  { weight: 6, arbitrary: payload.map((text) => `data: ${text}`) },
  { weight: 2, arbitrary: payload.map((text) => `data:${text}`) },
  { weight: 3, arbitrary: fc.constant("") },
  { weight: 1, arbitrary: words.map((text) => `:${text}`) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "data",
      "data:",
      "event: message",
      "event:error",
      "event",
      "id: 1",
      "retry: 10",
      "dat",
      "datax: 1",
      "Data: 1",
      " data: 1",
      "\uFEFFdata: 1",
    ),
  },
  { weight: 1, arbitrary: words },
);
/** Each line with its own end, so every mixture occurs. */
const lines = fc.array(fc.tuple(line, endOfLine), { maxLength: 14 }).map((all) => all.map(([text, end]) => text + end).join(""));
const wellFormed = fc
  .tuple(fc.constantFrom("", "", "\uFEFF"), lines, fc.oneof(fc.constant(""), line))
  .map(([mark, body, rest]) => encode(mark + body + rest));
/** Bytes that are mostly no text at all, with the few that mean something more often than chance has them. */
const rubbish = fc
  .array(
    fc.oneof(fc.uint8Array({ maxLength: 4 }), fc.constantFrom("data: ", "data:", "\n", "\n\n", "\r", "\r\n", ":", "event: ").map(encode)),
    { maxLength: 24 },
  )
  .map((parts) => new Uint8Array(Buffer.concat(parts)));
const places = fractions(12);

describe("the reader of server-sent events", () => {
  test("finds what the specification finds, in every mixture of lines and line ends", () => {
    fc.assert(
      fc.property(wellFormed, (bytes) => expect(read([bytes]).events).toEqual(expected(bytes))),
      { numRuns: numRuns(1_250) },
    );
  });

  test("finds the same however the body is cut", () => {
    fc.assert(
      fc.property(wellFormed, places, (bytes, at) => {
        const whole = read([bytes]);
        expect(read(cutAtFractions(bytes, at))).toEqual(whole);
        expect(read(bytewise(bytes))).toEqual(whole);
      }),
      { numRuns: numRuns(750) },
    );
  });

  test("keeps the names of events in their frames where it is told to, however the body is cut", () => {
    const named = fc.array(fc.tuple(fc.constantFrom("a", "response.created", "é", ""), payload, fc.constantFrom("\n", "\r\n")), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(named, wellFormed, places, (events, rest, at) => {
        const text = events.map(([name, data, end]) => `${name === "" ? "" : `event: ${name}${end}`}data: ${data}${end}${end}`).join("");
        const bytes = new Uint8Array(Buffer.concat([encode(text), rest]));
        const kept = expected(bytes).map(({ name, data, frame }) => ({
          name,
          data,
          frame: name === "" ? frame : Buffer.from(`event: ${name}\n`).toString("latin1") + frame,
        }));
        for (const chunks of [[bytes], cutAtFractions(bytes, at), bytewise(bytes)]) {
          expect(read(chunks, new SseReader(undefined, true)).events).toEqual(kept);
        }
      }),
      { numRuns: numRuns(500) },
    );
  });

  test("makes of arbitrary bytes the same however they are cut, and never throws", () => {
    fc.assert(
      fc.property(rubbish, places, (bytes, at) => {
        const whole = read([bytes]);
        expect(whole.events).toEqual(expected(bytes));
        expect(read(cutAtFractions(bytes, at))).toEqual(whole);
        expect(read(bytewise(bytes))).toEqual(whole);
      }),
      { numRuns: numRuns(1_250) },
    );
  });

  test("gives each event as one canonical frame, which read again gives the event", () => {
    fc.assert(
      fc.property(fc.oneof(wellFormed, rubbish), (bytes) => {
        for (const { data, frame } of read([bytes]).events) {
          expect(frame).toBe(Buffer.from(`data: ${data}\n\n`).toString("latin1"));
          expect(read([Buffer.from(frame, "latin1")]).events).toEqual([{ name: "", data, frame }]);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("hands canonical frames on as the bytes they came in, without a copy", () => {
    const chunk = encode('data: {"a":1}\n\ndata: é漢\n\ndata: [DONE]\n\n');
    const events = new SseReader().push(chunk) as SseEvent[];
    expect(events.map(({ data }) => data)).toEqual(['{"a":1}', "é漢", "[DONE]"]);
    for (const { frame } of events) expect(frame.buffer).toBe(chunk.buffer);
    expect(Buffer.concat(events.map(({ frame }) => frame))).toEqual(Buffer.from(chunk));
  });

  test("puts U+FFFD in the place of bytes that are no UTF-8, in the frame as well", () => {
    const bytes = Buffer.concat([encode("data: a"), new Uint8Array([0xff, 0xe2, 0x82]), encode("b\n\n")]);
    const frame = Buffer.from("data: a\uFFFD\uFFFDb\n\n").toString("latin1");
    for (const chunks of [[bytes], bytewise(bytes)]) expect(read(chunks).events).toEqual([{ name: "", data: "a\uFFFD\uFFFDb", frame }]);
  });

  test("gives an event in the very push that completes it", () => {
    const reader = new SseReader();
    expect(reader.push(encode("data: one\n"))).toEqual([]);
    expect((reader.push(encode("\ndata: two")) as SseEvent[]).map(({ data }) => data)).toEqual(["one"]);
    // The line feed that may still follow this return belongs to it, and is not waited for.
    expect((reader.push(encode("\r\r")) as SseEvent[]).map(({ data }) => data)).toEqual(["two"]);
    expect((reader.push(encode("\ndata: three\n\n")) as SseEvent[]).map(({ data }) => data)).toEqual(["three"]);
    expect(reader.close()).toEqual([]);
  });
});

describe("the bound of an event", () => {
  const max = 64;

  test("is judged alike however the body is cut, and what came before it is an honest beginning", () => {
    const long = fc.nat({ max: 80 }).map((length) => `data: ${"x".repeat(length)}`);
    const comment = fc.nat({ max: 80 }).map((length) => `:${"x".repeat(length)}`);
    const bodies = fc
      .array(fc.tuple(fc.oneof(line, long, comment), endOfLine), { maxLength: 10 })
      .map((all) => encode(all.map(([text, end]) => text + end).join("")));
    fc.assert(
      fc.property(bodies, places, (bytes, at) => {
        const runs = [[bytes], cutAtFractions(bytes, at), bytewise(bytes)].map((chunks) => read(chunks, new SseReader(max)));
        for (const { tooLarge, events } of runs) {
          expect(tooLarge).toBe(runs[0]!.tooLarge);
          expect(read([bytes]).events.slice(0, events.length)).toEqual(events as Read[]);
        }
      }),
      { numRuns: numRuns(1_250) },
    );
  });

  test.each([
    ["one line", (length: number) => `data: ${"x".repeat(length - 6)}\n\n`],
    ["one line that ends otherwise", (length: number) => `data: ${"x".repeat(length - 6)}\r\n\r\n`],
    ["a comment", (length: number) => `:${"x".repeat(length - 1)}\n\n`],
    ["a line that never ends", (length: number) => `data: ${"x".repeat(length - 6)}`],
  ])("is exact for %s", (_, make) => {
    for (const split of [(bytes: Uint8Array) => [bytes], bytewise]) {
      expect(read(split(encode(make(max))), new SseReader(max)).tooLarge).toBe(false);
      expect(read(split(encode(make(max + 1))), new SseReader(max)).tooLarge).toBe(true);
    }
  });

  test("counts all lines of an event together", () => {
    const body = encode("data: 0123456789\n".repeat(8));
    for (const chunks of [[body], bytewise(body)]) expect(read(chunks, new SseReader(max)).tooLarge).toBe(true);
  });

  test("does not count one event against the next", () => {
    const body = encode("data: 0123456789\r\n\r\n: comment\n\n".repeat(100));
    expect(read(bytewise(body), new SseReader(max)).events.length).toBe(100);
  });

  test("is eight mebibytes, and a line that arrives byte by byte does not take quadratic time", () => {
    const reader = new SseReader();
    const byte = encode("x");
    const first = encode(`data: ${"x".repeat(7 * 1024 * 1024)}`);
    reader.push(first);
    let pushed = first.length;
    while (reader.push(byte) !== "too_large") pushed += 1;
    expect(pushed).toBe(8 * 1024 * 1024);
  });
});
