import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ReceiptIds } from "../../../src/http/receipt-ids.ts";
import { requestNameOf } from "../../../src/usage/receipt.ts";

const versionSeven = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("the ids of receipts", () => {
  test("are UUIDs of version 7 that begin with the time, and name their request", () => {
    const ids = new ReceiptIds();
    const id = ids.next(0x0199_aabb_ccdd);
    expect(id).toMatch(versionSeven);
    expect(id.replace(/-/g, "").slice(0, 12)).toBe("0199aabbccdd");
    expect(ids.name()).toBe(requestNameOf(id));
  });

  test("have the time again, and are unique, after a clock that was hours ahead is set right", () => {
    const ids = new ReceiptIds();
    const times = [1_790_007_200_000, 1_790_007_200_001, 1_790_000_000_000, 1_790_000_000_000, 1_790_007_200_000, 1_790_007_200_001];
    const made = times.map((wallMs) => ids.next(wallMs));
    expect(made.map((id) => Number.parseInt(id.replace("-", "").slice(0, 12), 16))).toEqual(times);
    expect(new Set(made).size).toBe(times.length);
  });

  test("are unique and rise, however a clock is set a little and however many there are in a moment", () => {
    const steps = fc.array(fc.record({ byMs: fc.integer({ min: -5_000, max: 5_000 }), count: fc.integer({ min: 1, max: 6_000 }) }), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(steps, (all) => {
        const ids = new ReceiptIds();
        let wallMs = 1_790_000_000_000;
        let last = "";
        for (const { byMs, count } of all) {
          wallMs += byMs;
          for (let at = 0; at < count; at += 1) {
            const id = ids.next(wallMs);
            if (id <= last || !versionSeven.test(id) || ids.name() !== requestNameOf(id)) throw new Error(`${last} ${id} ${ids.name()}`);
            last = id;
          }
        }
      }),
      { numRuns: 30 },
    );
  });

  test("of two processes differ, even in the same moment", () => {
    const [one, other] = [new ReceiptIds().next(1_790_000_000_000), new ReceiptIds().next(1_790_000_000_000)];
    expect(one).not.toBe(other);
  });
});
