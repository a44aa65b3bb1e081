import { expect, test } from "bun:test";
import { isRefusing, lastRefusals } from "../../../src/limits/budget-refusal.ts";

const minute = 60_000;
const refusal = { budget: "k1", limitNanos: 100, atMs: 20 * minute };
const budget = { limitNanos: 100.5, sinceMs: 0 };

test("a refusal counts in its period, for its limit, and while it is recent", () => {
  expect(isRefusing(undefined, budget, 20 * minute)).toBe(false);
  for (const sinceMs of [null, 0, 20 * minute]) expect(isRefusing(refusal, { ...budget, sinceMs }, 20 * minute)).toBe(true);
  expect(isRefusing(refusal, { ...budget, sinceMs: 20 * minute + 1 }, 20 * minute)).toBe(false);
  expect(isRefusing(refusal, { ...budget, limitNanos: 101 }, 20 * minute)).toBe(false);
  expect([30 * minute - 1, 30 * minute].map((nowMs) => isRefusing(refusal, budget, nowMs))).toEqual([true, false]);
});

test("of the refusals of several processes the last one of each budget counts", () => {
  const later = { ...refusal, atMs: refusal.atMs + 1 };
  const other = { ...refusal, budget: "k2" };
  for (const all of [
    [refusal, later, other],
    [later, other, refusal],
  ])
    expect(lastRefusals(all)).toEqual(
      new Map([
        ["k1", later],
        ["k2", other],
      ]),
    );
});
