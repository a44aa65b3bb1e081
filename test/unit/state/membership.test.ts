import { expect, test } from "bun:test";
import { Membership } from "../../../src/state/membership.ts";

/** A store that knows so many processes, and a clock that is moved by hand. */
function world(startTogether?: number) {
  const known = { processes: 1, nowMs: 0, rounds: [] as (() => void)[] };
  const membership = new Membership({
    counts: { heartbeat: () => Promise.resolve(known.processes), leave: () => Promise.resolve() },
    guard: { run: (work) => work() },
    process: "a",
    ...(startTogether === undefined ? {} : { startTogether }),
    nowMs: () => known.nowMs,
    after: (_, then) => {
      known.rounds.push(then);
      return () => {};
    },
  });
  /** Some time passes, and one round at its end. */
  const round = async (ms: number): Promise<void> => {
    await Bun.sleep(0);
    known.nowMs += ms;
    known.rounds.shift()?.();
    await Bun.sleep(0);
  };
  return { known, membership, round };
}

test("a process that starts with others never believes that it is alone, although none of them has announced itself", async () => {
  const { membership, round } = world(3);
  expect(membership.count()).toBe(3);
  await round(2_000);
  expect(membership.count()).toBe(3);
});

test("others that started with it and did not announce themselves are forgotten after a while, and more than those are counted", async () => {
  const { known, membership, round } = world(3);
  known.processes = 5;
  await round(2_000);
  expect(membership.count()).toBe(5);
  known.processes = 2;
  await round(12_000);
  expect(membership.count()).toBe(2);
});

test("a process that starts with no others counts those that announce themselves", async () => {
  const { known, membership, round } = world();
  expect(membership.count()).toBe(1);
  known.processes = 2;
  await round(2_000);
  expect(membership.count()).toBe(2);
});
