import { expect, test } from "bun:test";
import fc from "fast-check";
import { ReceiptAges } from "../../../src/store/drain/receipt-ages.ts";
import { numRuns } from "../../support/properties.ts";

test("the oldest receipt that waits is as old as its write, and there is none when all are in the store", () => {
  const ages = new ReceiptAges();
  const oldestMs = (drained: number, nowMs: number): number => {
    ages.drainedTo(drained);
    return ages.oldestMs(nowMs);
  };
  expect(oldestMs(0, 0)).toBe(0);
  ages.wrote(1, 10_000);
  ages.wrote(4, 13_000);
  expect(oldestMs(0, 60_000)).toBe(50_000);
  expect(oldestMs(1, 60_000)).toBe(47_000);
  expect(oldestMs(3, 60_000)).toBe(47_000);
  expect(oldestMs(4, 60_000)).toBe(0);
  ages.wrote(5, 70_000);
  expect(ages.oldestMs(71_000)).toBe(1_000);
  expect(oldestMs(4, 71_000)).toBe(1_000);
});

test("a steady load that keeps up makes no old receipt, and an outage is measured to within a second and a tenth of itself, in little memory", () => {
  const keepingUp = new ReceiptAges();
  for (let written = 1; written <= 100_000; written += 1) {
    keepingUp.wrote(written, written * 10);
    if (written % 100 !== 0) continue;
    keepingUp.drainedTo(written - 5);
    expect(keepingUp.oldestMs(written * 10)).toBeLessThanOrEqual(1_050);
  }
  fc.assert(
    fc.property(fc.nat(3_600_000), fc.integer({ min: 0, max: 100 }), (outageMs, drainedShare) => {
      const ages = new ReceiptAges();
      const everyMs = 100;
      const count = Math.max(1, Math.floor(outageMs / everyMs));
      for (let written = 1; written <= count; written += 1) ages.wrote(written, written * everyMs);
      const drained = Math.floor(((count - 1) * drainedShare) / 100);
      const nowMs = count * everyMs;
      const age = nowMs - (drained + 1) * everyMs;
      ages.drainedTo(drained);
      expect(ages.oldestMs(nowMs)).toBeWithin(age, age + 1_001 + nowMs / 10);
      expect(ages.size).toBeLessThanOrEqual(128);
    }),
    { numRuns: numRuns(30) },
  );
});

test("a day on which nobody asks makes no receipt older than it is", () => {
  const ages = new ReceiptAges();
  const dayS = 86_400;
  for (let written = 1; written <= dayS; written += 1) {
    ages.wrote(written, written * 1_000);
    ages.drainedTo(written - 1);
    expect(ages.size).toBeLessThanOrEqual(3);
  }
  expect(ages.oldestMs(dayS * 1_000 + 500)).toBeWithin(500, 1_501);
});
