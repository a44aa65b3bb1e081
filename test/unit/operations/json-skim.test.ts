import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { elementsOf, scanJson } from "../../../src/operations/json.ts";
import { countElements, skimObject } from "../../../src/operations/json-skim.ts";
import { numRuns } from "../../support/properties.ts";

const object = fc.dictionary(fc.string({ unit: "binary-ascii" }), fc.jsonValue({ maxDepth: 4 }), { maxKeys: 6 });
const indent = fc.constantFrom(undefined, " ", "\t", "\r\n");

describe("an object that is skimmed", () => {
  test("has the members that a scan finds, at the same places", () => {
    fc.assert(
      fc.property(object, indent, (value, gap) => {
        const bytes = Buffer.from(` ${JSON.stringify(value, null, gap)}\n`);
        const scan = scanJson(bytes);
        if (!scan.ok) throw new Error(scan.message);
        expect(skimObject(bytes)).toEqual([...scan.members]);
      }),
      { numRuns: numRuns(500) },
    );
  });

  test("is not complete wherever it is cut", () => {
    fc.assert(
      fc.property(object, (value) => {
        const bytes = Buffer.from(JSON.stringify(value));
        for (let end = 0; end < bytes.length; end++) expect(skimObject(bytes.subarray(0, end))).toBeNull();
      }),
      { numRuns: numRuns(200) },
    );
  });

  test.each(["", " ", "[]", '"x"', "{}}", "{} x", '{"a":}', '{"a":1', '{"a', '{"a":"\\"}', "{]", '{"\\x":1}'])(
    "is none if it is %j",
    (text) => {
      expect(skimObject(Buffer.from(text))).toBeNull();
    },
  );

  test("has no more members than any answer, and never throws on hostile bytes", () => {
    const many = (count: number): Buffer => Buffer.from(`{${Array.from({ length: count }, (_, at) => `"${at}":1`).join(",")}}`);
    expect(skimObject(many(1_000))).toHaveLength(1_000);
    expect(skimObject(many(1_001))).toBeNull();
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...'{}[]",:\\ 1a'), { maxLength: 30 }), (bytes) => {
        skimObject(Buffer.from(`{${bytes.join("")}`));
      }),
      { numRuns: numRuns(2_000) },
    );
  });
});

test("elements are counted as a scan counts them", () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue({ maxDepth: 3 })), indent, (value, gap) => {
      const bytes = Buffer.from(JSON.stringify({ list: value }, null, gap));
      const [member] = skimObject(bytes)!;
      expect(countElements(bytes, member!)).toBe(elementsOf(bytes, member!.start, member!.end).length);
    }),
    { numRuns: numRuns(500) },
  );
});
