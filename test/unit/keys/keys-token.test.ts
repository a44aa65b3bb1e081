import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { crc32 } from "node:zlib";
import { makeToken, parseToken } from "../../../src/keys/token.ts";

const random = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));

describe("a made key", () => {
  test("has the form that scanners know, and reads back as itself", () => {
    for (let round = 0; round < 200; round++) {
      const { token, publicId } = makeToken(random);
      expect(token).toMatch(/^sk-gw_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/);
      expect(parseToken(token)).toEqual({ publicId });
    }
  });

  test("is another each time", () => {
    expect(new Set(Array.from({ length: 1000 }, () => makeToken(random).token)).size).toBe(1000);
  });

  test("uses every character about equally often", () => {
    const counts = new Map<string, number>();
    for (let round = 0; round < 2000; round++) {
      for (const character of makeToken(random).token.slice(19, 62)) counts.set(character, (counts.get(character) ?? 0) + 1);
    }
    const expected = (2000 * 43) / 62;
    expect(counts.size).toBe(62);
    for (const count of counts.values()) expect(Math.abs(count - expected) / expected).toBeLessThan(0.25);
  });

  test("is stable: the checksum of a known key does not change between versions", () => {
    let next = 0;
    const { token } = makeToken((count) => Uint8Array.from({ length: count }, () => next++ % 62));
    expect(token).toBe(KNOWN);
    expect(parseToken(KNOWN)).toEqual({ publicId: "0123456789AB" });
  });

  test("ends with the CRC-32 of what stands before, which any tool can compute", () => {
    const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (let round = 0; round < 100; round++) {
      const { token } = makeToken(random);
      const checksum = Array.from(token.slice(-6)).reduce((sum, digit) => sum * 62 + alphabet.indexOf(digit), 0);
      expect(checksum).toBe(crc32(token.slice(0, -6)));
    }
  });

  test("is not made from a source that is not random", () => {
    expect(() => makeToken((count) => new Uint8Array(count).fill(255))).toThrow("random");
    expect(() => makeToken(() => new Uint8Array(0))).toThrow("random");
  });
});

describe("a text is", () => {
  test("damaged when any one character of a key is another, missing, doubled or swapped with its neighbour", () => {
    const { token } = makeToken(random);
    for (let at = "sk-gw_".length; at < token.length; at++) {
      const other = token[at] === "a" ? "b" : "a";
      expect(parseToken(token.slice(0, at) + other + token.slice(at + 1))).toBe("damaged");
      expect(parseToken(token.slice(0, at) + token.slice(at + 1))).toBe("damaged");
      expect(parseToken(token.slice(0, at) + (token[at] ?? "") + token.slice(at))).toBe("damaged");
      const [one, two] = [token[at] ?? "", token[at + 1] ?? ""];
      if (two !== "" && one !== two) expect(parseToken(token.slice(0, at) + two + one + token.slice(at + 2))).toBe("damaged");
    }
  });

  test("foreign without our prefix, whatever it is", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(parseToken(text.replace(/^sk-gw_/, ""))).toBe("foreign");
      }),
    );
    for (const text of ["", "sk-gwa_0123456789AB", "SK-GW_0123456789AB", " sk-gw_", "sk-proj-abc"])
      expect(parseToken(text)).toBe("foreign");
  });

  test("damaged with our prefix and anything behind it", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 80 }), (text) => {
        expect(parseToken(`sk-gw_${text}`)).toBe("damaged");
      }),
    );
  });
});

const KNOWN = "sk-gw_0123456789AB_CDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs0MQBaE";
