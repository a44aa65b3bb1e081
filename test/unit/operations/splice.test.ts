import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { lastMember, scanJson } from "../../../src/operations/json.ts";
import { setMember, splice, type Splice } from "../../../src/operations/splice.ts";
import { numRuns } from "../../support/properties.ts";

// Properties over many documents; no clock is judged here.
setDefaultTimeout(120_000);

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array): string => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);

/** Bytes with splices that do not overlap, in any order, insertions at one offset apart. */
const spliced = fc
  .record({
    kept: fc.array(fc.uint8Array({ maxLength: 20 }), { minLength: 1, maxLength: 6 }),
    seed: fc.infiniteStream(fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 20 }), fc.string({ unit: "grapheme" }))),
  })
  .chain(({ kept, seed }) => {
    const replaced = [...seed.take(kept.length - 1)];
    const parts: { splices: Splice[]; before: number[]; after: number[] } = {
      splices: [],
      before: [...kept[0]!],
      after: [...kept[0]!],
    };
    replaced.forEach(([removed, text], index) => {
      parts.splices.push({ start: parts.before.length, end: parts.before.length + removed.length, text });
      parts.before.push(...removed, ...kept[index + 1]!);
      parts.after.push(...encode(text), ...kept[index + 1]!);
    });
    const { splices, before, after } = parts;
    return fc.record({
      bytes: fc.constant(Uint8Array.from(before)),
      expected: fc.constant(Uint8Array.from(after)),
      splices: fc.shuffledSubarray(splices, { minLength: splices.length }),
    });
  });

describe("splice", () => {
  test("changes the spliced bytes and no others, in whichever order the splices come", () => {
    fc.assert(
      fc.property(spliced, ({ bytes, expected, splices }) => {
        const before = bytes.slice();
        expect(splice(bytes, splices)).toEqual(expected);
        expect(bytes).toEqual(before);
      }),
      { numRuns: numRuns(250) },
    );
  });

  test("gives the same array when there is nothing to do", () => {
    const bytes = encode("{}");
    expect(splice(bytes, [])).toBe(bytes);
  });

  test("inserts, replaces and removes, at both ends too", () => {
    const made = (splices: readonly Splice[]) => decode(splice(encode("abcdef"), splices));
    expect(
      made([
        { start: 0, end: 0, text: "<" },
        { start: 6, end: 6, text: ">" },
      ]),
    ).toBe("<abcdef>");
    expect(made([{ start: 2, end: 4, text: "" }])).toBe("abef");
    expect(made([{ start: 0, end: 6, text: "é" }])).toBe("é");
    expect(
      made([
        { start: 2, end: 4, text: "X" },
        { start: 4, end: 6, text: "Y" },
      ]),
    ).toBe("abXY");
  });

  test("keeps insertions at one offset in the order given, and in front of a replacement there", () => {
    const splices = [
      { start: 2, end: 3, text: "3" },
      { start: 2, end: 2, text: "1" },
      { start: 2, end: 2, text: "2" },
    ];
    expect(decode(splice(encode("abcd"), splices))).toBe("ab123d");
  });

  test("throws when splices overlap or leave the document", () => {
    const bytes = encode("abcdef");
    const text = "";
    expect(() =>
      splice(bytes, [
        { start: 1, end: 3, text },
        { start: 2, end: 4, text },
      ]),
    ).toThrow("cannot splice");
    expect(() =>
      splice(bytes, [
        { start: 1, end: 4, text },
        { start: 2, end: 2, text },
      ]),
    ).toThrow("cannot splice");
    expect(() =>
      splice(bytes, [
        { start: 1, end: 3, text },
        { start: 1, end: 3, text },
      ]),
    ).toThrow("cannot splice");
    expect(() => splice(bytes, [{ start: 3, end: 2, text }])).toThrow("cannot splice");
    expect(() => splice(bytes, [{ start: -1, end: 2, text }])).toThrow("cannot splice");
    expect(() => splice(bytes, [{ start: 5, end: 7, text }])).toThrow("cannot splice");
    expect(() => splice(bytes, [{ start: NaN, end: 2, text }])).toThrow("cannot splice");
  });

  test("takes a view of larger memory for what it shows", () => {
    const memory = encode("--abc--");
    expect(decode(splice(memory.subarray(2, 5), [{ start: 1, end: 2, text: "BB" }]))).toBe("aBBc");
  });
});

describe("setMember", () => {
  const set = (text: string, key: string, json: string) => {
    const bytes = encode(text);
    const scan = scanJson(bytes);
    if (!scan.ok) throw new Error(scan.message);
    return decode(splice(bytes, [setMember(bytes, scan, lastMember(scan.members, key), key, json)]));
  };

  test("replaces the value of a member and leaves every other byte", () => {
    expect(set(' { "a" : 1.0 , "model" : "x" , "seed":9223372036854775807 } ', "model", '"y"')).toBe(
      ' { "a" : 1.0 , "model" : "y" , "seed":9223372036854775807 } ',
    );
    expect(set('{"mod\\u0065l":"x"}', "model", '"y"')).toBe('{"mod\\u0065l":"y"}');
    expect(set('{"model":"w","model":"x"}', "model", '"y"')).toBe('{"model":"w","model":"y"}');
  });

  test("inserts a missing member as the first, with a comma only where one is needed", () => {
    expect(set(' { "a":1}', "b", "2")).toBe(' {"b":2, "a":1}');
    expect(set("{}", "b", "2")).toBe('{"b":2}');
    expect(set(" { \n } ", "b", "2")).toBe(' {"b":2 \n } ');
    expect(set("{}", 'quote " and \\', "2")).toBe('{"quote \\" and \\\\":2}');
  });

  test("sets members of a nested object by its span", () => {
    const bytes = encode('{"stream_options":{},"n":1}');
    const scan = scanJson(bytes);
    const options = scan.ok ? lastMember(scan.members, "stream_options")! : undefined;
    expect(decode(splice(bytes, [setMember(bytes, options!, undefined, "include_usage", "true")]))).toBe(
      '{"stream_options":{"include_usage":true},"n":1}',
    );
  });

  test("gives a document that parses to the same object with that one member set", () => {
    const key = fc.oneof(fc.string(), fc.constantFrom("model", "stream", "__proto__"));
    fc.assert(
      fc.property(fc.dictionary(key, fc.jsonValue()), key, fc.jsonValue(), fc.nat(2), (object, name, value, indent) => {
        const text = JSON.stringify(object, null, indent);
        const parsed = JSON.parse(set(text, name, JSON.stringify(value)));
        const expected = new Map(Object.entries(JSON.parse(text))).set(name, JSON.parse(JSON.stringify(value)));
        expect(new Map(Object.entries(parsed))).toEqual(expected);
      }),
      { numRuns: numRuns(125) },
    );
  });
});
