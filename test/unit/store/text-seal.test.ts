import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { carriedKeyOf } from "../../../src/store/secrets/encryption.ts";
import { makeTextSeal } from "../../../src/store/secrets/text-seal.ts";

const key = carriedKeyOf(new Uint8Array(32).fill(1));
const other = carriedKeyOf(new Uint8Array(32).fill(2));
const seal = makeTextSeal(key);
const context = ["key-1", "dialect", "api.example.com", "m"];

function sealed(text: string): string {
  const made = seal.seal(text, context);
  if (made === null) throw new Error("too long");
  return made;
}

describe("a text that a client carries", () => {
  test("opens to itself, in any process with the same key, and never looks the same", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(makeTextSeal(key).open(sealed(text), context)).toBe(text);
        expect(sealed(text)).not.toBe(sealed(text));
      }),
    );
  });

  test("opens when an earlier version sealed it, which compressed with `node:zlib`", () => {
    const carried = "c87405ff.8w4Wk328oDaShc-4-yeBxEjO1xJGSMv0EaKTbqPQlaRVyMQgQ9khx2pO6ps";
    expect(seal.open(carried, context)).toBe("a thought, a thought, a thought");
  });

  test.each([
    ["another client's key", ["key-2", "dialect", "api.example.com", "m"]],
    ["another dialect", ["key-1", "other", "api.example.com", "m"]],
    ["another host", ["key-1", "dialect", "api.example.org", "m"]],
    ["another model", ["key-1", "dialect", "api.example.com", "n"]],
    ["names that run together differently", ["key-1", "dialect", "api.example.comm", ""]],
    ["no context", []],
  ])("does not open for %s", (_, another) => {
    expect(seal.open(sealed("a secret"), another)).toBeNull();
  });

  test("does not open where it was cut, changed or made by others", () => {
    const text = sealed("a secret");
    for (let at = 0; at < text.length; at++) {
      expect(seal.open(text.slice(0, at), context)).toBeNull();
      const changed = text[at] === "A" ? "B" : "A";
      expect(seal.open(text.slice(0, at) + changed + text.slice(at + 1), context)).toBeNull();
    }
    fc.assert(
      fc.property(fc.string(), (made) => seal.open(made, context) === null && seal.open(`${key.version}.${made}`, context) === null),
    );
  });

  test("is neither readable nor longer than it has to be", () => {
    const text = "the same thought again. ".repeat(1000);
    expect(sealed(text)).not.toContain("thought");
    expect(sealed(text).length).toBeLessThan(text.length / 10);
    expect(sealed("hm")).toMatch(/^[0-9a-f]{8}\.[\w-]+$/);
  });

  test("opens after the key was replaced, as long as the one before is known", () => {
    const before = sealed("a secret");
    expect(makeTextSeal(other, key).open(before, context)).toBe("a secret");
    expect(makeTextSeal(other).open(before, context)).toBeNull();
    expect(makeTextSeal(key).open(makeTextSeal(other, key).seal("new", context)!, context)).toBeNull();
  });

  test("has a bound, and what is longer than any sealed text is not looked at", () => {
    expect(seal.seal("x".repeat(2 * 1024 * 1024), context)).not.toBeNull();
    expect(seal.seal("x".repeat(2 * 1024 * 1024 + 1), context)).toBeNull();
    expect(seal.open(`${key.version}.${"A".repeat(4 * 1024 * 1024)}`, context)).toBeNull();
  });
});
