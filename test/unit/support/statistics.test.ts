import { expect, test } from "bun:test";
import { trimmedError, trimmedMean } from "../../../bench/statistics.ts";

test("the error of a trimmed mean is that of what it keeps, and an outlier changes neither", () => {
  const values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  const spoiled = [...values.slice(0, -1), 1e6];
  expect([trimmedMean(values), trimmedMean(spoiled)]).toEqual([5.5, 5.5]);
  // Of 3, 3, 3, 4, 5, 6, 7, 8, 8, 8 the squares of the differences from 5.5 add up to 42.5; six tenths of the values are kept.
  const expected = Math.sqrt(42.5 / 9 / 10) / 0.6;
  expect(trimmedError(values)).toBeCloseTo(expected, 12);
  expect(trimmedError(spoiled)).toBeCloseTo(expected, 12);
});

test("where nothing is left out, it is the usual standard error", () => {
  expect(trimmedError([1, 2, 3, 4])).toBeCloseTo(Math.sqrt(5 / 3 / 4), 12);
});
