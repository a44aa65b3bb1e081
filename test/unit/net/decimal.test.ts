import { expect, test } from "bun:test";
import fc from "fast-check";
import { putDecimal } from "../../../src/net/message/decimal.ts";

const bytes = Buffer.alloc(40, "#");

function written(value: number): string {
  bytes.fill("#");
  const end = putDecimal(bytes, 3, value);
  expect(bytes.subarray(0, 3).toString()).toBe("###");
  expect(bytes.subarray(end).toString()).toMatch(/^#+$/);
  return bytes.subarray(3, end).toString();
}

test("a whole number is written as it is spelled, and nothing beside it", () => {
  fc.assert(fc.property(fc.maxSafeNat(), (value) => expect(written(value)).toBe(String(value))));
  fc.assert(fc.property(fc.nat(), (value) => expect(written(value)).toBe(String(value))));
  for (let power = 1; power <= Number.MAX_SAFE_INTEGER; power *= 10) {
    for (const value of [power - 1, power, power + 1, 2 * power]) expect(written(value)).toBe(String(value));
  }
  expect(written(Number.MAX_SAFE_INTEGER)).toBe(String(Number.MAX_SAFE_INTEGER));
});
