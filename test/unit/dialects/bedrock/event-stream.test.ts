import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { crc32 as zlibCrc32 } from "node:zlib";
import { crc32 } from "../../../../src/dialects/bedrock/crc32.ts";
import { EventStreamSplitter, type EventStreamMessage } from "../../../../src/dialects/bedrock/event-stream.ts";
import { bytewise, cutAtFractions, fractions } from "../../../support/cuts.ts";
import { eventStreamMessage } from "../../../support/event-stream.ts";
import { numRuns } from "../../../support/properties.ts";

function split(pieces: readonly Uint8Array[]): { messages: EventStreamMessage[]; broken: string | null; hasRest: boolean } {
  const splitter = new EventStreamSplitter();
  const messages: EventStreamMessage[] = [];
  for (const piece of pieces) {
    const read = splitter.push(piece);
    messages.push(...read.messages);
    if (read.broken !== null) return { messages, broken: read.broken.detail, hasRest: splitter.hasRest };
  }
  return { messages, broken: null, hasRest: splitter.hasRest };
}

/** The messages that AWS publishes to test implementations of the format. */
const published: readonly (readonly [name: string, hex: string, headers: Record<string, string>, payload: string])[] = [
  ["empty_message", "000000100000000005c248eb7d98c8ff", {}, ""],
  ["payload_no_headers", "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936", {}, "{'foo':'bar'}"],
  [
    "payload_one_str_header",
    "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1",
    { "content-type": "application/json" },
    "{'foo':'bar'}",
  ],
];

describe("an event stream", () => {
  test.each(published)("gives the published message %s", (_, hex, headers, payload) => {
    const { messages, broken, hasRest } = split([Buffer.from(hex, "hex")]);
    expect(broken).toBeNull();
    expect(hasRest).toBe(false);
    expect(messages.map((message) => [Object.fromEntries(message.headers), text(message)])).toEqual([[headers, payload]]);
  });

  test.each(published)("rejects the published message %s with any byte changed", (_, hex) => {
    const bytes = Buffer.from(hex, "hex");
    for (let at = 0; at < bytes.length; at += 1) {
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] ?? 0) ^ 0x10;
      expect(split([damaged]).messages).toEqual([]);
      expect(split([damaged]).broken).not.toBeNull();
    }
  });

  const stream = new Uint8Array(
    Buffer.concat([
      eventStreamMessage({ ":event-type": "a" }, '{"one":"größe"}'),
      eventStreamMessage({}, ""),
      eventStreamMessage({ ":event-type": "b", "other-header": "x".repeat(300) }, "y".repeat(40_000)),
    ]),
  );

  test("gives the same messages however it is cut", () => {
    const whole = split([stream]);
    expect(whole.messages.length).toBe(3);
    const shown = (pieces: readonly Uint8Array[]) => split(pieces).messages.map((message) => [[...message.headers], text(message)]);
    expect(shown(bytewise(stream))).toEqual(shown([stream]));
    fc.assert(
      fc.property(fractions(8), (places) => {
        expect(shown(cutAtFractions(stream, places))).toEqual(shown([stream]));
      }),
      { numRuns: numRuns(50) },
    );
  });

  test("that stops anywhere but between messages leaves a rest", () => {
    const first = 16 + 1 + 11 + 1 + 2 + 1 + Buffer.byteLength('{"one":"größe"}');
    for (let end = 0; end <= first + 16; end += 1) {
      const { broken, hasRest } = split([stream.subarray(0, end)]);
      expect([end, broken, hasRest]).toEqual([end, null, end !== 0 && end !== first && end !== first + 16]);
    }
  });

  test("is not believed where it announces more than a message may have", () => {
    const prelude = Buffer.alloc(12);
    prelude.writeUInt32BE(0xffff_ffff, 0);
    prelude.writeUInt32BE(0, 4);
    prelude.writeUInt32BE(zlibCrc32(prelude.subarray(0, 8)), 8);
    expect(split([prelude]).broken).toContain("too large");
    prelude.writeUInt32BE(15, 0);
    prelude.writeUInt32BE(zlibCrc32(prelude.subarray(0, 8)), 8);
    expect(split([prelude]).broken).toContain("shorter than its parts");
  });

  test.each([
    ["a name that is cut off", Buffer.from([200, 65])],
    ["no type", Buffer.from([1, 65])],
    ["an unknown type", Buffer.from([1, 65, 10, 0])],
    ["a value that is cut off", Buffer.from([1, 65, 7, 0, 9, 65])],
    ["an empty name", Buffer.from([0, 7, 0, 0])],
  ])("with a header that has %s is broken", (_, header) => {
    expect(split([withHeaders(header)]).broken).toContain("headers");
  });

  test("passes over headers of other types than text", () => {
    const header = (type: number, value: readonly number[]): number[] => [1, 65 + type, type, ...value];
    const zeros = (count: number): number[] => Array.from({ length: count }, () => 0);
    const headers = Buffer.from([
      ...header(0, []),
      ...header(1, []),
      ...header(2, zeros(1)),
      ...header(3, zeros(2)),
      ...header(4, zeros(4)),
      ...header(5, zeros(8)),
      ...header(6, [0, 2, 9, 9]),
      ...header(7, [0, 1, 120]),
      ...header(8, zeros(8)),
      ...header(9, zeros(16)),
    ]);
    const { messages, broken } = split([withHeaders(headers)]);
    expect(broken).toBeNull();
    expect([...(messages[0]?.headers ?? [])]).toEqual([["H", "x"]]);
  });

  test("is checked with the same CRC-32 as everywhere", () => {
    expect(crc32(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(crc32(bytes)).toBe(zlibCrc32(bytes));
      }),
      { numRuns: numRuns(50) },
    );
  });
});

function text({ payload }: EventStreamMessage): string {
  return new TextDecoder().decode(payload);
}

function withHeaders(headers: Buffer): Uint8Array {
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + headers.length, 0);
  prelude.writeUInt32BE(headers.length, 4);
  prelude.writeUInt32BE(zlibCrc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, headers]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(zlibCrc32(message));
  return new Uint8Array(Buffer.concat([message, checksum]));
}
