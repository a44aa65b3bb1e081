import { expect, test } from "bun:test";
import fc from "fast-check";
import { matchesPattern } from "../../../src/keys/allow.ts";
import { belongsTo, mayOverlap } from "../../../src/keys/rule-models.ts";

test("a model belongs to the first rule whose pattern fits it", () => {
  const rules = ["large-mini", "large*", "*"];
  const ruleOf = (model: string): number => rules.findIndex((pattern, at) => belongsTo(pattern, rules.slice(0, at), model));
  expect(["large-mini", "large-maxi", "small"].map(ruleOf)).toEqual([0, 1, 2]);
  expect([belongsTo(null, [], "anything"), belongsTo(null, ["any*"], "anything")]).toEqual([true, false]);
});

test("two patterns that a name fits both may overlap, and some surely do not", () => {
  const word = (...letters: readonly string[]): fc.Arbitrary<string> =>
    fc.array(fc.constantFrom(...letters), { maxLength: 5 }).map((all) => all.join(""));
  fc.assert(
    fc.property(word("a", "b", "*"), word("a", "b", "*"), word("a", "b"), (one, other, name) => {
      if (matchesPattern(one, name) && matchesPattern(other, name)) expect(mayOverlap(one, other)).toBe(true);
      expect(mayOverlap(one, other)).toBe(mayOverlap(other, one));
    }),
    { numRuns: 1_000 },
  );
  expect([mayOverlap("a", "a"), mayOverlap("a*", "ab"), mayOverlap("a*", "*b"), mayOverlap("a*", "ab*c")]).toEqual([
    true,
    true,
    true,
    true,
  ]);
  expect([mayOverlap("a", "b"), mayOverlap("a*", "b"), mayOverlap("a*", "b*"), mayOverlap("*a", "*b")]).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
