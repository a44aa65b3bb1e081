import { expect, test } from "bun:test";
import { GcAfterBurst } from "../../../src/http/overload/gc-after-burst.ts";

function collections(...calls: readonly number[]): readonly boolean[] {
  const burst = new GcAfterBurst();
  return calls.map((count) => burst.isOver(count));
}

test("a burst is over one look after its calls were seen to end, and that is told once", () => {
  expect(collections(0, 4_000, 9_000, 9_000, 8_000, 10, 0, 0, 0)).toEqual([false, false, false, false, false, false, true, false, false]);
});

test("a burst that ends slowly is over when a sixteenth of its calls is left", () => {
  expect(collections(1_600, 800, 200, 101, 100, 90, 80)).toEqual([false, false, false, false, false, true, false]);
});

test("a few calls that end are no burst, and no burst is over that stays or that another one follows", () => {
  expect(collections(999, 0, 999, 0, 5_000, 5_000, 1_000, 5_000, 300, 2_000)).not.toContain(true);
});

test("each burst is reported", () => {
  expect(collections(1_000, 0, 0, 0, 1_000, 0, 0, 0)).toEqual([false, false, true, false, false, false, true, false]);
});
