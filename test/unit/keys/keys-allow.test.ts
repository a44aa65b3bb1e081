import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { allowsModel, allowsOperation, matchesPattern } from "../../../src/keys/allow.ts";
import { unlimited } from "../../../src/limits/limits.ts";
import type { Key } from "../../../src/keys/key.ts";

const key: Key = {
  id: "k",
  name: "k",
  models: null,
  operations: null,
  channels: null,
  expiresMs: null,
  splits: { audio: false, input: false },
  group: null,
  limits: unlimited,
};

describe("a key", () => {
  test("without a list may use every model and operation", () => {
    expect([allowsModel(key, "anything"), allowsOperation(key, "speech")]).toEqual([true, true]);
  });

  test("with a list may use what fits one of its patterns, and nothing else", () => {
    const limited: Key = { ...key, models: ["fast", "gpt-*", "*/llama*"], operations: ["chat"] };
    const allowed = ["fast", "gpt-", "gpt-5", "meta/llama-3"];
    const refused = ["", "Fast", "fast ", "faster", "a-gpt-5", "llama", "meta/Llama"];
    expect(allowed.filter((model) => !allowsModel(limited, model))).toEqual([]);
    expect(refused.filter((model) => allowsModel(limited, model))).toEqual([]);
    expect([allowsOperation(limited, "chat"), allowsOperation(limited, "speech")]).toEqual([true, false]);
  });

  test("with an empty list may use nothing", () => {
    expect(allowsModel({ ...key, models: [] }, "m")).toBe(false);
    expect(allowsOperation({ ...key, operations: [] }, "chat")).toBe(false);
  });
});

describe("a pattern", () => {
  /** The same, said with a regular expression: fine for short texts, and a trap for long ones. */
  const oracle = (pattern: string, name: string): boolean => new RegExp(`^${pattern.split("*").map(escape).join("[^]*")}$`, "u").test(name);
  const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
  const letters = fc.string({ unit: fc.constantFrom("a", "b", "*"), maxLength: 10 });
  const names = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 14 });

  test("means what the regular expression means", () => {
    fc.assert(
      fc.property(letters, names, (pattern, name) => {
        expect(matchesPattern(pattern, name)).toBe(oracle(pattern, name));
      }),
      { numRuns: 5000 },
    );
  });

  test("without a star is itself and nothing else", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, other) => {
        fc.pre(!one.includes("*"));
        expect(matchesPattern(one, one)).toBe(true);
        expect(matchesPattern(one, other)).toBe(one === other);
      }),
    );
  });

  test("fits every name it was made from by putting stars for parts", () => {
    fc.assert(
      fc.property(fc.array(fc.string(), { minLength: 1 }), fc.array(fc.boolean()), (parts, stars) => {
        fc.pre(!parts.some((part) => part.includes("*")));
        const pattern = parts.map((part, at) => (stars[at] === true ? "*" : part)).join("");
        expect(matchesPattern(pattern, parts.join(""))).toBe(true);
      }),
    );
  });

  test("full of stars costs no more for a name that almost fits", () => {
    const cost = (length: number): number => {
      const [pattern, name] = [`${"a*".repeat(length)}b`, "a".repeat(length * 20)];
      const rounds = Array.from({ length: 5 }, () => {
        const start = performance.now();
        expect(matchesPattern(pattern, name)).toBe(false);
        expect(matchesPattern(`${pattern}*`, name)).toBe(false);
        return performance.now() - start;
      });
      return Math.min(...rounds);
    };
    cost(200);
    expect(cost(4000)).toBeLessThan(20 * 25 * Math.max(cost(200), 0.02));
  });
});
