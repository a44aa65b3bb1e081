import { expect, test } from "bun:test";
import { Crowd } from "../../../src/gateway/crowd.ts";

function told(...calls: readonly number[]): readonly boolean[] {
  const crowd = new Crowd();
  return calls.map((count) => crowd.hasLeft(count));
}

test("a crowd has left a moment after it was seen to leave, and that is said once", () => {
  expect(told(0, 4_000, 9_000, 9_000, 8_000, 10, 0, 0, 0)).toEqual([false, false, false, false, false, false, true, false, false]);
});

test("a crowd that leaves slowly has left when a sixteenth of it is there", () => {
  expect(told(1_600, 800, 200, 101, 100, 90, 80)).toEqual([false, false, false, false, false, true, false]);
});

test("a few that leave are no crowd, and neither is one that stays, or that another one follows", () => {
  expect(told(999, 0, 999, 0, 5_000, 5_000, 1_000, 5_000, 300, 2_000)).not.toContain(true);
});

test("each crowd is its own", () => {
  expect(told(1_000, 0, 0, 0, 1_000, 0, 0, 0)).toEqual([false, false, true, false, false, false, true, false]);
});
