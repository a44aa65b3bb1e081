import { expect, test } from "bun:test";
import fc from "fast-check";
import { written } from "../../support/http-answer.ts";

const amount = fc.oneof(
  fc.maxSafeNat(),
  fc.nat(2_000),
  fc.constantFrom(0, 9, 10, 999_999_999, 1e9, 1e9 + 1, 2 ** 31 - 1, 2 ** 31, 1e10, 1e12, Number.MAX_SAFE_INTEGER),
);

test("a number is written as its decimal digits, whatever its size", () => {
  fc.assert(
    fc.property(amount, (value) => {
      expect(written((output) => output.putNumber(value))).toBe(String(value));
    }),
  );
});

test("a number has zeros before it where more digits are asked for", () => {
  expect(written((output) => output.putNumber(7, 3))).toBe("007");
  expect(written((output) => output.putNumber(70, 2))).toBe("70");
  expect(written((output) => output.putNumber(1_234, 3))).toBe("1234");
});

test("a number, a line end and a text behind more than fits are sent in their order", () => {
  for (const room of [0, 1, 3, 15, 16, 17]) {
    const before = Buffer.alloc(64 * 1024 - room, "x");
    const text = written((output) => {
      output.put(before);
      output.putNumber(1_234_567_890_123);
      output.putHeadEnd();
      output.putText("rest");
    });
    expect(text.slice(before.length)).toBe("1234567890123\r\n\r\nrest");
  }
});
