import { expect, test } from "bun:test";
import fc from "fast-check";
import { ClientOutput } from "../../../src/net/server/client-output.ts";

/** An output, and what its socket was given. */
function outputTo(): { readonly output: ClientOutput; readonly sent: Uint8Array[] } {
  const sent: Uint8Array[] = [];
  const write = (bytes: Uint8Array, offset = 0, length = bytes.length): number => {
    sent.push(bytes.slice(offset, offset + length));
    return length;
  };
  return { output: new ClientOutput({ write }, { nowMs: () => 0 }, () => {}), sent };
}

const amount = fc.oneof(
  fc.maxSafeNat(),
  fc.nat(2_000),
  fc.constantFrom(0, 9, 10, 999_999_999, 1e9, 1e9 + 1, 2 ** 31 - 1, 2 ** 31, 1e10, 1e12, Number.MAX_SAFE_INTEGER),
);

test("a number is written as its decimal digits, whatever its size", () => {
  fc.assert(
    fc.property(amount, (value) => {
      const { output, sent } = outputTo();
      output.begin();
      output.putNumber(value);
      output.send();
      expect(Buffer.concat(sent).toString()).toBe(String(value));
    }),
  );
});

test("a number, a line end and a text behind more than fits are sent in their order", () => {
  for (const room of [0, 1, 3, 15, 16, 17]) {
    const { output, sent } = outputTo();
    const before = Buffer.alloc(64 * 1024 - room, "x");
    output.begin();
    output.put(before);
    output.putNumber(1_234_567_890_123);
    output.putHeadEnd();
    output.putText("rest");
    output.send();
    expect(Buffer.concat(sent).subarray(before.length).toString()).toBe("1234567890123\r\n\r\nrest");
  }
});
