import { expect, test } from "bun:test";
import fc from "fast-check";
import { DrainedMark } from "../../../src/state/budgets/drained-mark.ts";

test("under a steady load that is never quite drained, what was written before is known to be in the store after a while", () => {
  const mark = new DrainedMark(0);
  const drainedMs: number[] = [];
  for (let at = 1; at <= 6; at += 1) drainedMs.push(mark.look(at * 1_000, { written: at * 100, behind: 30, stuck: false }));
  expect(drainedMs).toEqual([0, 1_000, 2_000, 3_000, 4_000, 5_000]);
});

test("a mark stays where it was put until the store has come to it", () => {
  const mark = new DrainedMark(0);
  expect(mark.look(1_000, { written: 100, behind: 100, stuck: false })).toBe(0);
  expect(mark.look(2_000, { written: 150, behind: 51, stuck: false })).toBe(0);
  expect(mark.look(3_000, { written: 190, behind: 90, stuck: false })).toBe(1_000);
  expect(mark.look(4_000, { written: 190, behind: 1, stuck: false })).toBe(1_000);
  expect(mark.look(5_000, { written: 190, behind: 0, stuck: false })).toBe(5_000);
});

test("nothing is concluded from a journal that does not take everything", () => {
  const mark = new DrainedMark(0);
  expect(mark.look(1_000, { written: 100, behind: 0, stuck: true })).toBe(0);
  expect(mark.look(2_000, { written: 100, behind: 0, stuck: true })).toBe(0);
  expect(mark.look(3_000, { written: 160, behind: 60, stuck: false })).toBe(0);
  // A mark from before the trouble counts.
  expect(mark.look(4_000, { written: 160, behind: 0, stuck: true })).toBe(3_000);
  expect(mark.look(5_000, { written: 160, behind: 0, stuck: true })).toBe(3_000);
});

test("whatever is written, drained and looked at, all that was written before the moment it tells is in the store", () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant("write"), count: fc.nat(20) }),
    fc.record({ do: fc.constant("drain"), count: fc.nat(20) }),
    fc.record({ do: fc.constant("look"), count: fc.constant(0) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const mark = new DrainedMark(0);
      const writtenMs: number[] = [];
      let drained = 0;
      let known = 0;
      steps.forEach(({ do: what, count }, at) => {
        const nowMs = at + 1;
        if (what === "write") for (let one = 0; one < count; one += 1) writtenMs.push(nowMs);
        else if (what === "drain") drained = Math.min(writtenMs.length, drained + count);
        else {
          const drainedMs = mark.look(nowMs, { written: writtenMs.length, behind: writtenMs.length - drained, stuck: false });
          expect(drainedMs).toBeGreaterThanOrEqual(known);
          expect(writtenMs.slice(drained).every((ms) => ms > drainedMs)).toBe(true);
          known = drainedMs;
        }
      });
    }),
  );
});
